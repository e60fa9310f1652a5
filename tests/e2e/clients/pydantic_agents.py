"""Pydantic AI agents on OpenAI chat, OpenAI responses and Anthropic, with its own
spans; the anthropic SDK adds its.
"""

import asyncio
from contextlib import suppress

from openai import AsyncOpenAI
from opentelemetry.trace import get_tracer
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from tests.e2e.clients.telemetry import API_KEY, PROMPT, Arguments, arguments, report, start


def weather(city: str) -> str:
    """The weather CANARY-7Q-PROMPT."""
    return f"rain in {city} CANARY-7Q-PROMPT"


def main() -> None:
    """Entry point."""
    given = arguments()
    finish = start(given)
    Agent.instrument_all()
    with get_tracer("checkout").start_as_current_span("POST /checkout"):
        calls = asyncio.run(_make_calls(given))
    finish()
    report(calls)


async def _make_calls(given: Arguments) -> int:
    chat = OpenAIChatModel("gpt-4o-mini", provider=_openai(given, "agent"))
    responses = OpenAIResponsesModel("gpt-4o", provider=_openai(given, "agent"))
    messages = AnthropicModel(
        "claude-haiku-4-5", provider=AnthropicProvider(base_url=given.provider_url("desk"), api_key=API_KEY)
    )
    for model in (chat, responses, messages):
        await _agent(model).run(PROMPT)
        await _agent(model, with_tool=True).run(PROMPT)
    async with _agent(chat).run_stream(PROMPT) as answer:
        await answer.get_output()
    with suppress(ModelHTTPError):
        await _agent(OpenAIChatModel("gpt-4o", provider=_openai(given, "error429"))).run(PROMPT)
    return 3 * 3 + 2


def _openai(given: Arguments, scenario: str) -> OpenAIProvider:
    url = given.provider_url(scenario) + "/v1"
    return OpenAIProvider(openai_client=AsyncOpenAI(base_url=url, api_key=API_KEY, max_retries=0))


def _agent(model: Model, *, with_tool: bool = False) -> Agent:
    return Agent(model, instructions=PROMPT, tools=[weather] if with_tool else [])


if __name__ == "__main__":
    main()
