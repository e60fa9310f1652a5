"""Dead letters put back, dropped, expired; delivered records sent again: nothing is lost, and both
identities hold throughout.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from spool.data_dir import make_private_dir
from spool.dead_letters import Chosen, Place, Requeued
from spool.errors import SpoolError, SpoolLocked
from spool.record import AI_TELEMETRY, DEVICES, USAGE_EVENTS, Batch, Lane
from spool.sql.replay import ranges
from spool.sqlite import database
from spool.sqlite.at_rest import at_rest
from spool.sqlite.spool import SqliteSpool
from spool.store import Refusal
from tests.support.polling import HANGS_S
from tests.support.spool_rig import (
    SETTINGS,
    Clock,
    append,
    assert_balanced,
    copied,
    drained,
    freeze,
    frozen,
    noise,
    open_spool,
)

DAY_MS = 86_400_000
ALL = Chosen()


def numbers(*span: int) -> list[bytes]:
    return [str(n).encode() for n in range(*span)]


async def refuse(
    spool: SqliteSpool, records: Sequence[bytes], lane: Lane = AI_TELEMETRY, code: str = "bad_record"
) -> None:
    """*records* come in and are refused one and all."""
    await append(spool, records, lane)
    batch = await frozen(spool, lane, max_records=len(records))
    await spool.ack(batch, [Refusal(i, code, "no good") for i in range(len(records))])


async def refuse_unnamed(spool: SqliteSpool, records: Sequence[bytes], n: int) -> None:
    """*n* of *records* are refused, and no one knows which."""
    await append(spool, records)
    batch = await frozen(spool, max_records=len(records))
    await spool.ack(batch, [Refusal(None, "not_named", "no good", n)])


def counts(spool: SqliteSpool, lane: Lane = AI_TELEMETRY) -> tuple[int, int, int, int, int]:
    """(kept, delivered, pending, dead_lettered, expired)"""
    x = spool.depth(lane)
    return x.kept, x.delivered, x.pending, x.dead_lettered, x.expired


async def beside(spool: SqliteSpool) -> dict[str, int]:
    """The counts beside the figures, over all lanes."""
    await spool.run_maintenance()
    found: dict[str, int] = {}
    for _, name, n in spool.dead_letter_summary().counts:
        found[name] = found.get(name, 0) + n
    return found


async def records_of(spool: SqliteSpool, chosen: Chosen = ALL) -> list[bytes]:
    return [letter.record for letter in await spool.operator().find(chosen, most=1000)]


@pytest.fixture
async def archived(data_dir: Path, clock: Clock) -> AsyncIterator[SqliteSpool]:
    """A spool with a further exporter."""
    spool = open_spool(data_dir, clock, exporters=["archive"])
    yield spool
    await assert_balanced(spool)
    await spool.close()


# ---- dead letters, put back


async def test_dead_letters_that_are_put_back_are_pending_and_go_out_in_a_new_batch(spool: SqliteSpool) -> None:
    await refuse(spool, numbers(5))
    assert counts(spool) == (5, 0, 0, 5, 0)
    assert await spool.operator().replay_dead_letters(Chosen()) == Requeued({AI_TELEMETRY: 5}, 0)
    assert counts(spool) == (5, 0, 5, 0, 0)
    await assert_balanced(spool)
    batch = await frozen(spool)
    assert batch.records == tuple(numbers(5))
    assert (batch.generation, batch.attempts) == (0, 0)
    await spool.ack(batch)
    assert counts(spool) == (5, 5, 0, 0, 0)
    assert await records_of(spool) == []
    assert await beside(spool) == {"dead_letters.replayed": 5}


async def test_each_lane_gets_its_own_dead_letters_back_and_no_other(archived: SqliteSpool) -> None:
    await append(archived, numbers(3))
    batch = await frozen(archived, "archive")
    await archived.ack(batch, [Refusal(1, "disk", "full")])
    assert await drained(archived) == numbers(3)
    await archived.operator().replay_dead_letters(Chosen())
    assert await drained(archived) == [], "the own lane delivered it long ago"
    assert await drained(archived, "archive") == [b"1"]
    assert counts(archived, "archive") == (3, 3, 0, 0, 0)


async def test_they_keep_to_the_limits_of_the_lane_that_sends_them(spool: SqliteSpool) -> None:
    await refuse(spool, numbers(7))
    await spool.operator().replay_dead_letters(Chosen())
    assert (await frozen(spool, max_records=1)).records == (b"0",)
    assert (await frozen(spool, max_records=1000, max_bytes=6)).records == numbers_in(1, 4)
    assert (await frozen(spool)).records == numbers_in(4, 7)


def numbers_in(*span: int) -> tuple[bytes, ...]:
    return tuple(numbers(*span))


@pytest.mark.parametrize("killed_when", ["put_back", "frozen", "split", "acked"])
async def test_a_restart_at_any_point_finds_each_record_in_one_place(
    data_dir: Path, tmp_path: Path, clock: Clock, killed_when: str
) -> None:
    spool = open_spool(data_dir, clock)
    await refuse(spool, numbers(10))
    await spool.operator().replay_dead_letters(Chosen())
    left = numbers(10)
    if killed_when != "put_back":
        batch = await frozen(spool, max_records=4)
        if killed_when == "split":
            await spool.split(batch)
        if killed_when == "acked":
            await spool.ack(batch)
            left = left[4:]
    copied(data_dir, tmp_path / "killed")
    await spool.close()
    restarted = open_spool(tmp_path / "killed", clock)
    await assert_balanced(restarted)
    assert sorted(await drained(restarted)) == left
    assert counts(restarted) == (10, 10, 0, 0, 0)
    await restarted.run_maintenance()
    await assert_balanced(restarted)
    await restarted.close()


async def test_one_that_is_refused_again_is_a_dead_letter_again_and_the_command_ends(spool: SqliteSpool) -> None:
    await refuse(spool, numbers(3))
    await spool.operator().replay_dead_letters(Chosen())
    batch = await frozen(spool)
    await spool.split(batch)
    await spool.bury(await frozen(spool), "bad_record", "still no good")
    await spool.ack(await frozen(spool))
    assert counts(spool) == (3, 2, 0, 1, 0)
    assert await records_of(spool) == [b"0"]


async def test_an_upstream_that_refuses_them_as_fast_as_they_come_back_keeps_no_command_going(
    spool: SqliteSpool,
) -> None:
    await refuse(spool, numbers(1100))

    async def refuse_all() -> None:
        while True:
            batch = await freeze(spool)
            if batch is not None:
                await spool.bury(batch, "bad_record", "still no good")

    refusing = asyncio.create_task(refuse_all())
    try:
        async with asyncio.timeout(HANGS_S):
            assert (await spool.operator().replay_dead_letters(ALL)).replayed == {AI_TELEMETRY: 1100}
    finally:
        refusing.cancel()
        await asyncio.gather(refusing, return_exceptions=True)
    await drained(spool)
    assert counts(spool)[0] == 1100


async def test_no_dead_letter_has_the_number_of_one_that_is_gone(spool: SqliteSpool) -> None:
    """A command that takes all up to a number would take it as well, and what an operator read
    about one would be done to another.
    """
    await refuse(spool, [b"a", b"b"])
    operator = spool.operator()
    seen = [letter.id for letter in await operator.find(Chosen(), most=9)]
    await operator.drop_dead_letters(ALL)
    await refuse(spool, [b"c"])
    (letter,) = await operator.find(Chosen(), most=9)
    assert letter.id > max(seen)


async def test_what_can_be_chosen(spool: SqliteSpool, clock: Clock) -> None:
    await refuse(spool, [b"a"], code="one")
    clock.now_ms += 1000
    await refuse(spool, [b"b"], code="two")
    await refuse(spool, [b"c"], USAGE_EVENTS, code="two")
    clock.now_ms += 1000
    await refuse(spool, [b"d"], code="one")
    at = clock.now_ms
    assert await records_of(spool, Chosen(reasons=("two",))) == [b"b", b"c"]
    assert await records_of(spool, Chosen(lanes=(USAGE_EVENTS,))) == [b"c"]
    assert await records_of(spool, Chosen(lanes=(USAGE_EVENTS, AI_TELEMETRY), reasons=("one", "two"))) == [
        b"a",
        b"b",
        b"c",
        b"d",
    ]
    assert await records_of(spool, Chosen(since_ms=at - 1000)) == [b"b", b"c", b"d"]
    assert await records_of(spool, Chosen(since_ms=at - 1000, until_ms=at)) == [b"b", b"c"]
    assert await records_of(spool, Chosen(ids=(1, 4))) == [b"a", b"d"]
    operator = spool.operator()
    assert (await operator.replay_dead_letters(Chosen(reasons=("two",)))).replayed == {AI_TELEMETRY: 1, USAGE_EVENTS: 1}
    assert await records_of(spool) == [b"a", b"d"]
    assert (await operator.replay_dead_letters(Chosen(), most=1)).replayed == {AI_TELEMETRY: 1}
    assert await records_of(spool) == [b"d"], "the oldest goes first"


async def test_pages_go_both_ways_and_by_each_key(spool: SqliteSpool) -> None:
    for n in range(6):
        await refuse(spool, [b"%d" % n], code=f"code{n % 2}")
    operator = spool.operator()
    first = await operator.find(Chosen(), sort="reason", most=2)
    assert [letter.record for letter in first] == [b"0", b"2"]
    place = Place(first[-1].reason, first[-1].id)
    after = await operator.find(Chosen(), sort="reason", beyond=place, most=3)
    assert [letter.record for letter in after] == [b"4", b"1", b"3"]
    before = await operator.find(Chosen(), sort="reason", descending=True, beyond=place, most=3)
    assert [letter.record for letter in before] == [b"0"]
    assert await operator.count(Chosen(reasons=("code1",))) == 3


async def test_what_the_spool_could_not_read_is_not_sent_to_anyone(spool: SqliteSpool) -> None:
    await append(spool, numbers(3))
    await spool.ask(lambda connection, _: connection.execute("UPDATE chunk SET body=x'00'"))
    assert await freeze(spool) is None
    assert counts(spool) == (3, 0, 0, 3, 0)
    assert await spool.operator().replay_dead_letters(Chosen()) == Requeued({}, 3)
    assert counts(spool) == (3, 0, 0, 3, 0)


async def test_dead_letters_of_an_exporter_that_is_gone_stay_where_they_are(data_dir: Path, clock: Clock) -> None:
    spool = open_spool(data_dir, clock, exporters=["archive"])
    await refuse(spool, numbers(2))
    await spool.bury(await frozen(spool, "archive"), "disk", "full")
    await spool.close()
    spool = open_spool(data_dir, clock)
    assert await spool.operator().replay_dead_letters(Chosen(lanes=("archive",))) == Requeued({}, 2)
    assert await spool.operator().count(Chosen(lanes=("archive",))) == 2
    await spool.close()


async def test_a_lane_that_is_given_up_expires_what_was_put_back_for_it(data_dir: Path, clock: Clock) -> None:
    spool = open_spool(data_dir, clock, exporters=["archive"])
    await append(spool, numbers(4))
    await spool.bury(await frozen(spool, "archive"), "disk", "full")
    await spool.operator().replay_dead_letters(Chosen())
    await frozen(spool, "archive", max_records=1)
    await spool.close()
    spool = open_spool(data_dir, clock)
    figures = spool.counters.lanes["archive"]
    assert (figures.kept, figures.expired, figures.pending) == (4, 4, 0)
    await spool.run_maintenance()
    assert await again_chunks(spool) == 0
    assert await drained(spool) == numbers(4)
    await spool.close()


async def again_chunks(spool: SqliteSpool) -> int:
    found: int = await spool.ask(
        lambda connection, _: connection.execute("SELECT count(*) FROM chunk WHERE lane LIKE 'again:%'").fetchone()[0]
    )
    return found


async def test_the_bytes_go_once_they_are_delivered(spool: SqliteSpool) -> None:
    await refuse(spool, numbers(3))
    await spool.operator().replay_dead_letters(Chosen())
    batch = await frozen(spool, max_records=2)
    await spool.run_maintenance()
    assert await again_chunks(spool) == 1, "a batch under way needs it"
    await spool.ack(batch)
    await spool.run_maintenance()
    assert await again_chunks(spool) == 1, "the rest is not frozen yet"
    await drained(spool)
    await spool.run_maintenance()
    assert await again_chunks(spool) == 0


async def test_what_was_put_back_expires_by_its_age_since_then(spool: SqliteSpool, clock: Clock) -> None:
    await refuse(spool, numbers(5))
    clock.now_ms += 8 * DAY_MS
    await spool.operator().replay_dead_letters(Chosen())
    leased = await frozen(spool, max_records=1)
    released = await frozen(spool, max_records=1)
    await spool.release(released, answered=False)
    await spool.run_maintenance()
    assert counts(spool) == (5, 0, 5, 0, 0)
    clock.now_ms += 8 * DAY_MS
    await spool.run_maintenance()
    assert counts(spool) == (5, 0, 1, 0, 4)
    await spool.ack(leased)
    assert counts(spool) == (5, 1, 0, 0, 4)


async def test_the_oldest_pending_record_may_be_one_that_was_put_back(spool: SqliteSpool, clock: Clock) -> None:
    await refuse(spool, numbers(1))
    clock.now_ms += 1000
    put_back_ms = clock.now_ms
    await spool.operator().replay_dead_letters(Chosen())
    clock.now_ms += 1000
    await append(spool, numbers(1))
    await spool.run_maintenance()
    assert spool.depth(AI_TELEMETRY).oldest_pending_ms == put_back_ms


async def test_fresh_records_and_those_sent_again_take_turns(spool: SqliteSpool) -> None:
    await refuse(spool, numbers(100))
    await spool.operator().replay_dead_letters(Chosen())
    await append(spool, [b"fresh%d" % n for n in range(100)])
    order = [(await frozen(spool, max_records=1)).records[0] for _ in range(40)]
    old = [record for record in order if not record.startswith(b"fresh")]
    assert len(old) == 10, order
    assert old == numbers(10)


# ---- dropped and expired


async def test_dropped_dead_letters_stay_counted_as_such(spool: SqliteSpool) -> None:
    await refuse(spool, numbers(3))
    await refuse(spool, numbers(3, 5), code="other")
    assert await spool.operator().drop_dead_letters(Chosen(reasons=("bad_record",))) == 3
    assert await records_of(spool) == numbers(3, 5)
    assert counts(spool) == (5, 0, 0, 5, 0)
    assert await spool.operator().drop_dead_letters(Chosen(), most=1) == 1
    assert await beside(spool) == {"dead_letters.dropped": 4}
    await assert_balanced(spool)
    assert await spool.operator().replay_dead_letters(Chosen()) == Requeued({AI_TELEMETRY: 1}, 0)


async def test_more_than_one_page_of_them(spool: SqliteSpool) -> None:
    await refuse(spool, numbers(1200))
    assert (await spool.operator().replay_dead_letters(Chosen(), most=1100)).replayed == {AI_TELEMETRY: 1100}
    assert sorted(await drained(spool)) == sorted(numbers(1100))
    assert await spool.operator().drop_dead_letters(Chosen()) == 100
    assert counts(spool) == (1200, 1100, 0, 100, 0)


async def test_dead_letters_expire_by_age_counted(data_dir: Path, clock: Clock) -> None:
    settings = replace(SETTINGS, keep_dead_letters_ms=30 * DAY_MS)
    spool = open_spool(data_dir, clock, settings=settings)
    await refuse(spool, numbers(600))
    clock.now_ms += 10 * DAY_MS
    await refuse(spool, numbers(600, 601))
    clock.now_ms += 21 * DAY_MS
    assert await beside(spool) == {"dead_letters.expired": 600}
    assert await records_of(spool) == [b"600"]
    assert counts(spool) == (601, 0, 0, 601, 0)
    await assert_balanced(spool)
    await spool.close()


async def test_dead_letters_take_no_more_room_than_they_may(data_dir: Path, clock: Clock) -> None:
    settings = replace(SETTINGS, max_dead_letter_bytes=10_000)
    spool = open_spool(data_dir, clock, settings=settings)
    for n in range(5):
        await refuse(spool, [b"%d" % n * 1000 for _ in range(4)])
        await spool.run_maintenance()
    assert [record[:1] for record in await records_of(spool)] == [
        b"2",
        b"2",
        b"3",
        b"3",
        b"3",
        b"3",
        b"4",
        b"4",
        b"4",
        b"4",
    ]
    assert await beside(spool) == {"dead_letters.expired": 10}
    assert counts(spool) == (20, 0, 0, 20, 0)
    await spool.close()


async def test_counts_by_lane_and_reason(spool: SqliteSpool) -> None:
    await refuse(spool, numbers(3), code="one")
    await refuse(spool, numbers(3, 5), code="two")
    await refuse(spool, numbers(1), USAGE_EVENTS, code="one")
    await spool.run_maintenance()
    assert [(x.lane, x.reason, x.records, x.size_bytes) for x in spool.dead_letter_summary().reasons] == [
        (AI_TELEMETRY, "one", 3, 3),
        (AI_TELEMETRY, "two", 2, 2),
        (USAGE_EVENTS, "one", 1, 1),
    ]


async def test_an_upstream_that_makes_up_codes_fills_no_table(spool: SqliteSpool) -> None:
    await append(spool, numbers(150))
    await spool.ack(await frozen(spool), [Refusal(i, f"code {i}", "") for i in range(150)])
    await spool.run_maintenance()
    reasons = spool.dead_letter_summary().reasons
    assert len(reasons) == 101
    assert (reasons[-1].reason, reasons[-1].records) == ("other", 50)


# ---- delivered records, sent again


async def deliver(spool: SqliteSpool, records: Sequence[bytes], lane: Lane = AI_TELEMETRY) -> None:
    await append(spool, records, lane)
    assert await drained(spool, lane) == list(records)


async def test_delivered_records_go_out_once_more_and_stay_counted_once(spool: SqliteSpool, clock: Clock) -> None:
    await deliver(spool, numbers(5))
    assert await spool.operator().replay_delivered([AI_TELEMETRY], clock.now_ms - 1000) == {AI_TELEMETRY: 5}
    assert counts(spool) == (5, 5, 0, 0, 0)
    await spool.run_maintenance()
    assert spool.dead_letter_summary().sending_again == ((AI_TELEMETRY, 5),)
    assert await drained(spool, max_records=2) == numbers(5)
    assert counts(spool) == (5, 5, 0, 0, 0)
    assert await beside(spool) == {"sent_again.delivered": 5}
    assert spool.dead_letter_summary().sending_again == ()


async def test_only_what_came_since_then_and_only_in_that_lane(archived: SqliteSpool, clock: Clock) -> None:
    await append(archived, numbers(3))
    clock.now_ms += 5000
    await append(archived, numbers(3, 6))
    await drained(archived)
    await drained(archived, "archive")
    assert await archived.operator().replay_delivered(["archive"], clock.now_ms) == {"archive": 3}
    assert await drained(archived) == []
    assert await drained(archived, "archive") == numbers(3, 6)


async def test_what_is_on_its_way_is_not_sent_twice(spool: SqliteSpool, clock: Clock) -> None:
    """Delivered 0-1 and 4-5; 2-3 is under way; 6-9 waits."""
    await append(spool, numbers(10))
    a, b, c = [await frozen(spool, max_records=2) for _ in range(3)]
    await spool.ack(a)
    await spool.ack(c)
    operator = spool.operator()
    assert await operator.count_delivered([AI_TELEMETRY], 0) == {AI_TELEMETRY: 4}
    assert spool.dead_letter_summary().sending_again == (), "to count sends nothing"
    assert await operator.replay_delivered([AI_TELEMETRY], 0) == {AI_TELEMETRY: 4}
    assert await operator.count_delivered([AI_TELEMETRY], 0) == {AI_TELEMETRY: 0}
    assert await operator.replay_delivered([AI_TELEMETRY], 0) == {AI_TELEMETRY: 0}, "asked again while it waits"
    assert counts(spool) == (10, 4, 6, 0, 0)
    await spool.ack(b)
    assert sorted(await drained(spool)) == sorted([*numbers(2), *numbers(4, 10)])
    assert counts(spool) == (10, 10, 0, 0, 0)


async def test_what_settling_dropped_is_not_sent_again(data_dir: Path, clock: Clock) -> None:
    from spool.settling import Change  # noqa: PLC0415

    spool = open_spool(data_dir, clock, settling=(AI_TELEMETRY,))
    await append(spool, numbers(4))
    await spool.settle(AI_TELEMETRY, 1, [Change(1, 2, "duplicate.test", None), Change(1, 1, "kept.merged", b"one")])
    assert await drained(spool) == [b"0", b"one", b"3"]
    assert await spool.operator().replay_delivered([AI_TELEMETRY], 0) == {AI_TELEMETRY: 3}
    assert await drained(spool) == [b"0", b"one", b"3"]
    await assert_balanced(spool)
    await spool.close()


async def test_a_refusal_the_second_time_makes_no_dead_letter_of_a_delivered_record(spool: SqliteSpool) -> None:
    await deliver(spool, numbers(6))
    await spool.operator().replay_delivered([AI_TELEMETRY], 0)
    await spool.ack(await frozen(spool, max_records=3), [Refusal(1, "x", "y")])
    await spool.bury(await frozen(spool, max_records=1), "x", "y")
    await spool.split(await frozen(spool))
    await drained(spool)
    assert counts(spool) == (6, 6, 0, 0, 0)
    assert await beside(spool) == {"sent_again.delivered": 4, "sent_again.refused": 2}


async def test_chunks_stay_until_they_were_sent_again(spool: SqliteSpool, clock: Clock) -> None:
    await deliver(spool, numbers(4))
    await spool.operator().replay_delivered([AI_TELEMETRY], 0)
    clock.now_ms += 3 * DAY_MS
    await spool.run_maintenance()
    assert await drained(spool, max_records=3) == numbers(4)
    await spool.run_maintenance()
    assert await spool.operator().replay_delivered([AI_TELEMETRY], 0) == {AI_TELEMETRY: 0}, "too old by now"


async def test_a_spool_that_fills_gives_up_sending_again_before_it_refuses_new_data(
    data_dir: Path, clock: Clock
) -> None:
    settings = replace(SETTINGS, max_bytes=4 << 20)
    spool = open_spool(data_dir, clock, settings=settings)
    for n in range(32):
        await deliver(spool, [noise(100_000, n)])
    assert (await spool.operator().replay_delivered([AI_TELEMETRY], 0))[AI_TELEMETRY] == 32
    under_way = await frozen(spool, max_records=1)
    await spool.run_maintenance()
    assert (await beside(spool))["sent_again.given_up"] == 31
    await spool.ack(under_way)
    await spool.run_maintenance()
    spool.admit(100_000)
    await assert_balanced(spool)
    await spool.close()


async def test_a_restart_goes_on_sending_again(data_dir: Path, tmp_path: Path, clock: Clock) -> None:
    spool = open_spool(data_dir, clock)
    await deliver(spool, numbers(10))
    await spool.operator().replay_delivered([AI_TELEMETRY], 0)
    batch = await frozen(spool, max_records=4)
    copied(data_dir, tmp_path / "killed")
    await spool.close()
    restarted = open_spool(tmp_path / "killed", clock)
    same: Batch = await frozen(restarted, max_records=1)
    assert same == batch, "what went out may have arrived: the same bytes under the same id"
    await restarted.ack(same)
    assert await drained(restarted) == numbers(4, 10)
    assert counts(restarted) == (10, 10, 0, 0, 0)
    await restarted.close()


@pytest.mark.parametrize("lane", [DEVICES, "nobody"])
async def test_a_lane_that_must_not_be_sent_again_is_refused_by_name(spool: SqliteSpool, lane: Lane) -> None:
    with pytest.raises(SpoolError, match="lane"):
        await spool.operator().replay_delivered([AI_TELEMETRY, lane], 0)


# ---- at rest


async def test_the_same_verbs_work_on_the_files_of_a_stopped_gateway(data_dir: Path, clock: Clock) -> None:
    spool = open_spool(data_dir, clock, exporters=["archive"])
    await refuse(spool, numbers(4))
    with pytest.raises(SpoolLocked), at_rest(data_dir, clock):
        pass
    await spool.close()
    with at_rest(data_dir, clock) as operator:
        assert [x.records for x in await operator.reasons()] == [4]
        assert await operator.drop_dead_letters(Chosen(), most=1) == 1
        assert (await operator.replay_dead_letters(Chosen())).replayed == {AI_TELEMETRY: 3}
    spool = open_spool(data_dir, clock, exporters=["archive"])
    assert counts(spool) == (4, 0, 3, 1, 0)
    assert counts(spool, "archive") == (4, 0, 4, 0, 0), "no exporter's records were given up"
    assert await drained(spool) == numbers(1, 4)
    assert await drained(spool, "archive") == numbers(4)
    await assert_balanced(spool)
    await spool.close()


async def test_a_file_of_an_earlier_layout_is_brought_forward_with_its_dead_letters(
    data_dir: Path, clock: Clock
) -> None:
    make_private_dir(data_dir)
    connection = sqlite3.connect(data_dir / "spool.db", isolation_level=None)
    for number, sql in database.migrations()[:2]:
        connection.executescript(f"{sql}; PRAGMA user_version={number};")
    connection.execute("INSERT INTO dead_letter VALUES (1, 'ai_telemetry', 5, 'bad', 'words', ?)", (b"record",))
    figures = '{"edge":{"received":1,"kept":1,"duplicate":0,"suppressed":0,"rejected":0,"ignored":0},"reasons":{},"lanes":{"ai_telemetry":{"kept":1,"delivered":0,"pending":0,"dead_lettered":1,"expired":0}}}'
    connection.execute("INSERT INTO meta VALUES ('figures', ?)", (figures,))
    connection.close()
    with pytest.raises(SpoolError, match="start the gateway once"), at_rest(data_dir, clock):
        pass
    spool = open_spool(data_dir, clock)
    (letter,) = await spool.operator().find(Chosen(), most=10)
    assert (letter.size_bytes, letter.reason, letter.message) == (6, "bad", "words")
    await spool.operator().replay_dead_letters(Chosen())
    assert await drained(spool) == [b"record"]
    await assert_balanced(spool)
    await spool.close()
    with closing(sqlite3.connect(data_dir / "spool.db")) as found:
        assert found.execute("PRAGMA user_version").fetchone()[0] >= 3


async def test_dead_letters_that_were_put_back_are_found_again_when_their_stretches_are_lost(
    spool: SqliteSpool,
) -> None:
    await refuse(spool, numbers(6))
    await spool.operator().replay_dead_letters(ALL)
    under_way = await frozen(spool, max_records=2)
    await spool.ask(lambda connection, _: connection.execute("DELETE FROM stretch"))
    await spool.ask(lambda connection, _: ranges.send_uncovered(connection, AI_TELEMETRY))
    await assert_balanced(spool)
    assert await drained(spool) == numbers(2, 6)
    await spool.ack(under_way)
    assert counts(spool) == (6, 6, 0, 0, 0)


# ---- refusals that name no record


async def test_refusals_that_name_no_record_are_counted_and_cannot_be_put_back(spool: SqliteSpool) -> None:
    await refuse_unnamed(spool, numbers(0, 20), 5)
    assert counts(spool) == (20, 15, 0, 5, 0)
    await assert_balanced(spool)
    letters = spool.operator()
    (letter,) = await letters.find(ALL, most=10)
    assert (letter.reason, letter.record) == ("not_named", b"")
    assert [(reason.reason, reason.records) for reason in await letters.reasons()] == [("not_named", 5)]
    assert await letters.replay_dead_letters(ALL) == Requeued({}, 1)
    assert await letters.drop_dead_letters(ALL) == 1
    assert counts(spool) == (20, 15, 0, 5, 0)
    assert (await beside(spool))["dead_letters.dropped"] == 5
    await assert_balanced(spool)


async def test_a_brake_is_noted_for_each_lane_and_over_a_restart(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "data", exporters=["archive"])
    await spool.note_brake(AI_TELEMETRY, "why")
    await spool.note_brake(AI_TELEMETRY, "why else")
    await spool.note_brake("archive", "other")
    await spool.note_brake("archive", None)
    await spool.close()
    again = open_spool(tmp_path / "data", exporters=["archive"])
    assert await again.brake_reason(AI_TELEMETRY) == "why else"
    assert await again.brake_reason("archive") is None
    await again.close()
