"""The google-genai client under OpenTelemetry's instrumentation, with the latest
conventions and content on.
"""

from contextlib import suppress

from google.genai import Client
from google.genai.errors import APIError
from google.genai.types import GenerateContentConfig, HttpOptions
from opentelemetry.instrumentation.google_genai import GoogleGenAiSdkInstrumentor
from opentelemetry.trace import get_tracer

from tests.e2e.clients.telemetry import API_KEY, PROMPT, Arguments, arguments, report, start


def weather(city: str) -> str:
    """The weather CANARY-7Q-PROMPT."""
    return f"rain in {city} CANARY-7Q-PROMPT"


def main() -> None:
    """Entry point."""
    given = arguments()
    finish = start(given)
    GoogleGenAiSdkInstrumentor().instrument()
    with get_tracer("checkout").start_as_current_span("POST /checkout"):
        calls = _make_calls(given)
    finish()
    report(calls)


def _make_calls(given: Arguments) -> int:
    client = _client(given, "city")
    client.models.generate_content(
        model="gemini-2.5-flash", contents=PROMPT, config=GenerateContentConfig(system_instruction=PROMPT)
    )
    for _ in client.models.generate_content_stream(model="gemini-2.5-flash", contents=PROMPT):
        pass
    client.models.generate_content(
        model="gemini-2.5-flash", contents=PROMPT, config=GenerateContentConfig(tools=[weather])
    )  # two calls: the client runs the tool by itself and sends its result
    failing = _client(given, "error429")
    with suppress(APIError):
        failing.models.generate_content(model="gemini-2.5-flash", contents=PROMPT)
    return 5


def _client(given: Arguments, scenario: str) -> Client:
    return Client(api_key=API_KEY, http_options=HttpOptions(base_url=given.provider_url(scenario)))


if __name__ == "__main__":
    main()
