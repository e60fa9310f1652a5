"""Sends calls of a model through Phoenix' `register()`, half of them, and the rest when a line
comes in; which protocol it speaks, Phoenix decides.
"""

import sys

from openinference.semconv.trace import OpenInferenceSpanKindValues, SpanAttributes
from phoenix.otel import register

KIND = OpenInferenceSpanKindValues.LLM.value


def main() -> None:
    calls = int(sys.argv[1])
    provider = register(batch=True, set_global_tracer_provider=False, verbose=False)
    tracer = provider.get_tracer("sender")

    def send(first: int, last: int) -> None:
        for n in range(first, last + 1):
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
