"""Dead letters: listed, put back, dropped, expired. Nothing is lost, and both identities hold
throughout.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import orjson
import pytest

from spool.dead_letters import Chosen, Place, Requeued
from spool.errors import NoSuchLane
from spool.forgetting import Forgotten
from spool.record import AI_TELEMETRY, USAGE_EVENTS
from spool.settling import Change, Position
from spool.store import Refusal, Spool
from tests.support.polling import HANGS_S
from tests.support.sending_again import DAY_MS, EACH, beside, counts, numbers, records_of, refuse
from tests.support.spool_homes import SpoolHome
from tests.support.spool_rig import SETTINGS, Clock, append, drained, freeze, frozen


@pytest.fixture
async def archived(home: SpoolHome) -> AsyncIterator[Spool]:
    """A spool with a further exporter."""
    spool = home.open(exporters=["archive"])
    yield spool
    await home.check()
    await spool.close()


async def test_dead_letters_that_are_put_back_are_pending_and_go_out_in_a_new_batch(
    home: SpoolHome, spool: Spool
) -> None:
    await refuse(spool, numbers(5))
    assert counts(spool) == (5, 0, 0, 5, 0)
    assert await spool.operator().replay_dead_letters(EACH) == Requeued({AI_TELEMETRY: 5}, 0)
    assert counts(spool) == (5, 0, 5, 0, 0)
    await home.check()
    batch = await frozen(spool)
    assert batch.records == tuple(numbers(5))
    assert (batch.generation, batch.attempts) == (0, 0)
    await spool.ack(batch)
    assert counts(spool) == (5, 5, 0, 0, 0)
    assert await records_of(spool) == []
    assert await beside(spool) == {"dead_letters.replayed": 5}


async def test_each_lane_gets_its_own_dead_letters_back_and_no_other(archived: Spool) -> None:
    await append(archived, numbers(3))
    batch = await frozen(archived, "archive")
    await archived.ack(batch, [Refusal(1, "disk", "full")])
    assert await drained(archived) == numbers(3)
    await archived.operator().replay_dead_letters(EACH)
    assert await drained(archived) == [], "the own lane delivered it long ago"
    assert await drained(archived, "archive") == [b"1"]
    assert counts(archived, "archive") == (3, 3, 0, 0, 0)


async def test_they_keep_to_the_limits_of_the_lane_that_sends_them(spool: Spool) -> None:
    await refuse(spool, numbers(7))
    await spool.operator().replay_dead_letters(EACH)
    assert (await frozen(spool, max_records=1)).records == (b"0",)
    assert (await frozen(spool, max_records=1000, max_bytes=6)).records == tuple(numbers(1, 4))
    assert (await frozen(spool)).records == tuple(numbers(4, 7))


@pytest.mark.parametrize("killed_when", ["put_back", "frozen", "split", "acked"])
async def test_a_restart_at_any_point_finds_each_record_in_one_place(home: SpoolHome, killed_when: str) -> None:
    spool = home.open()
    await refuse(spool, numbers(10))
    await spool.operator().replay_dead_letters(EACH)
    left = numbers(10)
    if killed_when != "put_back":
        batch = await frozen(spool, max_records=4)
        if killed_when == "split":
            await spool.split(batch)
        if killed_when == "acked":
            await spool.ack(batch)
            left = left[4:]
    home.kill()
    await spool.close()
    restarted = home.open()
    await home.check()
    assert sorted(await drained(restarted)) == left
    assert counts(restarted) == (10, 10, 0, 0, 0)
    await restarted.run_maintenance()
    await home.check()
    await restarted.close()


async def test_one_that_is_refused_again_is_a_dead_letter_again_and_the_command_ends(spool: Spool) -> None:
    await refuse(spool, numbers(3))
    await spool.operator().replay_dead_letters(EACH)
    batch = await frozen(spool)
    await spool.split(batch)
    await spool.bury(await frozen(spool), "bad_record", "still no good")
    await spool.ack(await frozen(spool))
    assert counts(spool) == (3, 2, 0, 1, 0)
    assert await records_of(spool) == [b"0"]


async def test_an_upstream_that_refuses_them_as_fast_as_they_come_back_keeps_no_command_going(
    spool: Spool,
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
            assert (await spool.operator().replay_dead_letters(EACH)).replayed == {AI_TELEMETRY: 1100}
    finally:
        refusing.cancel()
        await asyncio.gather(refusing, return_exceptions=True)
    await drained(spool)
    assert counts(spool)[0] == 1100


async def test_no_dead_letter_has_the_number_of_one_that_is_gone(spool: Spool) -> None:
    """A command that takes all up to a number would take it as well, and what an operator read
    about one would be done to another.
    """
    await refuse(spool, [b"a", b"b"])
    operator = spool.operator()
    seen = [letter.id for letter in await operator.find(EACH, most=9)]
    await operator.drop_dead_letters(EACH)
    await refuse(spool, [b"c"])
    (letter,) = await operator.find(EACH, most=9)
    assert letter.id > max(seen)


async def test_what_can_be_chosen(spool: Spool, clock: Clock) -> None:
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
    assert (await operator.replay_dead_letters(EACH, most=1)).replayed == {AI_TELEMETRY: 1}
    assert await records_of(spool) == [b"d"], "the oldest goes first"


async def test_pages_go_both_ways_and_by_each_key(spool: Spool) -> None:
    for n in range(6):
        await refuse(spool, [b"%d" % n], code=f"code{n % 2}")
    operator = spool.operator()
    first = await operator.find(EACH, sort="reason", most=2)
    assert [letter.record for letter in first] == [b"0", b"2"]
    place = Place(first[-1].reason, first[-1].id)
    after = await operator.find(EACH, sort="reason", beyond=place, most=3)
    assert [letter.record for letter in after] == [b"4", b"1", b"3"]
    before = await operator.find(EACH, sort="reason", descending=True, beyond=place, most=3)
    assert [letter.record for letter in before] == [b"0"]
    assert await operator.count(Chosen(reasons=("code1",))) == 3


async def test_dead_letters_of_an_exporter_that_is_gone_stay_where_they_are(home: SpoolHome) -> None:
    spool = home.open(exporters=["archive"])
    await refuse(spool, numbers(2))
    await spool.bury(await frozen(spool, "archive"), "disk", "full")
    await spool.close()
    spool = home.open()
    assert await spool.operator().replay_dead_letters(Chosen(lanes=("archive",))) == Requeued({}, 2)
    assert await spool.operator().count(Chosen(lanes=("archive",))) == 2
    await spool.close()


async def test_a_lane_that_is_given_up_expires_what_was_put_back_for_it(home: SpoolHome) -> None:
    spool = home.open(exporters=["archive"])
    await append(spool, numbers(4))
    await spool.bury(await frozen(spool, "archive"), "disk", "full")
    await spool.operator().replay_dead_letters(EACH)
    await frozen(spool, "archive", max_records=1)
    await spool.close()
    spool = home.open()
    assert await drained(spool) == numbers(4)
    await spool.close()
    spool = home.open(exporters=["archive"])
    assert counts(spool, "archive") == (4, 0, 0, 0, 4)
    await home.check()
    await spool.close()


async def test_what_was_put_back_expires_by_its_age_since_then(spool: Spool, clock: Clock) -> None:
    await refuse(spool, numbers(5))
    clock.now_ms += 8 * DAY_MS
    await spool.operator().replay_dead_letters(EACH)
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


async def test_the_oldest_pending_record_may_be_one_that_was_put_back(spool: Spool, clock: Clock) -> None:
    await refuse(spool, numbers(1))
    clock.now_ms += 1000
    put_back_ms = clock.now_ms
    await spool.operator().replay_dead_letters(EACH)
    clock.now_ms += 1000
    await append(spool, numbers(1))
    await spool.run_maintenance()
    assert spool.depth(AI_TELEMETRY).oldest_pending_ms == put_back_ms


async def test_fresh_records_and_those_sent_again_take_turns(spool: Spool) -> None:
    await refuse(spool, numbers(100))
    await spool.operator().replay_dead_letters(EACH)
    await append(spool, [b"fresh%d" % n for n in range(100)])
    order = [(await frozen(spool, max_records=1)).records[0] for _ in range(40)]
    old = [record for record in order if not record.startswith(b"fresh")]
    assert len(old) == 10, order
    assert old == numbers(10)


# ---- dropped and expired


async def test_dropped_dead_letters_stay_counted_as_such(home: SpoolHome, spool: Spool) -> None:
    await refuse(spool, numbers(3))
    await refuse(spool, numbers(3, 5), code="other")
    assert await spool.operator().drop_dead_letters(Chosen(reasons=("bad_record",))) == 3
    assert await records_of(spool) == numbers(3, 5)
    assert counts(spool) == (5, 0, 0, 5, 0)
    assert await spool.operator().drop_dead_letters(EACH, most=1) == 1
    assert await beside(spool) == {"dead_letters.dropped": 4}
    await home.check()
    assert await spool.operator().replay_dead_letters(EACH) == Requeued({AI_TELEMETRY: 1}, 0)


async def test_more_than_one_page_of_them(spool: Spool) -> None:
    await refuse(spool, numbers(1200))
    assert (await spool.operator().replay_dead_letters(EACH, most=1100)).replayed == {AI_TELEMETRY: 1100}
    assert sorted(await drained(spool)) == sorted(numbers(1100))
    assert await spool.operator().drop_dead_letters(EACH) == 100
    assert counts(spool) == (1200, 1100, 0, 100, 0)


async def test_dead_letters_expire_by_age_counted(home: SpoolHome, clock: Clock) -> None:
    settings = replace(SETTINGS, keep_dead_letters_ms=30 * DAY_MS)
    spool = home.open(settings=settings)
    await refuse(spool, numbers(600))
    clock.now_ms += 10 * DAY_MS
    await refuse(spool, numbers(600, 601))
    clock.now_ms += 21 * DAY_MS
    assert await beside(spool) == {"dead_letters.expired": 600}
    assert await records_of(spool) == [b"600"]
    assert counts(spool) == (601, 0, 0, 601, 0)
    await home.check()
    await spool.close()


async def test_dead_letters_take_no_more_room_than_they_may(home: SpoolHome) -> None:
    settings = replace(SETTINGS, max_dead_letter_bytes=10_000)
    spool = home.open(settings=settings)
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


async def test_counts_by_lane_and_reason(spool: Spool) -> None:
    await refuse(spool, numbers(3), code="one")
    await refuse(spool, numbers(3, 5), code="two")
    await refuse(spool, numbers(1), USAGE_EVENTS, code="one")
    await spool.run_maintenance()
    assert [(x.lane, x.reason, x.records, x.size_bytes) for x in spool.dead_letter_summary().reasons] == [
        (AI_TELEMETRY, "one", 3, 3),
        (AI_TELEMETRY, "two", 2, 2),
        (USAGE_EVENTS, "one", 1, 1),
    ]


async def test_an_upstream_that_makes_up_codes_fills_no_table(spool: Spool) -> None:
    await append(spool, numbers(150))
    await spool.ack(await frozen(spool), [Refusal(i, f"code {i}", "") for i in range(150)])
    await spool.run_maintenance()
    reasons = spool.dead_letter_summary().reasons
    assert len(reasons) == 101
    assert (reasons[-1].reason, reasons[-1].records) == ("other", 50)


async def test_refusals_that_name_no_record_are_counted_and_cannot_be_put_back(home: SpoolHome, spool: Spool) -> None:
    await append(spool, numbers(20))
    await spool.ack(await frozen(spool), [Refusal(None, "not_named", "no good", 5)])
    assert counts(spool) == (20, 15, 0, 5, 0)
    await home.check()
    letters = spool.operator()
    (letter,) = await letters.find(EACH, most=10)
    assert (letter.reason, letter.record) == ("not_named", b"")
    assert [(reason.reason, reason.records) for reason in await letters.reasons()] == [("not_named", 5)]
    assert await letters.replay_dead_letters(EACH) == Requeued({}, 1)
    assert await letters.drop_dead_letters(EACH) == 1
    assert counts(spool) == (20, 15, 0, 5, 0)
    assert (await beside(spool))["dead_letters.dropped"] == 5
    await home.check()


# ---- looked at


async def test_a_page_states_whether_anything_is_before_it_and_how_many_there_are(spool: Spool) -> None:
    await refuse(spool, numbers(5))
    await refuse(spool, numbers(2), USAGE_EVENTS)
    own = Chosen(lanes=(AI_TELEMETRY,))

    async def page(beyond: Place | None, *, descending: bool = False) -> tuple[list[bytes], bool, int]:
        found = await spool.operator().page(own, sort="buried_at", descending=descending, beyond=beyond, most=2)
        return [letter.record for letter in found.letters], found.is_first, found.total

    assert await page(None) == ([b"0", b"1"], True, 5)
    first, second, *_, last = await spool.operator().find(own, most=9)
    assert await page(Place(second.buried_ms, second.id)) == ([b"2", b"3"], False, 5)
    assert await page(Place(last.buried_ms, last.id)) == ([], False, 5)
    assert await page(Place(second.buried_ms, second.id), descending=True) == ([b"0"], False, 5)
    assert await page(Place(last.buried_ms, last.id + 1), descending=True) == ([b"4", b"3"], True, 5)
    await spool.operator().drop_dead_letters(Chosen(ids=(first.id,)))
    assert await page(Place(first.buried_ms, first.id)) == ([b"1", b"2"], True, 4)


async def test_ids_and_lanes_that_are_none_are_named(spool: Spool) -> None:
    await refuse(spool, numbers(2), code="c" * 70)
    operator = spool.operator()
    first, second = await operator.find(EACH, most=9)
    assert first.reason == "c" * 64
    assert await operator.missing([9, second.id, 9, 8]) == [9, 8]
    assert await operator.letter_lanes() == sorted(spool.lanes())
    for change in (operator.replay_dead_letters, operator.drop_dead_letters):
        with pytest.raises(NoSuchLane, match="lane"):
            await change(Chosen(lanes=("nobody",)))


# ---- a user who is forgotten


def record_of(user: str, n: int = 0) -> bytes:
    return orjson.dumps({"n": n, "attribution": {"user": user, "team": "core"}})


async def test_a_user_is_removed_from_what_nothing_depends_on_and_nothing_else_is(
    home: SpoolHome,
) -> None:
    spool = home.open(settling=(AI_TELEMETRY,))
    await append(spool, [record_of("zoe"), record_of("zoe", 1), b'"zoe"', record_of("amy")])
    merged = Change(1, 1, "kept.merged", record_of("zoe", 2))
    await spool.settle(AI_TELEMETRY, 1, [merged])
    await append(spool, [record_of("zoe", 3)])
    operator = spool.operator()
    assert await operator.forget_user({"zoe"}, dry_run=True) == Forgotten(records=2, waiting=1)
    assert (await spool.read(AI_TELEMETRY, [Position(1, 0)])) == [record_of("zoe")], "it was only counted"
    assert await operator.forget_user({"zoe"}, dry_run=False) == Forgotten(records=2, waiting=1)
    await spool.settle(AI_TELEMETRY, 2)
    records = [orjson.loads(record) for record in await drained(spool)]
    assert [isinstance(x, dict) and x["attribution"]["user"] for x in records] == [None, None, False, "amy", "zoe"]
    assert records[1] == {"n": 2, "attribution": {"user": None, "team": "core"}}
    await home.check()
    await spool.close()


async def test_a_frozen_batch_keeps_its_bytes_and_dead_letters_lose_the_name(spool: Spool) -> None:
    await refuse(spool, [record_of("zoe"), record_of("amy")])
    await append(spool, [record_of("zoe", n) for n in range(2)])
    batch = await frozen(spool, max_records=1)
    operator = spool.operator()
    assert await operator.forget_user({"zoe"}, dry_run=False) == Forgotten(records=1, dead_letters=1, waiting=2)
    await spool.release(batch, answered=False)
    assert (await frozen(spool)).records == batch.records
    letters = await operator.find(EACH, most=9)
    assert [orjson.loads(letter.record)["attribution"]["user"] for letter in letters] == [None, "amy"]
    assert [letter.size_bytes for letter in letters] == [len(letter.record) for letter in letters]
    await operator.replay_dead_letters(EACH)
    assert await operator.forget_user({"amy"}, dry_run=False) == Forgotten(records=2), "one of them delivered, and kept"
