"""What an application of these tests is started with, and its OpenTelemetry SDK: exporters of
all three signals over OTLP/HTTP.

Every client is `python -m tests.e2e.clients.<name> LLM_BASE_URL OTLP_BASE_URL [VARIANT]`, a
process of its own in its own environment, and prints the number of calls that it made.
"""

import sys
from collections.abc import Callable
from typing import NamedTuple

from opentelemetry._logs import set_logger_provider
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import set_meter_provider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import set_tracer_provider

PROMPT = "Which of the two is cheaper? CANARY-7Q-PROMPT"
API_KEY = "sk-CANARY-7Q-KEY"


class Arguments(NamedTuple):
    """Of the command line."""

    llm_url: str
    otlp_url: str
    variant: str

    def provider_url(self, scenario: str) -> str:
        """The provider, with token counts of *scenario*."""
        return f"{self.llm_url}/s/{scenario}"


def arguments() -> Arguments:
    """The command line's."""
    llm_url, otlp_url, *variant = sys.argv[1:]
    return Arguments(llm_url, otlp_url, *variant or ("",))


def start(given: Arguments) -> Callable[[], None]:
    """Set the global providers; the function given back sends what they
    still hold and ends them.
    """
    resource = Resource.create({"service.name": "checkout-bot", "service.instance.id": "one"})
    tracers = TracerProvider(resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(given.otlp_url + "/v1/traces")))
    loggers = LoggerProvider(resource=resource)
    loggers.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(given.otlp_url + "/v1/logs")))
    exporter = OTLPMetricExporter(given.otlp_url + "/v1/metrics")
    meters = MeterProvider(resource=resource, metric_readers=[PeriodicExportingMetricReader(exporter)])
    set_tracer_provider(tracers)
    set_logger_provider(loggers)
    set_meter_provider(meters)

    def finish() -> None:
        for provider in (tracers, loggers, meters):
            provider.shutdown()

    return finish


def report(calls: int) -> None:
    """Print how many calls were made."""
    sys.stdout.write(f"{calls}\n")
