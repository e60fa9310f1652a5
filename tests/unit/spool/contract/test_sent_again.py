"""Delivered records, sent again: they stay counted once, whatever comes of it."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from spool.errors import SpoolError
from spool.record import AI_TELEMETRY, DEVICES, Batch, Lane
from spool.settling import Change
from spool.store import Refusal, Spool
from tests.support.sending_again import DAY_MS, beside, counts, deliver, numbers
from tests.support.spool_homes import SpoolHome
from tests.support.spool_rig import SETTINGS, Clock, append, drained, frozen, noise


@pytest.fixture
async def archived(home: SpoolHome) -> AsyncIterator[Spool]:
    """A spool with a further exporter."""
    spool = home.open(exporters=["archive"])
    yield spool
    await home.check()
    await spool.close()


async def test_delivered_records_go_out_once_more_and_stay_counted_once(spool: Spool, clock: Clock) -> None:
    await deliver(spool, numbers(5))
    assert await spool.operator().replay_delivered([AI_TELEMETRY], clock.now_ms - 1000) == {AI_TELEMETRY: 5}
    assert counts(spool) == (5, 5, 0, 0, 0)
    await spool.run_maintenance()
    assert spool.dead_letter_summary().sending_again == ((AI_TELEMETRY, 5),)
    assert await drained(spool, max_records=2) == numbers(5)
    assert counts(spool) == (5, 5, 0, 0, 0)
    assert await beside(spool) == {"sent_again.delivered": 5}
    assert spool.dead_letter_summary().sending_again == ()


async def test_only_what_came_since_then_and_only_in_that_lane(archived: Spool, clock: Clock) -> None:
    await append(archived, numbers(3))
    clock.now_ms += 5000
    await append(archived, numbers(3, 6))
    await drained(archived)
    await drained(archived, "archive")
    assert await archived.operator().replay_delivered(["archive"], clock.now_ms) == {"archive": 3}
    assert await drained(archived) == []
    assert await drained(archived, "archive") == numbers(3, 6)


async def test_what_is_on_its_way_is_not_sent_twice(spool: Spool) -> None:
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


async def test_what_settling_dropped_is_not_sent_again(home: SpoolHome) -> None:
    spool = home.open(settling=(AI_TELEMETRY,))
    await append(spool, numbers(4))
    await spool.settle(AI_TELEMETRY, 1, [Change(1, 2, "duplicate.test", None), Change(1, 1, "kept.merged", b"one")])
    assert await drained(spool) == [b"0", b"one", b"3"]
    assert await spool.operator().replay_delivered([AI_TELEMETRY], 0) == {AI_TELEMETRY: 3}
    assert await drained(spool) == [b"0", b"one", b"3"]
    await home.check()
    await spool.close()


async def test_a_refusal_the_second_time_makes_no_dead_letter_of_a_delivered_record(spool: Spool) -> None:
    await deliver(spool, numbers(6))
    await spool.operator().replay_delivered([AI_TELEMETRY], 0)
    await spool.ack(await frozen(spool, max_records=3), [Refusal(1, "x", "y")])
    await spool.bury(await frozen(spool, max_records=1), "x", "y")
    await spool.split(await frozen(spool))
    await drained(spool)
    assert counts(spool) == (6, 6, 0, 0, 0)
    assert await beside(spool) == {"sent_again.delivered": 4, "sent_again.refused": 2}


async def test_chunks_stay_until_they_were_sent_again(spool: Spool, clock: Clock) -> None:
    await deliver(spool, numbers(4))
    await spool.operator().replay_delivered([AI_TELEMETRY], 0)
    clock.now_ms += 3 * DAY_MS
    await spool.run_maintenance()
    assert await drained(spool, max_records=3) == numbers(4)
    await spool.run_maintenance()
    assert await spool.operator().replay_delivered([AI_TELEMETRY], 0) == {AI_TELEMETRY: 0}, "too old by now"


async def test_a_spool_that_fills_gives_up_sending_again_before_it_refuses_new_data(home: SpoolHome) -> None:
    settings = replace(SETTINGS, max_bytes=4 << 20)
    spool = home.open(settings=settings)
    for n in range(32):
        await deliver(spool, [noise(100_000, n)])
    assert (await spool.operator().replay_delivered([AI_TELEMETRY], 0))[AI_TELEMETRY] == 32
    under_way = await frozen(spool, max_records=1)
    await spool.run_maintenance()
    assert (await beside(spool))["sent_again.given_up"] == 31
    await spool.ack(under_way)
    await spool.run_maintenance()
    spool.admit(100_000)
    await home.check()
    await spool.close()


async def test_a_restart_goes_on_sending_again(home: SpoolHome) -> None:
    spool = home.open()
    await deliver(spool, numbers(10))
    await spool.operator().replay_delivered([AI_TELEMETRY], 0)
    batch = await frozen(spool, max_records=4)
    home.kill()
    await spool.close()
    restarted = home.open()
    same: Batch = await frozen(restarted, max_records=1)
    assert same == batch, "what went out may have arrived: the same bytes under the same id"
    await restarted.ack(same)
    assert await drained(restarted) == numbers(4, 10)
    assert counts(restarted) == (10, 10, 0, 0, 0)
    await restarted.close()


@pytest.mark.parametrize("lane", [DEVICES, "nobody"])
async def test_a_lane_that_must_not_be_sent_again_is_refused_by_name(spool: Spool, lane: Lane) -> None:
    with pytest.raises(SpoolError, match="lane"):
        await spool.operator().replay_delivered([AI_TELEMETRY, lane], 0)
