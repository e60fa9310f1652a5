"""Kong's log entries: every plugin's part, every generation of its fields."""

from typing import Any

import pytest

from tests.support.source_reading import all_text, read, record, records

STARTED = 1795158000000


def entry(ai: Any, **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "request": {"id": "req-1", "uri": "/CANARY", "headers": {"user-agent": "CANARY", "authorization": "CANARY"}},
        "response": {"status": 200, "headers": {"x": "CANARY"}},
        "latencies": {"request": 2679},
        "started_at": STARTED,
        "consumer": {"username": "checkout-svc", "custom_id": "team-alpha"},
        "upstream_uri": "/v1/chat/completions",
        "ai": ai,
    }
    return {**base, **changes}


def part(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "usage": {"prompt_tokens": 1200, "completion_tokens": 340, "total_tokens": 1540, "cost": 0.0064},
        "meta": {"provider_name": "openai", "request_model": "gpt-4o", "response_model": "gpt-4o-2024-08-06"},
    }
    return {**base, **changes}


def test_each_plugin_of_an_entry_is_a_call_of_its_own() -> None:
    ai = {
        "payload": {"request": "CANARY"},
        "ai-request-transformer": part(usage={"prompt_token": 28, "completion_token": 20, "cost": 0.0038}),
        "ai-proxy": part(),
        "ai-response-transformer": part(usage={"prompt_token": 89, "completion_token": 56}),
    }
    out = read("kong", entry(ai))
    assert [call.record["usage"]["input_tokens"] for call in out.calls.calls] == [28, 1200, 89]
    assert len({call.record["record_id"] for call in out.calls.calls}) == 3
    assert "CANARY" not in all_text(out)


def test_the_newer_fields_split_the_usage_and_time_the_first_token() -> None:
    usage = {
        "prompt_tokens": 1200,
        "prompt_tokens_details": {"cached_tokens": 1024, "audio_tokens": 0},
        "completion_tokens": 340,
        "completion_tokens_details": {"reasoning_tokens": 256, "audio_tokens": 0},
        "time_to_first_token": 631,
        "time_per_token": 30.14,
        "cost": 0.0064,
    }
    meta = {**part()["meta"], "request_mode": "stream", "azure_deployment_id": "prod-4o", "llm_latency": 2670}
    found = record("kong", entry({"proxy": part(usage=usage, meta=meta)}))
    assert found["usage"] == {
        "status": "reported",
        "input_tokens": 1200,
        "cache_read_input_tokens": 1024,
        "output_tokens": 340,
        "reasoning_output_tokens": 256,
        "audio_input_tokens": 0,
        "audio_output_tokens": 0,
    }
    assert (found["time_to_first_token_ms"], found["stream"], found["deployment"]) == (631, True, "prod-4o")
    assert found["duration_ms"] == 2679


def test_requests_without_text_state_input_tokens() -> None:
    usage = {
        "input_tokens": 50,
        "output_tokens": 4160,
        "total_tokens": 4210,
        "input_tokens_details": {"text_tokens": 50},
    }
    found = record("kong", entry({"proxy": part(usage=usage)}, upstream_uri="/v1/images/generations"))
    assert (found["operation"], found["usage"]["input_tokens"], found["usage"]["output_tokens"]) == (
        "image_generation",
        50,
        4160,
    )


def test_what_the_rag_plugin_embeds_is_a_call_and_what_the_cache_embeds_is_only_counted() -> None:
    proxy = part(
        cache={"cache_status": "Miss", "embeddings_provider": "openai", "embeddings_model": "text-embedding-3-small"},
        **{
            "rag-inject": {
                "embeddings_tokens": 62,
                "embeddings_provider": "openai",
                "embeddings_model": "text-embedding-ada-002",
                "embeddings_latency": 37,
                "chunk_ids": ["CANARY"],
            },
            "ai-llm-as-judge": {"meta": {"response_model": "gpt-4o"}, "usage": {"llm_accuracy": 90}},
        },
    )
    out = read("kong", entry({"proxy": proxy}))
    chat, embedding = (call.record for call in out.calls.calls)
    assert (chat["operation"], embedding["operation"]) == ("chat", "embeddings")
    assert (embedding["request_model"], embedding["usage"]["input_tokens"]) == ("text-embedding-ada-002", 62)
    assert embedding["usage"]["status"] == "reported"
    assert embedding["duration_ms"] == 37
    assert dict(out.calls.suppressed) == {"no_usage_told": 2}
    assert "CANARY" not in all_text(out)


@pytest.mark.parametrize(
    ("ai", "outcome"),
    [
        (
            {"mcp": {"mcp_session_id": "s", "rpc": [{"method": "tools/call", "payload": {"request": "CANARY"}}]}},
            "suppressed",
        ),
        ({"a2a": {"rpc": []}}, "suppressed"),
        ({"sanitizer": {"pii_identified": 3, "sanitized_items": [{"original": "CANARY"}]}}, "ignored"),
        ({"compressor": {"original_token_count": 845}, "audit": {"azure_content_safety": {"Hate": "High"}}}, "ignored"),
        ({}, "ignored"),
        (None, "ignored"),
    ],
)
def test_traffic_that_called_no_model_makes_no_call(ai: Any, outcome: str) -> None:
    out = read("kong", entry(ai))
    assert (out.calls.items, out.calls.calls) == (1, [])
    assert (sum(out.calls.suppressed.values()), out.calls.ignored) == ((1, 0) if outcome == "suppressed" else (0, 1))
    assert "CANARY" not in all_text(out)


def test_a_failed_request_has_no_usage_instead_of_zeros() -> None:
    zeros = part(
        usage={"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0, "cost": 0},
        meta={"provider_name": "openai", "request_model": "gpt-4o", "response_model": "gpt-4o"},
    )
    found = record("kong", entry({"proxy": zeros}, response={"status": 429}))
    assert (found["status"], found["error_type"], found["usage"]) == ("error", "http_429", {"status": "none"})
    assert "cost" not in found


@pytest.mark.parametrize(("status", "billed"), [("Hit", False), ("Miss", True), ("Bypass", True), ("Refresh", True)])
def test_only_a_hit_of_the_semantic_cache_is_not_billed(status: str, billed: Any) -> None:
    found = record("kong", entry({"proxy": part(cache={"cache_status": status})}))
    assert found["billed"] is billed
    assert ("gateway_cache_hit" in found["flags"]) is not billed


def test_a_logged_answer_gives_its_id_and_its_split_and_nothing_else() -> None:
    answer = (
        '{"id": "chatcmpl-1", "model": "gpt-4o-2024-08-06", "choices": [{"finish_reason": "stop", "message": {"content": "CANARY"}}],'
        ' "usage": {"prompt_tokens": 1200, "prompt_tokens_details": {"cached_tokens": 1024}}}'
    )
    out = read("kong", entry({"proxy": part(payload={"request": "CANARY", "response": answer})}))
    (call,) = out.calls.calls
    assert (call.record["response_id"], call.record["finish_reason"]) == ("chatcmpl-1", "stop")
    assert call.record["usage"]["cache_read_input_tokens"] == 1024
    assert "CANARY" not in all_text(out)


def test_entries_of_a_traced_request_keep_their_trace() -> None:
    trace = "5b8efff798038103d269b633813fc60c"
    found = record("kong", entry({"proxy": part()}, trace_id={"w3c": trace}))
    assert found["trace"]["trace_id"] == trace


def test_an_entry_without_a_request_id_is_known_by_its_time_and_route() -> None:
    plain = entry({"proxy": part()}, request={}, route={"id": "r-1"})
    other = {**plain, "started_at": STARTED + 1}
    ids = [found["record_id"] for found in records("kong", [plain, plain, other])]
    assert ids[0] == ids[1] != ids[2]


def test_a_plugin_with_a_strange_name_is_not_repeated_in_a_rejection() -> None:
    out = read("kong", entry({"CANARY is a name": part()}, started_at=1))
    assert [each[:2] for each in out.calls.rejected] == [("invalid_time", ".ai.*")]


def test_a_key_that_is_no_plugin_is_not_repeated_in_a_position() -> None:
    rejected = read("kong", {"started_at": 5, "ai": {"CANARY-7Q": {"usage": {"prompt_tokens": 1}}}}).calls.rejected
    assert [each.position for each in rejected] == [".ai.*"]
