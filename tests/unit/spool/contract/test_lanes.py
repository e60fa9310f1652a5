"""Lanes beside each other: exporters that follow the AI records, and settling,
which drops and replaces them.
"""

import asyncio
from dataclasses import replace

import pytest

from spool.errors import SpoolError
from spool.record import AI_TELEMETRY, DEVICES
from spool.settling import Change, Position
from spool.store import Refusal, Spool
from tests.support.spool_homes import SpoolHome, chunk_count
from tests.support.spool_rig import SETTINGS, Clock, append, drained, freeze, frozen, noise

ARCHIVE = "archive"
DAY_MS = 86_400_000


async def test_an_exporters_lane_sees_the_same_records_in_its_own_time(home: SpoolHome) -> None:
    spool = home.open(exporters=(ARCHIVE,))
    await append(spool, [b"1", b"2", b"3"])
    await append(spool, [b"d"], DEVICES)
    assert await drained(spool) == [b"1", b"2", b"3"]
    assert await drained(spool, ARCHIVE, max_records=2) == [b"1", b"2", b"3"]
    assert spool.edge()["kept"] == 4
    assert (spool.depth(AI_TELEMETRY).kept, spool.depth(ARCHIVE).kept) == (3, 3)
    await home.check()
    await spool.close()


async def test_chunks_stay_as_long_as_one_lane_needs_them(home: SpoolHome, clock: Clock) -> None:
    spool = home.open(exporters=(ARCHIVE,))
    await append(spool, [b"1"])
    await drained(spool)
    clock.now_ms += 2 * DAY_MS
    await spool.run_maintenance()
    assert await chunk_count(spool) == 1
    batch = await frozen(spool, ARCHIVE)
    await spool.run_maintenance()
    assert await chunk_count(spool) == 1, "frozen, not delivered"
    await spool.ack(batch)
    await spool.run_maintenance()
    assert await chunk_count(spool) == 0
    await spool.close()


async def test_a_new_exporter_begins_with_what_comes_after_it(home: SpoolHome) -> None:
    spool = home.open()
    await append(spool, [b"old"])
    await spool.close()
    spool = home.open(exporters=(ARCHIVE,))
    await append(spool, [b"new"])
    assert await drained(spool, ARCHIVE) == [b"new"]
    assert await drained(spool) == [b"old", b"new"]
    await home.check()
    await spool.close()


async def test_a_record_dropped_from_before_an_exporter_came_is_not_counted_against_it(home: SpoolHome) -> None:
    spool = home.open(settling=(AI_TELEMETRY,))
    await append(spool, [b"old", b"twin"])
    await spool.close()
    spool = home.open(exporters=(ARCHIVE,), settling=(AI_TELEMETRY,))
    seq, _ = spool.position(AI_TELEMETRY)
    await append(spool, [b"new", b"copy"])
    dropped = [Change(1, 1, "duplicate.twin", None), Change(seq, 1, "duplicate.twin", None)]
    await spool.settle(AI_TELEMETRY, seq, dropped)
    assert spool.depth(ARCHIVE).kept == spool.depth(ARCHIVE).pending == 1
    await home.check()
    assert await drained(spool, ARCHIVE) == [b"new"]
    assert await drained(spool) == [b"old", b"new"]
    await home.check()
    await spool.close()


async def test_an_exporter_that_is_gone_holds_nothing_and_its_records_are_expired(
    home: SpoolHome, clock: Clock
) -> None:
    spool = home.open(exporters=(ARCHIVE,))
    await append(spool, [b"1", b"2"])
    await frozen(spool, ARCHIVE, max_records=1)
    await spool.close()
    spool = home.open()
    assert await drained(spool) == [b"1", b"2"]
    clock.now_ms += 2 * DAY_MS
    await spool.run_maintenance()
    assert await chunk_count(spool) == 0
    await spool.close()
    spool = home.open(exporters=(ARCHIVE,))
    assert (spool.depth(ARCHIVE).kept, spool.depth(ARCHIVE).expired) == (2, 2)
    await append(spool, [b"3"])
    assert await drained(spool, ARCHIVE) == [b"3"]
    await home.check()
    await spool.close()


async def test_nothing_is_frozen_before_it_settled(home: SpoolHome) -> None:
    spool = home.open(settling=(AI_TELEMETRY,))
    await append(spool, [b"1"])
    await append(spool, [b"2"])
    assert await freeze(spool) is None
    await spool.settle(AI_TELEMETRY, 1)
    assert await drained(spool) == [b"1"]
    await spool.close()
    spool = home.open(settling=(AI_TELEMETRY,))
    assert await freeze(spool) is None
    await spool.settle(AI_TELEMETRY, 2)
    assert await drained(spool) == [b"2"]
    await spool.close()


async def test_other_lanes_do_not_settle(home: SpoolHome) -> None:
    spool = home.open(settling=(AI_TELEMETRY,))
    await append(spool, [b"d"], DEVICES)
    assert await drained(spool, DEVICES) == [b"d"]
    await spool.close()


async def test_settling_drops_and_replaces_and_the_figures_move_in_all_lanes(home: SpoolHome) -> None:
    spool = home.open(exporters=(ARCHIVE,), settling=(AI_TELEMETRY,))
    seq, _ = spool.position(AI_TELEMETRY)
    await append(spool, [b"0", b"1", b"2", b"3"])
    changes = [
        Change(seq, 1, "duplicate.twin", None),
        Change(seq, 2, "kept.merged", b"two"),
        Change(seq, 3, "suppressed.ancestor", None),
    ]
    await spool.settle(AI_TELEMETRY, seq, changes)
    edge = spool.edge()
    assert (edge["received"], edge["kept"], edge["duplicate"], edge["suppressed"]) == (4, 2, 1, 1)
    assert spool.reasons() == {"duplicate.twin": 1, "suppressed.ancestor": 1}
    for lane in (AI_TELEMETRY, ARCHIVE):
        assert (spool.depth(lane).kept, spool.depth(lane).pending) == (2, 2)
        assert await drained(spool, lane) == [b"0", b"two"]
    await home.check()
    await spool.close()


async def test_a_change_is_counted_once_however_often_it_is_reported(home: SpoolHome) -> None:
    spool = home.open(settling=(AI_TELEMETRY,))
    await append(spool, [b"0", b"1"])
    await append(spool, [b"2"])
    for _ in range(2):
        await spool.settle(
            AI_TELEMETRY, 0, [Change(1, 0, "kept.merged", b"zero"), Change(1, 1, "duplicate.twin", None)]
        )
    await spool.settle(AI_TELEMETRY, 1, [Change(1, 0, "duplicate.twin", None)])
    assert spool.depth(AI_TELEMETRY).kept == 1
    await home.check()
    await spool.close()


async def test_what_could_be_frozen_is_changed_no_more(home: SpoolHome) -> None:
    spool = home.open(settling=(AI_TELEMETRY,))
    await append(spool, [b"0", b"1"])
    await spool.settle(AI_TELEMETRY, 1)
    batch = await frozen(spool)
    await spool.settle(AI_TELEMETRY, 1, [Change(1, 0, "duplicate.twin", None), Change(1, 1, "kept.merged", b"x")])
    await spool.release(batch, answered=False)
    assert (await frozen(spool)).records == batch.records
    await home.check()
    await spool.close()


async def test_reading_shows_records_as_settling_left_them(home: SpoolHome) -> None:
    spool = home.open(settling=(AI_TELEMETRY,))
    await append(spool, [b"0", b"1", b"2"])
    await spool.settle(AI_TELEMETRY, 1, [Change(1, 0, "duplicate.twin", None), Change(1, 1, "kept.merged", b"one")])
    wanted = [Position(1, 0), Position(1, 1), Position(1, 2), Position(1, 3), Position(9, 0)]
    assert await spool.read(AI_TELEMETRY, wanted) == [None, b"one", b"2", None, None]
    await spool.close()


async def test_a_batch_skips_what_was_dropped_and_takes_up_to_its_limit(home: SpoolHome) -> None:
    spool = home.open(settling=(AI_TELEMETRY,))
    for n in range(400):
        await append(spool, [b"a%d" % n, b"b%d" % n])
    dropped = [Change(seq, 0, "duplicate.twin", None) for seq in range(1, 401)]
    await spool.settle(AI_TELEMETRY, 400, dropped)
    batch = await frozen(spool, max_records=390)
    assert batch.records == tuple(b"b%d" % n for n in range(390))
    await spool.split(batch)
    assert [len((await frozen(spool)).records) for _ in range(2)] == [195, 195]
    assert await drained(spool) == [b"b%d" % n for n in range(390, 400)]
    await home.check()
    await spool.close()


async def test_settling_through_empty_numbers_hides_no_later_chunk_after_a_restart(home: SpoolHome) -> None:
    spool = home.open(settling=(AI_TELEMETRY,))
    await append(spool, [b"1"])
    await spool.settle(AI_TELEMETRY, 40)
    await spool.close()
    spool = home.open(settling=(AI_TELEMETRY,))
    await append(spool, [b"2"])
    assert await drained(spool) == [b"1"], "the second one has not settled"
    await spool.close()


async def test_decisions_are_not_written_when_an_append_was_lost_since(home: SpoolHome) -> None:
    spool = home.open(settling=(AI_TELEMETRY,))
    await append(spool, [b"0", b"1"])
    lost_appends = spool.lost_appends
    await home.break_appends()
    with spool.reserve():
        lost = append(spool, [b"2"])
        drop = [Change(1, 1, "duplicate.twin", None)]
        settling = asyncio.ensure_future(spool.settle(AI_TELEMETRY, 1, drop, lost_appends=lost_appends))
        await asyncio.sleep(0)  # it asks, for the same commit
    with pytest.raises(SpoolError, match="did not come to disk"):
        await settling
    with pytest.raises(SpoolError):
        await lost
    await home.mend_appends()
    await spool.settle(AI_TELEMETRY, 1, lost_appends=spool.lost_appends)
    assert await drained(spool) == [b"0", b"1"]
    await home.check()
    await spool.close()


class TestUpkeep:
    """Expiry, and giving back what is delivered."""

    @pytest.fixture
    async def week(self, home: SpoolHome) -> Spool:
        return home.open(settings=replace(SETTINGS, max_age_ms=7 * DAY_MS, keep_delivered_ms=DAY_MS))

    async def test_records_older_than_the_limit_expire_and_younger_ones_go(
        self, week: Spool, clock: Clock, home: SpoolHome
    ) -> None:
        await append(week, [b"old"] * 3)
        released = await frozen(week, max_records=1)
        await week.release(released, answered=True)
        clock.now_ms += 4 * DAY_MS
        await append(week, [b"young"])
        clock.now_ms += 3 * DAY_MS
        await week.run_maintenance()
        assert week.depth(AI_TELEMETRY).expired == 0, "exactly a week is not older than a week"
        clock.now_ms += 1
        await week.run_maintenance()
        depth = week.depth(AI_TELEMETRY)
        assert (depth.expired, depth.pending, depth.kept) == (3, 1, 4)
        assert await drained(week) == [b"young"]
        await home.check()
        await week.close()

    async def test_a_batch_in_flight_does_not_expire(self, week: Spool, clock: Clock, home: SpoolHome) -> None:
        await append(week, [b"1", b"2"])
        batch = await frozen(week, max_records=1)
        clock.now_ms += 8 * DAY_MS
        await week.run_maintenance()
        assert (week.depth(AI_TELEMETRY).expired, week.depth(AI_TELEMETRY).pending) == (1, 1)
        await week.ack(batch, [Refusal(0, "x", "y")])
        await week.run_maintenance()
        assert week.depth(AI_TELEMETRY).dead_lettered == 1
        await home.check()
        await week.close()

    async def test_a_clock_that_was_wrong_for_a_while_makes_nothing_vanish(
        self, week: Spool, clock: Clock, home: SpoolHome
    ) -> None:
        clock.wrong_ms = 10 * DAY_MS
        await append(week, [b"from the future"])
        clock.wrong_ms = 0
        await append(week, [b"now"])
        clock.now_ms += 6 * DAY_MS
        await week.run_maintenance()
        await home.check()
        assert await drained(week) == [b"from the future", b"now"]
        await week.close()

    async def test_delivered_chunks_are_kept_for_a_while_and_then_deleted(self, week: Spool, clock: Clock) -> None:
        await append(week, [b"1"])
        await drained(week)
        clock.now_ms += DAY_MS
        await week.run_maintenance()
        assert await chunk_count(week) == 1
        clock.now_ms += 1
        await week.run_maintenance()
        assert await chunk_count(week) == 0
        await week.close()

    async def test_a_crowded_spool_deletes_what_is_delivered_at_once(self, home: SpoolHome, clock: Clock) -> None:
        spool = home.open(settings=replace(SETTINGS, max_bytes=4_000_000))
        spool.keep_after(AI_TELEMETRY, 0)
        for _ in range(100):
            await append(spool, [noise(35_000)])
        assert spool.used_bytes > 3_000_000
        await drained(spool)
        clock.now_ms += 1
        await spool.run_maintenance()
        assert spool.used_bytes < 2_000_000 + 64 * 40_000, "down to half, in whole steps"
        assert await chunk_count(spool) < 100
        await spool.close()

    async def test_the_oldest_pending_record_has_its_age(self, week: Spool, clock: Clock) -> None:
        start_ms = clock.now_ms
        await append(week, [b"1"])
        clock.now_ms += 50
        await append(week, [b"2"])
        await week.run_maintenance()
        assert week.depth(AI_TELEMETRY).oldest_pending_ms == start_ms
        await drained(week, max_records=1)
        await week.run_maintenance()
        assert week.depth(AI_TELEMETRY).oldest_pending_ms is None
        await week.close()

    async def test_chunk_numbers_are_not_given_twice_after_all_was_deleted(
        self, week: Spool, home: SpoolHome, clock: Clock
    ) -> None:
        await append(week, [b"1"])
        await append(week, [b"2"])
        await drained(week)
        clock.now_ms += 2 * DAY_MS
        await week.run_maintenance()
        before = week.position(AI_TELEMETRY)
        await week.close()
        again = home.open()
        assert again.position(AI_TELEMETRY) >= (3, 0)
        assert before >= (3, 0)
        await again.close()
