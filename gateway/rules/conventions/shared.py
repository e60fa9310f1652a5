"""The names that more than one convention uses, by field, in order of precedence.

OpenTelemetry GenAI in all its generations comes first (`gen_ai.provider.name` over `gen_ai.system`,
`input_tokens` over `prompt_tokens`), then the names of other conventions that mean the same. Of old
and new names on one span one counts.
"""

import re
from itertools import chain

from gateway.rules.conventions import who
from gateway.rules.extract import COUNT, FIRST, NUMBER, RAW, TEXT, WHO
from spool.fields import check_once
from spool.record import FIELDS


def _usage(*words: str) -> tuple[str, ...]:
    """Each of *words* under the names of usage that OpenTelemetry has, and those it had before."""
    return tuple(prefix + word for prefix in ("gen_ai.usage.", "llm.usage.") for word in words)


NAMES: dict[str, tuple[str, ...]] = {
    # what was called
    "operation": (
        "gen_ai.operation.name",
        "llm.request.type",
        "gen_ai.request.type",
        "gen_ai.span.kind",
        "fi.span.kind",
    ),
    "run_id": ("gen_ai.thread.run.id",),
    "step_kind": ("traceloop.span.kind",),
    "span_type": ("logfire.span_type",),
    "provider": ("gen_ai.provider.name", "gen_ai.system", "gen_ai.model.provider", "llm.provider", "llm.system"),
    "address": ("server.address", "gen_ai.openai.api_base", "llm.openai.api_base", "url.full", "http.url"),
    "request_model": ("gen_ai.request.model", "llm.request.model_name", "llm.request.model"),
    "model_override": ("gen_ai.request.model_override",),
    "response_model": ("gen_ai.response.model", "llm.response.model_name", "llm.response.model"),
    "response_id": ("gen_ai.response.id", "llm.response.id", "gen_ai.response_id"),
    "finish_reason": (
        "gen_ai.response.finish_reasons",
        "gen_ai.response.finish_reason",
        "llm.finish_reason",
        "llm.response.finish_reason",
        "llm.response.stop_reason",
        "anthropic.message.stop_reason",
        "gen_ai.completion.0.finish_reason",
    ),
    "stream": ("gen_ai.request.stream", "gen_ai.is_streaming", "llm.is_streaming", "gen_ai.request.is_stream"),
    "time_to_first_s": (
        "gen_ai.response.time_to_first_chunk",
        "gen_ai.client.operation.time_to_first_chunk",
        "gen_ai.server.time_to_first_token",
    ),
    "service_tier": (
        "openai.response.service_tier",
        "gen_ai.openai.response.service_tier",
        "gen_ai.response.service_tier",
        "anthropic.response.service_tier",
        "openai.request.service_tier",
        "gen_ai.openai.request.service_tier",
        "gen_ai.request.service_tier",
    ),
    "deployment": ("azure.deployment", "gen_ai.azure.deployment", "az.ai.deployment"),
    "region": ("cloud.region", "aws.region", "gen_ai.request.region"),
    "request_id": ("anthropic.request.id", "aws.request_id", "gen_ai.request.id", "az.service_request_id"),
    "batch": ("gen_ai.request.batch",),
    "error_type": ("error.type",),
    # tokens
    "input": (
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.prompt_tokens",
        "llm.usage.prompt_tokens",
        "llm.usage.input_tokens",
        "gen_ai.response.prompt_tokens",  # Semantic Kernel before 1.30
        "gen_ai.response.input_tokens",  # early Microsoft.Extensions.AI
    ),
    "output": (
        "gen_ai.usage.output_tokens",
        "gen_ai.usage.completion_tokens",
        "llm.usage.completion_tokens",
        "llm.usage.output_tokens",
        "gen_ai.response.completion_tokens",
        "gen_ai.response.output_tokens",
    ),
    "total": ("gen_ai.usage.total_tokens", "llm.usage.total_tokens", "llm.token_count.total", "ai.usage.totalTokens"),
    "cache_read": _usage(
        "cache_read.input_tokens",
        "cache_read_input_tokens",
        "input_tokens.cached",
        "cached_input_tokens",
        "input_tokens.cache_read",
        "cached_tokens",
        "cache_read_tokens",
        "input_cached_tokens",
        "cached_prompt_tokens",
        "prompt_cache_hit_tokens",
        "cached_content_token_count",
        "cached_content_tokens",
        "cache_tokens",
        "prompt_token_details.cached_read_tokens",
        "prompt_tokens_details.cached_tokens",
        "input_token_details.cached_tokens",
        "input_tokens_details.cached_tokens",
        "input_token_details.cache_read",
        "details.cache_read_tokens",
        "details.cache_read_input_tokens",
        "details.cached_tokens",
    ),
    "cache_creation": _usage(
        "cache_creation.input_tokens",
        "cache_write.input_tokens",
        "cache_creation_input_tokens",
        "cache_write_input_tokens",
        "input_tokens.cache_write",
        "input_tokens.cache_creation",
        "cache_write_tokens",
        "cache_creation_tokens",
        "prompt_token_details.cached_write_tokens",
        "input_token_details.cache_creation",
        "details.cache_write_tokens",
        "details.cache_creation_input_tokens",
    ),
    "cache_creation_1h": (
        "anthropic.usage.cache_creation.ephemeral_1h_input_tokens",
        *_usage(
            "cache_creation.ephemeral_1h_input_tokens",
            "cache_creation.1h_input_tokens",
            "details.ephemeral_1h_input_tokens",
        ),
    ),
    "cache_creation_5m": (
        "anthropic.usage.cache_creation.ephemeral_5m_input_tokens",
        *_usage(
            "cache_creation.ephemeral_5m_input_tokens",
            "cache_creation.5m_input_tokens",
            "details.ephemeral_5m_input_tokens",
        ),
    ),
    "reasoning": _usage(
        "reasoning.output_tokens",
        "reasoning_output_tokens",
        "reasoning_tokens",
        "output_tokens.reasoning",
        "output_reasoning_tokens",
        "completion_token_details.reasoning_tokens",
        "completion_tokens_details.reasoning_tokens",
        "output_token_details.reasoning_tokens",
        "output_tokens_details.reasoning_tokens",
        "output_token_details.reasoning",
        "details.reasoning_tokens",
        "details.thinking_tokens",
        "details.thoughts_tokens",
        "thinking_tokens",
        "thoughts_tokens",
        "thoughts_token_count",
    ),
    "audio_input": _usage(
        "audio.input_tokens",
        "input_tokens.audio",
        "audio_input_tokens",
        "input_audio_tokens",
        "prompt_token_details.audio_tokens",
        "prompt_tokens_details.audio_tokens",
        "input_token_details.audio_tokens",
        "details.input_audio_tokens",
    ),
    "audio_output": _usage(
        "audio.output_tokens",
        "output_tokens.audio",
        "audio_output_tokens",
        "output_audio_tokens",
        "completion_token_details.audio_tokens",
        "completion_tokens_details.audio_tokens",
        "output_token_details.audio_tokens",
        "details.output_audio_tokens",
    ),
    "raw_object": ("gen_ai.usage.raw",),
    "raw_output": ("output.value",),
    "raw_parameters": ("gen_ai.request.parameters", "llm.request.parameters", "llm.invocation_parameters"),
    # money
    "cost": (
        "gen_ai.usage.cost.amount",
        "gen_ai.usage.cost",
        "gen_ai.usage.total_cost",
        "gen_ai.usage.cost.total",
        "gen_ai.cost.total_cost",
        "gen_ai.cost.amount",
        "gen_ai.cost",
        "litellm.cost.total",
        "llm.cost.total",
        "llm.response.cost",
        "operation.cost",
    ),
    "currency": ("gen_ai.usage.cost.currency", "gen_ai.cost.currency"),
    "cache_hit": ("gen_ai.gateway.cache_hit", "gen_ai.response.cache_hit", "litellm.cache_hit"),
    # who
    **who.NAMES,
    "label.agent": ("gen_ai.agent.name",),
    "label.virtual_key": (
        "gen_ai.virtual_key_name",
        "openrouter.api_key_name",
        "litellm.key_alias",
        "litellm.api_key.alias",
    ),
    "label.customer": ("gen_ai.customer_id", "customer.id"),
}
check_once("attribute", chain.from_iterable(NAMES.values()))

REDUNDANT = frozenset(
    {
        "gen_ai.usage.input_token_details",
        "gen_ai.usage.output_token_details",
        "gen_ai.usage.input_tokens_details",
        "gen_ai.usage.output_tokens_details",
        "gen_ai.client.token.usage",
        "ai.usage.tokens",
        "codex.usage.total_tokens",
    }
)
"""Usage names that repeat others in text or in sum."""

NOT_USAGE = ("gen_ai.aggregated_usage.", "codex.turn.", "traceloop.association.", "langfuse.observation.metadata.")
"""Beginnings of names with `.usage.` in them that sum over several calls, or are free metadata."""

_USAGE_NAME = re.compile(r"[\w-]+(\.[\w-]+)*\.usage\.[\w.-]+|llm\.token_count\.[\w.-]+", re.ASCII)
_MAX_NAME_CHARS = 128


def is_unknown_usage(name: str) -> bool:
    """Whether numbers under *name*, which no table knows, are usage to keep by their name.

    Money is not.
    """
    return (
        len(name) <= _MAX_NAME_CHARS
        and "cost" not in name
        and not name.startswith(NOT_USAGE)
        and _USAGE_NAME.fullmatch(name) is not None
    )


_PARTS = {
    word: field
    for field, words in (
        (
            "cache_read",
            "cache_read_input_tokens cached_tokens cache_read_tokens cached_input_tokens cached_prompt_tokens",
        ),
        (
            "cache_creation",
            "cache_creation_input_tokens cache_write_tokens cache_creation_tokens cache_write_input_tokens",
        ),
        ("reasoning", "reasoning_tokens reasoning_output_tokens thinking_tokens"),
    )
    for word in words.split()
}
_SUMS = re.compile(r"total|session|aggregat|cumulat|turn|context", re.IGNORECASE)
_OBJECT = re.compile(
    r"(?:[\w-]+\.)+(?:(?:token_?)?usage(?:[._]?metadata)?|metrics)|(?:token_?)?usage", re.ASCII | re.IGNORECASE
)


def part_of_usage(name: str) -> str | None:
    """The part of a whole that a name of unknown usage states (`metadata.usage.cached_tokens`).

    None for any other number, and for one that may be of several calls.
    """
    path, _, word = name.rpartition(".")
    return _PARTS.get(word) if path.endswith("usage") and _SUMS.search(path) is None else None


def is_usage_object(name: str) -> bool:
    """Whether an unknown name may hold all usage of a call as one object."""
    return len(name) <= _MAX_NAME_CHARS and not name.startswith(NOT_USAGE) and _OBJECT.fullmatch(name) is not None


_COUNTS = frozenset(word for field in FIELDS if field.form == "tokens" for word in field.row.words) | {
    "total", "cache_creation_5m", "native_input", "whole_input", "native_output", "whole_output", "uncached", "text_output",
    "turn_input", "tool_input", "later_cache_read", "later_cache_creation",
}  # fmt: skip
_NUMBERS = frozenset(
    {
        "cost", "upstream_cost", "byok", "stream", "time_to_first_s", "time_to_first_ms", "batch", "succeeded", "duration_ms", "read_s",
    }
)  # fmt: skip


_WHO = frozenset(word for field in FIELDS.of("attribution") for word in field.row.words) - {"service_name"}


def kind_of(field: str) -> int:
    """How the values of *field* are read."""
    if field in _COUNTS:
        return COUNT
    if field in _NUMBERS:
        return NUMBER
    if field.startswith("raw_"):
        return RAW
    if field in _WHO or field.startswith("label."):
        return WHO
    return FIRST if field == "finish_reason" else TEXT


NEUTRAL = frozenset(
    {"address", "region", "error_type", "request_id", "batch", "model", "deployment", "span_type", "stated_kind"}
)
"""Fields that any span may have: alone they are no mark of AI."""
