"""Rows of Databricks' usage tables."""

from typing import Any

from tests.support.source_reading import all_text, read, record

SERVING: dict[str, Any] = {
    "workspace_id": "123",
    "databricks_request_id": "dbreq-1",
    "requester": "ana@example.com",
    "status_code": 200,
    "request_time": "2026-11-20T07:00:00.000Z",
    "input_token_count": 1200,
    "output_token_count": 340,
    "input_character_count": 4800,
    "usage_context": {"project": "checkout", "end_user": "cust-9", "note": "CANARY"},
    "request_streaming": True,
}
GATEWAY: dict[str, Any] = {
    "request_id": "gw-1",
    "event_time": "2026-11-20 07:00:00.5",
    "endpoint_name": "assistants",
    "destination_model": "claude-sonnet-4-5",
    "service_type": "MODEL_SERVICE",
    "api_type": "mlflow/v1/chat/completions",
    "requester": "ana@example.com",
    "input_tokens": 6201,
    "output_tokens": 231,
    "token_details": {"cache_read_input_tokens": 4096, "cache_creation_input_tokens": 2048},
    "latency_ms": 1500,
    "time_to_first_byte_ms": 300,
    "status_code": 200,
    "request_tags": '{"team": "alpha"}',
    "user_agent": "CANARY",
    "url": "https://x/CANARY",
}


def test_a_row_of_the_serving_table_is_a_call_without_a_model() -> None:
    found = record("databricks", SERVING)
    assert (found["provider"], found["request_model"], found["request_id"], found["stream"]) == (
        "databricks",
        None,
        "dbreq-1",
        True,
    )
    assert found["usage"] == {"status": "reported", "input_tokens": 1200, "output_tokens": 340}
    who = found["attribution"]
    assert (who["user"], who["project"], who["labels"]) == (
        "ana@example.com",
        "checkout",
        {"workspace": "123", "customer": "cust-9"},
    )
    assert "CANARY" not in all_text(read("databricks", SERVING))


def test_a_row_of_the_gateway_table_has_the_model_and_the_cache() -> None:
    found = record("databricks", GATEWAY)
    assert (found["request_model"], found["deployment"]) == ("claude-sonnet-4-5", "assistants")
    assert found["usage"]["input_tokens"] == 6201
    assert found["usage"]["cache_read_input_tokens"] == 4096
    assert (found["duration_ms"], found["time_to_first_token_ms"]) == (1500, 300)
    assert found["attribution"]["team"] == "alpha"
    assert "CANARY" not in str(found)


def test_an_input_below_its_cache_parts_leaves_them_out() -> None:
    assert record("databricks", {**GATEWAY, "input_tokens": 57})["usage"]["input_tokens"] == 6201


def test_a_joined_model_is_read() -> None:
    assert record("databricks", {**SERVING, "entity_name": "system.ai.llama-4"})["request_model"] == "system.ai.llama-4"


def test_models_of_another_kind_and_tools_are_ignored_but_a_failure_is_a_call() -> None:
    other = {**SERVING, "input_token_count": None, "output_token_count": None, "input_character_count": None}
    tools = {**GATEWAY, "service_type": "MCP_SERVICE"}
    out = read("databricks", [other, tools, {}, {**other, "status_code": 429}])
    assert out.calls.ignored == 3
    assert out.calls.calls[0].record["usage"] == {"status": "none"}
    assert out.calls.calls[0].record.get("error_type") == "http_429"


def test_characters_without_tokens_are_a_call_of_unknown_usage() -> None:
    assert record("databricks", {**SERVING, "input_token_count": None, "output_token_count": None})["usage"] == {
        "status": "missing"
    }
