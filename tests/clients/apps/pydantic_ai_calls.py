"""Agents of Pydantic AI with its own spans."""

# The snippet of the page goes here.

from typing import Any

from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from tests.clients.apps.exercises import API_KEY, PROMPT, provider_url

openai: Any = OpenAIProvider(openai_client=AsyncOpenAI(base_url=provider_url("shop") + "/v1", api_key=API_KEY))
anthropic: Any = AnthropicProvider(anthropic_client=AsyncAnthropic(base_url=provider_url("desk"), api_key=API_KEY))
for model in (
    OpenAIChatModel("gpt-4o", provider=openai),
    OpenAIResponsesModel("gpt-4.1-mini", provider=openai),
    AnthropicModel("claude-sonnet-4-5", provider=anthropic),
):
    agent = Agent(model, instructions=PROMPT)
    agent.run_sync(PROMPT)
    agent.run_stream_sync(PROMPT).get_output()
