"""One item as the normaliser sees it when it comes alone, with the names of items that are safe to show. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from gateway.explain.story import Explanation
from gateway.normalise.call import Call
from gateway.normalise.extract import Extracted
from gateway.normalise.operation import is_listed
from gateway.normalise.points import Point
from gateway.normalise.provenance import Provenance
from spool.record import Record

_NAMES = frozenset(
    {
        "litellm_request", "litellm_proxy_request", "raw_gen_ai_request", "llm_call", "handle_responses",
        "session_task.turn", "claude_code.llm_request", "claude_code.interaction", "claude_code.tool",
        "openai.chat", "anthropic.chat", "openai.response", "openai.embeddings", "cohere.chat", "bedrock.converse",
        "bedrock.completion", "ChatCompletion", "Response", "Messages", "LLMClient", "generate_content",
        "ChatOpenAI.chat", "ChatAnthropic.chat", "ChatOpenAI", "ChatAnthropic", "Completions", "AsyncMessages",
        "ai.generateText", "ai.generateText.doGenerate", "ai.streamText", "ai.streamText.doStream",
        "ai.generateObject", "ai.generateObject.doGenerate", "ai.streamObject", "ai.streamObject.doStream",
        "ai.embed", "ai.embed.doEmbed", "ai.embedMany", "ai.embedMany.doEmbed", "ai.toolCall",
    }
)  # fmt: skip
"""Span names that libraries write; any other may hold a user's words."""

_STEPS = frozenset({"execute_tool", "invoke_agent", "create_agent", "invoke_workflow"})

NOTHING_PICKED = Extracted()
_NOTHING_TOLD: Mapping[str, Provenance] = MappingProxyType({})


class Single(NamedTuple):
    """What one item came to by itself; a call's or a point's fate is decided later, among others."""

    told: Explanation
    call: Call | None = None
    identity: bytes = b""
    """Of a call, as the ledger knows it."""
    point: Point | None = None
    picked: Extracted = NOTHING_PICKED
    """Of a point."""
    origins: Mapping[str, Provenance] = _NOTHING_TOLD
    """Of what is picked."""
    resource: Mapping[str, Provenance] = _NOTHING_TOLD
    """Of a point: where its resource's attribution came from."""


def span_name(name: str, record: Record | None) -> str | None:
    """*name* if it is a library's, or an operation that is known with the record's model behind it; else None."""
    if name in _NAMES:
        return name
    word, space, rest = name.partition(" ")
    if word not in _STEPS and not is_listed(word):
        return None
    models = () if record is None else (record["request_model"], record["response_model"])
    return name if not space or rest in models else word
