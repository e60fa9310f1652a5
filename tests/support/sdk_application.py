"""An application under the real OpenTelemetry SDK.

What it made waits until a test sends it, by the SDK's own exporters.
"""

import time
from collections.abc import Mapping, Sequence

from opentelemetry._logs import LogRecord
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, LogRecordExportResult, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExportResult, MetricsData
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Span, Status, StatusCode, set_span_in_context

OTLP_TIMEOUT_S = 60
"""For one export with all its retries."""
DETAILS = "gen_ai.client.inference.operation.details"
_NS_PER_MS = 1_000_000
_AGO_NS = 10 * 1_000_000_000
"""Calls lie this far in the past, so that none ends in the future."""

Values = Mapping[str, str | int | float]


class Application:
    """One process of *service*: its resource, its tracer, meter and logger.

    Times are ms after one moment, some seconds ago.
    """

    def __init__(self, service: str) -> None:
        resource = Resource({"service.name": service, "service.instance.id": f"{service}-1"})
        self._spans, self._logs, self._points = (
            InMemorySpanExporter(),
            InMemoryLogRecordExporter(),
            InMemoryMetricReader(),
        )
        self._tracers = TracerProvider(resource=resource)
        self._tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self._loggers = LoggerProvider(resource=resource)
        self._loggers.add_log_record_processor(SimpleLogRecordProcessor(self._logs))
        meter = MeterProvider([self._points], resource=resource).get_meter("opentelemetry.instrumentation.openai_v2")
        self._tokens = meter.create_histogram("gen_ai.client.token.usage", unit="{token}")
        self._start_ns = time.time_ns() - _AGO_NS

    def span(
        self,
        name: str,
        values: Values,
        *,
        at: tuple[int, int] = (0, 1000),
        parent: Span | None = None,
        scope: str = "opentelemetry.instrumentation.openai_v2",
        error: bool = False,
    ) -> Span:
        """A span that ended.

        *parent* may be another application's, whose context was propagated.
        """
        start_ns, end_ns = (self._start_ns + ms * _NS_PER_MS for ms in at)
        above = Context() if parent is None else set_span_in_context(parent, Context())
        span = self._tracers.get_tracer(scope).start_span(name, above, attributes=values, start_time=start_ns)
        if error:
            span.set_status(Status(StatusCode.ERROR))
        span.end(end_ns)
        return span

    def spans(self) -> list[ReadableSpan]:
        """What ended since this was last asked, in the order in which it was reported."""
        ended = list(self._spans.get_finished_spans())
        self._spans.clear()
        return ended

    def details(self, values: Values, *, at: int = 1000) -> list[ReadableLogRecord]:
        """The log event that reports one call, as the SDK gives it to its exporter."""
        at_ns = self._start_ns + at * _NS_PER_MS
        logger = self._loggers.get_logger("opentelemetry.util.genai")
        logger.emit(LogRecord(timestamp=at_ns, event_name=DETAILS, attributes=dict(values)))
        emitted = list(self._logs.get_finished_logs())
        self._logs.clear()
        return emitted

    def used(self, input_tokens: int, output_tokens: int, values: Values) -> MetricsData:
        """One more call was measured; all of its metrics as they stand now, cumulative."""
        for token_type, tokens in (("input", input_tokens), ("output", output_tokens)):
            self._tokens.record(tokens, {**values, "gen_ai.token.type": token_type})
        data = self._points.get_metrics_data()
        assert data is not None
        return data


def send_spans(url: str, spans: Sequence[ReadableSpan]) -> None:
    """One request, acknowledged, repeated by the SDK until it is."""
    exporter = OTLPSpanExporter(url + "/v1/traces", timeout=OTLP_TIMEOUT_S)
    assert exporter.export(spans) is SpanExportResult.SUCCESS
    exporter.shutdown()


def send_logs(url: str, logs: Sequence[ReadableLogRecord]) -> None:
    """One request, acknowledged, repeated by the SDK until it is."""
    exporter = OTLPLogExporter(url + "/v1/logs", timeout=OTLP_TIMEOUT_S)
    assert exporter.export(logs) is LogRecordExportResult.SUCCESS
    exporter.shutdown()


def send_metrics(url: str, data: MetricsData) -> None:
    """One request, acknowledged, repeated by the SDK until it is."""
    exporter = OTLPMetricExporter(url + "/v1/metrics", timeout=OTLP_TIMEOUT_S)
    assert exporter.export(data) is MetricExportResult.SUCCESS
    exporter.shutdown()
