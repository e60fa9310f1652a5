"""Usage in one attribute: a map, or a JSON text, under a name that states that it is usage."""

from typing import Any

import orjson
import pytest

from gateway.read.otlp_json import decode_traces_json
from gateway.rules.record import record_json
from gateway.rules.traces import normalise_traces
from tests.unit.rules import log_records
from tests.unit.rules.spans import CONTEXT, END_NS, SPAN_ID, START_NS, TRACE_ID, normalised, record_of

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"}
SHAPES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"input_tokens": 100, "output_tokens": 20}, {}),
    ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}, {}),
    ({"promptTokens": "100", "completionTokens": "20"}, {}),
    ({"tokensIn": 100.0, "tokensOut": 20.0}, {}),
    ({"input": 100, "output": 20}, {}),
    ({"prompt_tokens": 0, "input_tokens": 100, "output_tokens": 20, "completion_tokens": 0}, {}),
    (
        {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 64}},
        {"cache_read_input_tokens": 64},
    ),
    (
        {"input_tokens": 100, "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 8}},
        {"reasoning_output_tokens": 8},
    ),
    ({"input_tokens": 100, "output_tokens": 20, "cache_read.input_tokens": 64}, {"cache_read_input_tokens": 64}),
    ({"input_tokens": 100, "output_tokens": 20, "input_tokens.cached": 64}, {"cache_read_input_tokens": 64}),
]


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("name", ["gen_ai.usage", "usage", "llm.usage"])
@pytest.mark.parametrize(("sent", "more"), SHAPES)
def test_nested_usage_is_read_flagged_and_counted(
    sent: dict[str, Any], more: dict[str, int], name: str, *, as_text: bool
) -> None:
    value = orjson.dumps(sent).decode() if as_text else sent
    out = normalised(CHAT | {name: value}, scope="my.library")
    (call,) = out.calls
    assert call.record["usage"] == {"status": "reported", "input_tokens": 100, "output_tokens": 20, **more}
    assert call.record["flags"] == ["unknown_convention"]
    assert out.unknown_conventions == {"my.library": 1}


def test_a_log_may_state_it_too() -> None:
    out = log_records.normalised({"model": "gpt-4o", "usage": {"input_tokens": 100, "output_tokens": 20}}, scope="mine")
    (call,) = out.calls
    assert call.record["usage"] == {"status": "reported", "input_tokens": 100, "output_tokens": 20}
    assert (call.record["request_model"], out.unknown_conventions) == ("gpt-4o", {"mine": 1})


def test_a_reported_cost_comes_along() -> None:
    record = record_of(CHAT | {"gen_ai.usage": {"input_tokens": 5, "output_tokens": 2, "cost": 0.25}})
    assert record["cost"] == {"amount": "0.25", "currency": "USD", "source": "reported", "price_version": None}


def test_usage_under_names_of_its_own_goes_before_and_is_no_unknown_convention() -> None:
    own = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 20}
    record = record_of(CHAT | own | {"gen_ai.usage": {"input_tokens": 1, "output_tokens": 1}})
    assert record["usage"] == {"status": "reported", "input_tokens": 100, "output_tokens": 20}
    assert record["flags"] == []


@pytest.mark.parametrize(
    "value",
    ["usage: tool [options]", "{not json", "[1, 2]", '{"input_tokens": "many"}', {"help": "text"}, {}, 7, ["a"], True],
)
def test_what_is_no_usage_makes_no_call(value: Any) -> None:
    assert normalised({"usage": value}, name="GET /").ignored == 1


def test_no_text_of_the_map_is_kept() -> None:
    usage = {
        "input_tokens": 5,
        "output_tokens": 2,
        "prompt": "CANARY",
        "CANARY": 1,
        "deep": {"CANARY-2": {"x": "CANARY", "y": 3}},
    }
    for value in (usage, orjson.dumps(usage).decode()):
        record = record_of(CHAT | {"gen_ai.usage": value})
        assert record["usage"] == {"status": "reported", "input_tokens": 5, "output_tokens": 2}
        assert b"CANARY" not in record_json(record)


def test_json_payloads_carry_maps_too() -> None:
    def number(key: str, value: int) -> dict[str, Any]:
        return {"key": key, "value": {"intValue": str(value)}}

    usage = {"kvlistValue": {"values": [number("input_tokens", 100), number("output_tokens", 20)]}}
    span = {
        "traceId": TRACE_ID.hex(),
        "spanId": SPAN_ID.hex(),
        "name": "chat",
        "startTimeUnixNano": str(START_NS),
        "endTimeUnixNano": str(END_NS),
        "attributes": [
            {"key": "gen_ai.request.model", "value": {"stringValue": "gpt-4o"}},
            {"key": "gen_ai.usage", "value": usage},
        ],
    }
    body = orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
    (call,) = normalise_traces(decode_traces_json(body), CONTEXT).calls
    assert call.record["usage"] == {"status": "reported", "input_tokens": 100, "output_tokens": 20}


def test_deep_and_wide_maps_are_bounded() -> None:
    deep: Any = {"input_tokens": 1}
    for _ in range(20):
        deep = {"x": deep}
    wide = {f"n{i}": i for i in range(500)}
    assert normalised({"usage": deep}, name="GET /").ignored == 1
    assert record_of(CHAT | {"usage": {"input_tokens": 5, "output_tokens": 2, **wide}})["usage"] == {
        "status": "missing"
    }
