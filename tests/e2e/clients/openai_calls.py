"""The calls of an application that uses the openai client: chat, tools, responses,
embeddings, streams and failures.
"""

import asyncio
import json
from contextlib import suppress

from openai import APIStatusError, AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from tests.e2e.clients.telemetry import API_KEY, PROMPT, Arguments

_WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather CANARY-7Q-PROMPT",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def make_calls(given: Arguments) -> int:
    """Every kind of call once or more; how many."""
    client = OpenAI(base_url=given.provider_url("shop") + "/v1", api_key=API_KEY, max_retries=0)
    failing = client.with_options(base_url=given.provider_url("error429") + "/v1")
    asking: list[ChatCompletionMessageParam] = [{"role": "user", "content": PROMPT}]
    client.chat.completions.create(model="gpt-4o-mini", messages=asking, user="user-7")
    with client.chat.completions.create(
        model="gpt-4.1-mini", messages=asking, stream=True, stream_options={"include_usage": True}
    ) as chunks:
        for _ in chunks:
            pass
    tools = _use_tool(client, asking)
    client.responses.create(model="gpt-4o", input=PROMPT, instructions=PROMPT)
    with client.responses.create(model="gpt-4o-mini", input=PROMPT, stream=True) as events:
        for _ in events:
            pass
    client.embeddings.create(model="text-embedding-3-small", input=[PROMPT])
    asyncio.run(_chat_later(given, asking))
    with suppress(APIStatusError):
        failing.chat.completions.create(model="gpt-4o", messages=asking)
    return 7 + tools


def _use_tool(client: OpenAI, asking: list[ChatCompletionMessageParam]) -> int:
    """A call that asks for a tool, and one with its result."""
    answer = client.chat.completions.create(model="gpt-4o", messages=asking, tools=[_WEATHER])
    (call,) = answer.choices[0].message.tool_calls or []
    result: ChatCompletionMessageParam = {
        "role": "tool",
        "tool_call_id": call.id,
        "content": json.dumps({"weather": "CANARY-7Q-PROMPT"}),
    }
    called: ChatCompletionMessageParam = {
        "role": "assistant",
        "tool_calls": [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city": "CANARY-7Q-PROMPT"}'},
            }
        ],
    }
    client.chat.completions.create(model="gpt-4o", messages=[*asking, called, result], tools=[_WEATHER])
    return 2


async def _chat_later(given: Arguments, asking: list[ChatCompletionMessageParam]) -> None:
    async with AsyncOpenAI(base_url=given.provider_url("later") + "/v1", api_key=API_KEY, max_retries=0) as client:
        await client.chat.completions.create(model="gpt-4o-mini", messages=asking)
