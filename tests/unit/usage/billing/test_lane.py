"""Days are dropped once and whole, again when they change, and what the upstream says about it is
kept.
"""

import sqlite3
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from exporters.clock import SystemClock
from gateway.common import lane_work
from gateway.common.storage.database import Database
from gateway.local_service import web
from gateway.local_service.call import ServiceAnswer, ServiceCall
from gateway.local_service.misbehave import parse_misbehave
from gateway.usage.billing import lane as lanes
from gateway.usage.billing.book import BillingBook
from gateway.usage.billing.lane_store import LANE, BillingLaneStore
from gateway.usage.export import focus
from gateway.usage.sums.tally import HOUR_MS
from spool.record import Batch, Lane
from tests.support.billing_lane import CONNECTION, Homes, homes_in, settings_of
from tests.support.billing_lane import lane_to as lane_at
from tests.support.stores import Home, only_sqlite

from .rig import NOW_MS, TOMORROW_MS, call, count, far_end, none_due, until

TEAM = {"attribution": {"team": "both"}}
lane_to = partial(lane_at, now_ms=lambda: TOMORROW_MS)


@pytest.fixture
async def homes(home: Home) -> Homes:
    return Homes(await home.billing(), await home.sums())


async def test_a_closed_day_is_dropped_once_and_again_when_late_usage_comes(tmp_path: Path, homes: Homes) -> None:
    yesterday = {"ago_h": 24.0}
    await count(homes, call("0.5"), call("0.25", currency="EUR"), call(None), call("1", **yesterday))
    async with far_end(tmp_path / "service") as far, lane_to(far.port, far.secret, homes) as lane:
        await until(partial(none_due, lane))
        assert await far.costs() == ["0.25", "0.5", "1"]
        assert [drop["day"] for drop in await far.drops()] == ["2026-01-04", "2026-01-05"], "the oldest first"
        await count(homes, call("0.000000000000000001", **yesterday))
        lane.wake()
        await until(partial(none_due, lane))
        assert await far.costs() == ["0.25", "0.5", "1.000000000000000001"]
        assert [drop["day"] for drop in await far.drops()] == ["2026-01-04", "2026-01-05", "2026-01-04"]
        (first, second) = await lane.book.days("2026-01")
        assert (first["state"], first["costs"], first["calls_without_cost"]) == (
            "dropped", {"USD": "1.000000000000000001"}, 0,
        )  # fmt: skip
        assert (second["costs"], second["calls_without_cost"]) == ({"EUR": "0.25", "USD": "0.5"}, 1)
    async with far_end(tmp_path / "service2") as other, lane_to(other.port, other.secret, homes) as lane:
        await until(partial(none_due, lane))
        assert await other.drops() == [], "after a restart nothing goes out again"


async def test_a_day_that_is_not_over_or_not_counted_to_its_end_waits(tmp_path: Path, homes: Homes) -> None:
    now = NOW_MS
    await count(homes, call("1"), call("2", ago_h=24.0), now_ms=now)
    async with (
        far_end(tmp_path / "service") as far,
        lane_to(far.port, far.secret, homes, now_ms=lambda: now) as lane,
    ):
        await until(partial(none_due, lane))
        assert await far.costs() == ["2"]
        end_ms = (NOW_MS // (24 * HOUR_MS) + 1) * 24 * HOUR_MS
        now = end_ms + 900_000
        lane.wake()
        await until(partial(none_due, lane))
        assert await far.costs() == ["2"], "usage was counted up to an earlier time"
        await count(homes, now_ms=now - 1)
        assert (await lane.book.summary()).due == 0
        await count(homes, now_ms=now)
        assert (await lane.book.summary()).due == 1
        lane.wake()
        await until(partial(none_due, lane))
        assert await far.costs() == ["1", "2"]


async def test_a_day_of_many_rows_travels_in_parts(
    tmp_path: Path, homes: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "LIMITS", lanes.LIMITS.__class__(max_records=1, max_bytes=68_000, in_flight=1))
    calls = [call(f"0.{n:03}", attribution={"team": f"team {n}"}) for n in range(1, 100)]
    await count(homes, *calls)
    misbehave = parse_misbehave(fail="500:0.3", reset="0.1")
    async with (
        far_end(tmp_path / "service", misbehave) as far,
        lane_to(far.port, far.secret, homes) as lane,
    ):
        await until(partial(none_due, lane))
        assert lane.pump.counts.delivered_records > 20, "each part is a batch"
        assert lane.pump.counts.retries > 5, "and some failed"
        rows = await far.rows()
        assert sorted(row["SubAccountName"] for row in rows) == sorted(f"team {n}" for n in range(1, 100))
        assert sum(Decimal(row["BilledCost"]) for row in rows) == Decimal("4.95")
        assert [drop["row_count"] for drop in await far.drops()] == [99]


async def test_what_a_command_asks_for_goes_out_again_and_repairs_the_upstream(tmp_path: Path, homes: Homes) -> None:
    await count(homes, call("1"), call("2", ago_h=24.0 * 40))
    async with (
        far_end(tmp_path / "service") as far,
        lane_to(far.port, far.secret, homes, settings=settings_of(since_hour=None)) as lane,
    ):
        await until(partial(none_due, lane))
        assert await far.costs() == ["1"], "unasked, days of earlier months stay"
        assert await lane.book.want("2025-11", partly_known=False) == (1, 0)
        lane.wake()
        await until(partial(none_due, lane))
        assert [row["BilledCost"] for row in await far.rows("2025-11")] == ["2"]
        await count(homes, call("4", ago_h=24.0 * 40))
        lane.wake()
        await until(partial(none_due, lane))
        assert [row["BilledCost"] for row in await far.rows("2025-11")] == ["6"], "what was sent once is kept right"
        await far.ask("DELETE", f"/v2/connections/billing/{CONNECTION}")
        await far.service.establish_connection(CONNECTION)
        assert await lane.book.want("2026-01", partly_known=False) == (1, 0)
        lane.wake()
        await until(partial(none_due, lane))
        assert await far.costs() == ["1"]


async def test_an_unknown_or_paused_connection_holds_the_lane_and_says_so(tmp_path: Path, homes: Homes) -> None:
    await count(homes, call("1"))
    async with far_end(tmp_path / "service") as far:
        await far.ask("PATCH", f"/v2/connections/billing/{CONNECTION}", {"status": "paused"})
        async with lane_to(far.port, far.secret, homes) as lane:

            async def is_held() -> bool:
                return shown(lane)["state"] == "held"

            await until(is_held)
            assert "connection_paused" in str(shown(lane)["reason"])
            await far.ask("DELETE", f"/v2/connections/billing/{CONNECTION}")
            lane.wake()
            await until(lambda: _says(lane, "connection_unknown"))
            await far.service.establish_connection(CONNECTION)
            lane.wake()
            await until(partial(none_due, lane))
            assert await far.costs() == ["1"]


def shown(lane: lanes.BillingLane) -> lanes.BillingStatus:
    status = lane.status()
    assert status is not None
    return status


async def _says(lane: lanes.BillingLane, text: str) -> bool:
    return text in str(shown(lane)["reason"])


async def test_a_refused_day_waits_for_a_change_and_holds_up_no_other(
    tmp_path: Path, homes: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(focus, "is_currency", lambda code: len(code) == 3)  # an upstream that knows fewer
    await count(homes, call("1", currency="usd", ago_h=24.0), call("2"))
    async with far_end(tmp_path / "service") as far, lane_to(far.port, far.secret, homes) as lane:
        await until(partial(none_due, lane))
        assert await far.costs() == ["2"]
        (refused, dropped) = await lane.book.days("2026-01")
        assert (refused["state"], dropped["state"]) == ("refused", "dropped")
        assert "invalid_BillingCurrency" in refused["refused"]
        assert [await lane.refusal(day) is None for day, _ in await lane.book.plan("2026-01")] == [False, True]
        assert (await lane.book.summary()).refused == 1


async def test_a_cost_in_no_currency_is_left_out_and_holds_up_no_other_of_its_day(tmp_path: Path, homes: Homes) -> None:
    await count(homes, call("7", currency="CRD"), call("8", currency="AAA", **TEAM), call("2", currency="EUR", **TEAM))
    with capture_logs() as lines:
        async with far_end(tmp_path / "service") as far, lane_to(far.port, far.secret, homes) as lane:
            await until(partial(none_due, lane))
            (row,) = await far.rows()
            (day,) = await lane.book.days("2026-01")
    assert (row["BilledCost"], row["BillingCurrency"], row["x_Calls"]) == ("2", "EUR", 2)
    assert (day["state"], day["costs"], day["calls_without_cost"]) == ("dropped", {"EUR": "2"}, 1)
    (left_out,) = [line for line in lines if line["event"] == "costs in no currency are left out of a day"]
    assert (left_out["day"], left_out["currencies"]) == ("2026-01-05", ["AAA", "CRD"])


async def test_a_body_that_is_too_large_for_the_upstream_is_made_smaller(
    tmp_path: Path, homes: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "ROUTES", [replace(route, max_bytes=400_000) for route in web.ROUTES])
    await count(homes, *(call(f"0.{n:03}", attribution={"team": f"team {n}"}) for n in range(1, 500)))
    async with far_end(tmp_path / "service") as far, lane_to(far.port, far.secret, homes) as lane:
        await until(partial(none_due, lane))
        assert [drop["row_count"] for drop in await far.drops()] == [499]
        assert lane.pump.counts.delivered_records > 1


@only_sqlite  # slow enough to lose one in time
async def test_an_upstream_that_lost_parts_of_a_day_gets_all_of_them_again(
    tmp_path: Path, homes: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "LIMITS", lanes.LIMITS.__class__(max_records=1, max_bytes=68_000, in_flight=1))
    await count(homes, *(call(f"0.{n:03}", attribution={"team": f"team {n}"}) for n in range(1, 10)))
    async with far_end(tmp_path / "service") as far, lane_to(far.port, far.secret, homes) as lane:
        await until(lambda: far.service.database.write(_lose_one))
        await until(partial(none_due, lane))
        assert len(await far.rows()) == 9
        assert [drop["row_count"] for drop in await far.drops()] == [9]


def _lose_one(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("DELETE FROM billing_parts WHERE part = 1").rowcount)


async def test_a_day_that_a_new_database_knows_in_part_replaces_nothing_unasked(tmp_path: Path, homes: Homes) -> None:
    database = await Database.open(tmp_path / "new.db")
    new = await homes_in(database)
    await count(homes, call("1"), call("2"))
    async with far_end(tmp_path / "service") as far:
        async with lane_to(far.port, far.secret, homes) as lane:
            await until(partial(none_due, lane))
        assert await far.costs() == ["3"]
        await count(new, call("2"), counted_from=None)
        async with lane_to(far.port, far.secret, new) as lane:
            await until(partial(none_due, lane))
            assert await far.costs() == ["3"], "what an old spool still holds is not the day"
            assert [day["state"] for day in await lane.book.days("2026-01")] == ["partial"]
            assert await lane.book.want("2026-01", partly_known=False) == (0, 1)
            assert await lane.book.want("2026-01", partly_known=True) == (1, 0)
            lane.wake()
            await until(partial(none_due, lane))
            assert await far.costs() == ["2"], "an operator may say so"
    await database.close()


async def test_days_stay_whose_they_were_when_the_spool_is_a_new_one(tmp_path: Path, homes: Homes) -> None:
    await count(homes, call("1"))
    async with far_end(tmp_path / "service") as far:
        async with lane_to(far.port, far.secret, homes) as lane:
            await until(partial(none_due, lane))
        await count(homes, call("2"))
        async with lane_to(far.port, far.secret, homes, gateway_id="gw-2") as lane:
            await until(partial(none_due, lane))
        assert await far.costs() == ["3"]


async def test_the_first_body_after_a_start_is_validated_where_the_upstream_offers_it(
    tmp_path: Path, homes: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def noted(route: web.Route) -> web.Route:
        def operate(connection: sqlite3.Connection, request: ServiceCall) -> ServiceAnswer:
            asked.append(request.path.rpartition("/")[2])
            return route.operation(connection, request)

        return replace(route, operation=operate)

    monkeypatch.setattr(web, "ROUTES", [noted(route) for route in web.ROUTES])
    await count(homes, call("1", ago_h=24.0), call("2"))
    async with far_end(tmp_path / "service") as far, lane_to(far.port, far.secret, homes) as lane:
        await until(partial(none_due, lane))
        assert asked == ["validate_billing_drop", "billing_drops", "billing_drops"]
    without = [route for route in web.ROUTES if not route.path.endswith("validate_billing_drop")]
    monkeypatch.setattr(web, "ROUTES", without)
    await count(homes, call("4"))
    async with far_end(tmp_path / "service2") as far, lane_to(far.port, far.secret, homes) as lane:
        await until(partial(none_due, lane))
        assert await far.costs() == ["6"], "a 404 of the validation holds up nothing"


async def test_a_pump_that_ends_by_a_fault_begins_again_and_the_day_goes_out(
    tmp_path: Path, homes: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    freeze, texts = BillingLaneStore.freeze, ["quotes a row"]

    async def faulty(store: BillingLaneStore, lane: Lane, *, max_records: int, max_bytes: int) -> Batch | None:
        if texts:
            raise LookupError(texts.pop())
        return await freeze(store, lane, max_records=max_records, max_bytes=max_bytes)

    monkeypatch.setattr(BillingLaneStore, "freeze", faulty)
    monkeypatch.setattr(lane_work, "RESTART_S", 0.0)
    await count(homes, call("1"))
    with capture_logs() as lines:
        async with far_end(tmp_path / "service") as far, lane_to(far.port, far.secret, homes) as lane:
            ended = lane.pump
            await until(partial(none_due, lane))
            assert lane.pump is not ended
            assert await far.costs() == ["1"]
    (fault,) = [line for line in lines if line["event"] == "the lane of billing met a fault"]
    assert fault["error"] == "LookupError"
    assert "quotes a row" not in str(lines)


async def test_a_wake_while_the_lane_looks_is_not_lost(tmp_path: Path, homes: Homes) -> None:
    """What becomes due during a look that found nothing goes out now, not `billing.every` later."""
    clock = SystemClock()

    async def nothing() -> None:
        return

    def now_ms() -> int:
        """The day ends, and someone asks for it, after the look has read the clock."""
        moments.append(NOW_MS if not moments else TOMORROW_MS)
        store.look_now()
        return moments[-1]

    moments: list[int] = []
    await count(homes, call("1"))
    book = await BillingBook.open(*homes, settings_of(), "gw-1", lambda: TOMORROW_MS)
    book.now_ms = now_ms
    store = BillingLaneStore(book, clock=clock, count=nothing)
    assert await store.freeze(LANE, max_records=1, max_bytes=1_000_000) is None
    batch = await store.freeze(LANE, max_records=1, max_bytes=1_000_000)
    assert batch is not None
    assert b'"day":"2026-01-05"' in batch.records[0]
