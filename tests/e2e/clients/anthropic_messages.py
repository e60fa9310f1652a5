"""The anthropic client, whose SDK makes spans by itself; VARIANT adds an
instrumentation that reports each call again.
"""

from contextlib import suppress

from anthropic import Anthropic, APIStatusError
from anthropic.types import MessageParam, ToolParam
from openinference.instrumentation.anthropic import AnthropicInstrumentor as OpenInference
from opentelemetry.instrumentation.anthropic import AnthropicInstrumentor as OpenLLMetry
from opentelemetry.trace import get_tracer

from tests.e2e.clients.telemetry import API_KEY, PROMPT, Arguments, arguments, report, start

_INSTRUMENTATIONS = {"native": (), "openllmetry": (OpenLLMetry,), "openinference": (OpenInference,)}
_WEATHER: ToolParam = {
    "name": "weather",
    "description": "The weather CANARY-7Q-PROMPT",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def main() -> None:
    """Entry point."""
    given = arguments()
    finish = start(given)
    for instrumentation in _INSTRUMENTATIONS[given.variant]:
        instrumentation().instrument()
    with get_tracer("checkout").start_as_current_span("POST /checkout"):
        calls = _make_calls(given)
    finish()
    report(calls)


def _make_calls(given: Arguments) -> int:
    client = Anthropic(base_url=given.provider_url("desk"), api_key=API_KEY, max_retries=0)
    failing = client.with_options(base_url=given.provider_url("error529"))
    asking: list[MessageParam] = [{"role": "user", "content": PROMPT}]
    client.messages.create(model="claude-sonnet-4-5", max_tokens=64, system=PROMPT, messages=asking)
    for _ in client.messages.create(model="claude-haiku-4-5", max_tokens=64, messages=asking, stream=True):
        pass
    with client.messages.stream(model="claude-haiku-4-5", max_tokens=64, messages=asking) as stream:
        stream.get_final_message()
    _use_tool(client, asking)
    with suppress(APIStatusError):
        failing.messages.create(model="claude-sonnet-4-5", max_tokens=64, messages=asking)
    return 6


def _use_tool(client: Anthropic, asking: list[MessageParam]) -> None:
    """A call that asks for a tool, and one with its result."""
    answer = client.messages.create(model="claude-sonnet-4-5", max_tokens=64, messages=asking, tools=[_WEATHER])
    (use,) = (block for block in answer.content if block.type == "tool_use")
    called: MessageParam = {"role": "assistant", "content": answer.content}
    result: MessageParam = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "rain CANARY-7Q-PROMPT"}],
    }
    client.messages.create(
        model="claude-sonnet-4-5", max_tokens=64, messages=[*asking, called, result], tools=[_WEATHER]
    )


if __name__ == "__main__":
    main()
