"""Counting what the spool keeps, on a real spool with its ledger: once, whatever is reported twice
and whenever the gateway dies.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from decimal import Decimal
from functools import partial
from pathlib import Path

import orjson
import pytest
from structlog.testing import capture_logs

from gateway.common.storage.database import Database
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.common.storage.sql import SqlDatabase
from gateway.stores.sql.sums import home as sums_home
from gateway.stores.sql.sums import hours
from gateway.stores.sql.sums.home import SqlSums
from gateway.usage.sums import following
from gateway.usage.sums.following import UsageFollower
from gateway.usage.sums.history import Usage
from gateway.usage.sums.home import Counted, SumHome
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.tally import HOUR_MS, Tally
from gateway.usage.sums.timespan import TimeRange
from spool.clock import rfc3339_ms
from spool.record import AI_TELEMETRY
from spool.sql.connection import Connection
from tests.support.calls import call
from tests.support.polling import until_true
from tests.support.spool_rig import Clock, Rig, copied
from tests.support.stores import Home, only_sql, only_sqlite


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def rig(tmp_path: Path, clock: Clock) -> AsyncIterator[Rig]:
    opened = await Rig.opened(tmp_path / "data", clock)
    yield opened
    await opened.spool.close()


@pytest.fixture
async def follower(rig: Rig, sums: SumHome, clock: Clock) -> UsageFollower:
    return await UsageFollower.open(rig.spool, sums, now_ms=clock)


async def written(follower: UsageFollower, home: SumHome, clock: Clock) -> list[Usage]:
    """What stands in the tables once all that is settled was counted."""
    await follower.catch_up()
    await follower.write()
    usage = list((await home.history(clock())).usage)
    total = await UsageQueries(home, now_ms=clock).totals(TimeRange.last_days(9, clock()))
    assert (total.calls, total.input_tokens or 0) == summed(usage)
    return usage


def summed(usage: list[Usage]) -> tuple[int, int]:
    return sum(x.calls for x in usage), sum(x.input_tokens for x in usage)


async def test_a_call_is_counted_when_its_outcome_is_final(
    rig: Rig, sums: SumHome, follower: UsageFollower, clock: Clock
) -> None:
    await rig.send(call("a"), call("b", model="o3"))
    assert await written(follower, sums, clock) == [], "it may still turn out to be a repeat"
    await rig.settle()
    assert summed(await written(follower, sums, clock)) == (2, 200)
    assert summed(await written(follower, sums, clock)) == (2, 200), "counted once"


async def test_each_write_adds_what_came_since_the_last_one_over_a_restart_too(
    rig: Rig, sums: SumHome, follower: UsageFollower, clock: Clock
) -> None:
    for n in range(3):
        await rig.send(call(str(n), trace=str(n)))
        await rig.settle()
        assert summed(await written(follower, sums, clock)) == (n + 1, 100 * (n + 1))
    again = await UsageFollower.open(rig.spool, sums, now_ms=clock)
    assert summed(await written(again, sums, clock)) == (3, 300)


async def test_what_is_dropped_never_enters_and_what_is_merged_enters_as_one(
    rig: Rig, sums: SumHome, follower: UsageFollower, clock: Clock
) -> None:
    await rig.send(
        call("a", response="r1"), call("b", trace="u", response="r1", scope="other", cost="0.5", team="core")
    )
    await rig.send(call("parent"), call("child", parent="parent"))
    await rig.settle()
    usage = await written(follower, sums, clock)
    assert summed(usage) == await records_of(rig) == (2, 200)
    assert [x.team for x in usage if x.cost_pico] == ["core"]


async def records_of(rig: Rig) -> tuple[int, int]:
    calls, input_tokens, _ = await rig.totals()
    return calls, input_tokens


@only_sqlite
async def test_a_kill_loses_nothing_and_counts_nothing_twice(
    rig: Rig, sums: SumHome, follower: UsageFollower, clock: Clock, tmp_path: Path
) -> None:
    await rig.send(call("a"))
    await rig.settle()
    assert summed(await written(follower, sums, clock)) == (1, 100)
    await rig.send(call("b", trace="t2"))
    await rig.settle()
    await follower.catch_up()  # counted, and not written
    killed = copied(tmp_path / "data", tmp_path / "killed")

    again = await Rig.opened(killed, clock)
    kept = await Database.open(killed / "control.db")
    try:
        after = await SqlSums.open(kept)
        resumed = await UsageFollower.open(again.spool, after, now_ms=clock)
        assert summed(await written(resumed, after, clock)) == (2, 200)
    finally:
        await again.spool.close()
        await kept.close()


async def test_what_was_delivered_before_it_was_counted_is_counted_all_the_same(
    rig: Rig, sums: SumHome, follower: UsageFollower, clock: Clock
) -> None:
    await rig.send(call("a"))
    await rig.settle()
    assert len(await rig.records()) == 1
    assert summed(await written(follower, sums, clock)) == (1, 100)


async def test_what_is_delivered_and_old_stays_until_its_sums_are_stored(
    rig: Rig, sums: SumHome, follower: UsageFollower, clock: Clock
) -> None:
    await rig.send(call("a"))
    await rig.settle()
    assert len(await rig.records()) == 1
    clock.now_ms += 72 * HOUR_MS
    await rig.spool.run_maintenance()
    await follower.catch_up()  # counted, and not stored
    await rig.spool.run_maintenance()
    again = await UsageFollower.open(rig.spool, sums, now_ms=clock)
    assert summed(await written(again, sums, clock)) == (1, 100)
    await rig.spool.run_maintenance()
    left = await rig.spool.settled_records(AI_TELEMETRY, 0, max_bytes=1000)
    assert not left.records, "nothing needs it any more"


async def test_another_spool_is_counted_from_its_beginning(
    rig: Rig, sums: SumHome, follower: UsageFollower, clock: Clock, tmp_path: Path
) -> None:
    for name in "ab":
        await rig.send(call(name, trace=name))
        await rig.settle()
    await written(follower, sums, clock)
    other = await Rig.opened(tmp_path / "other", clock)
    try:
        resumed = await UsageFollower.open(other.spool, sums, now_ms=clock)
        await other.send(call("c", trace="c"))
        await other.settle()
        assert summed(await written(resumed, sums, clock)) == (3, 300)
    finally:
        await other.spool.close()


async def test_a_spool_that_lost_its_last_chunks_is_followed_on(rig: Rig, sums: SumHome, clock: Clock) -> None:
    await sums.store(Counted(Tally(), rig.spool.gateway_id, 10_000, None, clock(), clock()))
    follower = await UsageFollower.open(rig.spool, sums, now_ms=clock)
    await follower.catch_up()
    await rig.send(call("a"))
    await rig.settle()
    assert summed(await written(follower, sums, clock)) == (1, 100)


async def test_many_pages_are_counted_in_order(
    rig: Rig, sums: SumHome, follower: UsageFollower, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "PAGE_BYTES", 1)
    for n in range(20):
        await rig.send(call(str(n), trace=str(n)))
    await rig.settle()
    assert summed(await written(follower, sums, clock)) == (20, 2000)


@only_sqlite
async def test_a_write_that_fails_is_made_up_for(
    rig: Rig, database: SqlDatabase[Connection], sums: SumHome, follower: UsageFollower, clock: Clock
) -> None:
    await rig.send(call("a"))
    await rig.settle()
    await follower.catch_up()
    broken = "CREATE TRIGGER broken BEFORE INSERT ON usage_hours BEGIN SELECT raise(ABORT, 'x'); END"
    await database.write(lambda c: c.execute(broken))
    with pytest.raises(DatabaseUnavailable):
        await follower.write()
    await database.write(lambda c: c.execute("DROP TRIGGER broken"))
    assert summed(await written(follower, sums, clock)) == (1, 100)


@pytest.mark.parametrize("is_kept", [True, False])
async def test_a_commit_of_unknown_outcome_is_made_up_for_once(
    rig: Rig,
    home: Home,
    sums: SumHome,
    follower: UsageFollower,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    is_kept: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """As where the connection breaks in the commit: what comes meanwhile is counted as well."""
    await rig.send(call("first", tokens=(100, 20)))
    await rig.settle()
    await follower.catch_up()
    store = sums.store

    async def unknown(counted: Counted) -> None:
        if is_kept:
            await store(counted)
        raise DatabaseUnavailable("the connection broke")

    monkeypatch.setattr(sums, "store", unknown)
    with pytest.raises(DatabaseUnavailable):
        await follower.write()
    monkeypatch.undo()
    await rig.send(call("second", at=(5_000, 6_000), tokens=(10, 2)))
    await rig.settle()
    assert summed(await written(follower, sums, clock)) == (2, 110)


@only_sql
@pytest.mark.parametrize("times", [1, 2])
async def test_a_write_that_is_cancelled_counts_nothing_twice(
    rig: Rig, database: SqlDatabase[Connection], sums: SumHome, follower: UsageFollower, clock: Clock, times: int
) -> None:
    await rig.send(call("a"))
    await rig.settle()
    await follower.catch_up()
    busy, may_go = threading.Event(), threading.Event()

    def occupy(connection: object) -> None:
        busy.set()
        may_go.wait(10)

    occupied = asyncio.create_task(database.write(occupy))
    await asyncio.to_thread(busy.wait, 10)
    writing = asyncio.create_task(follower.write())
    await asyncio.sleep(0)
    for _ in range(times):
        writing.cancel()
        await asyncio.sleep(0)
    may_go.set()
    with pytest.raises(asyncio.CancelledError):
        await writing
    await occupied
    await rig.send(call("b", trace="t2"))
    await rig.settle()
    assert summed(await written(follower, sums, clock)) == (2, 200)


async def test_it_follows_by_itself(
    rig: Rig, sums: SumHome, follower: UsageFollower, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "LOOK_S", 0.01)
    task = asyncio.create_task(follower.run())
    try:
        await rig.send(call("a"))
        await rig.settle()
        await until_true(lambda: follower.changes == 1, what="counted")
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert summed(await written(follower, sums, clock)) == (1, 100)


async def test_the_hours_of_an_earlier_release_are_taken_over_once(tmp_path: Path, rig: Rig, clock: Clock) -> None:
    database = await Database.open(tmp_path / "earlier.db")
    await hours.make_tables(database)
    tally = Tally()
    tally.add([orjson.dumps(call_record(clock))], now_ms=clock())
    await database.write(partial(hours.write, tally=tally, source="x", through_no=1, now_ms=clock()))
    for _ in range(2):
        sums = await SqlSums.open(database)
        follower = await UsageFollower.open(rig.spool, sums, now_ms=clock)
        queries = UsageQueries(sums, now_ms=clock, follower=follower)
        total = await queries.totals(TimeRange.last_days(2, clock()))
        assert (total.calls, total.input_tokens, total.costs) == (1, 5, {"EUR": Decimal("0.25")})
        (group,) = (await queries.by("model", within=TimeRange.last_hours(1, clock()))).groups
        assert group.names == ("m",)
    await database.close()


def call_record(clock: Clock) -> dict[str, object]:
    return {
        "kind": "call", "started_at": rfc3339_ms(clock()), "response_model": "m", "usage": {"input_tokens": 5},
        "cost": {"amount": "0.25", "currency": "EUR"},
    }  # fmt: skip


async def test_the_sums_state_through_when_they_are_complete(
    rig: Rig, sums: SumHome, follower: UsageFollower, clock: Clock
) -> None:
    queries = UsageQueries(sums, now_ms=clock, follower=follower)
    assert (await queries.as_of()).counted_through_ms is None
    await rig.send(call("a"))
    await rig.settle()
    await queries.refresh()
    counted_ms = clock()
    assert (await queries.as_of()).counted_through_ms == counted_ms
    assert (await UsageQueries(sums, now_ms=clock).as_of()).counted_through_ms == counted_ms, "also when stopped"
    assert (await queries.totals(TimeRange.last_days(1, clock()))).calls == 1


@only_sql
async def test_sums_that_cannot_be_stored_stop_no_later_ones(
    rig: Rig, sums: SumHome, follower: UsageFollower, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.send(call("a", trace="a"))
    await rig.settle()
    await follower.catch_up()
    with monkeypatch.context() as broken:
        broken.setattr(sums_home, "add", _refuse_sums)
        with capture_logs() as lines:
            await follower.write()
    assert [line["event"] for line in lines] == ["sums of usage cannot be stored, and are left out"]
    await rig.send(call("b", trace="b"))
    await rig.settle()
    assert summed(await written(follower, sums, clock)) == (1, 100)


def _refuse_sums(connection: object, tallied: Mapping[object, object], **_: object) -> None:
    if tallied:
        raise OverflowError


async def test_the_age_is_that_of_the_stored_sums(rig: Rig, home: Home, follower: UsageFollower, clock: Clock) -> None:
    clock.now_ms += 5_000
    assert follower.age_s() == 5
    await follower.catch_up()
    assert follower.age_s() == 0, "no call waits"
    await rig.send(call("a"))
    await rig.settle()
    clock.now_ms += 7_000
    await follower.catch_up()
    assert follower.age_s() >= 7, "counted, and not stored"
    await follower.write()
    assert follower.age_s() == 0
    await rig.send(call("b"))
    await rig.settle()
    await follower.catch_up()
    clock.now_ms += 9_000
    await home.close()
    with pytest.raises(DatabaseUnavailable):
        await follower.write()
    assert follower.age_s() >= 9
