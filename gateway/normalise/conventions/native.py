"""Usage objects as providers and frameworks write them, found inside text attributes.

One reader for OpenAI (`prompt_tokens_details.cached_tokens`), Anthropic
(`cache_read_input_tokens`), LangChain (`input_token_details.cache_read`) and Gemini
(`cachedContentTokenCount`). Parts are parts whatever the input holds, so they may complete the
attributes; wholes are taken only where no attribute has them.
"""

from collections.abc import Mapping

from gateway.normalise.extract import MAX_TEXT_CHARS, Extracted
from gateway.normalise.texts import Answer, Json, count_in, object_in
from gateway.normalise.traced import chosen


def add_parts(picked: Extracted, usage: Mapping[str, Json]) -> None:
    """Fill the cache and reasoning counts that *picked* does not have yet."""
    counts = picked.counts
    for field, value in _parts(usage):
        if value is not None:
            counts.setdefault(field, value)


def _parts(usage: Mapping[str, Json]) -> list[tuple[str, int | None]]:
    inputs = object_in(
        usage, "prompt_tokens_details", "input_tokens_details", "input_token_details", "prompt_token_details"
    )
    outputs = object_in(
        usage, "completion_tokens_details", "output_tokens_details", "output_token_details", "completion_token_details"
    )
    written = object_in(usage, "cache_creation") or object_in(inputs, "cache_creation_token_details") or inputs
    return [
        (
            "cache_read",
            _first(
                count_in(usage, "cache_read_input_tokens", "cachedContentTokenCount", "cached_content_token_count"),
                count_in(inputs, "cached_tokens", "cache_read", "cached_read_tokens"),
                count_in(usage, "cacheReadInputTokens", "input_cached_tokens", "input_cache_read"),
            ),
        ),
        (
            "cache_creation",
            _first(
                count_in(usage, "cache_creation_input_tokens", "cacheWriteInputTokens", "cacheCreationInputTokens"),
                count_in(
                    inputs, "cache_creation_tokens", "cache_write_tokens", "cache_creation", "cached_write_tokens"
                ),
                count_in(usage, "input_cache_creation", "input_cache_write"),
            ),
        ),
        (
            "cache_creation_1h",
            _first(
                count_in(written, "ephemeral_1h_input_tokens"), count_in(usage, "cache_creation_input_tokens_above_1hr")
            ),
        ),
        ("cache_creation_5m", count_in(written, "ephemeral_5m_input_tokens")),
        (
            "reasoning",
            _first(
                count_in(outputs, "reasoning_tokens", "reasoning", "thinking_tokens"),
                count_in(
                    usage, "thoughtsTokenCount", "thoughts_token_count", "reasoning_tokens", "output_reasoning_tokens"
                ),
            ),
        ),
        ("audio_input", count_in(inputs, "audio_tokens", "audio")),
        ("audio_output", count_in(outputs, "audio_tokens", "audio")),
    ]


def _first(*values: int | None) -> int | None:
    """The first that states more than 0, else the first that states anything: senders write 0 under
    the names they do not use.
    """
    for value in values:
        if value:
            return value if type(value) is int else chosen(value, *values)
    return next((value for value in values if value is not None), None)


def add_wholes(picked: Extracted, usage: Mapping[str, Json]) -> None:
    """Fill input, output and total where *picked* has neither input nor output."""
    counts = picked.counts
    if "input" in counts or "output" in counts:
        return
    for field, names in (
        ("input", ("prompt_tokens", "input_tokens", "promptTokenCount", "prompt_token_count", "inputTokens", "input")),
        ("output", ("completion_tokens", "output_tokens", "candidatesTokenCount", "outputTokens", "output")),
        ("total", ("total_tokens", "totalTokenCount", "totalTokens", "total")),
    ):
        value = count_in(usage, *names)
        if value is not None:
            counts[field] = value


def take_answer(picked: Extracted, answer: Answer) -> None:
    """Fill in the names and parts that a raw answer has and no attribute of its own said."""
    texts = picked.texts
    for field, value in (
        ("response_id", answer.response_id),
        ("response_model", answer.model),
        ("finish_reason", answer.finish_reason),
        ("service_tier", answer.service_tier),
    ):
        if value is not None:
            texts.setdefault(field, value[:MAX_TEXT_CHARS])
    if answer.usage:
        add_parts(picked, answer.usage)
        note_native(picked, answer.usage)


def note_native(picked: Extracted, usage: Mapping[str, Json]) -> None:
    """Of Anthropic's own usage object its input, which excludes the cache: beside it one sees what
    the sender's input holds.
    """
    if "cache_read_input_tokens" in usage or "cache_creation_input_tokens" in usage:
        native = count_in(usage, "input_tokens")
        if native is not None:
            picked.counts["native_input"] = native
