"""What the applications of the live runs ask of a provider: whole answers, streams, a tool and a
failure.

MODEL_PROVIDER in the environment is the provider's base URL.
"""

import asyncio
import os
from contextlib import suppress
from typing import Any

PROMPT = "Which of the two is cheaper? CANARY-7Q-PROMPT"
API_KEY = "sk-CANARY-7Q-KEY"
ASKED: Any = [{"role": "user", "content": PROMPT}]
WEATHER = {"name": "weather", "description": "The weather CANARY-7Q-PROMPT"}
USAGE: Any = {"include_usage": True}
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}


def provider_url(scenario: str) -> str:
    """The provider's base URL, with token counts of *scenario*."""
    return f"{os.environ['MODEL_PROVIDER']}/s/{scenario}"


def openai_calls() -> None:
    """Those of `openai_chat_calls`, and responses, whole and streamed."""
    from openai import OpenAI  # noqa: PLC0415 - not in every application's environment

    openai_chat_calls()
    client = OpenAI(base_url=provider_url("shop") + "/v1", api_key=API_KEY, max_retries=0)
    client.responses.create(model="gpt-4.1-mini", input=PROMPT)
    for _ in client.responses.create(model="gpt-4.1-mini", input=PROMPT, stream=True):
        pass


def more_openai_calls() -> None:
    """The other ways of the client: its helpers for streams, and the asynchronous one."""
    from openai import OpenAI  # noqa: PLC0415 - as above

    client = OpenAI(base_url=provider_url("shop") + "/v1", api_key=API_KEY, max_retries=0)
    with client.chat.completions.stream(model="gpt-4o", messages=ASKED, stream_options=USAGE) as chat:
        chat.get_final_completion()
    with client.responses.stream(model="gpt-4.1-mini", input=PROMPT) as response:
        response.get_final_response()
    asyncio.run(_asynchronous_openai_calls())


async def _asynchronous_openai_calls() -> None:
    from openai import AsyncOpenAI  # noqa: PLC0415 - as above

    client = AsyncOpenAI(base_url=provider_url("shop") + "/v1", api_key=API_KEY, max_retries=0)
    await client.chat.completions.create(model="gpt-4o", messages=ASKED)
    await client.responses.create(model="gpt-4.1-mini", input=PROMPT)
    stream = await client.chat.completions.create(model="gpt-4o", messages=ASKED, stream=True, stream_options=USAGE)
    async for _ in stream:
        pass


def openai_chat_calls() -> None:
    """Chat completions, whole, with a tool and streamed; embeddings; a failure."""
    from openai import APIStatusError, OpenAI  # noqa: PLC0415 - as above

    client = OpenAI(base_url=provider_url("shop") + "/v1", api_key=API_KEY, max_retries=0)
    failing = client.with_options(base_url=provider_url("error500") + "/v1")
    client.chat.completions.create(model="gpt-4o", messages=ASKED)
    tool: Any = {"type": "function", "function": {**WEATHER, "parameters": PARAMETERS}}
    client.chat.completions.create(model="gpt-4o-mini", messages=ASKED, tools=[tool])
    for _ in client.chat.completions.create(model="gpt-4o", messages=ASKED, stream=True, stream_options=USAGE):
        pass
    client.embeddings.create(model="text-embedding-3-small", input=[PROMPT])
    with suppress(APIStatusError):
        failing.chat.completions.create(model="gpt-4o", messages=ASKED)


def anthropic_calls() -> None:
    """Messages: whole, streamed in both ways of the client, with a tool, and a failure."""
    from anthropic import Anthropic, APIStatusError  # noqa: PLC0415 - as above

    client = Anthropic(base_url=provider_url("desk"), api_key=API_KEY, max_retries=0)
    failing = client.with_options(base_url=provider_url("error529"))
    client.messages.create(model="claude-sonnet-4-5", max_tokens=64, messages=ASKED)
    for _ in client.messages.create(model="claude-haiku-4-5", max_tokens=64, messages=ASKED, stream=True):
        pass
    with client.messages.stream(model="claude-haiku-4-5", max_tokens=64, messages=ASKED) as stream:
        stream.get_final_message()
    tool: Any = {**WEATHER, "input_schema": PARAMETERS}
    client.messages.create(model="claude-sonnet-4-5", max_tokens=64, messages=ASKED, tools=[tool])
    with suppress(APIStatusError):
        failing.messages.create(model="claude-sonnet-4-5", max_tokens=64, messages=ASKED)
