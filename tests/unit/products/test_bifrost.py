"""Rows of Bifrost's own log."""

from typing import Any

import pytest

from tests.support.source_reading import all_text, read, record, records


def row(**changes: Any) -> dict[str, Any]:
    return {
        "id": "log-1",
        "timestamp": "2026-11-20T07:00:00.123456789Z",
        "object": "chat.completion",
        "provider": "openai",
        "model": "gpt-5-mini",
        "alias": "fast",
        "status": "success",
        "latency": 1526.4,
        "stream": False,
        "cost": 0.0007496,
        "virtual_key_id": "vk-1",
        "virtual_key_name": "alpha-prod",
        "team_id": "team-alpha",
        "customer_id": "cust-9",
        "stop_reason": "stop",
        "token_usage": {
            "prompt_tokens": 1200,
            "prompt_tokens_details": {"cached_read_tokens": 1024},
            "completion_tokens": 340,
            "completion_tokens_details": {"reasoning_tokens": 256},
            "total_tokens": 1540,
        },
        "input_history": [{"role": "user", "content": "CANARY"}],
        "output_message": {"content": "CANARY"},
        "content_summary": "CANARY",
        "raw_request": "CANARY",
        "metadata": {"note": "CANARY"},
        **changes,
    }  # fmt: skip


def test_a_row_is_a_call_with_its_cost_and_owner() -> None:
    found = record("bifrost", row())
    assert found["usage"] == {
        "status": "reported", "input_tokens": 1200, "output_tokens": 340, "cache_read_input_tokens": 1024, "reasoning_output_tokens": 256,
    }  # fmt: skip
    assert found["cost"] == {"amount": "0.0007496", "currency": "USD", "source": "reported", "price_version": None}
    assert found["attribution"]["team"] == "team-alpha"
    assert found["attribution"]["labels"] == {"virtual_key": "alpha-prod", "customer": "cust-9"}
    assert (found["duration_ms"], found["finish_reason"], found["started_at"]) == (
        1526,
        "stop",
        "2026-11-20T07:00:00.123Z",
    )
    assert "CANARY" not in all_text(read("bifrost", row()))


def test_a_page_of_the_logs_api_and_a_message_of_its_feed_hold_rows() -> None:
    assert len(records("bifrost", {"logs": [row(), row(id="log-2")], "stats": {}, "pagination": {}})) == 2
    assert len(records("bifrost", {"type": "log", "payload": row()})) == 1
    assert [x.position for x in read("bifrost", {"logs": [row(), "CANARY"]}).calls.rejected] == ["logs[1]"]


def test_a_row_in_progress_is_no_report_yet_and_other_requests_are_no_calls() -> None:
    out = read("bifrost", [row(status="processing"), row(object="list_models"), row(object="mcp_tool_execution"), {}])
    assert out.calls.suppressed == {"in_progress": 1}
    assert out.calls.ignored == 3


@pytest.mark.parametrize(
    ("sent", "operation"),
    [("embedding", "embeddings"), ("chat_completion_stream", "chat"), ("chat.completion.chunk", "chat"), ("responses_stream", "chat"),
     ("text.completion", "text_completion"), ("transcription_stream", "transcription"), ("speech", "speech"), ("rerank", "rerank")],
)  # fmt: skip
def test_the_request_type_is_the_operation(sent: str, operation: str) -> None:
    assert record("bifrost", row(object=sent))["operation"] == operation


def test_an_answer_from_the_semantic_cache_is_not_billed() -> None:
    found = record("bifrost", row(cache_debug={"cache_hit": True, "hit_type": "semantic"}))
    assert found["billed"] is False
    assert found["cost"]["amount"] == "0"


def test_a_failure_is_named_by_its_type_and_never_by_its_message() -> None:
    details = {"status_code": 429, "error": {"type": "rate_limit_error", "message": "CANARY"}}
    found = record("bifrost", row(status="error", stop_reason=None, token_usage=None, cost=None, error_details=details))
    assert (found["status"], found["error_type"], found["usage"]) == ("error", "rate_limit_error", {"status": "none"})
    assert "CANARY" not in str(found)
