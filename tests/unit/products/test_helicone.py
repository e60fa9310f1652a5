"""Helicone's webhook and its request rows."""

from typing import Any

import orjson
import pytest

from tests.support.source_reading import CONTEXT, all_text, read, record

TOO_LARGE = "Body too large for webhook, please fetch the full request and response from Helicone"
ZERO = "00000000-0000-0000-0000-000000000000"


def webhook(answer: Any, **changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "request_id": "4f3a0a76-9b4f-4a2b-8f5e-8f1f0c3d2e11",
        "request_body": '{"model": "gpt-4o-mini", "stream": true, "user": "user-ana", "messages": [{"content": "CANARY"}]}',
        "response_body": answer if isinstance(answer, str) else orjson.dumps(answer).decode(),
        "request_response_url": "https://bucket.example/CANARY",
        "model": "gpt-4o-mini-2024-07-18",
        "provider": "OPENAI",
        "metadata": {
            "cost": 0.000384,
            "promptTokens": 176,
            "completionTokens": 84,
            "totalTokens": 260,
            "latencyMs": 1500,
        },
    }
    return {**base, **changes}


def row(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "request_id": "4f3a0a76-9b4f-4a2b-8f5e-8f1f0c3d2e11",
        "request_created_at": "2026-11-20T07:00:00.000Z",
        "response_created_at": "2026-11-20T07:00:01.500Z",
        "response_status": 200,
        "request_path": "https://oai.helicone.ai/v1/chat/completions?key=CANARY",
        "request_user_id": "user-ana",
        "request_properties": {"Environment": "prod", "Team": "team-alpha", "note": "CANARY"},
        "request_model": "gpt-4o-mini",
        "response_model": "gpt-4o-mini-2024-07-18",
        "provider": "OPENAI",
        "delay_ms": 1500,
        "time_to_first_token": 300,
        "prompt_tokens": 176,
        "prompt_cache_read_tokens": 1024,
        "prompt_cache_write_tokens": 0,
        "completion_tokens": 340,
        "total_tokens": 516,
        "cost": 0.000384,
        "cache_reference_id": ZERO,
        "request_body": {"messages": "CANARY"},
        "response_body": {},
    }
    return {**base, **changes}


OPENAI = {
    "id": "chatcmpl-H1",
    "model": "gpt-4o-mini-2024-07-18",
    "choices": [{"finish_reason": "stop", "message": {"content": "CANARY"}}],
    "usage": {
        "prompt_tokens": 1200,
        "completion_tokens": 340,
        "prompt_tokens_details": {"cached_tokens": 1024},
        "completion_tokens_details": {"reasoning_tokens": 256},
    },
}


def test_the_providers_answer_goes_before_helicones_own_counts() -> None:
    out = read("helicone", webhook(OPENAI))
    found = record("helicone", webhook(OPENAI))
    assert found["usage"] == {
        "status": "reported",
        "input_tokens": 1200,
        "cache_read_input_tokens": 1024,
        "output_tokens": 340,
        "reasoning_output_tokens": 256,
    }
    assert (found["provider"], found["request_model"], found["response_model"]) == (
        "openai",
        "gpt-4o-mini",
        "gpt-4o-mini-2024-07-18",
    )
    assert (found["response_id"], found["stream"], found["finish_reason"]) == ("chatcmpl-H1", True, "stop")
    assert found["attribution"]["user"] == "user-ana"
    assert "CANARY" not in all_text(out)


def test_a_report_without_a_time_has_that_of_its_receipt() -> None:
    found = record("helicone", webhook(OPENAI))
    assert (found["started_at"], found["flags"], found["duration_ms"]) == (CONTEXT.received_at, ["received_time"], 1500)


def test_anthropics_input_is_completed_by_its_cache() -> None:
    usage = {
        "input_tokens": 57,
        "output_tokens": 231,
        "cache_read_input_tokens": 4096,
        "cache_creation_input_tokens": 2048,
    }
    answer = {"id": "msg_1", "model": "claude-sonnet-4-5", "type": "message", "usage": usage, "stop_reason": "end_turn"}
    found = record("helicone", webhook(answer, provider="ANTHROPIC", model="claude-sonnet-4-5"))
    assert (found["usage"]["input_tokens"], found["usage"]["output_tokens"]) == (6201, 231)


def test_geminis_thoughts_are_output() -> None:
    usage = {
        "promptTokenCount": 1800,
        "cachedContentTokenCount": 640,
        "candidatesTokenCount": 150,
        "thoughtsTokenCount": 90,
    }
    answer = {"usageMetadata": usage, "modelVersion": "gemini-2.5-flash", "candidates": [{"finishReason": "STOP"}]}
    found = record("helicone", webhook(answer, provider="GOOGLE", model="gemini-2.5-flash"))
    assert (found["usage"]["input_tokens"], found["usage"]["output_tokens"]) == (1800, 240)
    assert found["usage"]["reasoning_output_tokens"] == 90


def test_a_body_that_was_replaced_by_a_sentence_leaves_helicones_counts() -> None:
    found = record("helicone", webhook(TOO_LARGE, request_body=TOO_LARGE))
    assert found["usage"] == {"status": "reported", "input_tokens": 176, "output_tokens": 84}
    assert found["request_model"] == "gpt-4o-mini-2024-07-18"


@pytest.mark.parametrize("metadata", [{"promptTokens": 0, "completionTokens": 0, "cost": 0, "latencyMs": 5}, None, {}])
def test_counts_of_0_are_unknown(metadata: Any) -> None:
    found = record("helicone", webhook(TOO_LARGE, metadata=metadata))
    assert found["usage"] == {"status": "missing"}
    assert "cost" not in found


def test_an_answer_that_is_an_error_is_a_failure() -> None:
    out = read(
        "helicone",
        webhook({"error": {"message": "CANARY", "type": "insufficient_quota"}}, metadata={"promptTokens": 0}),
    )
    (call,) = out.calls.calls
    assert (call.record["status"], call.record["error_type"]) == ("error", "insufficient_quota")
    assert call.record["usage"] == {"status": "none"}
    assert "CANARY" not in all_text(out)


def test_the_standard_payload_without_metadata_is_a_call() -> None:
    found = record(
        "helicone",
        {"request_id": "1", "user_id": "user-bo", "request_body": "{}", "response_body": orjson.dumps(OPENAI).decode()},
    )
    assert (found["provider"], found["attribution"]["user"]) == ("openai", "user-bo")


def test_a_row_adds_the_cache_to_its_prompt() -> None:
    found = record("helicone", {"data": [row()], "error": None})
    assert found["usage"] == {
        "status": "reported",
        "input_tokens": 1200,
        "cache_read_input_tokens": 1024,
        "output_tokens": 340,
    }
    assert (found["started_at"], found["duration_ms"]) == ("2026-11-20T07:00:00.000Z", 1500)
    assert found["time_to_first_token_ms"] == 300
    assert (found["attribution"]["team"], found["attribution"]["environment"]) == ("team-alpha", "prod")
    assert found["flags"] == []


def test_a_rows_prompt_leaves_the_cache_out_however_large_it_is() -> None:
    assert record("helicone", row(prompt_tokens=5000))["usage"]["input_tokens"] == 6024


def test_helicones_cache_bills_nothing() -> None:
    hit = row(
        cache_reference_id="11111111-2222-3333-4444-555555555555",
        prompt_tokens=0,
        completion_tokens=0,
        response_body=OPENAI,
    )
    found = record("helicone", hit)
    assert (found["billed"], found["usage"]["input_tokens"]) == (False, 1200)


@pytest.mark.parametrize(("status", "usage"), [(429, "none"), (500, "none"), (-1, "missing"), (-3, "missing")])
def test_a_row_with_a_bad_status_failed(status: int, usage: str) -> None:
    found = record(
        "helicone",
        row(response_status=status, prompt_tokens=0, completion_tokens=0, prompt_cache_read_tokens=0, total_tokens=0),
    )
    assert (found["status"], found["usage"]) == ("error", {"status": usage})


def test_webhook_and_row_of_one_request_are_one_report() -> None:
    assert record("helicone", webhook(OPENAI))["record_id"] == record("helicone", row())["record_id"]


def test_what_is_no_request_is_ignored() -> None:
    assert read("helicone", {"event_type": "ping"}).calls.ignored == 1


@pytest.mark.parametrize(("total", "read"), [(260, 170), (240, 150)])
def test_what_geminis_tools_read_is_input_where_the_total_holds_it(total: int, read: int) -> None:
    usage = {
        "promptTokenCount": 150,
        "candidatesTokenCount": 60,
        "thoughtsTokenCount": 30,
        "toolUsePromptTokenCount": 20,
    }
    answer = {"modelVersion": "gemini-2.5-pro", "usageMetadata": {**usage, "totalTokenCount": total}}
    made = record("helicone", webhook(answer, model="gemini-2.5-pro", provider="GOOGLE"))
    assert (made["usage"]["input_tokens"], made["usage"]["output_tokens"]) == (read, 90)


def test_an_answer_cut_inside_an_emoji_states_its_usage() -> None:
    answer = '{"id": "chatcmpl-9", "choices": [{"message": "CANARY \\ud83d"}], "usage": {"prompt_tokens": 7, "completion_tokens": 5}}'
    made = record("helicone", webhook(answer))
    assert (made["response_id"], made["usage"]["input_tokens"]) == ("chatcmpl-9", 7)
