"""Envoy's access log, whose keys the operator chooses."""

from typing import Any

import orjson
import pytest

from tests.support.source_reading import read, record

LINE = {
    "start_time": "2026-11-20T07:00:00.000Z",
    "duration": 1526,
    "response_code": 200,
    "x-request-id": "r-1",
    "x-envoy-origin-path": "/v1/chat/completions",
}


@pytest.mark.parametrize(
    "said",
    [
        {"genai_model_name": "gpt-4o-mini", "genai_tokens_input": 12, "genai_tokens_output": 3},
        {"genai_model_name": "gpt-4o-mini", "genai_tokens_input": "12", "genai_tokens_output": "3"},
        {"gen_ai.request.model": "gpt-4o-mini", "gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 3},
        {"llm_model_name": "gpt-4o-mini", "llm_input_token": 12, "llm_output_token": 3},
        {"X-AI-EG-MODEL": "gpt-4o-mini", "io.envoy.ai_gateway": {"llm_input_token": 12, "llm_output_token": 3}},
    ],
)
def test_any_spelling_of_the_keys_is_read(said: dict[str, Any]) -> None:
    found = record("envoy-ai-gateway", {**LINE, **said})
    assert (found["request_model"], found["duration_ms"], found["request_id"]) == ("gpt-4o-mini", 1526, "r-1")
    assert found["usage"] == {"status": "reported", "input_tokens": 12, "output_tokens": 3}


def test_a_line_that_a_shipper_wrapped_says_the_same() -> None:
    line = {**LINE, "genai_model_name": "m", "genai_tokens_input": 3, "genai_tokens_output": 4}
    assert record("envoy-ai-gateway", {"log": orjson.dumps(line).decode(), "stream": "stdout"}) == record(
        "envoy-ai-gateway", line
    )


def test_cache_and_reasoning_are_parts_of_the_whole() -> None:
    found = record(
        "envoy-ai-gateway",
        {
            **LINE, "genai_model_name": "m", "genai_tokens_input": 100, "genai_tokens_cached_input": 60,
            "gen_ai.usage.cache_creation.input_tokens": 20, "genai_tokens_output": 9, "llm_reasoning_token": 4,
        },
    )  # fmt: skip
    assert found["usage"]["input_tokens"] == 100
    assert found["usage"]["cache_read_input_tokens"] == 60
    assert found["usage"]["cache_creation_input_tokens"] == 20
    assert found["usage"]["reasoning_output_tokens"] == 4


def test_a_line_without_model_and_tokens_or_of_mcp_is_no_call() -> None:
    plain = {**LINE, "genai_model_name": "-", "genai_tokens_input": "-", "genai_tokens_output": None}
    mcp = {**LINE, "genai_model_name": "m", "genai_tokens_input": 1, "mcp_method": "tools/call"}
    assert read("envoy-ai-gateway", [plain, mcp, LINE, {}]).calls.ignored == 4


@pytest.mark.parametrize(("code", "error"), [(429, "http_429"), (500, "http_500"), (0, "client_closed_request")])
def test_a_failure_without_tokens_used_nothing_that_is_known(code: int, error: str) -> None:
    found = record(
        "envoy-ai-gateway", {**LINE, "response_code": code, "genai_model_name": "m", "genai_tokens_input": None}
    )
    assert (found["status"], found["error_type"], found["usage"]) == ("error", error, {"status": "none"})


def test_calls_that_share_a_propagated_request_id_are_several_and_a_repeat_is_one() -> None:
    first = {**LINE, "genai_model_name": "m", "genai_tokens_input": 10, "genai_tokens_output": 1}
    second = {**first, "start_time": "2026-11-20T07:00:02.000Z"}
    ids = [record("envoy-ai-gateway", line)["record_id"] for line in (first, second, first)]
    assert ids[0] == ids[2] != ids[1]


def test_the_override_is_what_the_backend_was_asked_for_and_the_path_states_the_operation() -> None:
    found = record(
        "envoy-ai-gateway",
        {**LINE, "genai_model_name": "fast", "genai_model_name_override": "text-embedding-3-small",
         "x-envoy-origin-path": "/v1/embeddings?x=CANARY", "genai_tokens_input": 7, "genai_tokens_total": 7,
         "genai_backend_name": "default/openai", "user-agent": "CANARY", "x-forwarded-for": "CANARY"},
    )  # fmt: skip
    assert (found["request_model"], found["operation"], found["provider"]) == (
        "text-embedding-3-small",
        "embeddings",
        "openai",
    )
    assert found["attribution"]["labels"] == {"backend": "default/openai"}
    assert "CANARY" not in str(found)
