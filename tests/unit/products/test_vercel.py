"""Vercel's trace drains, generation rows and log drains."""

from typing import Any

import orjson
import pytest

from gateway.read.otlp_json import decode_traces_json
from gateway.rules.call import Normalised
from gateway.rules.traces import normalise_traces
from tests.support.source_reading import CONTEXT, all_text, read, record

ROW: dict[str, Any] = {
    "id": "gen_01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "total_cost": 0.00123,
    "upstream_inference_cost": 0,
    "usage": 0.00123,
    "created_at": "2026-11-20T07:00:00.000Z",
    "model": "anthropic/claude-sonnet-4.5",
    "is_byok": False,
    "provider_name": "vertexAnthropic",
    "streamed": True,
    "finish_reason": "stop",
    "latency": 200,
    "generation_time": 1500,
    "native_tokens_prompt": 6201,
    "native_tokens_completion": 231,
    "native_tokens_reasoning": 0,
    "native_tokens_cached": 4096,
    "native_tokens_cache_creation": 2048,
    "billable_web_search_calls": 0,
}


def span(name: str, kind: Any, number: int, **attributes: Any) -> dict[str, Any]:
    return {
        "traceId": "7bba9f33312b3dbb8b2c2c62bb7abe2d",
        "spanId": f"086e83747d0e38{number:02x}",
        "parentSpanId": "086e83747d0e3800" if number else "",
        "name": name,
        "kind": kind,
        "startTimeUnixNano": "1795158000000000000",
        "endTimeUnixNano": "1795158001500000000",
        "attributes": [
            {"key": key.replace("__", "."), "value": {"intValue" if isinstance(value, int) else "stringValue": value}}
            for key, value in attributes.items()
        ],
    }


def drained(*spans: dict[str, Any]) -> Normalised:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "ai-gateway"}}]}
    request = {
        "resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "vercel"}, "spans": list(spans)}]}]
    }
    return normalise_traces(decode_traces_json(orjson.dumps(request)), CONTEXT)


def root(**changes: Any) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "gen_ai__operation__name": "chat",
        "gen_ai__provider__name": "openai",
        "gen_ai__request__model": "openai/gpt-5-mini",
        "gen_ai__response__model": "openai/gpt-5-mini",
        "gen_ai__usage__input_tokens": 1200,
        "gen_ai__usage__output_tokens": 340,
        "gen_ai__usage__cache_read__input_tokens": 1024,
        "vercel__ai_gateway__cost__total": "0.000750",
        "vercel__ai_gateway__cost__market": "0.000700",
        "vercel__ai_gateway__cost__currency": "USD",
        "vercel__ai_gateway__credential__type": "system",
        "vercel__ai_gateway__generation__id": "gen_1",
        "vercel__ai_gateway__request__id": "req_1",
        "vercel__ai_gateway__api_key__name": "prod-key",
        "vercel__ai_gateway__user__id": "user-ana",
        "vercel__ai_gateway__tags": "CANARY",
        "vercel__project__id": "prj_1",
        "http__response__status_code": 200,
    }
    return span("chat openai/gpt-5-mini", "server", 0, **{**attributes, **changes})


def test_the_root_span_is_the_call_and_its_attempts_are_steps() -> None:
    attempt = {
        "gen_ai__provider__name": "azure",
        "gen_ai__request__model": "openai/gpt-5-mini",
        "error__type": "timeout",
    }
    out = drained(
        root(),
        span("vercel.ai_gateway.routing", "internal", 1),
        span(
            "vercel.ai_gateway.model_attempt openai/gpt-5-mini",
            "internal",
            2,
            vercel__ai_gateway__model_attempt__index=0,
        ),
        {
            **span("openai/gpt-5-mini (azure)", "client", 3, vercel__ai_gateway__attempt__number=1, **attempt),
            "status": {"code": "error"},
        },
    )
    (call,) = out.calls
    found: dict[str, Any] = dict(call.record)
    assert found["source"]["convention"] == "vercel"
    assert (found["usage"]["input_tokens"], found["usage"]["cache_read_input_tokens"]) == (1200, 1024)
    assert (found["cost"]["amount"], found["response_id"], found["request_id"]) == ("0.00075", "gen_1", "req_1")
    attribution = found["attribution"]
    assert (attribution["user"], attribution["project"], attribution["labels"]["virtual_key"]) == (
        "user-ana",
        "prj_1",
        "prod-key",
    )
    assert (out.suppressed["not_a_call"], out.ignored, out.rejected) == (2, 1, [])
    assert "CANARY" not in repr(out)


def test_with_an_own_key_the_list_price_comes_on_top() -> None:
    out = drained(root(vercel__ai_gateway__credential__type="byok", vercel__ai_gateway__cost__total="0"))
    assert out.calls[0].record["cost"]["amount"] == "0.0007"  # type: ignore[index]


def test_a_4xx_failed_although_server_spans_set_no_error_for_it() -> None:
    out = drained(
        root(
            http__response__status_code=429,
            gen_ai__usage__input_tokens=0,
            gen_ai__usage__output_tokens=0,
            gen_ai__response__model="",
            vercel__ai_gateway__cost__total="0",
            vercel__ai_gateway__generation__id="",
        )
    )
    found = out.calls[0].record
    assert (found["status"], found["error_type"]) == ("error", "http_429")
    assert found["usage"].get("input_tokens") is None


def test_vercels_word_for_a_reranking_is_a_call() -> None:
    out = drained(root(gen_ai__operation__name="retrieval", gen_ai__usage__output_tokens=0))
    assert out.calls[0].record["operation"] == "rerank"


@pytest.mark.parametrize("kind", ["server", "client", "internal", "producer", "consumer", 2])
def test_the_kind_of_a_span_may_be_a_word(kind: Any) -> None:
    out = drained({**root(), "kind": kind, "status": {"code": "ok"}})
    assert (len(out.calls), out.rejected) == (1, [])
    assert drained({**root(), "status": {"code": "error"}}).calls[0].record["status"] == "error"


def test_a_word_that_is_no_kind_is_a_fault_of_its_span() -> None:
    assert drained({**root(), "kind": "SPAN_KIND_SERVER"}).rejected[0].reason == "invalid_enum"


def test_a_generations_row_is_a_call() -> None:
    found = record("vercel", {"data": ROW})
    assert found["usage"] == {
        "status": "reported",
        "input_tokens": 6201,
        "cache_read_input_tokens": 4096,
        "cache_creation_input_tokens": 2048,
        "output_tokens": 231,
        "reasoning_output_tokens": 0,
    }
    assert (found["provider"], found["cost"]["amount"]) == ("gcp.vertex_ai", "0.00123")
    assert (found["duration_ms"], found["time_to_first_token_ms"]) == (1500, 200)


def test_an_own_key_adds_the_providers_price() -> None:
    assert (
        record("vercel", {**ROW, "is_byok": True, "total_cost": 0, "upstream_inference_cost": 0.002})["cost"]["amount"]
        == "0.002"
    )


def test_entries_of_a_log_drain_are_ignored() -> None:
    entry = {
        "id": "1573817187330377061717300000",
        "deploymentId": "dpl_1",
        "source": "lambda",
        "host": "app.example",
        "timestamp": 1795158000000,
        "projectId": "prj_1",
        "level": "info",
        "message": '{"id": "gen_1", "total_cost": 1, "text": "CANARY"}',
        "proxy": {"path": "/CANARY"},
    }
    for body in ([entry, entry], b"\n".join([orjson.dumps(entry)] * 2)):
        out = read("vercel", body)
        assert (out.calls.items, out.calls.ignored) == (2, 2)
        assert "CANARY" not in all_text(out)
