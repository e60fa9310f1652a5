"""Sends calls of a model through Phoenix' `register()`, by the protocol that Phoenix chooses."""

from openinference.semconv.trace import OpenInferenceSpanKindValues, SpanAttributes
from opentelemetry.trace import Tracer
from phoenix.otel import register

from tests.clients.halves import send_in_halves

KIND = OpenInferenceSpanKindValues.LLM.value


def send_one(tracer: Tracer, n: int) -> None:
    with tracer.start_as_current_span("ChatCompletion") as span:
        span.set_attributes(
            {
                SpanAttributes.OPENINFERENCE_SPAN_KIND: KIND,
                SpanAttributes.LLM_PROVIDER: "openai",
                SpanAttributes.LLM_MODEL_NAME: "gpt-4o",
                SpanAttributes.LLM_TOKEN_COUNT_PROMPT: 1000 + n,
                SpanAttributes.LLM_TOKEN_COUNT_COMPLETION: 100 + n,
            }
        )


if __name__ == "__main__":
    send_in_halves(register(batch=True, set_global_tracer_provider=False, verbose=False), send_one)
