"""Sends calls of a model with the Python SDK, half of them, and the rest when a line comes in."""

import os
import sys

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import SpanKind


def exporter() -> SpanExporter:
    if os.environ["OTEL_EXPORTER_OTLP_PROTOCOL"] == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc  # noqa: PLC0415

        return Grpc()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http  # noqa: PLC0415

    return Http()


def main() -> None:
    calls = int(sys.argv[1])
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter()))
    tracer = provider.get_tracer("sender")

    def send(first: int, last: int) -> None:
        for n in range(first, last + 1):
            with tracer.start_as_current_span("chat gpt-4o", kind=SpanKind.CLIENT) as span:
                span.set_attributes(
                    {
                        "gen_ai.operation.name": "chat",
                        "gen_ai.provider.name": "openai",
                        "gen_ai.request.model": "gpt-4o",
                        "gen_ai.usage.input_tokens": 1000 + n,
                        "gen_ai.usage.output_tokens": 100 + n,
                    }
                )
        provider.force_flush()

    send(1, calls // 2)
    say("half")
    sys.stdin.readline()
    send(calls // 2 + 1, calls)
    provider.shutdown()
    say("done")


def say(word: str) -> None:
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
