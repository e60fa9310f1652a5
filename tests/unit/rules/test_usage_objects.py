"""The reader of provider usage objects: every provider's shape, each spelling, each form."""

from typing import Any

import orjson
import pytest

from tests.unit.rules.spans import normalised, record_of

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "some-model", "gen_ai.provider.name": "some"}
INPUT, OUTPUT, READ, WRITTEN, THOUGHT = 2003, 1009, 601, 401, 103

SHAPES: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "openai chat": (
        {
            "prompt_tokens": INPUT, "completion_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT,
            "prompt_tokens_details": {"cached_tokens": READ, "audio_tokens": 7},
            "completion_tokens_details": {"reasoning_tokens": THOUGHT, "audio_tokens": 3},
        },
        {"input": INPUT, "output": OUTPUT, "cache_read": READ, "reasoning": THOUGHT},
    ),
    "openai responses": (
        {
            "input_tokens": INPUT, "output_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT,
            "input_tokens_details": {"cached_tokens": READ}, "output_tokens_details": {"reasoning_tokens": THOUGHT},
        },
        {"input": INPUT, "output": OUTPUT, "cache_read": READ, "reasoning": THOUGHT},
    ),
    "anthropic": (
        {
            "input_tokens": INPUT, "output_tokens": OUTPUT,
            "cache_read_input_tokens": READ, "cache_creation_input_tokens": WRITTEN,
            "cache_creation": {"ephemeral_5m_input_tokens": 300, "ephemeral_1h_input_tokens": 101},
            "output_tokens_details": {"thinking_tokens": THOUGHT}, "service_tier": "standard",
        },
        {
            "input": INPUT + READ + WRITTEN, "output": OUTPUT, "cache_read": READ, "cache_creation": WRITTEN,
            "reasoning": THOUGHT,
        },
    ),
    "anthropic, nothing uncached": (
        {"input_tokens": 0, "output_tokens": OUTPUT, "cache_read_input_tokens": READ},
        {"input": READ, "output": OUTPUT, "cache_read": READ},
    ),
    "gemini": (
        {
            "prompt_token_count": INPUT, "candidates_token_count": OUTPUT, "cached_content_token_count": READ,
            "thoughts_token_count": THOUGHT, "total_token_count": INPUT + OUTPUT + THOUGHT,
        },
        {"input": INPUT, "output": OUTPUT + THOUGHT, "cache_read": READ, "reasoning": THOUGHT},
    ),
    "gemini with tools": (
        {
            "prompt_token_count": INPUT, "candidates_token_count": OUTPUT, "tool_use_prompt_token_count": 211,
            "total_token_count": INPUT + OUTPUT + 211,
        },
        {"input": INPUT + 211, "output": OUTPUT},
    ),
    "gemini, cut off while it thought": (
        {"prompt_token_count": INPUT, "thoughts_token_count": THOUGHT, "total_token_count": INPUT + THOUGHT},
        {"input": INPUT, "output": THOUGHT, "reasoning": THOUGHT},
    ),
    "bedrock converse": (
        {
            "inputTokens": INPUT, "outputTokens": OUTPUT, "totalTokens": INPUT + OUTPUT + READ + WRITTEN,
            "cacheReadInputTokens": READ, "cacheWriteInputTokens": WRITTEN,
        },
        {"input": INPUT + READ + WRITTEN, "output": OUTPUT, "cache_read": READ, "cache_creation": WRITTEN},
    ),
    "bedrock invocation metrics": (
        {
            "inputTokenCount": INPUT, "outputTokenCount": OUTPUT, "cacheReadInputTokenCount": READ,
            "cacheWriteInputTokenCount": WRITTEN,
        },
        {"input": INPUT + READ + WRITTEN, "output": OUTPUT, "cache_read": READ, "cache_creation": WRITTEN},
    ),
    "bedrock llama": (
        {"prompt_token_count": INPUT, "generation_token_count": OUTPUT},
        {"input": INPUT, "output": OUTPUT},
    ),
    "cohere": (
        {"billed_units": {"input_tokens": INPUT, "output_tokens": OUTPUT}, "tokens": {"input_tokens": 9, "output_tokens": 8}},
        {"input": INPUT, "output": OUTPUT},
    ),
    "mistral": (
        {"prompt_tokens": INPUT, "completion_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT, "num_cached_tokens": READ},
        {"input": INPUT, "output": OUTPUT, "cache_read": READ},
    ),
    "deepseek": (
        {
            "prompt_tokens": INPUT, "completion_tokens": OUTPUT, "prompt_cache_hit_tokens": READ,
            "prompt_cache_miss_tokens": INPUT - READ, "completion_tokens_details": {"reasoning_tokens": THOUGHT},
        },
        {"input": INPUT, "output": OUTPUT, "cache_read": READ, "reasoning": THOUGHT},
    ),
    "xai": (
        {
            "prompt_tokens": INPUT, "completion_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT + THOUGHT,
            "completion_tokens_details": {"reasoning_tokens": THOUGHT},
        },
        {"input": INPUT, "output": OUTPUT + THOUGHT, "reasoning": THOUGHT},
    ),
    "ollama": ({"prompt_eval_count": INPUT, "eval_count": OUTPUT}, {"input": INPUT, "output": OUTPUT}),
    "langchain": (
        {
            "input_tokens": INPUT, "output_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT,
            "input_token_details": {"cache_read": READ, "cache_creation": WRITTEN},
            "output_token_details": {"reasoning": THOUGHT},
        },
        {"input": INPUT, "output": OUTPUT, "cache_read": READ, "cache_creation": WRITTEN, "reasoning": THOUGHT},
    ),
    "ai sdk 6": (
        {
            "inputTokens": {"total": INPUT, "noCache": INPUT - READ - WRITTEN, "cacheRead": READ, "cacheWrite": WRITTEN},
            "outputTokens": {"total": OUTPUT, "text": OUTPUT - THOUGHT, "reasoning": THOUGHT},
        },
        {"input": INPUT, "output": OUTPUT, "cache_read": READ, "cache_creation": WRITTEN, "reasoning": THOUGHT},
    ),
}  # fmt: skip

FIELDS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_read": "cache_read_input_tokens",
    "cache_creation": "cache_creation_input_tokens",
    "reasoning": "reasoning_output_tokens",
}


def camel(value: Any) -> Any:
    """*value* with its names in camelCase, as the providers' JavaScript clients have them."""
    if not isinstance(value, dict):
        return value
    return {first + "".join(map(str.capitalize, rest)): camel(x) for (first, *rest), x in _words(value)}


def _words(value: dict[str, Any]) -> list[tuple[list[str], Any]]:
    return [(name.split("_"), inner) for name, inner in value.items()]


def counts(record: Any) -> dict[str, int]:
    return {field: record["usage"][name] for field, name in FIELDS.items() if record["usage"].get(name) is not None}


SNAKE_ONLY = {"ai sdk 6", "anthropic", "anthropic, nothing uncached"}
"""Of these no client writes the other spelling in full."""


@pytest.mark.parametrize("form", ["json", "repr", "map"])
@pytest.mark.parametrize("shape", SHAPES)
def test_an_object_is_read_in_each_form(shape: str, form: str) -> None:
    usage, expected = SHAPES[shape]
    value = {"json": orjson.dumps(usage).decode(), "repr": repr(usage), "map": usage}[form]
    record = record_of(CHAT | {"gen_ai.usage.raw": value})
    assert counts(record) == expected
    assert record["flags"] == []
    assert record["usage"]["status"] == "reported"


@pytest.mark.parametrize("shape", sorted(SHAPES.keys() - SNAKE_ONLY))
def test_an_object_is_read_in_camel_case(shape: str) -> None:
    usage, expected = SHAPES[shape]
    record = record_of(CHAT | {"gen_ai.usage.raw": orjson.dumps(camel(usage)).decode()})
    if shape in {"openai chat", "mistral", "deepseek", "xai", "ollama"}:  # the AI SDK writes the same names
        expected = {**expected, "output": OUTPUT + THOUGHT} if shape == "xai" else expected
    assert counts(record) == expected


def deep(levels: int) -> dict[str, Any]:
    usage: dict[str, Any] = {}
    for _ in range(levels):
        usage = {"inner": usage}
    return usage


@pytest.mark.parametrize(
    "value",
    [
        "", "{", "not json", "[1]", "null", "7", "{}", '{"prompt_tokens": -4}', '{"prompt_tokens": 1e99}',
        '{"prompt_tokens": {"prompt_tokens": 4}}', '{"prompt_tokens": [4]}', '{"prompt_tokens": "many"}',
        '{"prompt_tokens": NaN}', "{'prompt_tokens': __import__('os')}", "{" * 5_000, "[" * 100_000,
        orjson.dumps(deep(120)).decode(), '{"prompt_tokens": 5' + " " * 300_000 + "}",
    ],
)  # fmt: skip
def test_what_is_no_sound_object_states_nothing(value: str) -> None:
    record = record_of(CHAT | {"gen_ai.usage.raw": value, "gen_ai.response.id": "r-1"})
    assert record["usage"] == {"status": "missing"}


def test_nothing_but_numbers_leaves_an_object() -> None:
    canary = "CANARY-OBJECT"
    usage = {
        **SHAPES["anthropic"][0],
        "text": canary, canary: 5, "nested": {"content": canary, canary: {"x": canary}}, "list": [canary],
        "service_tier": canary + " in a sentence",
    }  # fmt: skip
    for value in (orjson.dumps(usage).decode(), repr(usage), usage):
        out = normalised(CHAT | {"gen_ai.usage.raw": value})
        assert len(out.calls) == 1
        assert canary not in repr(out)


@pytest.mark.parametrize("sent", [OUTPUT, OUTPUT + THOUGHT])
def test_thoughts_that_only_geminis_total_states_are_the_reasoning(sent: int) -> None:
    usage = {
        "prompt_token_count": INPUT,
        "candidates_token_count": OUTPUT,
        "total_token_count": INPUT + OUTPUT + THOUGHT,
    }
    wholes = {"gen_ai.usage.input_tokens": INPUT, "gen_ai.usage.output_tokens": sent}
    record = record_of(CHAT | wholes | {"gen_ai.usage.raw": orjson.dumps(usage).decode()})
    assert record["usage"].get("output_tokens") == OUTPUT + THOUGHT
    assert record["usage"].get("reasoning_output_tokens") == THOUGHT
    assert record["flags"] == []


def test_what_geminis_tools_read_is_no_thought() -> None:
    usage = {
        "prompt_token_count": INPUT, "candidates_token_count": OUTPUT, "tool_use_prompt_token_count": 211,
        "total_token_count": INPUT + OUTPUT + 211,
    }  # fmt: skip
    record = record_of(CHAT | {"gen_ai.usage.raw": orjson.dumps(usage).decode()})
    assert record["usage"].get("output_tokens") == OUTPUT
    assert "reasoning_output_tokens" not in record["usage"]
