"""Langfuse's batches: events of one observation are one call, its buckets are inclusive counts, and
the answer names every event.
"""

from typing import Any

import pytest

from gateway.common.contract.errors import BadPayload
from gateway.rules.call import UNFINISHED
from gateway.rules.conventions.langfuse_usage import read_usage
from tests.support.source_reading import all_text, read, record, records

AT = "2026-11-20T07:09:50.000Z"
LATER = "2026-11-20T07:09:52.500Z"
TRACE_ID = "03178553-fcb1-4fef-b4fc-82b163a7250a"


def event(kind: str, body: dict[str, Any], *, at: str = AT, event_id: str = "") -> dict[str, Any]:
    return {"id": event_id or f"event-{kind}-{body.get('id')}", "type": kind, "timestamp": at, "body": body}


def create(own_id: str = "g1", **body: Any) -> dict[str, Any]:
    base = {
        "id": own_id,
        "traceId": TRACE_ID,
        "startTime": AT,
        "model": "gpt-5-mini",
        "input": "CANARY",
        "name": "CANARY",
    }
    return event("generation-create", {**base, **body})


def update(own_id: str = "g1", **body: Any) -> dict[str, Any]:
    base = {
        "id": own_id,
        "traceId": TRACE_ID,
        "endTime": LATER,
        "output": "CANARY",
        "usageDetails": {"input": 9, "output": 4},
    }
    return event("generation-update", {**base, **body}, at=LATER)


def trace(**body: Any) -> dict[str, Any]:
    return event("trace-create", {"id": TRACE_ID, "input": "CANARY", "name": "CANARY", "tags": ["CANARY"], **body})


def batch(*events: Any, **more: Any) -> dict[str, Any]:
    metadata = {"batch_size": len(events), "sdk_name": "python", "sdk_version": "2.60.10", "public_key": "CANARY"}
    return {"batch": list(events), "metadata": metadata, **more}


WHOLE = batch(
    trace(userId="ana", sessionId="s", metadata={"team": "blue"}), create(), update(costDetails={"total": 0.5})
)


def test_create_and_update_are_one_call_with_all_that_both_say() -> None:
    out = read("langfuse", WHOLE)
    (call,) = out.calls.calls
    found = call.record
    assert (found["request_model"], found["response_model"], found["provider"]) == (
        "gpt-5-mini",
        "gpt-5-mini",
        "openai",
    )
    assert (found["started_at"], found["duration_ms"]) == (AT, 2500)
    assert found["cost"] == {"amount": "0.5", "currency": "USD", "source": "reported", "price_version": None}
    assert found["attribution"] == {"key": "gateway-key", "user": "ana", "session": "s", "team": "blue"}
    assert found["request_id"] == "g1"
    assert found["flags"] == []
    assert (out.calls.items, out.calls.ignored) == (2, 1)
    assert "CANARY" not in all_text(out)


@pytest.mark.parametrize("events", [[update(), create()], [create(), update(), create(), update()]])
def test_order_and_repeats_within_a_batch_say_nothing(events: list[Any]) -> None:
    assert record("langfuse", batch(*events))["usage"] == record("langfuse", batch(create(), update()))["usage"]
    assert record("langfuse", batch(*events))["duration_ms"] == 2500


def test_a_later_update_goes_over_an_earlier_one_and_null_over_nothing() -> None:
    first, last = update(usageDetails={"input": 1, "output": 1}), update(model=None, usageDetails={})
    middle = update()
    last["timestamp"] = "2026-11-20T07:09:53.000Z"
    first["timestamp"] = "2026-11-20T07:09:51.000Z"
    found = record("langfuse", batch(create(), last, middle, first))
    assert (found["usage"]["input_tokens"], found["request_model"]) == (9, "gpt-5-mini")


def test_parts_in_several_requests_have_one_identity() -> None:
    (begun,), (ended,) = read("langfuse", batch(create())).calls.calls, read("langfuse", batch(update())).calls.calls
    assert begun.record["record_id"] == ended.record["record_id"]
    assert (begun.trace_id, begun.span_id) == (ended.trace_id, ended.span_id)
    assert (begun.record["flags"], begun.record["usage"]["status"]) == (["unfinished"], "missing")
    assert (begun.marks, ended.marks) == (UNFINISHED, 0)
    assert (ended.record["flags"], ended.record["started_at"], ended.record["duration_ms"]) == (
        ["start_unknown"],
        LATER,
        None,
    )


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        (
            {"input": 176, "input_cached_tokens": 1024, "output": 84, "output_reasoning_tokens": 256},
            (1200, 340, 1024, 256),
        ),
        (
            {"input": 176, "input_cached_tokens": 1024, "output": 84, "output_reasoning_tokens": 256, "total": 1540},
            (1200, 340, 1024, 256),
        ),
        # What holds its parts already, as the total shows.
        ({"input": 1200, "cache_read_input_tokens": 1024, "output": 340, "total": 1540}, (1200, 340, 1024, None)),
        ({"input": 1200, "input_cached": 1024, "output": 84, "reasoning": 256, "total": 1540}, (1200, 340, 1024, 256)),
        ({"input": 176, "output": 340, "total": 1540, "cache_read_input_tokens": 1024}, (1200, 340, 1024, None)),
        (
            {
                "prompt_tokens": 1200,
                "completion_tokens": 340,
                "total_tokens": 1540,
                "prompt_tokens_details": {"cached_tokens": 1024, "audio_tokens": None},
                "completion_tokens_details": {"reasoning_tokens": 256},
            },
            (1200, 340, 1024, 256),
        ),
        (
            {
                "input_tokens": 1200,
                "output_tokens": 340,
                "input_tokens_details": {"cached_tokens": 1024},
                "output_tokens_details": {"reasoning_tokens": 256},
                "total_tokens": 1540,
            },
            (1200, 340, 1024, 256),
        ),
        ({"input_tokens": 57, "output_tokens": 231, "cache_read_input_tokens": 4096}, (4153, 231, 4096, None)),
        ({"promptTokens": 12, "completionTokens": 3, "totalTokens": 15}, (12, 3, None, None)),
        ({"input_modality_TEXT": 7, "input_cached_modality_TEXT": 5, "output_modality_TEXT": 2}, (12, 2, 5, None)),
        ({"input": 12}, (12, None, None, None)),
    ],
)
def test_buckets_become_inclusive_counts(details: dict[str, Any], expected: tuple[int | None, ...]) -> None:
    usage = record("langfuse", batch(create(), update(usageDetails=details)))["usage"]
    assert (
        usage.get("input_tokens"),
        usage.get("output_tokens"),
        usage.get("cache_read_input_tokens"),
        usage.get("reasoning_output_tokens"),
    ) == expected


def test_cache_writes_audio_and_unknown_units_are_kept_apart() -> None:
    details = {
        "input": 5,
        "input_cache_creation": 20,
        "input_audio_tokens": 3,
        "output": 2,
        "output_audio": 1,
        "searches": 4,
    }
    found = read_usage(details)
    assert found.counts == {
        "input": 28,
        "output": 3,
        "cache_creation": 20,
        "audio_input": 3,
        "audio_output": 1,
    }
    assert found.other == {"searches": 4}


def test_the_older_usage_counts_by_its_unit() -> None:
    tokens = {"input": 10, "output": 5, "total": 15, "unit": "TOKENS", "inputCost": 0.1, "outputCost": 0.2}
    found = record("langfuse", batch(create(usage=tokens)))
    assert (found["usage"]["input_tokens"], found["cost"]["amount"]) == (10, "0.3")
    found = record("langfuse", batch(create(usage={**tokens, "totalCost": 0.25, "unit": "CHARACTERS"})))
    assert "input_tokens" not in found["usage"]
    assert found["usage"]["other"] == {"input_characters": 10, "output_characters": 5, "total_characters": 15}
    assert found["cost"]["amount"] == "0.25"


def test_usage_details_go_before_the_older_usage() -> None:
    both = {"usage": {"input": 1, "output": 1, "unit": "TOKENS"}, "usageDetails": {"input": 8, "output": 2}}
    assert record("langfuse", batch(create(**both)))["usage"]["input_tokens"] == 8


def test_costs_are_summed_where_no_total_is_reported() -> None:
    found = record("langfuse", batch(create(), update(costDetails={"input": 0.125, "output": 0.25})))
    assert found["cost"]["amount"] == "0.375"


def test_an_error_is_a_failure_without_its_message() -> None:
    out = read("langfuse", batch(create(), update(level="ERROR", statusMessage="CANARY", usageDetails=None)))
    (call,) = out.calls.calls
    assert (call.record["status"], call.record["error_type"], call.record["response_model"]) == ("error", "error", None)
    assert call.record["usage"] == {"status": "none"}
    assert "CANARY" not in all_text(out)


@pytest.mark.parametrize(
    "made",
    [
        event(
            "embedding-create", {"id": "e", "startTime": AT, "model": "text-embedding-3-small", "usage": {"input": 77}}
        ),
        event(
            "observation-create",
            {"id": "e", "type": "EMBEDDING", "startTime": AT, "model": "m-3", "usageDetails": {"input": 77}},
        ),
        create("e", model="text-embedding-3-small", usageDetails={"input": 77}),
        create("e", model="text-embedding-3-small", usageDetails={"prompt_tokens": 77, "total_tokens": 77}),
    ],
)
def test_embeddings_need_no_output(made: dict[str, Any]) -> None:
    found = record("langfuse", batch(made))
    assert (found["operation"], found["usage"]["status"], found["usage"]["input_tokens"]) == (
        "embeddings",
        "reported",
        77,
    )


def test_steps_scores_logs_and_unknown_types_are_no_calls() -> None:
    events = [
        *(event(f"{kind}-create", {"id": kind, "input": "CANARY"}) for kind in ("span", "agent", "tool", "retriever")),
        event("span-update", {"id": "span", "usageDetails": {"input": 5}}),
        event("observation-create", {"id": "o", "type": "SPAN"}),
        event("score-create", {"id": "x", "value": 1, "comment": "CANARY"}),
        event("event-create", {"id": "y", "model": "m", "usage": {"input": 4}}),
        event("sdk-log", {"log": "CANARY"}),
        event("something-new", {"id": "z", "usage": {"input": 4}}),
    ]
    out = read("langfuse", batch(*events))
    assert out.calls.calls == []
    assert (out.calls.suppressed, out.calls.ignored) == ({"not_a_call": 5}, 4)
    assert len(out.calls.links) == 5
    assert len(out.answer["successes"]) == len(events)  # type: ignore[arg-type]


def test_the_answer_names_each_event_and_what_to_correct() -> None:
    events = [
        create(),
        "CANARY",
        {"id": "bad", "type": "generation-create", "body": "CANARY"},
        create("g2", startTime="1970-01-01T00:00:00Z"),
    ]
    out = read("langfuse", batch(*events))
    assert out.answer["successes"] == [{"id": "event-generation-create-g1", "status": 201}]
    assert [(error["id"], error["status"]) for error in out.answer["errors"]] == [  # type: ignore[attr-defined]
        ("unknown", 400),
        ("bad", 400),
        ("event-generation-create-g2", 400),
    ]
    assert out.answer["errors"][1]["error"] == "batch[2]: an event needs a type (text) and a body (object)"  # type: ignore[index]
    assert "CANARY" not in all_text(out)


@pytest.mark.parametrize("body", [{}, {"batch": "CANARY"}, {"batch": {}}, 7, "CANARY", ["CANARY"]])
def test_a_body_that_is_no_batch_is_refused(body: Any) -> None:
    with pytest.raises(BadPayload, match="batch") as refused:
        read("langfuse", body)
    assert "CANARY" not in str(refused.value)


def test_an_empty_batch_and_a_bare_event_are_read() -> None:
    assert read("langfuse", {"batch": []}).calls.ignored == 1
    assert len(records("langfuse", create())) == 1
    assert len(records("langfuse", [create(), update()])) == 1


def test_nested_generations_are_known_by_their_parents() -> None:
    out = read(
        "langfuse",
        batch(
            event("span-create", {"id": "s", "parentObservationId": "top"}),
            create("inner", parentObservationId="s"),
            create("top"),
        ),
    )
    inner, top = sorted(out.calls.calls, key=lambda call: call.record["request_id"] or "")
    (step,) = out.calls.links
    assert step == top.trace_id + inner.parent_span_id + top.span_id


def test_litellms_ids_and_names_are_understood() -> None:
    metadata = {
        "user_api_key_user_id": "ana",
        "user_api_key_team_id": "team-alpha",
        "user_api_key_alias": "prod-key",
        "cache_hit": True,
        "requester_metadata": "CANARY",
    }
    made = create(
        "time-10-11-12-123456_chatcmpl-9", metadata=metadata, usageDetails={"input": 5, "output": 2}, endTime=LATER
    )
    out = read("langfuse", batch(trace(userId="end-user"), made))
    found = out.calls.calls[0].record
    assert (found["response_id"], found["billed"], found["flags"]) == ("chatcmpl-9", False, ["gateway_cache_hit"])
    assert found["attribution"]["user"] == "ana"
    assert (found["attribution"]["team"], found["attribution"]["labels"]) == ("team-alpha", {"virtual_key": "prod-key"})
    assert "CANARY" not in all_text(out)


def test_tags_and_environment_say_where() -> None:
    tags = ["env:prod", "team:blue", "project:shop", "CANARY", "team:no words please", 7, None, "user:CANARY"]
    out = read("langfuse", batch(trace(tags=tags, environment="default"), create()))
    who = out.calls.calls[0].record["attribution"]
    assert (who["environment"], who["team"], who["project"]) == ("prod", "blue", "shop")
    assert "CANARY" not in all_text(out)
    assert records("langfuse", batch(create(environment="staging")))[0]["attribution"]["environment"] == "staging"


def test_the_first_token_is_timed_from_the_start() -> None:
    streamed = update(completionStartTime="2026-11-20T07:09:50.400Z")
    assert record("langfuse", batch(create(), streamed))["time_to_first_token_ms"] == 400


def test_content_in_every_free_field_goes_no_further() -> None:
    free = {
        "statusMessage": "CANARY",
        "metadata": {"x": "CANARY", "team": {"CANARY": 1}},
        "promptName": "CANARY",
        "version": "CANARY",
    }
    parameters = {"modelParameters": {"stop": "CANARY", "service_tier": "CANARY and a sentence"}}
    usage = {"usageDetails": {"CANARY": 4, "input": 1, "output": 1, "Canary tokens": 3}, "costDetails": {"CANARY": 0.1}}
    out = read(
        "langfuse",
        batch(
            trace(metadata={"CANARY": "CANARY"}), create(**free, **parameters), update(**usage, **free), CANARY="CANARY"
        ),
    )
    assert "canary" not in all_text(out).lower()
