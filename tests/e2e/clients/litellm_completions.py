"""The LiteLLM SDK with its own `otel` callback, on OpenAI and Anthropic; VARIANT `inside a span`
calls it below the application's.

It makes its own providers and exporters; the environment states where they send.
"""

import asyncio
from contextlib import suppress

import litellm
from opentelemetry import trace

from tests.e2e.clients.telemetry import API_KEY, PROMPT, Arguments, arguments, report

INSIDE_A_SPAN = "inside a span"
_ASKING = [{"role": "user", "content": PROMPT}]


def main() -> None:
    """Entry point."""
    given = arguments()
    litellm.suppress_debug_info = True  # it prints to standard output
    litellm.callbacks = ["otel"]
    if given.variant == INSIDE_A_SPAN:
        report(_two_calls_inside_a_span(given))
    else:
        report(asyncio.run(_make_calls(given)))


def _two_calls_inside_a_span(given: Arguments) -> int:
    _complete(given, "gpt-4o")  # its first call makes the global provider
    with trace.get_tracer("checkout").start_as_current_span("POST /checkout"):
        _complete(given, "gpt-4o-mini")
        _complete(given, "gpt-4.1-mini")
    return 3


def _complete(given: Arguments, model: str) -> None:
    litellm.completion(
        model="openai/" + model, api_base=given.provider_url("router") + "/v1", api_key=API_KEY, messages=_ASKING
    )


async def _make_calls(given: Arguments) -> int:
    openai = {"api_base": given.provider_url("router") + "/v1", "api_key": API_KEY, "max_retries": 0}
    anthropic = {"api_base": given.provider_url("desk"), "api_key": API_KEY, "max_retries": 0}
    await litellm.acompletion(model="openai/gpt-4o-mini", messages=_ASKING, user="user-7", **openai)
    usage = {"include_usage": True}
    chunks = await litellm.acompletion(
        model="openai/gpt-4.1-mini", messages=_ASKING, stream=True, stream_options=usage, **openai
    )
    async for _ in chunks:
        pass
    await litellm.aembedding(model="openai/text-embedding-3-small", input=[PROMPT], **openai)
    await litellm.acompletion(model="anthropic/claude-haiku-4-5", messages=_ASKING, **anthropic)
    chunks = await litellm.acompletion(model="anthropic/claude-haiku-4-5", messages=_ASKING, stream=True, **anthropic)
    async for _ in chunks:
        pass
    with suppress(litellm.RateLimitError):
        failing = {**openai, "api_base": given.provider_url("error429") + "/v1"}
        await litellm.acompletion(model="openai/gpt-4o", messages=_ASKING, **failing)
    return 6


if __name__ == "__main__":
    main()
