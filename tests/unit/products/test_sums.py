"""Sums of a day as points of usage: what a repeated, a grown and a shrunken report add,
through counting and spool.
"""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from gateway.common.contract.intake import Sender
from tests.support.metrics_rig import MetricsRig
from tests.support.source_reading import read
from tests.unit.products.test_litellm import ROW, payload

DAY_MS = 24 * 3600 * 1000
PROXY = Sender(key="litellm", peer="192.0.2.1")


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[MetricsRig]:
    opened = await MetricsRig(tmp_path).open()
    yield opened
    await opened.close()


def day(rig: MetricsRig, **changes: Any) -> dict[str, Any]:
    """A row of the rig's today; names of *changes* are those of the tags."""
    date = rig.clock.now_ms // DAY_MS * DAY_MS // 1000
    return {**ROW, "time/usage_start": date, **{f"resource/tag:{name}": value for name, value in changes.items()}}


async def send(rig: MetricsRig, *rows: dict[str, Any], sender: Sender = PROXY) -> list[dict[str, Any]]:
    """One export of *rows*; the records that come of it."""
    body = orjson.dumps({"month": "2026-11", "operation": "replace_hourly", "data": list(rows)})
    receipt = await rig.intake.source("litellm", body, sender=sender)
    assert not receipt.rejected
    await rig.settle()
    return await rig.records()


async def test_a_day_is_one_record_with_its_calls_and_its_cost(rig: MetricsRig) -> None:
    (found,) = await send(rig, day(rig))
    assert found["usage"] == {
        "status": "aggregate",
        "input_tokens": 120000,
        "output_tokens": 34000,
        "cache_read_input_tokens": 102400,
    }
    assert (found["kind"], found["calls"], found["cost"]["amount"]) == ("aggregate", 100, "0.07496")
    assert (found["source"]["format"], found["source"]["convention"]) == ("source.litellm", "litellm")
    assert (found["provider"], found["request_model"], found["attribution"]["team"]) == (
        "openai",
        "gpt-5-mini",
        "team-alpha",
    )
    start, end = (datetime.fromisoformat(found["period"][name]) for name in ("start", "end"))
    assert end - start == timedelta(days=1)
    assert start.timestamp() * 1000 % DAY_MS == 0
    assert found["started_at"] == found["period"]["start"]
    assert found["flags"] == []


async def test_the_same_export_again_adds_nothing(rig: MetricsRig) -> None:
    await send(rig, day(rig))
    assert await send(rig, day(rig)) == []


async def test_a_day_that_grew_adds_what_came_to_it(rig: MetricsRig) -> None:
    first = await send(rig, day(rig))
    second = await send(rig, day(rig, prompt_tokens="120500", completion_tokens="34100", api_requests="101"))
    third = await send(rig, day(rig, prompt_tokens="120600", completion_tokens="34120", api_requests="102"))
    assert [
        (x["usage"].get("input_tokens"), x["usage"].get("output_tokens"), x["calls"]) for x in (*second, *third)
    ] == [
        (500, 100, 1),
        (100, 20, 1),
    ]
    assert len({x["record_id"] for x in (*first, *second, *third)}) == 3
    assert {x["started_at"] for x in (*second, *third)} == {first[0]["started_at"]}


async def test_a_day_that_shrank_takes_nothing_back_and_counts_nothing_twice(rig: MetricsRig) -> None:
    await send(rig, day(rig))
    assert await send(rig, day(rig, prompt_tokens="100")) == []
    (found,) = await send(rig, day(rig, prompt_tokens="120001"))
    assert found["usage"]["input_tokens"] == 1


async def test_what_was_reported_is_known_after_a_restart_and_weeks_later(rig: MetricsRig) -> None:
    row = day(rig)
    await send(rig, row)
    await rig.reopen()
    assert await send(rig, row) == []
    rig.clock.now_ms += 30 * DAY_MS
    await rig.counting.aggregates.run_maintenance()
    await rig.reopen()
    assert await send(rig, row) == []


async def test_rows_that_only_an_unsent_dimension_distinguishes_are_added(rig: MetricsRig) -> None:
    (found,) = await send(
        rig, day(rig), day(rig, prompt_tokens="1", completion_tokens="2", cache_read_tokens="0", api_requests="1")
    )
    assert (found["usage"]["input_tokens"], found["usage"]["output_tokens"], found["calls"]) == (120001, 34002, 101)


async def test_keys_models_and_days_are_sums_of_their_own(rig: MetricsRig) -> None:
    rows = [day(rig), day(rig, api_key_prefix="b554c6a3"), day(rig, model="gpt-5")]
    rows.append({**rows[0], "time/usage_start": rows[0]["time/usage_start"] - DAY_MS // 1000})
    out = await send(rig, *rows)
    assert sum(found["usage"]["input_tokens"] for found in out) == 4 * 120000
    assert sum(found["calls"] for found in out) == 400


async def test_days_are_suppressed_where_the_same_key_reports_each_call(rig: MetricsRig) -> None:
    now = rig.clock.now_ms / 1000
    call = payload(startTime=now - 1, endTime=now, completionStartTime=now)
    await rig.intake.source("litellm", orjson.dumps(call), sender=PROXY)
    out = await send(rig, day(rig))
    assert [found["kind"] for found in out] == ["call"]
    other = await send(rig, day(rig, api_key_prefix="other"), sender=Sender(key="another", peer="192.0.2.1"))
    assert [found["kind"] for found in other] == ["aggregate"]


async def test_where_both_exports_come_the_one_with_tokens_counts(rig: MetricsRig) -> None:
    start = "2026-11-19T00:00:00Z"
    focus = {
        "BilledCost": "0.07",
        "BillingCurrency": "EUR",
        "ChargePeriodStart": start,
        "ChargePeriodEnd": "2026-11-20T00:00:00Z",
    }
    focus |= {
        "ConsumedQuantity": "100.000000",
        "ConsumedUnit": "Requests",
        "ResourceId": "gpt-5-mini",
        "ProviderName": "openai",
    }
    receipt = await rig.intake.source("litellm", orjson.dumps(focus), sender=PROXY)
    assert not receipt.rejected
    out = await send(rig, day(rig))
    assert [found["calls"] for found in out] == [100]
    assert "input_tokens" in out[0]["usage"]


def test_an_export_without_tokens_states_calls_and_cost() -> None:
    focus = {
        "BilledCost": "0.07",
        "ChargePeriodStart": "2026-11-19T00:00:00Z",
        "ChargePeriodEnd": "2026-11-20T00:00:00Z",
    }
    out = read("litellm", {**focus, "ConsumedQuantity": "100.000000", "ConsumedUnit": "Requests"}).measured
    assert [(point.kind, point.measurements) for point in out.points] == [("cost", 100)]
    silent = read("litellm", {**focus, "BilledCost": "0", "ConsumedQuantity": "3", "ConsumedUnit": "Requests"}).measured
    assert [(point.kind, point.value, point.is_known) for point in silent.points] == [("requests", 3, False)]


@pytest.mark.parametrize("start", [None, "", "CANARY", 0, -1, "1970-01-01", "2199-01-01T00:00:00", 1e300, [1]])
def test_a_row_without_a_day_is_rejected(start: Any) -> None:
    out = read("litellm", {**ROW, "time/usage_start": start}).measured
    assert [(x.reason, x.position) for x in out.rejected] == [("invalid_time", "")]
    assert not out.points


@pytest.mark.parametrize("cost", ["-1", -0.5, "1e300"])
def test_a_cost_that_can_be_none_is_rejected_with_its_row(cost: Any) -> None:
    out = read("litellm", {"month": "2026-11", "data": [{**ROW, "cost/cost": cost}]}).measured
    assert [(x.reason, x.position) for x in out.rejected] == [("invalid_value", "data[0]")]


def test_a_row_that_states_no_number_is_ignored() -> None:
    out = read("litellm", {"time/usage_start": "2026-11-19T00:00:00", "resource/tag:model": "m"}).measured
    assert (out.items, out.ignored) == (1, 1)
