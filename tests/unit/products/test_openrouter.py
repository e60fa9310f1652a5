"""OpenRouter's broadcasts as they really come, its test, and its generation rows."""

from typing import Any

import pytest

from gateway.read.otlp_json import decode_traces_json
from gateway.rules.traces import normalise_traces
from tests.support.source_reading import CONTEXT, all_text, read, record


def row(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "id": "gen-3bhGkxlo4XFrqiabUM7NDtwDzWwG",
        "upstream_id": "chatcmpl-791bcf62",
        "total_cost": 0.0015,
        "cache_discount": 0.0002,
        "upstream_inference_cost": 0.0012,
        "created_at": "2026-11-20T07:00:00.433273+00:00",
        "model": "openai/gpt-5-mini",
        "streamed": True,
        "provider_name": "OpenAI",
        "latency": 1250,
        "generation_time": 1200,
        "finish_reason": "stop",
        "tokens_prompt": 1000,
        "tokens_completion": 300,
        "native_tokens_prompt": 1200,
        "native_tokens_completion": 340,
        "native_tokens_reasoning": 256,
        "native_tokens_cached": 1024,
        "usage": 0.0015,
        "is_byok": False,
        "external_user": "user-ana",
        "api_type": "completions",
        "user_agent": "CANARY",
        "http_referer": "https://CANARY",
    }
    return {**base, **changes}


@pytest.mark.parametrize("payload", [b'{"resourceSpans": []}', b"{}", b"[]"])
def test_the_test_of_a_destination_holds_nothing_and_rejects_nothing(payload: bytes) -> None:
    out = read("openrouter", payload)
    assert (out.calls.calls, out.calls.rejected) == ([], [])


def test_a_row_counts_by_the_providers_own_tokens() -> None:
    out = read("openrouter", {"data": row()})
    found = record("openrouter", {"data": row()})
    assert found["usage"] == {
        "status": "reported",
        "input_tokens": 1200,
        "cache_read_input_tokens": 1024,
        "output_tokens": 340,
        "reasoning_output_tokens": 256,
    }
    assert (found["provider"], found["request_model"], found["operation"]) == ("openai", "openai/gpt-5-mini", "chat")
    assert (found["cost"]["amount"], found["stream"], found["attribution"]["user"]) == ("0.0015", True, "user-ana")
    assert (found["started_at"], found["duration_ms"]) == ("2026-11-20T07:00:00.433Z", 1250)
    assert "CANARY" not in all_text(out)


def test_without_native_counts_the_others_are_used() -> None:
    found = record(
        "openrouter",
        row(
            native_tokens_prompt=None,
            native_tokens_completion=None,
            native_tokens_cached=None,
            native_tokens_reasoning=None,
        ),
    )
    assert found["usage"] == {"status": "reported", "input_tokens": 1000, "output_tokens": 300}


def test_with_an_own_key_the_providers_price_comes_on_top_of_the_fee() -> None:
    assert (
        record("openrouter", row(is_byok=True, total_cost=0.000075, upstream_inference_cost=0.0015))["cost"]["amount"]
        == "0.001575"
    )


def test_a_free_model_costs_0() -> None:
    assert record("openrouter", row(total_cost=0, usage=0, upstream_inference_cost=0))["cost"]["amount"] == "0"


@pytest.mark.parametrize(
    ("api_type", "operation"),
    [("completions", "chat"), ("embeddings", "embeddings"), ("tts", "speech"), (None, "chat")],
)
def test_the_api_type_is_the_operation(api_type: Any, operation: str) -> None:
    assert record("openrouter", row(api_type=api_type))["operation"] == operation


def test_a_generation_that_ended_in_an_error_failed() -> None:
    found = record(
        "openrouter",
        row(
            finish_reason="error",
            native_tokens_prompt=0,
            native_tokens_completion=0,
            tokens_prompt=0,
            tokens_completion=0,
            total_cost=0,
            usage=0,
        ),
    )
    assert (found["status"], found["usage"].get("input_tokens")) == ("error", None)
    assert "cost" not in found


def test_what_is_no_row_is_ignored_or_rejected_by_its_place() -> None:
    out = read("openrouter", {"data": [row(), {"id": "sk-or-CANARY", "name": "CANARY"}, "CANARY"]})
    assert (len(out.calls.calls), out.calls.ignored) == (1, 1)
    assert [each[:2] for each in out.calls.rejected] == [("not_an_object", "data[2]")]
    assert "CANARY" not in all_text(out)


BROADCAST = b"""{"resourceSpans": [{"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "openrouter"}}]},
 "scopeSpans": [{"scope": {"name": "openrouter"}, "spans": [{"traceId": "8ebcf0a15806fbd08fd19acea5a0c443", "spanId": "8ebcf0a15806fbd0",
 "name": "LLM Generation", "kind": 3, "startTimeUnixNano": "1795158000000000000", "endTimeUnixNano": "1795158003366000000", "attributes": [
  {"key": "gen_ai.request.model", "value": {"stringValue": "deepseek/deepseek-v4-flash"}},
  {"key": "gen_ai.response.id", "value": {"stringValue": "gen-1795158000-abc"}},
  {"key": "gen_ai.system", "value": {"stringValue": "deepseek"}},
  {"key": "gen_ai.provider.name", "value": {"stringValue": "deepseek"}},
  {"key": "gen_ai.usage.input_tokens", "value": {"intValue": 1200}},
  {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "236"}},
  {"key": "gen_ai.usage.input_tokens.cached", "value": {"intValue": 0}},
  {"key": "gen_ai.usage.input_tokens.cache_creation", "value": {"intValue": 100}},
  {"key": "gen_ai.usage.output_tokens.reasoning", "value": {"intValue": 101}},
  {"key": "gen_ai.usage.total_cost", "value": {"doubleValue": "0.00006958"}},
  {"key": "trace.metadata.openrouter.provider_name", "value": {"stringValue": "Novita"}},
  {"key": "trace.metadata.openrouter.provider_slug", "value": {"stringValue": "novita/fp8"}},
  {"key": "trace.metadata.openrouter.api_key_name", "value": {"stringValue": "prod-key"}},
  {"key": "trace.metadata.openrouter.entity_id", "value": {"stringValue": "org_123"}},
  {"key": "trace.metadata.environment", "value": {"stringValue": "production"}},
  {"key": "trace.input", "value": {"stringValue": "CANARY"}}, {"key": "gen_ai.prompt", "value": {"stringValue": "CANARY"}}]}]}]}]}"""


def test_a_broadcast_with_its_names_below_trace_metadata_is_read() -> None:
    out = normalise_traces(decode_traces_json(BROADCAST), CONTEXT)
    (call,) = out.calls
    found: dict[str, Any] = dict(call.record)
    assert (found["source"]["convention"], found["provider"], found["response_id"]) == (
        "openrouter",
        "novita",
        "gen-1795158000-abc",
    )
    assert found["usage"] == {
        "status": "reported",
        "input_tokens": 1200,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 100,
        "output_tokens": 236,
        "reasoning_output_tokens": 101,
    }
    assert found["cost"]["amount"] == "0.00006958"
    attribution = found["attribution"]
    assert (attribution["project"], attribution["environment"], attribution["labels"]["virtual_key"]) == (
        "org_123",
        "production",
        "prod-key",
    )
    assert "CANARY" not in repr(out)
