"""Cloudflare's Logpush events and Logs API rows."""

from typing import Any

import orjson
import pytest

from gateway.common.contract.errors import BadPayload
from tests.support.source_reading import all_text, read, record, records

SEALED = {"type": "encrypted", "key": "a2V5", "iv": "aXYx", "data": "CANARY"}


def event(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "Cached": False,
        "Endpoint": "chat/completions",
        "Gateway": "prod-gw",
        "Metadata": SEALED,
        "Model": "gpt-4o",
        "Provider": "openai",
        "RateLimited": False,
        "RequestBody": SEALED,
        "ResponseBody": SEALED,
        "StatusCode": 200,
        "Timestamp": 1795158000123,
    }
    return {**base, **changes}


def log(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "id": "01JD0000000000000000000000",
        "cached": False,
        "created_at": "2026-11-20T07:00:00.117Z",
        "duration": 1500,
        "model": "gpt-4o",
        "path": "chat/completions",
        "provider": "openai",
        "success": True,
        "tokens_in": 1200,
        "tokens_out": 340,
        "cost": 0.0064,
        "custom_cost": False,
        "metadata": '{"user": "user-ana", "team": "team-alpha", "note": "CANARY"}',
        "status_code": 200,
        "request_head": "CANARY",
        "response_head": "CANARY",
    }
    return {**base, **changes}


def test_encrypted_columns_make_the_usage_unknown_and_never_0() -> None:
    out = read("cloudflare", event())
    (call,) = out.calls.calls
    assert call.record["usage"] == {"status": "missing"}
    assert "cost" not in call.record
    assert "CANARY" not in all_text(out)


def test_columns_in_the_clear_are_read() -> None:
    answer = {
        "id": "chatcmpl-1",
        "usage": {"prompt_tokens": 12, "completion_tokens": 5},
        "choices": [{"text": "CANARY"}],
    }
    out = read(
        "cloudflare", event(ResponseBody=orjson.dumps(answer).decode(), Metadata={"user_id": "user-ana", "x": "CANARY"})
    )
    (call,) = out.calls.calls
    assert (call.record["usage"]["input_tokens"], call.record["usage"]["output_tokens"]) == (12, 5)
    assert call.record["attribution"]["user"] == "user-ana"
    assert call.record["response_id"] == "chatcmpl-1"
    assert "CANARY" not in all_text(out)


def test_events_are_distinguished_by_what_only_one_of_them_has() -> None:
    other = {**SEALED, "iv": "aXYy"}
    ids = [
        found["record_id"]
        for found in records(
            "cloudflare",
            [event(), event(), event(RequestBody=other), event(Timestamp=1795158000124), event(Cached=True)],
        )
    ]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 4


@pytest.mark.parametrize("timestamp", [1795158000123, "2026-11-20T07:00:00.123Z", 1795158000123000000, "1795158000123"])
def test_timestamps_are_read_in_every_format_that_logpush_offers(timestamp: Any) -> None:
    assert record("cloudflare", event(Timestamp=timestamp))["started_at"] == "2026-11-20T07:00:00.123Z"


@pytest.mark.parametrize(
    "body", [b'{"content":"tests"}', b"{}", b"test", b"tests\n", b'{"content":"test","filename":"test.txt"}']
)
def test_the_object_that_tests_a_destination_is_ignored(body: bytes) -> None:
    out = read("cloudflare", body)
    assert (out.calls.calls, out.calls.rejected, out.calls.ignored) == ([], [], 1)


def test_a_line_that_is_no_json_is_rejected_alone() -> None:
    out = read("cloudflare", orjson.dumps(event()) + b"\n{CANARY\n" + orjson.dumps(event(Timestamp=1795158000999)))
    assert (len(out.calls.calls), out.calls.rejected[0].position) == (2, "line 2")
    assert "CANARY" not in all_text(out)
    with pytest.raises(BadPayload):
        read("cloudflare", b"\x1f\x8bCANARY")


def test_a_refused_request_failed_and_used_nothing() -> None:
    found = record("cloudflare", event(RateLimited=True, StatusCode=429))
    assert (found["status"], found["error_type"], found["usage"]) == ("error", "http_429", {"status": "none"})


def test_a_row_of_the_logs_api_is_a_call() -> None:
    payload = {
        "result": [log(), log(id="2", model="text-embedding-3-small", path="v1/embeddings", tokens_out=0), 7],
        "success": True,
    }
    out = read("cloudflare", payload)
    chat, embedding = (orjson.loads(orjson.dumps(call.record)) for call in out.calls.calls)
    assert chat["usage"] == {"status": "reported", "input_tokens": 1200, "output_tokens": 340}
    assert (chat["cost"]["amount"], chat["duration_ms"], chat["request_id"]) == (
        "0.0064",
        1500,
        "01JD0000000000000000000000",
    )
    assert (chat["attribution"]["user"], chat["attribution"]["team"]) == ("user-ana", "team-alpha")
    assert embedding["operation"] == "embeddings"
    assert out.calls.rejected[0].position == "result[2]"
    assert "CANARY" not in all_text(out)


@pytest.mark.parametrize(("custom", "known"), [(False, False), (True, True)])
def test_a_cost_of_0_is_an_unknown_price_unless_the_caller_set_it(custom: Any, known: Any) -> None:
    assert ("cost" in record("cloudflare", log(cost=0, custom_cost=custom))) is known


def test_a_cached_row_repeats_its_tokens_and_bills_nothing() -> None:
    found = record("cloudflare", log(cached=True, cost=0))
    assert (found["billed"], found["cost"]["amount"], found["usage"]["input_tokens"]) == (False, "0", 1200)


def test_a_failed_row_has_no_usage() -> None:
    found = record("cloudflare", {"result": log(success=False, status_code=500, tokens_in=0, tokens_out=0, cost=0)})
    assert (found["status"], found["usage"]) == ("error", {"status": "none"})
