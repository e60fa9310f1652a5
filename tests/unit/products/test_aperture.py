"""Tailscale Aperture's hook."""

from typing import Any

import pytest

from tests.support.source_reading import all_text, read, record


def hook(**changes: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "login_name": "user-ana@example.com",
        "user_agent": "CANARY",
        "url": "https://aperture.example/v1/messages?key=CANARY",
        "model": "claude-sonnet-4-5",
        "provider": "anthropic",
        "tailnet_name": "example.ts.net",
        "stable_node_id": "nSTABLE123",
        "request_id": "req_abc123",
        "session_id": "sess_xyz789",
        "grants": {"example.com/cap": [{"department": "CANARY"}]},
        "estimated_cost": {
            "dollars": 0.0042,
            "cost_basis": "anthropic/claude-sonnet-4-5",
            "usage": {
                "input_tokens": 6201,
                "output_tokens": 231,
                "cached_tokens": 4096,
                "cache_creation_input_tokens": 2048,
            },
        },
    }
    return {
        "metadata": {**metadata, **changes.pop("metadata", {})},
        "user_message": "CANARY",
        "tool_calls": [{"name": "CANARY", "params": {"x": "CANARY"}}],
        "request_body": {"messages": [{"content": "CANARY"}]},
        "raw_responses": [{"delta": "CANARY"}],
        **changes,
    }


def test_a_hook_with_its_cost_is_a_call() -> None:
    out = read("aperture", hook())
    found = record("aperture", hook())
    assert found["usage"] == {
        "status": "reported",
        "input_tokens": 6201,
        "cache_read_input_tokens": 4096,
        "cache_creation_input_tokens": 2048,
        "output_tokens": 231,
    }
    assert (found["provider"], found["request_model"], found["operation"]) == ("anthropic", "claude-sonnet-4-5", "chat")
    assert (found["cost"]["amount"], found["request_id"]) == ("0.0042", "req_abc123")
    assert found["flags"] == ["basis_assumed", "received_time"]
    attribution = found["attribution"]
    assert (attribution["user"], attribution["session"]) == ("user-ana@example.com", "sess_xyz789")
    assert attribution["labels"] == {"tailnet": "example.ts.net", "node": "nSTABLE123"}
    assert "CANARY" not in all_text(out)


def test_the_providers_answer_states_whether_the_input_holds_the_cache() -> None:
    usage = {"input_tokens": 57, "output_tokens": 231, "cached_tokens": 4096, "cache_creation_input_tokens": 2048}
    answer = {
        "id": "msg_1",
        "model": "claude-sonnet-4-5",
        "content": "CANARY",
        "usage": {
            "input_tokens": 57,
            "cache_read_input_tokens": 4096,
            "cache_creation_input_tokens": 2048,
            "output_tokens": 231,
        },
    }
    found = record("aperture", hook(metadata={"estimated_cost": {"usage": usage}}, response_body=answer))
    assert (found["usage"]["input_tokens"], found["response_id"]) == (6201, "msg_1")
    large = {**usage, "input_tokens": 10_000}
    assert record("aperture", hook(metadata={"estimated_cost": {"usage": large}}))["usage"]["input_tokens"] == 10_000


def test_without_an_estimate_the_answer_is_the_usage_and_without_both_it_is_unknown() -> None:
    bare = hook(metadata={"estimated_cost": None})
    answer = {"usage": {"prompt_tokens": 12, "completion_tokens": 5}}
    assert record("aperture", {**bare, "response_body": answer})["usage"]["input_tokens"] == 12
    assert record("aperture", bare)["usage"] == {"status": "missing"}


def test_an_answer_that_is_an_error_is_a_failure() -> None:
    bare = hook(
        metadata={"estimated_cost": None}, response_body={"error": {"type": "overloaded_error", "message": "CANARY"}}
    )
    found = record("aperture", bare)
    assert (found["status"], found["error_type"], found["usage"]) == ("error", "overloaded_error", {"status": "none"})


def test_two_hooks_of_one_request_are_one_report() -> None:
    before = hook(metadata={"estimated_cost": None})
    assert record("aperture", before)["record_id"] == record("aperture", hook())["record_id"]


@pytest.mark.parametrize("payload", [{}, {"metadata": {}}, {"metadata": {"model": 7}}, {"metadata": "CANARY"}])
def test_what_names_no_model_is_ignored(payload: Any) -> None:
    out = read("aperture", payload)
    assert (out.calls.ignored, out.calls.items) == (1, 1)
    assert "CANARY" not in all_text(out)
