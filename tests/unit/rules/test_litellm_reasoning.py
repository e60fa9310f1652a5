"""Thinking of Anthropic behind LiteLLM: known where its raw usage states it, else never 0."""

from typing import Any

import orjson
import pytest

from gateway.cli.normalising import records_of_payloads
from tests.support.source_reading import record as source_record
from tests.unit.rules.spans import SPAN_ID, record_of, request

SHOWN = {
    "completion_tokens": 1453, "prompt_tokens": 6081, "total_tokens": 7534,
    "completion_tokens_details": {"reasoning_tokens": 0, "text_tokens": 1453},
    "prompt_tokens_details": {"cached_tokens": 677, "cache_creation_tokens": 587},
}  # fmt: skip
NATIVE = {
    "input_tokens": 4817, "cache_creation_input_tokens": 587, "cache_read_input_tokens": 677, "output_tokens": 1453,
    "output_tokens_details": {"thinking_tokens": 373},
}  # fmt: skip


def call(provider: str, model: str, response_id: str = "msg_1") -> dict[str, Any]:
    return {
        "gen_ai.system": provider,
        "gen_ai.request.model": model,
        "gen_ai.response.id": response_id,
        "gen_ai.usage.prompt_tokens": 6081,
        "gen_ai.usage.completion_tokens": 1453,
        "metadata.usage_object": repr(SHOWN),
    }


RAW = {"llm.anthropic.id": "msg_1", "llm.anthropic.model": "claude-sonnet-4-5", "llm.anthropic.usage": repr(NATIVE)}


@pytest.mark.parametrize(
    ("provider", "model", "reasoning"),
    [
        ("anthropic", "claude-sonnet-4-5", None),
        ("bedrock", "anthropic.claude-sonnet-4-5", None),
        ("vertex_ai", "claude-sonnet-4-5", None),
        ("openai", "gpt-4o", 0),
        ("gemini", "gemini-2.5-flash", 0),
    ],
)
def test_a_reasoning_of_zero_is_unknown_where_the_provider_may_think(
    provider: str, model: str, reasoning: int | None
) -> None:
    record = record_of(call(provider, model), scope="litellm", name="litellm_request")
    assert record["usage"].get("reasoning_output_tokens") == reasoning


@pytest.mark.parametrize("response_id", ["msg_1", "chatcmpl-of-litellm"])
@pytest.mark.parametrize("order", ["together", "raw first", "raw last"])
async def test_the_raw_span_below_states_it(response_id: str, order: str) -> None:
    above = request(call("anthropic", "claude-sonnet-4-5", response_id), scope="litellm", name="litellm_request")
    below = request(
        RAW, scope="litellm", name="raw_gen_ai_request", span_id=b"\x05" * 8, parent_span_id=SPAN_ID
    )  # fmt: skip
    bodies = [above.SerializeToString(), below.SerializeToString()]
    sent = {"together": [b"".join(bodies)], "raw first": bodies[::-1], "raw last": bodies}[order]
    records, _, _ = await records_of_payloads([(body, "/v1/traces", "application/x-protobuf", "") for body in sent])
    (record,) = map(orjson.loads, records)
    assert record["usage"]["reasoning_output_tokens"] == 373
    assert (record["usage"]["input_tokens"], record["usage"]["output_tokens"]) == (6081, 1453)
    assert "conflict" not in record["flags"]


def test_langfuse_otel_of_litellm_too() -> None:
    sent = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.model.name": "anthropic/claude-sonnet-4-5",
        "langfuse.observation.usage_details": '{"input": 4817, "output": 1453, "cache_read_input_tokens": 677}',
        "langfuse.observation.metadata.litellm_call_id": "c-1",
        "langfuse.observation.metadata.usage_object": orjson.dumps(SHOWN).decode(),
    }
    assert record_of(sent, scope="langfuse-sdk")["usage"].get("reasoning_output_tokens") is None


def test_the_generic_api_too() -> None:
    payload = {
        "litellm_call_id": "c-1", "id": "msg_1", "status": "success", "call_type": "acompletion",
        "custom_llm_provider": "anthropic", "model": "anthropic/claude-sonnet-4-5",
        "startTime": 1_795_159_542.5, "endTime": 1_795_159_543.0, "prompt_tokens": 6081, "completion_tokens": 1453,
        "metadata": {"usage_object": SHOWN},
    }  # fmt: skip
    assert source_record("litellm", payload)["usage"].get("reasoning_output_tokens") is None
