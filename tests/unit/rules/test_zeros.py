"""0 input and 0 output tokens of a call that answered are a library's initial values: unknown."""

from typing import Any

import orjson
import pytest

from gateway.cli.normalising import records_of_payloads
from tests.unit.rules.spans import SPAN_ID, record_of, request

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o", "gen_ai.response.id": "r1"}
INPUT, OUTPUT = "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"
READ = "gen_ai.usage.cache_read.input_tokens"
WRITTEN = "gen_ai.usage.cache_creation.input_tokens"
REASONING = "gen_ai.usage.reasoning.output_tokens"
TOTAL = "gen_ai.usage.total_tokens"


@pytest.mark.parametrize("operation", ["chat", "generate_content", "text_completion", "responses", "some_new_name"])
@pytest.mark.parametrize(
    "sent",
    [
        {INPUT: 0, OUTPUT: 0},
        {INPUT: "0", OUTPUT: "0", TOTAL: "0"},
        {INPUT: 0},
        {OUTPUT: 0},
        {INPUT: 0, OUTPUT: 0, READ: 0, WRITTEN: 0, REASONING: 0},
    ],
)
def test_zero_tokens_of_a_call_that_answered_are_unknown(operation: str, sent: dict[str, Any]) -> None:
    record = record_of(CHAT | {"gen_ai.operation.name": operation} | sent)
    assert record["usage"] == {"status": "missing"}
    assert record["flags"] == []


def test_a_total_with_zeros_is_kept_as_a_bare_one() -> None:
    usage = record_of(CHAT | {INPUT: 0, OUTPUT: 0, TOTAL: 120})["usage"]
    assert usage == {"status": "missing", "other": {"total_tokens": 120}}


def test_a_cost_of_zero_for_unknown_tokens_is_unknown_too() -> None:
    free = {"gen_ai.usage.cost": 0.0}
    assert "cost" not in record_of(CHAT | {INPUT: 0, OUTPUT: 0} | free)
    assert record_of(CHAT | {INPUT: 100, OUTPUT: 20} | free)["cost"]["amount"] == "0"
    assert record_of(CHAT | {INPUT: 0, OUTPUT: 0, "gen_ai.usage.cost": 0.5})["cost"]["amount"] == "0.5"


@pytest.mark.parametrize(
    ("sent", "stated"),
    [
        ({INPUT: 0, OUTPUT: 0, READ: 600}, (600, 0)),
        ({INPUT: 0, OUTPUT: 0, WRITTEN: 300}, (300, 0)),
        ({INPUT: 0, OUTPUT: 0, REASONING: 50}, (0, 50)),
        ({INPUT: 100, OUTPUT: 0}, (100, 0)),
        ({INPUT: 0, OUTPUT: 20}, (0, 20)),
        ({INPUT: 0, OUTPUT: 0, "gen_ai.response.cache_hit": True}, (0, 0)),
    ],
)
def test_a_zero_with_what_is_known_stays(sent: dict[str, Any], stated: tuple[int, int]) -> None:
    usage = record_of(CHAT | sent)["usage"]
    assert (usage["status"], usage["input_tokens"], usage["output_tokens"]) == ("reported", *stated)


def test_embeddings_have_no_output() -> None:
    sent = {"gen_ai.operation.name": "embeddings", INPUT: 8, OUTPUT: 0}
    assert record_of(CHAT | sent)["usage"] == {"status": "reported", "input_tokens": 8, "output_tokens": 0}


def test_zeros_of_a_failure_are_no_usage() -> None:
    sent = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o", INPUT: 0, OUTPUT: 0}
    assert record_of(sent, status=2)["usage"] == {"status": "none"}


@pytest.mark.parametrize("zeros_first", [True, False])
@pytest.mark.parametrize(
    "other",
    [
        {"scope": "another", "trace_id": bytes([9] * 16), "span_id": bytes([9] * 8)},
        {"scope": "another", "span_id": bytes([9] * 8), "parent_span_id": SPAN_ID},
        {"scope": "some.scope"},
    ],
    ids=["one response id", "below it", "the same span"],
)
async def test_another_report_with_usage_completes_zeros(other: dict[str, Any], *, zeros_first: bool) -> None:
    reports = [request(CHAT | {INPUT: 0, OUTPUT: 0}), request(CHAT | {INPUT: 100, OUTPUT: 20}, **other)]
    bodies = [body.SerializeToString() for body in (reports if zeros_first else reports[::-1])]
    records, _, _ = await records_of_payloads([(body, "/v1/traces", "application/x-protobuf", "") for body in bodies])
    (record,) = map(orjson.loads, records)
    usage = record["usage"]
    assert (usage["status"], usage["input_tokens"], usage["output_tokens"]) == ("reported", 100, 20)
    assert "conflict" not in record["flags"]
