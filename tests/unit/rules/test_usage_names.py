"""The spellings of token counts: whatever name a sender has for a part, it is that part."""

import pytest

from tests.unit.rules.spans import record_of

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "some-model", "gen_ai.provider.name": "some"}
INPUT, OUTPUT, PART = 2003, 1009, 101
WHOLES = {"gen_ai.usage.input_tokens": INPUT, "gen_ai.usage.output_tokens": OUTPUT}
PREFIXES = ("gen_ai.usage.", "llm.usage.")
SPELLINGS = {
    "cache_read_input_tokens": (
        "cache_read.input_tokens", "cache_read_input_tokens", "cache_read_tokens", "input_cached_tokens",
        "cached_input_tokens", "cached_tokens", "prompt_cache_hit_tokens", "cached_content_token_count", "cache_tokens",
        "details.cache_read_tokens", "prompt_tokens_details.cached_tokens", "input_tokens_details.cached_tokens",
        "input_token_details.cache_read",
    ),
    "cache_creation_input_tokens": (
        "cache_creation.input_tokens", "cache_write_input_tokens", "cache_write_tokens", "cache_creation_tokens",
        "details.cache_write_tokens", "input_token_details.cache_creation", "cache_creation.5m_input_tokens",
        "cache_creation.ephemeral_5m_input_tokens", "cache_creation.1h_input_tokens",
    ),
    "cache_creation_1h_input_tokens": ("cache_creation.1h_input_tokens", "cache_creation.ephemeral_1h_input_tokens"),
    "reasoning_output_tokens": (
        "reasoning.output_tokens", "reasoning_tokens", "thinking_tokens", "thoughts_token_count",
        "output_tokens_details.reasoning_tokens", "completion_tokens_details.reasoning_tokens",
    ),
    "audio_input_tokens": ("audio.input_tokens", "audio_input_tokens", "input_audio_tokens"),
    "audio_output_tokens": ("audio.output_tokens", "audio_output_tokens", "output_audio_tokens"),
}  # fmt: skip


@pytest.mark.parametrize(("field", "word"), [(field, word) for field, words in SPELLINGS.items() for word in words])
@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_part_is_known_under_each_of_its_names(prefix: str, field: str, word: str) -> None:
    usage = record_of(CHAT | WHOLES | {prefix + word: PART})["usage"]
    assert usage.get(field) == PART
    assert (usage.get("input_tokens"), usage.get("output_tokens")) == (INPUT, OUTPUT)
    assert "other" not in usage


@pytest.mark.parametrize(
    ("given", "output"),
    [
        ("gen_ai.usage.prompt_tokens", "gen_ai.usage.completion_tokens"),
        ("gen_ai.response.prompt_tokens", "gen_ai.response.completion_tokens"),
        ("gen_ai.response.input_tokens", "gen_ai.response.output_tokens"),
        ("llm.usage.input_tokens", "llm.usage.output_tokens"),
    ],
)
def test_a_whole_is_known_under_each_of_its_names(given: str, output: str) -> None:
    assert record_of(CHAT | {given: INPUT, output: OUTPUT})["usage"] == {
        "status": "reported", "input_tokens": INPUT, "output_tokens": OUTPUT,
    }  # fmt: skip
