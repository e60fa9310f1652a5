"""The gateway's own records, taken again."""

from typing import Any

import orjson
import pytest

from gateway.cli.normalising import records_of_payloads
from gateway.rules.context import KEEP_USERS, Context, UserPolicy
from spool.record import FLAGS, Flag
from tests.support.source_reading import CONTEXT, all_text, read, record

PATH = "/v1/sources/records"


def made(**changes: Any) -> dict[str, Any]:
    return {
        "schema": "inference/1",
        "record_id": "0123456789abcdef0123456789abcdef",
        "kind": "call",
        "billed": True,
        "source": {"format": "otlp.traces", "convention": "gen_ai", "library": "opentelemetry.instrumentation.openai", "library_version": "1.2"},
        "operation": "chat",
        "provider": "openai",
        "request_model": "gpt-5-mini",
        "response_model": "gpt-5-mini-2026-08-01",
        "response_id": "chatcmpl-1",
        "started_at": "2026-11-20T07:00:00.000Z",
        "duration_ms": 1526,
        "usage": {"status": "reported", "input_tokens": 1200, "output_tokens": 340, "other": {"gen_ai.usage.images": 2}},
        "cost": {"amount": "0.000749600000000001", "currency": "EUR", "source": "reported", "price_version": None},
        "status": "ok",
        "attribution": {"service_name": "checkout", "user": "ana", "team": "alpha", "key": "edge", "labels": {"cost_center": "c1"}},
        "trace": {"trace_id": "5b8efff798038103d269b633813fc60c", "span_id": "eee19b7ec3c1b174", "parent_span_id": None},
        "received_at": "2026-11-20T07:00:09.000Z",
        "flags": ["late"],
        **changes,
    }  # fmt: skip


def test_a_record_is_kept_as_it_is() -> None:
    assert record("records", made()) == made()


@pytest.mark.parametrize("flag", FLAGS)
def test_every_flag_survives_forwarding(flag: Flag) -> None:
    """But `unpriced` of a call, which the receiving gateway sets again unless it has a price."""
    kept = record("records", made(flags=[flag]))["flags"]
    assert kept == ([] if flag == "unpriced" else [flag])


def test_all_flags_together_survive_forwarding_in_their_order() -> None:
    flags = [flag for flag in FLAGS if flag != "unpriced"]
    assert record("records", made(flags=flags))["flags"] == flags


def test_unknown_fields_are_dropped_at_every_depth() -> None:
    sent = made(prompt="CANARY")
    for part in ("source", "usage", "cost", "attribution", "trace"):
        sent[part] = {**sent[part], "note": "CANARY", "other.note": "CANARY"}
    sent["usage"]["other"] = {"CANARY note": 1, "gen_ai.usage.images": 2}
    sent["flags"] = ["late", "CANARY"]
    assert record("records", sent) == made()
    assert "CANARY" not in all_text(read("records", sent))


@pytest.mark.parametrize(
    ("change", "reason", "place"),
    [
        ({"schema": "inference/9"}, "unknown_schema", "schema"),
        ({"record_id": "CANARY"}, "invalid_field", "record_id"),
        ({"record_id": None}, "missing_field", "record_id"),
        ({"kind": "event"}, "invalid_field", "kind"),
        ({"kind": "aggregate"}, "missing_field", "period"),
        ({"billed": 1}, "invalid_field", "billed"),
        ({"request_model": "CANARY is a sentence, which no model is called."}, "invalid_field", "request_model"),
        ({"started_at": 17}, "invalid_field", "started_at"),
        ({"started_at": "1970-01-01T00:00:00Z"}, "invalid_field", "started_at"),
        ({"duration_ms": -1}, "invalid_field", "duration_ms"),
        ({"usage": {"status": "reported", "input_tokens": True}}, "invalid_field", "usage.input_tokens"),
        ({"usage": {"status": "reported", "input_tokens": "12"}}, "invalid_field", "usage.input_tokens"),
        ({"usage": {"input_tokens": 12}}, "missing_field", "usage.status"),
        ({"usage": []}, "invalid_field", "usage"),
        ({"cost": {"amount": 0.1, "currency": "USD", "source": "reported"}}, "invalid_field", "cost.amount"),
        ({"cost": {"amount": "1e3", "currency": "USD", "source": "reported"}}, "invalid_field", "cost.amount"),
        ({"cost": {"amount": "-1", "currency": "USD", "source": "reported"}}, "invalid_field", "cost.amount"),
        ({"attribution": {"user": 7}}, "invalid_field", "attribution.user"),
        ({"attribution": {"labels": {"a b": "x"}}}, "invalid_field", "attribution.labels"),
        ({"trace": {"trace_id": "xyz"}}, "invalid_field", "trace.trace_id"),
        ({"error_type": "CANARY said no"}, "invalid_field", "error_type"),
    ],
)
def test_a_broken_field_is_named_and_its_value_is_not(change: dict[str, Any], reason: str, place: str) -> None:
    out = read("records", [made(), made(**change)])
    assert len(out.calls.calls) == 1
    assert [(x.reason, x.position) for x in out.calls.rejected] == [(reason, f"[1].{place}")]
    assert "CANARY" not in all_text(out)


def test_what_the_key_fixes_goes_over() -> None:
    context = CONTEXT._replace(key_fixes={"label.cost_center": "fixed", "environment": "prod"})
    who = record("records", made(), context)["attribution"]
    assert (who["team"], who["environment"]) == ("alpha", "prod")
    assert who["labels"] == {"cost_center": "fixed"}
    assert who["key"] == "edge"


def test_the_user_goes_through_this_gateways_policy() -> None:
    dropped = Context(CONTEXT.received_at_ms, CONTEXT.received_at, users=UserPolicy("drop"))
    assert "user" not in record("records", made(), dropped)["attribution"]
    assert record("records", made(), dropped._replace(users=KEEP_USERS))["attribution"]["user"] == "ana"


async def taken(*payloads: Any) -> tuple[list[dict[str, Any]], dict[str, int]]:
    found, _, outcomes = await records_of_payloads([(orjson.dumps(x), PATH, "application/json", "") for x in payloads])
    return [orjson.loads(x) for x in found], outcomes


async def test_a_record_from_two_gateways_is_one() -> None:
    found, outcomes = await taken(made(), [made(), made(record_id="f" * 32, trace=None, response_id=None)])
    assert sorted(x["record_id"] for x in found) == ["0123456789abcdef0123456789abcdef", "f" * 32]
    assert outcomes["duplicate"] == 1


async def test_unbilled_stays_unbilled_and_a_cost_stays_as_it_was() -> None:
    hit = made(record_id="a" * 32, trace=None, response_id=None, billed=False, flags=["gateway_cache_hit"],
               cost={"amount": "0", "currency": "USD", "source": "reported", "price_version": None})  # fmt: skip
    found, _ = await taken([made(), hit])
    by_id = {x["record_id"]: x for x in found}
    assert by_id["a" * 32]["billed"] is False
    assert by_id["0123456789abcdef0123456789abcdef"]["cost"]["amount"] == "0.000749600000000001"


async def test_an_aggregate_is_taken_as_it_is_and_once() -> None:
    summed = made(
        kind="aggregate", cost=None, trace=None, response_id=None, duration_ms=None, calls=3,
        usage={"status": "aggregate", "input_tokens": 12, "output_tokens": 3},
        period={"start": "2026-11-20T07:00:00.000Z", "end": "2026-11-20T07:01:00.000Z"},
    )  # fmt: skip
    found, outcomes = await taken(summed, summed, made(record_id="b" * 32, trace=None))
    (aggregate,) = [x for x in found if x["kind"] == "aggregate"]
    assert aggregate == {name: value for name, value in summed.items() if name not in {"cost", "trace"}}
    assert (len(found), outcomes["duplicate"]) == (2, 1)
