"""Senders that no table knows: the kind that a span states, usage under names of their own, and
what must not be read as a call's.
"""

from typing import Any

import orjson
import pytest

from gateway.read.otlp_protobuf import decode_traces
from gateway.rules.conventions.choose import by_names, speak_of_ai
from gateway.rules.traces import normalise_traces
from tests.unit.rules.spans import CONTEXT, key_values, normalised, record_of, request

CANARY = "CANARY-9Z"
OWN = {"acme_meta.prompt_tokens": 2003, "acme_meta.completion_tokens": 1009}


@pytest.mark.parametrize("name", ["acme.span.type", "acme.span_kind", "observation.type", "span_type"])
@pytest.mark.parametrize("kind", ["llm", "LLM", "generation", "Kind.MODEL"])
def test_a_failed_span_that_states_that_it_is_a_models_call_is_one(name: str, kind: str) -> None:
    attributes = {name: kind, "acme.llm.model": "gpt-4o"}
    record = record_of(attributes, scope="acme", status=2, exception="openai.RateLimitError")
    assert (record["status"], record["error_type"]) == ("error", "openai.RateLimitError")
    assert (record["request_model"], record["usage"]) == ("gpt-4o", {"status": "none"})


@pytest.mark.parametrize("kind", ["agent", "Tool", "chain", "workflow", "Kind.RETRIEVER"])
def test_a_step_by_its_kind_is_no_call_whatever_usage_it_repeats(kind: str) -> None:
    attributes = {"acme.span.type": kind, "acme.usage.prompt_tokens": 5, "acme.usage.completion_tokens": 7}
    out = normalised(attributes, scope="acme")
    assert (out.calls, out.suppressed["not_a_call"]) == ([], 1)


@pytest.mark.parametrize("name", ["span.kind", "span.type", "otel.span.kind", "elastic.span.type", "db.span.type"])
def test_a_protocols_kind_states_nothing(name: str) -> None:
    out = normalised({name: "llm", "acme.model": "gpt-4o"}, scope="acme", status=2)
    assert (out.calls, out.ignored) == ([], 1)


@pytest.mark.parametrize("kind", ["chat", "model", "completion", "inference"])
def test_a_failed_span_of_a_kind_that_other_work_has_too_needs_a_model(kind: str) -> None:
    assert normalised({"acme.span.type": kind}, scope="acme", status=2, exception="KeyError").calls == []
    assert record_of({"acme.span.type": kind, "acme.model": "gpt-4o"}, scope="acme", status=2)["status"] == "error"


def test_a_span_of_no_kind_of_ai_is_ignored() -> None:
    out = normalised({"acme.span.type": "function", "acme.output": f"{CANARY} 5"}, scope="acme")
    assert (out.calls, out.ignored) == ([], 1)


def test_a_span_around_a_call_that_names_another_model_is_none() -> None:
    assert normalised({"acme.span.type": "llm", "acme.model": "smart"}, scope="acme").calls == []


def test_the_kind_completes_what_the_text_of_an_answer_states() -> None:
    usage = {"prompt_tokens": 2003, "completion_tokens": 1009, "total_tokens": 3012}
    text = orjson.dumps([{"id": "chatcmpl-abcdef123", "content": CANARY, "model": "gpt-4o-2024-08-06", "usage": usage}])
    record = record_of({"span_type": "LLM", "output": text.decode()}, scope="acme")
    assert (record["usage"]["input_tokens"], record["usage"]["output_tokens"]) == (2003, 1009)
    assert normalised({"span_type": "Tool", "output": text.decode()}, scope="acme").calls == []


def test_usage_under_names_of_its_own_is_read_where_only_content_has_names_of_a_convention() -> None:
    answer = {"id": "chatcmpl-abcdef123", "object": "chat.completion", "model": "gpt-4o-2024-08-06",
              "choices": [{"message": {"content": CANARY}}],
              "usage": {"prompt_tokens": 2003, "completion_tokens": 1009, "total_tokens": 3012}}  # fmt: skip
    attributes = {
        "gen_ai.prompt": orjson.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": CANARY}]}).decode(),
        "gen_ai.completion": orjson.dumps(answer).decode(),
        "acme.usage.prompt_tokens": 2003,
        "acme.usage.completion_tokens": 1009,
    }
    record = record_of(attributes, scope="acme")
    assert (record["request_model"], record["response_model"]) == ("gpt-4o", "gpt-4o-2024-08-06")
    assert (record["response_id"], record["usage"]["input_tokens"]) == ("chatcmpl-abcdef123", 2003)
    assert CANARY not in str(record)


@pytest.mark.parametrize("word", ["non_cached_input_tokens", "uncached_input_tokens", "noCacheTokens"])
def test_an_input_whose_name_leaves_the_cache_out_is_completed(word: str) -> None:
    attributes: dict[str, Any] = {f"acme.usage.{word}": 1001, "acme.usage.output_tokens": 9}
    parts = {"acme.usage.cache_read_input_tokens": 601, "acme.usage.cache_creation_input_tokens": 401}
    model = {"acme.llm.model": "claude-sonnet-4-5"}
    assert record_of({**attributes, **model}, scope="acme")["usage"]["input_tokens"] == 1001
    record = record_of({**attributes, **parts, **model}, scope="acme")
    assert (record["usage"]["input_tokens"], record["flags"]) == (2003, ["unknown_convention"])
    whole = record_of({**attributes, **parts, **model, "acme.usage.input_tokens": 2003}, scope="acme")
    assert (whole["usage"]["input_tokens"], whole["flags"]) == (2003, ["unknown_convention"])


@pytest.mark.parametrize(
    "more", [{"acme_meta.total_tokens": 3012}, {"acme_config.model": "gpt-4o"}, {"acme.span.type": "llm"}]
)
def test_an_input_and_an_output_under_any_path_are_a_call_where_something_shows_that_they_are_one(more: Any) -> None:
    record = record_of({**OWN, **more}, scope="acme")
    assert (record["usage"]["input_tokens"], record["usage"]["output_tokens"]) == (2003, 1009)
    assert "unknown_convention" in record["flags"]


@pytest.mark.parametrize(
    "attributes",
    [
        OWN,
        {**OWN, "acme_meta.total_tokens": 9},
        {"acme_meta.prompt_tokens": 2003, "other_meta.completion_tokens": 1009, "acme_config.model": "gpt-4o"},
        {"budget.prompt_tokens": 9, "budget.completion_tokens": 9, "acme_config.model": "gpt-4o"},
        {"acme.session.prompt_tokens": 9, "acme.session.completion_tokens": 9, "acme_config.model": "gpt-4o"},
        {"limits.max.input_tokens": 9, "limits.max.output_tokens": 9, "acme_config.model": "gpt-4o"},
        {"x.cumulative_token_count.prompt": 9, "x.cumulative_token_count.completion": 9, "x.model": "gpt-4o"},
    ],
)
def test_numbers_that_may_be_a_limit_or_a_sum_are_no_call(attributes: dict[str, Any]) -> None:
    assert normalised(attributes, scope="acme").calls == []


def test_a_number_is_read_by_its_word_also_where_the_name_says_that_it_is_one() -> None:
    attributes = {"ai.cost.num_prompt_tokens": 2003, "ai.cost.num_completion_tokens": 1009, "ai.cost.model": "gpt-4o"}
    record = record_of(attributes, scope="acme")
    assert (record["usage"]["input_tokens"], record["request_model"]) == (2003, "gpt-4o")


def test_one_model_under_a_name_that_is_open_is_the_one_that_answered_if_it_has_a_date() -> None:
    attributes = {
        "acme.usage.prompt_tokens": 5,
        "acme.usage.completion_tokens": 7,
        "acme.llm.model": "gpt-4o-2024-08-06",
    }
    record = record_of(attributes, scope="acme")
    assert (record["request_model"], record["response_model"]) == (None, "gpt-4o-2024-08-06")


def test_the_parameters_of_a_request_may_be_a_printed_dict() -> None:
    parameters = repr({"temperature": 0, "messages": [{"role": "user", "content": CANARY}], "model": "openai/gpt-4o"})
    attributes = {"llm.token_count.prompt": 5, "llm.token_count.completion": 7, "llm.invocation_parameters": parameters}
    record = record_of(attributes, scope="acme")
    assert (record["request_model"], record["provider"]) == ("gpt-4o", "openai")
    assert CANARY not in str(record)


def test_parts_of_an_object_of_metrics_complete_a_call_with_the_same_usage() -> None:
    known = {
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.usage.prompt_tokens": 2003,
        "gen_ai.usage.completion_tokens": 1009,
    }
    metrics = {"prompt_tokens": 2003, "completion_tokens": 1009, "reasoning_tokens": 103}
    record = record_of({**known, "acme.metrics": orjson.dumps(metrics).decode()}, scope="acme")
    assert record["usage"]["reasoning_output_tokens"] == 103
    other = record_of({**known, "acme.metrics": orjson.dumps({**metrics, "prompt_tokens": 9}).decode()}, scope="acme")
    assert "reasoning_output_tokens" not in other["usage"]


def test_the_operations_name_is_no_model() -> None:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "chat", "gen_ai.usage.input_tokens": 5,
                  "gen_ai.usage.output_tokens": 7, "gen_ai.response.model": "gpt-4o-2024-08-06"}  # fmt: skip
    record = record_of(attributes, scope="acme")
    assert (record["request_model"], record["response_model"]) == (None, "gpt-4o-2024-08-06")


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.request.type": "embedding", "gen_ai.request.model": "voyage-3", "gen_ai.usage.prompt_tokens": 5},
        {"gen_ai.request.model": "text-embedding-3-small", "gen_ai.usage.prompt_tokens": 5},
        {"span_type": "Embedding", "llm.model": "voyage-3", "llm.usage.prompt_tokens": 5},
    ],
)
def test_embeddings_are_known_by_type_model_and_kind(attributes: dict[str, Any]) -> None:
    record = record_of(attributes, scope="acme")
    assert (record["operation"], record["usage"]) == ("embeddings", {"status": "reported", "input_tokens": 5})


def test_users_and_sessions_of_a_librarys_own_names_are_found() -> None:
    attributes = {"gen_ai.response.id": "r-1", "gen_ai.request.model": "gpt-4o", "acme.session_id": "s-7",
                  "acme.user_id": "u-7"}  # fmt: skip
    who = record_of(attributes, scope="acme")["attribution"]
    assert (who["session"], who["user"]) == ("s-7", "u-7")
    foreign = {"gen_ai.response.id": "r-1", "aws.session_id": "s-7", "db.user_id": "u-7"}
    who = record_of(foreign, scope="acme")["attribution"]
    assert (who.get("session"), who.get("user")) == (None, None)


def test_of_the_events_of_a_stream_the_furthest_counts() -> None:
    message = request({"acme.span.type": "llm", "acme.llm.model": "gpt-4o"}, scope="acme")
    for output in (1, 500, 1009, 20):
        event = message.resource_spans[0].scope_spans[0].spans[0].events.add(name="chunk")
        event.attributes.extend(key_values({"prompt_tokens": 2003, "completion_tokens": output}))
    (call,) = normalise_traces(decode_traces(message.SerializeToString()), CONTEXT).calls
    assert (call.record["usage"]["input_tokens"], call.record["usage"]["output_tokens"]) == (2003, 1009)


def test_an_applications_log_of_tokens_under_any_path_is_no_call() -> None:
    for names in (("acme_meta.prompt_tokens", "acme_meta.completion_tokens"), ("acme.span.type",)):
        assert by_names(names) is not None
        assert not speak_of_ai(names)


@pytest.mark.parametrize("part", ["a_", "a-", "a.", "span_", "._", "session_", "usage."])
def test_a_long_name_costs_no_more_than_its_length(part: str) -> None:
    """A name that made a regular expression try all ways would not end."""
    for ending in ("", "x", "type", "kind", "id", "metrics", "tokens"):
        name = part * (120 // len(part)) + ending
        normalised({name: "llm", "gen_ai.request.model": "gpt-4o"}, scope="acme")
        normalised({name: "llm", "acme.usage.prompt_tokens": 5}, scope="acme")


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("acme.model.name", "request_model"),
        ("acme.ai.model.id", "request_model"),
        ("acme.llm.request.model", "request_model"),
        ("acme.llm.response.model", "response_model"),
        ("acme.llm.response_model", "response_model"),
    ],
)
def test_a_model_is_found_under_a_name_of_two_words(name: str, field: str) -> None:
    usage = {"acme.usage.prompt_tokens": 5, "acme.usage.completion_tokens": 7}
    record = record_of({**usage, name: "gpt-4o"}, scope="acme")
    assert {each: record[each] for each in ("request_model", "response_model")} == {  # type: ignore[literal-required]
        "request_model": None,
        "response_model": None,
        field: "gpt-4o",
    }
