"""A real application: the openai client, its OpenTelemetry instrumentation, and OTLP/HTTP
exporters of all three signals.

python -m tests.support.openai_client LLM_BASE_URL OTLP_BASE_URL

A process of its own, since the instrumentation patches the client for good. Prints the number
of calls it made. Content capture and the conventions in use are set by the usual OTEL_
variables of the environment.
"""

import sys
from contextlib import suppress

from openai import APIStatusError, OpenAI
from opentelemetry._logs import set_logger_provider
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor
from opentelemetry.metrics import set_meter_provider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import get_tracer, set_tracer_provider

PROMPT = "Which of the two is cheaper? CANARY-7Q-PROMPT"


def main() -> None:
    """Entry point."""
    llm_url, otlp_url = sys.argv[1:3]
    resource = Resource.create({"service.name": "checkout-bot", "service.instance.id": "one"})
    tracers = TracerProvider(resource=resource)
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(otlp_url + "/v1/traces")))
    loggers = LoggerProvider(resource=resource)
    loggers.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(otlp_url + "/v1/logs")))
    metrics = MeterProvider(
        resource=resource, metric_readers=[PeriodicExportingMetricReader(OTLPMetricExporter(otlp_url + "/v1/metrics"))]
    )
    set_tracer_provider(tracers)
    set_logger_provider(loggers)
    set_meter_provider(metrics)
    OpenAIInstrumentor().instrument()  # type: ignore[no-untyped-call]  # it has no annotations
    with get_tracer("checkout").start_as_current_span("POST /checkout"):
        calls = _work(llm_url)
    for provider in (tracers, loggers, metrics):
        provider.shutdown()
    sys.stdout.write(f"{calls}\n")


def _work(llm_url: str) -> int:
    client = OpenAI(base_url=f"{llm_url}/s/shop/v1", api_key="sk-CANARY-7Q-KEY", max_retries=0)
    failing = client.with_options(base_url=f"{llm_url}/s/error429/v1")
    for model in ("gpt-4o-mini", "gpt-4o", "gpt-4o-mini"):
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": PROMPT}])
    for _ in range(2):
        stream = client.chat.completions.create(
            model="gpt-4.1-mini",
            messages=[{"role": "system", "content": PROMPT}, {"role": "user", "content": PROMPT}],
            stream=True,
            stream_options={"include_usage": True},
        )
        for _chunk in stream:
            pass
    client.embeddings.create(model="text-embedding-3-small", input=[PROMPT])
    with suppress(APIStatusError):
        failing.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": PROMPT}])
    return 7


if __name__ == "__main__":
    main()
