"""Totals, their order and their endings: what the upstream holds
after whatever happened in between.
"""

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal

import orjson
import pytest

from gateway.usage.events.checks import EventRules
from gateway.usage.events.intake import Metering
from spool.dead_letters import Chosen
from spool.events import IntakeOutcome, NewEvent, RepeatKey
from spool.record import UNIT_COST
from spool.store import Refusal
from spool.unit_cost import BaseRecord, Mismatch, Rules, TotalKey, bucket_start_ms
from tests.support.calls import EPOCH_MS
from tests.support.spool_homes import HOMES, SpoolHome
from tests.support.spool_rig import SETTINGS, Clock
from tests.support.unit_streams import HOUR_MS, METRIC, SHAPE, STREAM, UnitRig, metered, place


@pytest.fixture
async def rig(home: SpoolHome, clock: Clock) -> AsyncIterator[UnitRig]:
    made = UnitRig(home, clock, can_read=True)
    yield made
    await made.close()


@pytest.fixture
async def unread(home: SpoolHome, clock: Clock) -> AsyncIterator[UnitRig]:
    """What its upstream holds cannot be known."""
    made = UnitRig(home, clock)
    yield made
    await made.close()


@pytest.fixture
async def summing(home: SpoolHome, clock: Clock) -> AsyncIterator[UnitRig]:
    """Others send to its streams as well."""
    made = UnitRig(home, clock, ships="sum")
    yield made
    await made.close()


def operations(rig: UnitRig) -> list[str]:
    return [operation for _, operation in rig.far.operations]


async def test_what_came_to_a_place_travels_as_one_total(rig: UnitRig) -> None:
    await rig.keep(metered("0.1"), metered("0.2"), metered(5, place("other")))
    await rig.keep(metered("0.000000000000001"))
    await rig.ship()
    assert rig.far.at() == Decimal("0.300000000000001")
    assert rig.far.at("other") == 5
    depth = rig.spool.depth(UNIT_COST)
    assert (depth.kept, depth.delivered, depth.pending) == (4, 4, 0)
    assert rig.spool.edge()["received"] == rig.spool.edge()["kept"] == 4


async def test_late_data_ships_the_whole_total_again(rig: UnitRig) -> None:
    await rig.keep(metered(3))
    await rig.ship()
    await rig.keep(metered(4), metered(1, place(hour=1)))
    await rig.ship()
    assert (rig.far.at(), rig.far.at(hour=1)) == (7, 1)
    assert operations(rig) == ["replace", "replace"]


async def test_a_resend_after_a_kill_changes_nothing(rig: UnitRig) -> None:
    await rig.keep(metered(3))
    await rig.ship()
    await rig.keep(metered(4))
    batch = await rig.frozen()
    rig.far.apply(batch)  # it arrived, and the answer was lost
    await rig.keep(metered(5))
    await rig.kill()
    again = await rig.frozen()
    assert (again.batch_id, again.records, again.generation) == (batch.batch_id, batch.records, 0)
    rig.far.apply(again)
    await rig.lane.ack(again)
    await rig.ship()
    assert rig.far.at() == 12
    assert rig.spool.depth(UNIT_COST).delivered == 3


async def test_a_stream_has_one_batch_under_way_and_others_do_not_wait_for_it(rig: UnitRig) -> None:
    await rig.keep(metered(1))
    await rig.ship()
    await rig.keep(metered(1))
    held = await rig.frozen()
    await rig.keep(metered(1, place("later")))
    await rig.keep(metered(2, stream="second"))
    second = await rig.frozen()
    assert orjson.loads(second.records[0])["stream"] == "second"
    assert await rig.freeze() is None
    await rig.lane.release(held, answered=True)
    again = await rig.frozen()
    assert (again.batch_id, again.generation) == (held.batch_id, 1)
    for batch in (again, second):
        await rig.lane.ack(batch)


async def test_a_stream_to_which_something_always_comes_lets_others_go(unread: UnitRig) -> None:
    for stream in ("busy", "other"):
        await unread.keep(metered(1, stream=stream))
        unread.clock.now_ms += 1
    for _ in range(2):
        batch = await unread.frozen()
        unread.far.apply(batch)
        await unread.keep(metered(1, stream="busy"))
        await unread.lane.ack(batch)
    assert [stream for stream, _ in unread.far.operations] == ["busy", "other"]


async def test_halves_of_a_batch_go_before_anything_newer_of_their_stream(rig: UnitRig) -> None:
    await rig.keep(*(metered(1, place(element)) for element in "abcd"))
    await rig.ship()
    await rig.keep(*(metered(1, place(element)) for element in "abcd"))
    batch = await rig.frozen()
    await rig.lane.split(batch)
    await rig.keep(metered(1, place("a")))
    half = await rig.frozen()
    assert len(half.records) == 2
    assert await rig.freeze() is None
    await rig.lane.bury(half, "invalid_filter", "no such dimension")
    other = await rig.frozen()
    assert {*half.records, *other.records} == {*batch.records}
    await rig.lane.ack(other)
    await rig.ship()
    depth = rig.spool.depth(UNIT_COST)
    assert (depth.kept, depth.delivered, depth.dead_lettered) == (9, 7, 2)
    assert rig.far.at("a") == 3, "what came later carries the whole total, also what was refused"


async def test_a_total_that_comes_to_nothing_is_deleted(rig: UnitRig) -> None:
    at = TotalKey(bucket_start_ms(EPOCH_MS, "DAILY"), "", "{}")
    await rig.keep(metered(7, at, shape=METRIC, stream="m"))
    await rig.lane.ack(await rig.frozen())  # the read, which found nothing
    await rig.lane.learn_base("m", [])
    await rig.ship()
    await rig.keep(metered(-7, at, shape=METRIC, stream="m"))
    await rig.ship()
    assert operations(rig) == ["replace", "delete"]
    assert rig.far.values == {}


async def test_replace_and_delete_of_a_sender_cover_what_came_before(rig: UnitRig) -> None:
    await rig.keep(metered(1))
    await rig.keep(metered(50, operation="replace"), metered(2))
    await rig.keep(metered(9, place("gone")), metered(operation="delete", at=place("gone")))
    await rig.ship()
    assert rig.far.at() == 52
    assert rig.far.at("gone") is None
    assert rig.spool.depth(UNIT_COST).delivered == 5


async def test_a_wide_delete_takes_what_the_upstream_holds_and_spares_what_came_after(rig: UnitRig) -> None:
    await rig.keep(metered(1), metered(2, place("other")), metered(3, place(hour=1)))
    await rig.ship()
    rig.far.values[(STREAM, "2026-01-05T10:00:00Z", "foreign", place().filter)] = Decimal(4)
    wide = TotalKey(EPOCH_MS, "", "")
    await rig.keep(metered(10), metered(operation="delete", at=wide, shape=SHAPE._replace(dimensions=())), metered(6))
    await rig.ship()
    assert rig.far.at() == 6
    assert rig.far.at("other") is None
    assert rig.far.at("foreign") is None
    assert rig.far.at(hour=1) == 3
    await rig.keep(metered(8, place("fresh")), metered(1))
    await rig.ship()
    assert (rig.far.at("fresh"), rig.far.at()) == (8, 7)
    assert rig.spool.depth(UNIT_COST).pending == 0


# ---- what the upstream holds already


async def test_an_empty_data_directory_reads_first_and_wipes_nothing(rig: UnitRig) -> None:
    rig.far.values[(STREAM, "2026-01-05T10:00:00Z", "acme", place().filter)] = Decimal(100)
    await rig.keep(metered(5))
    await rig.ship()
    assert rig.far.at() == 105
    assert operations(rig) == ["replace"]


async def test_without_a_read_the_buckets_that_began_go_by_sum(unread: UnitRig) -> None:
    unread.far.values[(STREAM, "2026-01-05T10:00:00Z", "acme", place().filter)] = Decimal(100)
    await unread.keep(metered(5), metered(7, place(hour=1)))
    await unread.ship()
    await unread.keep(metered(1), metered(1, place(hour=1)))
    await unread.ship()
    assert (unread.far.at(), unread.far.at(hour=1)) == (106, 8)
    assert sorted(operations(unread)) == ["replace", "replace", "sum", "sum"]


async def test_a_sum_that_comes_to_nothing_is_delivered_without_being_sent(summing: UnitRig) -> None:
    at = TotalKey(bucket_start_ms(EPOCH_MS, "DAILY"), "", "{}")
    await summing.keep(metered(7, at, shape=METRIC), metered(-7, at, shape=METRIC))
    await summing.ship()
    assert summing.far.operations == []
    assert summing.spool.depth(UNIT_COST).delivered == 2


async def test_a_stream_that_others_send_to_travels_by_sum_but_for_what_its_sender_replaces(summing: UnitRig) -> None:
    await summing.keep(metered(5))
    await summing.ship()
    summing.far.values[(STREAM, "2026-01-05T10:00:00Z", "acme", place().filter)] += 100  # another gateway's
    await summing.keep(metered(1))
    await summing.ship()
    assert summing.far.at() == 106
    await summing.keep(metered(10, operation="replace"))
    await summing.ship()
    await summing.keep(metered(1))
    await summing.ship()
    assert operations(summing) == ["sum", "sum", "replace", "sum"]
    assert summing.far.at() == 11


async def test_what_is_too_long_for_the_upstream_is_rounded_when_sent_and_kept_exactly(summing: UnitRig) -> None:
    await summing.keep(metered("123456789012345"), metered("0.4"))
    await summing.ship()
    assert summing.far.at() == Decimal(123456789012345)
    await summing.keep(metered("0.6"))
    await summing.ship()
    assert summing.far.at() == Decimal(123456789012346)


# ---- refusals, age


async def test_a_stream_keeps_its_shape_and_a_refused_request_leaves_nothing(rig: UnitRig) -> None:
    assert await rig.keep(metered(operation="delete")) == Mismatch("stream_unknown", "")
    assert await rig.keep(metered(1)) == "kept"
    assert await rig.keep(metered(1, shape=METRIC)) == Mismatch("stream_kind", "allocation")
    assert await rig.keep(metered(1), metered(1, shape=SHAPE._replace(granularity="DAILY"))) == Mismatch(
        "stream_granularity", "HOURLY", number=1
    )
    other = SHAPE._replace(dimensions=("custom:Other",))
    assert await rig.keep(metered(1, shape=other)) == Mismatch("stream_dimensions", "custom:Product")
    await rig.ship()
    assert rig.far.at() == 1
    edge = rig.spool.edge()
    assert (edge["received"], edge["kept"], edge["rejected"]) == (6, 1, 5)


async def test_a_repeat_counts_once_and_what_says_something_else_is_reported(rig: UnitRig) -> None:
    mark = RepeatKey(b"k" * 16, b"c" * 8)
    assert await rig.keep(metered(1), metered(2), mark=mark) == "kept"
    await rig.reopen()
    assert await rig.keep(metered(1), metered(2), mark=mark) == "duplicate"
    assert await rig.keep(metered(9), mark=mark._replace(content=b"d" * 8)) == "conflict"
    assert await rig.event("e1", metered(4), metered(4)) == ["kept", "duplicate"]
    assert await rig.event("e1", metered(4), says="else") == ["conflict"]
    assert await rig.event("e2", metered(4, shape=METRIC)) == [Mismatch("stream_kind", "allocation")]
    assert await rig.event("e2", metered(4)) == ["kept"], "what was refused was not taken"
    await rig.ship()
    assert rig.far.at() == 11
    edge = rig.spool.edge()
    assert (edge["duplicate"], edge["rejected"]) == (4, 2)
    assert await rig.store.forget(rig.spool.age_ms() + 1) == 3


async def test_a_dead_letter_represents_all_its_records_and_goes_back_as_the_total_is_now(rig: UnitRig) -> None:
    await rig.keep(metered(1), metered(2))
    await rig.lane.learn_base(STREAM, [BaseRecord(place("foreign"), Decimal(5))])
    batch = await rig.frozen()
    await rig.lane.ack(batch, [Refusal(0, "invalid_filter", "no such dimension")])
    depth = rig.spool.depth(UNIT_COST)
    assert (depth.kept, depth.dead_lettered) == (2, 2)
    await rig.keep(metered(4))
    await rig.ship()
    assert rig.far.at() == 7
    await rig.keep(metered(1))
    requeued = await rig.spool.operator().replay_dead_letters(Chosen())
    assert requeued.replayed == {UNIT_COST: 1}
    await rig.ship()
    assert rig.far.at() == 8
    depth = rig.spool.depth(UNIT_COST)
    assert (depth.kept, depth.delivered, depth.dead_lettered) == (4, 4, 0)


async def test_a_refused_delete_of_several_places_is_not_put_back_over_what_came_after(rig: UnitRig) -> None:
    await rig.keep(metered(1), metered(2, place("other")))
    await rig.ship()
    wide = metered(operation="delete", at=TotalKey(EPOCH_MS, "", ""), shape=SHAPE._replace(dimensions=()))
    await rig.keep(wide)
    rig.clock.now_ms += 1
    await rig.lane.bury(await rig.frozen(), "forbidden_delete", "not now")
    (letters,) = [await rig.spool.operator().replay_dead_letters(Chosen(reasons=("forbidden_delete",)), most=1)]
    assert sum(letters.replayed.values()) == 1, "nothing came after"
    await rig.lane.bury(await rig.frozen(), "forbidden_delete", "not now")
    await rig.keep(metered(5))
    await rig.ship()
    requeued = await rig.spool.operator().replay_dead_letters(Chosen())
    assert requeued.skipped == 1
    await rig.ship()
    assert rig.far.at() == 5
    await rig.keep(wide)
    await rig.ship()
    assert rig.far.values == {}, "posted again it takes what stands by then"


async def test_a_refused_replace_is_not_put_back_over_sums_that_came_after(summing: UnitRig) -> None:
    await summing.keep(metered(100, operation="replace"), metered(7, place("other"), operation="replace"))
    summing.clock.now_ms += 1
    await summing.lane.bury(await summing.frozen(), "invalid_filter", "no such dimension")
    await summing.keep(metered(5))
    await summing.ship()
    requeued = await summing.spool.operator().replay_dead_letters(Chosen())
    assert (requeued.replayed, requeued.skipped) == ({UNIT_COST: 1}, 1)
    await summing.ship()
    assert (summing.far.at(), summing.far.at("other")) == (5, 7)


async def test_a_sum_that_was_set_aside_is_added_when_it_is_put_back(summing: UnitRig) -> None:
    await summing.keep(metered(5))
    await summing.lane.bury(await summing.frozen(), "ambiguous_answer", "HTTP 500")
    await summing.keep(metered(2))
    await summing.spool.operator().replay_dead_letters(Chosen())
    await summing.ship()
    assert summing.far.at() == 7


async def test_a_dead_letter_that_must_stay_keeps_none_behind_it(rig: UnitRig) -> None:
    await rig.keep(metered(1, stream="gone"))
    await rig.lane.learn_base("gone", [])
    await rig.lane.bury(await rig.frozen(), "invalid_filter", "no such dimension")
    await rig.store.delete_stream("gone", None, forced=True)
    await rig.ship()
    await rig.keep(*(metered(1, place(element)) for element in "abc"))
    await rig.lane.learn_base(STREAM, [])
    await rig.lane.bury(await rig.frozen(), "invalid_filter", "no such dimension")
    operator = rig.spool.operator()
    requeued = await operator.replay_dead_letters(Chosen(), most=2)
    assert (requeued.replayed, requeued.skipped) == ({UNIT_COST: 2}, 0), "it is none of the two"
    requeued = await operator.replay_dead_letters(Chosen(), most=2)
    assert (requeued.replayed, requeued.skipped) == ({UNIT_COST: 1}, 1)


async def test_dropped_dead_letters_stay_counted(rig: UnitRig) -> None:
    await rig.keep(metered(1), metered(2))
    await rig.lane.learn_base(STREAM, [])
    await rig.lane.bury(await rig.frozen(), "invalid_filter", "no such dimension")
    assert await rig.spool.operator().drop_dead_letters(Chosen()) == 1
    assert rig.spool.depth(UNIT_COST).dead_lettered == 2


async def test_records_that_wait_too_long_expire_and_totals_outlive_them(rig: UnitRig) -> None:
    await rig.keep(metered(5))
    await rig.lane.learn_base(STREAM, [])
    await rig.lane.release(await rig.frozen(), answered=False)
    await rig.keep(metered(1, place("other")))
    rig.clock.now_ms += rig.spool.settings.max_age_ms + 1
    assert await rig.lane.run_maintenance(keep_totals_ms=45 * 24 * HOUR_MS) == 2
    assert rig.spool.depth(UNIT_COST).expired == 2
    await rig.keep(metered(2))
    await rig.ship()
    assert rig.far.at() == 7, "the total is whole again"


async def test_what_comes_to_a_bucket_whose_totals_were_forgotten_goes_by_sum(rig: UnitRig) -> None:
    await rig.keep(metered(5), metered(5, place(hour=1)))
    await rig.ship()
    await rig.keep(metered(1, place(hour=1)))
    rig.clock.now_ms += 45 * 24 * HOUR_MS
    await rig.keep(metered(1, place(hour=1)))
    await rig.ship()
    await rig.lane.run_maintenance(keep_totals_ms=24 * HOUR_MS)
    await rig.keep(metered(2), metered(2, place(hour=1)))
    await rig.ship()
    assert (rig.far.at(), rig.far.at(hour=1)) == (7, 9)
    assert operations(rig)[-2:] in (["sum", "replace"], ["replace", "sum"])


@pytest.mark.parametrize("home", HOMES, indirect=True)  # Postgres measures its room every 10 s
async def test_ids_make_room_when_they_alone_fill_the_spool(home: SpoolHome, clock: Clock) -> None:
    spool = home.open(settings=replace(SETTINGS, max_bytes=1 << 20))
    store = spool.events(Rules())
    metering = Metering(store, EventRules(), now_ms=clock)

    async def take(number: int) -> list[IntakeOutcome]:
        marks = [RepeatKey(f"{number}-{n}".encode().ljust(16), b"c" * 8) for n in range(1000)]
        return await store.keep_events([NewEvent(mark, None, metered(1)) for mark in marks], Counter())

    taken = 0
    while not spool.is_crowded:
        clock.now_ms += 1
        assert set(await take(taken)) == {"kept"}
        taken += 1
    day_ms = spool.settings.keep_delivered_ms
    assert await metering.make_room(spool.age_ms() - day_ms, lambda: spool.is_crowded) == 0, "they are too young"
    clock.now_ms += day_ms
    forgotten = await metering.make_room(spool.age_ms() - day_ms, lambda: spool.is_crowded)
    assert 0 < forgotten < 1000 * taken
    assert not spool.is_crowded
    assert set(await take(taken - 1)) == {"duplicate"}, "the youngest are still known"
    assert set(await take(0)) == {"kept"}, "the oldest went first"
    await spool.close()
