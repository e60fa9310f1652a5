"""Calls of scopes that no table knows: usage in events, and in texts of answers by its shape."""

from typing import Any

import orjson
import pytest

from gateway.read.otlp_protobuf import decode_traces
from gateway.rules.call import Normalised
from gateway.rules.conventions.shapes import usage_by_shape
from gateway.rules.traces import normalise_traces
from tests.support.steps import steps_of
from tests.unit.rules.spans import CONTEXT, key_values, normalised, record_of, request

CANARY = "CANARY-9Z"
OPENAI: dict[str, Any] = {
    "completion_tokens": 1009,
    "prompt_tokens": 2003,
    "total_tokens": 3012,
    "completion_tokens_details": {"reasoning_tokens": 103},
    "prompt_tokens_details": {"cached_tokens": 601},
}
ANTHROPIC: dict[str, Any] = {
    "cache_creation": {"ephemeral_1h_input_tokens": 100, "ephemeral_5m_input_tokens": 301},
    "cache_creation_input_tokens": 401,
    "cache_read_input_tokens": 601,
    "input_tokens": 1001,
    "output_tokens": 1009,
}
REPLY = {"content": CANARY, "meta": {"model": "gpt-4o-2024-08-06", "usage": OPENAI}}


def printed(usage: dict[str, Any]) -> str:
    fields = ", ".join(f"{k}={printed(v) if isinstance(v, dict) else v!r}" for k, v in usage.items())
    return f"CompletionUsage({fields})"


FORMS = {
    "json": orjson.dumps({"replies": [REPLY]}).decode(),
    "python": repr({"replies": [REPLY]}),
    "printed in json": orjson.dumps({"replies": [f"ChatMessage(text='{CANARY}', _meta={REPLY['meta']!r})"]}).decode(),
    "json in printed": f"Result(text='{CANARY}', raw={orjson.dumps(orjson.dumps(REPLY).decode()).decode()})",
    "printed objects": f"ChatCompletion(id='chatcmpl-abcdef12', model='gpt-4o-2024-08-06', usage={printed(OPENAI)})",
}


@pytest.mark.parametrize("form", FORMS)
def test_the_text_of_an_answer_makes_a_span_of_an_unknown_scope_a_call(form: str) -> None:
    record = record_of({"my.component.output": FORMS[form]}, scope="my.framework")
    assert record["usage"] == {
        "status": "reported", "input_tokens": 2003, "output_tokens": 1009, "cache_read_input_tokens": 601,
        "reasoning_output_tokens": 103,
    }  # fmt: skip
    assert (record["provider"], record["response_model"]) == ("openai", "gpt-4o-2024-08-06")
    assert (record["source"]["convention"], record["flags"]) == ("shape", ["unknown_convention"])
    assert CANARY not in str(record)


def test_a_providers_object_proves_what_its_input_holds() -> None:
    record = record_of({"result": repr({"model": "claude-sonnet-4-5-20250929", "usage": ANTHROPIC})}, scope="x")
    assert record["usage"]["input_tokens"] == 2003
    assert record["usage"]["cache_creation_1h_input_tokens"] == 100


@pytest.mark.parametrize(
    "text",
    [
        orjson.dumps([REPLY, {"meta": {"usage": OPENAI | {"prompt_tokens": 5, "total_tokens": 1014}}}]).decode(),
        orjson.dumps({"usage": {"prompt_tokens": 5, "completion_tokens": 3}}).decode(),
        orjson.dumps({"usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 9}}).decode(),
        "my prompt_tokens: 5 and no more",
        "prompt_tokens: 5.5, completion_tokens: 3.5, total_tokens: 9",
        orjson.dumps({"usage": {"prompt_tokens": 10**14, "completion_tokens": 3, "total_tokens": 10**14 + 3}}).decode(),
    ],
    ids=["two calls", "no proof", "a total that does not add up", "words", "fractions", "no count"],
)
def test_what_may_be_no_call_or_several_is_left(text: str) -> None:
    out = normalised({"my.output": text}, scope="my.framework")
    assert (out.calls, out.ignored) == ([], 1)


@pytest.mark.parametrize("name", ["http.response.body", "db.statement", "my.input", "my.prompt"])
def test_texts_of_other_work_and_of_requests_are_not_read(name: str) -> None:
    attributes = {name: FORMS["json"]} | ({} if name.startswith("my.") else {"my.output": FORMS["json"]})
    out = normalised(attributes, scope="my.framework")
    assert (out.calls, out.ignored) == ([], 1)


def with_events(*events: tuple[str, dict[str, Any]], status: int = 0) -> Normalised:
    message = request({}, scope="my.framework", status=status)
    span = message.resource_spans[0].scope_spans[0].spans[0]
    for name, attributes in events:
        span.events.add(name=name, attributes=key_values(attributes))
    return normalise_traces(decode_traces(message.SerializeToString()), CONTEXT)


START = ("LLMChatStartEvent", {"messages": CANARY, "model_dict.model_name": "gpt-4o"})
NAMES = {"response.raw.id": "chatcmpl-1", "response.raw.model": "gpt-4o-2024-08-06", "response.raw.choices": CANARY}
USAGE = {"response.raw.usage.prompt_tokens": 2003, "response.raw.usage.completion_tokens": 1009}
CACHE = {"response.raw.usage.prompt_tokens_details.cached_tokens": 601}


def test_usage_in_an_event_makes_a_call() -> None:
    (call,) = with_events(START, ("LLMChatEndEvent", NAMES | USAGE | CACHE)).calls
    record = call.record
    assert (record["request_model"], record["response_model"]) == ("gpt-4o", "gpt-4o-2024-08-06")
    assert (record["response_id"], record["usage"]["cache_read_input_tokens"]) == ("chatcmpl-1", 601)
    assert (record["usage"]["input_tokens"], record["usage"]["output_tokens"]) == (2003, 1009)
    assert CANARY not in str(record)


def test_an_answer_without_usage_is_a_call_whose_usage_is_missing() -> None:
    (call,) = with_events(START, ("LLMChatEndEvent", NAMES)).calls
    assert call.record["usage"] == {"status": "missing"}


def test_a_failure_is_a_call_where_its_model_is_known() -> None:
    (call,) = with_events(START, ("exception", {"exception.type": "openai.RateLimitError"}), status=2).calls
    assert (call.record["status"], call.record["error_type"]) == ("error", "openai.RateLimitError")
    assert with_events(("exception", {"exception.type": "ValueError"}), status=2).calls == []
    assert with_events(START).calls == []


def test_entities_name_provider_and_model() -> None:
    entities = {
        "entity.1.type": "inference.openai", "entity.2.type": "model.llm.gpt-4o", "span.type": "inference",
    }  # fmt: skip
    assert normalised(entities, scope="monocle").calls == []
    record = record_of(entities, scope="monocle", status=2, exception="openai.RateLimitError")
    assert (record["provider"], record["request_model"], record["status"]) == ("openai", "gpt-4o", "error")


def test_four_times_the_text_is_four_times_the_steps() -> None:
    one = "".join(f'"a_{i}_tokens": {i}, "prompt_tokens": 5, ' for i in range(500))
    few, many = (steps_of(lambda text=text: usage_by_shape(text)) for text in (one, one * 4))  # type: ignore[misc]  # at once
    assert many < 6 * few
