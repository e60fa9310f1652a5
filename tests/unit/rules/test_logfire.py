"""Logfire's own instrumentations, as its published source writes their spans."""

from typing import Any

import pytest

from gateway.common.operations import rfc3339
from gateway.rules.call import STREAM_PART, UNFINISHED, Call
from gateway.rules.conventions.logfire import LOGFIRE, SCOPES
from tests.unit.rules.spans import END_NS, START_NS, normalised

CANARY = "CANARY-7Q-PROMPT"
REQUEST: dict[str, Any] = {
    "logfire.span_type": "span",
    "logfire.msg": "Chat Completion with 'gpt-4o'",
    "request_data": '{"model":"gpt-4o","stream":true,"messages":[{"content":"' + CANARY + '"}]}',
    "gen_ai.provider.name": "openai",
    "gen_ai.system": "openai",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.response.model": "gpt-4o",
    "gen_ai.operation.name": "chat",
    "gen_ai.request.max_tokens": 111,
    "gen_ai.request.temperature": 0.3,
    "gen_ai.input.messages": CANARY,
    "async": False,
}
READ = REQUEST | {
    "logfire.span_type": "log",
    "duration": 0.5,
    "gen_ai.usage.input_tokens": 100,
    "gen_ai.usage.output_tokens": 20,
}
END_NAME = "streaming response from {request_data[model]!r} took {duration:.2f}s"


def one(attributes: dict[str, Any], name: str = "Chat Completion with {request_data[model]!r}", **rest: Any) -> Call:
    out = normalised(attributes, scope="logfire.openai", name=name, **rest)
    assert len(out.calls) == 1, out
    assert CANARY not in repr(out)
    return out.calls[0]


def test_a_stream_is_its_request_and_its_reading_with_one_identity() -> None:
    begin = one(REQUEST)
    end = one(READ, END_NAME, start_time_unix_nano=END_NS, end_time_unix_nano=END_NS)
    assert begin.marks == STREAM_PART | UNFINISHED
    assert begin.record["flags"] == ["unfinished"]
    assert end.marks == STREAM_PART
    assert end.record["flags"] == []
    assert begin.session == end.session != 0
    assert end.record["duration_ms"] == 500
    assert end.record["started_at"] == rfc3339(END_NS // 1_000_000 - 500)
    assert (begin.record["response_model"], end.record["response_model"]) == (None, None)


def test_another_request_has_another_identity() -> None:
    assert one(REQUEST).session != one(REQUEST | {"gen_ai.request.temperature": 0.4}).session
    assert one(REQUEST).session == one(REQUEST | {"gen_ai.input.messages": "another text"}).session


@pytest.mark.parametrize(
    "more",
    [
        {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 20},
        {"gen_ai.response.id": "chatcmpl-1"},
        {"gen_ai.response.finish_reasons": ["stop"]},
        {"gen_ai.operation.name": "embeddings"},
        {"gen_ai.operation.name": "image_generation"},
    ],
    ids=["usage", "response id", "finish reason", "embeddings", "images"],
)
def test_a_call_that_is_not_streamed_is_whole(more: dict[str, Any]) -> None:
    assert one(REQUEST | more).marks == 0


def test_a_call_that_failed_is_whole() -> None:
    call = one(REQUEST, status=2, exception="openai.RateLimitError")
    assert (call.marks, call.record["flags"]) == (0, [])


def test_an_end_of_an_older_release_is_a_call_without_an_operation() -> None:
    older = {key: value for key, value in READ.items() if not key.startswith("gen_ai.")}
    call = one(older | {"gen_ai.request.model": "gpt-4o"}, END_NAME, end_time_unix_nano=START_NS)
    assert (call.marks, call.record["usage"]["status"]) == (STREAM_PART, "missing")


@pytest.mark.parametrize("duration", [-1.0, 1e12, "soon", float("nan")])
def test_a_duration_that_is_none_is_left_out(duration: float | str) -> None:
    call = one(READ | {"duration": duration}, END_NAME, start_time_unix_nano=END_NS, end_time_unix_nano=END_NS)
    assert call.record["duration_ms"] == 0


def test_only_its_own_instrumentations_are_read_so() -> None:
    assert SCOPES == ("logfire.openai", "logfire.anthropic")
    assert LOGFIRE.name == "gen_ai"
    assert normalised(REQUEST, scope="another").calls[0].marks == 0
