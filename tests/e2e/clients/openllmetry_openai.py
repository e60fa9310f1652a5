"""The openai client under OpenLLMetry's instrumentation."""

from opentelemetry.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.trace import get_tracer

from tests.e2e.clients import openai_calls
from tests.e2e.clients.telemetry import arguments, report, start


def main() -> None:
    """Entry point."""
    given = arguments()
    finish = start(given)
    OpenAIInstrumentor().instrument()
    with get_tracer("checkout").start_as_current_span("POST /checkout"):
        calls = openai_calls.make_calls(given)
    finish()
    report(calls)


if __name__ == "__main__":
    main()
