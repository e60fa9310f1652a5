"""Portkey's exported log rows."""

from typing import Any

import orjson
import pytest

from tests.support.source_reading import all_text, read, record, records


def row(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "id": "3c90c3cc-0d44-4b50-8888-8dd25736052a",
        "trace_id": "checkout-17",
        "created_at": "2026-11-20T07:00:00.123Z",
        "request": {"messages": "CANARY"},
        "response": {"id": "chatcmpl-PK1", "choices": [{"message": {"content": "CANARY"}}]},
        "is_success": 1,
        "ai_org": "openai",
        "ai_model": "gpt-4o",
        "req_units": 1200,
        "res_units": 340,
        "total_units": 1540,
        "cost": 0.64,
        "cost_currency": "USD",
        "request_url": "https://api.openai.com/v1/chat/completions?key=CANARY",
        "response_status_code": 200,
        "response_time": 1500,
        "cache_status": "MISS",
        "stream_mode": "FALSE",
        "virtual_key": "openai-prod",
        "metadata": {"_user": "user-ana", "team": "team-alpha", "note": "CANARY"},
    }
    return {**base, **changes}


def test_a_row_is_a_call_and_its_cost_is_in_cents() -> None:
    out = read("portkey", row())
    found = record("portkey", row())
    assert (found["provider"], found["request_model"], found["response_id"]) == ("openai", "gpt-4o", "chatcmpl-PK1")
    assert found["usage"] == {"status": "reported", "input_tokens": 1200, "output_tokens": 340}
    assert found["cost"]["amount"] == "0.0064"
    assert found["attribution"]["user"] == "user-ana"
    assert found["attribution"]["team"] == "team-alpha"
    assert found["attribution"]["labels"]["virtual_key"] == "openai-prod"
    assert (found["started_at"], found["duration_ms"], found["stream"]) == ("2026-11-20T07:00:00.123Z", 1500, False)
    assert "CANARY" not in all_text(out)


def test_a_cost_of_0_is_an_unknown_price() -> None:
    assert "cost" not in record("portkey", row(cost=0))


@pytest.mark.parametrize(
    ("status", "billed"), [("HIT", False), ("SEMANTIC HIT", False), ("MISS", True), ("DISABLED", True)]
)
def test_portkeys_own_cache_bills_nothing(status: str, billed: Any) -> None:
    assert record("portkey", row(cache_status=status))["billed"] is billed


@pytest.mark.parametrize(
    ("usage", "units"),
    [
        (  # the older translation of Anthropic's answer: the prompt leaves the cache out
            {
                "prompt_tokens": 57,
                "completion_tokens": 231,
                "total_tokens": 57 + 231 + 4096 + 2048,
                "cache_read_input_tokens": 4096,
                "cache_creation_input_tokens": 2048,
            },
            57,
        ),
        (  # the newer one: the prompt holds it
            {
                "prompt_tokens": 6201,
                "completion_tokens": 231,
                "total_tokens": 6432,
                "prompt_tokens_details": {"cached_tokens": 4096},
                "cache_read_input_tokens": 4096,
                "cache_creation_input_tokens": 2048,
            },
            6201,
        ),
        (  # Anthropic's own
            {
                "input_tokens": 57,
                "output_tokens": 231,
                "cache_read_input_tokens": 4096,
                "cache_creation_input_tokens": 2048,
            },
            57,
        ),
    ],
)
def test_the_input_of_anthropic_holds_the_cache_whichever_way_it_was_translated(
    usage: dict[str, int], units: int
) -> None:
    found = record(
        "portkey",
        row(
            ai_org="anthropic", ai_model="claude-sonnet-4-5", req_units=units, res_units=231, response={"usage": usage}
        ),
    )
    assert found["usage"]["input_tokens"] == 6201
    assert found["usage"]["cache_read_input_tokens"] == 4096
    assert found["usage"]["cache_creation_input_tokens"] == 2048


def test_a_total_that_adds_the_cache_proves_that_the_prompt_leaves_it_out() -> None:
    usage = {"prompt_tokens": 5000, "completion_tokens": 231, "cache_read_input_tokens": 1024}
    rows = [
        row(id=str(total), ai_org="anthropic", req_units=5000, response={"usage": {**usage, "total_tokens": total}})
        for total in (5000 + 231 + 1024, 5000 + 231)
    ]
    assert [found["usage"]["input_tokens"] for found in records("portkey", rows)] == [6024, 5000]


@pytest.mark.parametrize("changes", [{"is_success": 0}, {"is_success": False}, {"response_status_code": 429}])
def test_a_failure_has_no_usage(changes: dict[str, Any]) -> None:
    error = {"error": {"message": "CANARY", "type": "rate_limit_error"}}
    out = read("portkey", row(req_units=0, res_units=0, total_units=0, cost=0, response=error, **changes))
    (call,) = out.calls.calls
    assert (call.record["status"], call.record["error_type"]) == ("error", "rate_limit_error")
    assert call.record["usage"] == {"status": "none"}
    assert "CANARY" not in all_text(out)


def test_the_older_flat_columns_are_read() -> None:
    flat = row(
        **{
            "response.body": '{"id": "chatcmpl-2", "object": "chat.completion"}',
            "metadata.key": ["_user"],
            "metadata.value": ["user-bo"],
        }
    )
    del flat["response"], flat["metadata"]
    found = record("portkey", flat)
    assert (found["response_id"], found["attribution"]["user"]) == ("chatcmpl-2", "user-bo")


def test_rows_may_be_in_an_envelope_or_one_a_line() -> None:
    assert len(read("portkey", {"object": "list", "data": [row(), row(id="2"), 3]}).calls.calls) == 2
    body = b"\n".join(orjson.dumps(each) for each in (row(), row(id="2")))
    assert len(read("portkey", body).calls.calls) == 2


def test_an_embedding_is_known_by_the_address_that_was_called() -> None:
    found = record("portkey", row(request_url="https://api.openai.com/v1/embeddings", res_units=0, req_units=77))
    assert (found["operation"], found["usage"]["input_tokens"]) == ("embeddings", 77)


def test_a_row_without_an_id_is_known_by_what_it_says() -> None:
    plain = row()
    del plain["id"]
    assert record("portkey", plain)["record_id"] == record("portkey", plain)["record_id"]
    assert record("portkey", plain)["record_id"] != record("portkey", {**plain, "res_units": 341})["record_id"]


def test_spans_are_read_in_an_array_and_outside_their_envelope() -> None:
    span = {
        "traceId": "5b8efff798038103d269b633813fc60c",
        "spanId": "eee19b7ec3c1b174",
        "name": "chat gpt-4o",
        "startTimeUnixNano": "1795158000000000000",
        "endTimeUnixNano": "1795158001500000000",
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
            {"key": "gen_ai.request.model", "value": {"stringValue": "gpt-4o"}},
            {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "1200"}},
            {"key": "gen_ai.usage.output_tokens", "value": {"intValue": 340}},
        ],
    }
    envelope = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    bare, wrapped = record("portkey", span), record("portkey", [envelope])
    assert bare["record_id"] == wrapped["record_id"]
    assert wrapped["usage"]["input_tokens"] == 1200
    assert read("portkey", [{"resourceSpans": 7}]).calls.rejected[0].reason == "not_otlp"
