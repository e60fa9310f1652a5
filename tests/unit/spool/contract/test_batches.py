"""Batches: frozen once, the same until acked, and every ending counted once."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import UUID

import pytest

from spool.record import AI_TELEMETRY, USAGE_EVENTS, Batch
from spool.store import Refusal, Spool
from tests.support.polling import HANGS_S
from tests.support.spool_homes import SpoolHome, letters_of
from tests.support.spool_rig import SETTINGS, Clock, append, drained, freeze, frozen


def numbers(*span: int) -> list[bytes]:
    return [str(n).encode() for n in range(*span)]


async def test_a_batch_holds_the_oldest_records_up_to_the_limits(spool: Spool) -> None:
    await append(spool, numbers(10))
    batch = await frozen(spool, max_records=4)
    assert batch.records == (b"0", b"1", b"2", b"3")
    assert (batch.generation, batch.attempts, batch.lane) == (0, 0, AI_TELEMETRY)
    assert UUID(batch.batch_id).version == 7
    assert UUID(batch.batch_id).int >> 80 == 1_767_607_200_000
    assert batch.sent_at == "2026-01-05T10:00:00.000Z"
    assert (await frozen(spool, max_records=1000)).records == tuple(numbers(4, 10))
    assert await freeze(spool) is None


async def test_a_limit_in_bytes_counts_a_separator_a_record_and_lets_one_large_record_through(
    spool: Spool,
) -> None:
    await append(spool, [b"0000", b"aaaa", b"bbbb", b"cccc", b"d" * 100, b"e"])
    assert (await frozen(spool, max_bytes=9)).records == (b"0000",)
    assert (await frozen(spool, max_bytes=10)).records == (b"aaaa", b"bbbb")
    assert (await frozen(spool, max_bytes=14)).records == (b"cccc",)
    assert (await frozen(spool, max_bytes=10)).records == (b"d" * 100,)
    assert (await frozen(spool, max_bytes=10)).records == (b"e",)


async def test_a_batch_may_begin_and_end_inside_chunks(spool: Spool) -> None:
    for start in range(0, 50, 5):
        await append(spool, numbers(start, start + 5))
    assert await drained(spool, max_records=7) == numbers(50)


async def test_a_leased_batch_is_not_given_again_and_a_released_one_comes_first(spool: Spool) -> None:
    await append(spool, numbers(6))
    first, second = await frozen(spool, max_records=2), await frozen(spool, max_records=2)
    await spool.release(second, answered=True)
    await spool.release(first, answered=False)
    again = await frozen(spool)
    assert again == replace(first, attempts=1), "no answer came: the same generation, so the same idempotency key"
    other = await frozen(spool)
    assert other == replace(second, attempts=1, generation=1)
    assert (await frozen(spool)).records == (b"4", b"5")


@pytest.mark.parametrize("killed", [False, True])
async def test_a_frozen_batch_survives_a_restart_unchanged(home: SpoolHome, clock: Clock, *, killed: bool) -> None:
    spool = home.open()
    await append(spool, numbers(10))
    batch = await frozen(spool, max_records=4)
    await spool.release(batch, answered=True)
    batch = await frozen(spool, max_records=1)
    if killed:
        home.kill()
    await spool.close()
    clock.now_ms += 5_000
    spool = home.open()
    again = await frozen(spool, max_records=1)
    assert again == batch
    assert again.records == tuple(numbers(4))
    await spool.ack(again)
    assert await drained(spool) == numbers(4, 10)
    await spool.close()


@pytest.mark.parametrize("gone", ["stopped", "killed", "pump gone"])
async def test_a_batch_of_events_that_a_pump_may_have_sent_unheard_counts_a_try(home: SpoolHome, gone: str) -> None:
    """Its key must stay: under another one the upstream would count the event twice."""
    spool = home.open()
    await append(spool, [b"event"], USAGE_EVENTS)
    batch = await frozen(spool, USAGE_EVENTS)
    if gone == "pump gone":
        spool.forget_leases(USAGE_EVENTS)
    else:
        if gone == "killed":
            home.kill()
        await spool.close()
        spool = home.open()
    assert await frozen(spool, USAGE_EVENTS) == replace(batch, attempts=1)
    await spool.release(batch, answered=False)
    assert await frozen(spool, USAGE_EVENTS) == replace(batch, attempts=2), "once, not at each look"
    await spool.close()


async def test_two_who_freeze_at_once_get_different_batches(spool: Spool) -> None:
    await append(spool, numbers(6))
    released = await frozen(spool, max_records=2)
    await spool.release(released, answered=False)
    got = await asyncio.gather(*(freeze(spool, max_records=2) for _ in range(4)))
    assert [batch.records if batch else None for batch in got] == [(b"0", b"1"), (b"2", b"3"), (b"4", b"5"), None]


async def test_an_ack_delivers_and_a_second_one_counts_nothing(home: SpoolHome, spool: Spool) -> None:
    await append(spool, numbers(3))
    batch = await frozen(spool)
    await spool.ack(batch)
    await spool.ack(batch, [Refusal(0, "x", "y")])
    await spool.bury(batch, "x", "y")
    depth = spool.depth(AI_TELEMETRY)
    assert (depth.kept, depth.delivered, depth.pending, depth.dead_lettered) == (3, 3, 0, 0)
    assert await letters_of(spool, AI_TELEMETRY) == []


async def test_refused_records_become_dead_letters_each_once(home: SpoolHome, spool: Spool) -> None:
    await append(spool, numbers(4))
    batch = await frozen(spool)
    refused = [Refusal(2, "bad", "z" * 9000), Refusal(2, "worse", "again"), Refusal(-1, "x", ""), Refusal(4, "x", "")]
    await spool.ack(batch, refused)
    depth = spool.depth(AI_TELEMETRY)
    assert (depth.delivered, depth.dead_lettered, depth.pending) == (3, 1, 0)
    ((code, message, record),) = await letters_of(spool, AI_TELEMETRY)
    assert (code, record) == ("worse", b"2")
    assert len(message) <= 512


async def test_a_buried_batch_is_set_aside_whole(home: SpoolHome, spool: Spool) -> None:
    await append(spool, numbers(3))
    batch = await frozen(spool, max_records=2)
    await spool.bury(batch, "too_large", "no")
    assert [record for *_, record in await letters_of(spool, AI_TELEMETRY)] == [b"0", b"1"]
    assert await drained(spool) == [b"2"]


async def test_a_split_batch_comes_back_as_two_halves_with_ids_of_their_own(home: SpoolHome, clock: Clock) -> None:
    spool = home.open()
    await append(spool, numbers(3))
    await append(spool, numbers(3, 7))
    batch = await frozen(spool, max_records=5)
    await spool.release(batch, answered=True)
    batch = await frozen(spool)
    clock.now_ms += 1000
    await spool.split(batch)
    await spool.close()
    spool = home.open()
    one, two = await frozen(spool), await frozen(spool)
    assert (one.records, two.records) == ((b"0", b"1"), (b"2", b"3", b"4"))
    assert len({batch.batch_id, one.batch_id, two.batch_id}) == 3
    assert (one.generation, one.attempts, one.sent_at) == (0, 0, batch.sent_at)
    await spool.ack(two)
    await spool.split(one)
    assert [(await frozen(spool)).records for _ in range(3)] == [(b"0",), (b"1",), (b"5", b"6")]
    await spool.close()


async def test_a_batch_of_one_record_cannot_be_split_and_stays(spool: Spool) -> None:
    await append(spool, [b"1"])
    batch = await frozen(spool)
    with pytest.raises(ValueError, match="one record"):
        await spool.split(batch)
    await spool.release(batch, answered=False)
    assert (await frozen(spool)).records == (b"1",)


async def test_a_bad_request_takes_no_append_with_it(spool: Spool) -> None:
    await append(spool, [b"1"])
    batch = await frozen(spool)
    kept, failed = append(spool, [b"2"]), asyncio.ensure_future(spool.split(batch))
    results = await asyncio.gather(kept, failed, return_exceptions=True)
    assert results[0] is None
    assert isinstance(results[1], ValueError)
    await spool.ack(batch)
    assert await drained(spool) == [b"2"]


async def test_acked_batches_leave_out_of_order_and_nothing_is_lost(spool: Spool) -> None:
    await append(spool, numbers(9))
    batches: list[Batch] = [await frozen(spool, max_records=3) for _ in range(3)]
    await spool.ack(batches[2])
    await spool.ack(batches[0])
    await spool.release(batches[1], answered=False)
    assert (await frozen(spool)).records == batches[1].records
    assert spool.depth(AI_TELEMETRY).delivered == 6


class TestLinger:
    """A lane waits for a fuller batch, but not for long."""

    @pytest.fixture
    async def patient(self, home: SpoolHome, clock: Clock) -> AsyncIterator[Spool]:
        spool = home.open(settings=replace(SETTINGS, linger_ms=1000))
        yield spool
        await spool.close()

    async def test_few_young_records_wait_and_old_ones_go(self, patient: Spool, clock: Clock) -> None:
        await append(patient, numbers(3))
        assert await freeze(patient, max_records=4) is None
        clock.now_ms += 999
        assert await freeze(patient, max_records=4) is None
        clock.now_ms += 1
        assert (await frozen(patient, max_records=4)).records == tuple(numbers(3))

    async def test_a_full_batch_goes_at_once_by_records_or_by_bytes(self, patient: Spool) -> None:
        await append(patient, numbers(3))
        assert len((await frozen(patient, max_records=3)).records) == 3
        await append(patient, [b"x" * 50] * 2)
        assert len((await frozen(patient, max_records=9, max_bytes=60)).records) == 1

    async def test_a_clock_that_jumped_back_keeps_no_record_waiting(self, patient: Spool, clock: Clock) -> None:
        await append(patient, numbers(3))
        clock.wrong_ms = -10 * 365 * 86_400_000
        clock.now_ms += patient.settings.linger_ms
        assert (await frozen(patient, max_records=4)).records == tuple(numbers(3))

    async def test_waiting_for_the_linger_ends_in_time(self, patient: Spool, clock: Clock) -> None:
        await append(patient, numbers(3))
        assert await freeze(patient) is None
        await patient.wait_ready(AI_TELEMETRY, 60)  # the append's own wake
        assert await freeze(patient) is None
        clock.now_ms += 990
        async with asyncio.timeout(HANGS_S):
            await patient.wait_ready(AI_TELEMETRY, 60)


async def test_a_waiting_lane_is_woken_by_an_append(spool: Spool) -> None:
    waiting = asyncio.ensure_future(spool.wait_ready(AI_TELEMETRY, 60))
    await asyncio.sleep(0)
    await append(spool, [b"1"])
    async with asyncio.timeout(HANGS_S):
        await waiting


async def test_waiting_ends_after_its_time_without_anything(spool: Spool) -> None:
    async with asyncio.timeout(HANGS_S):
        await spool.wait_ready(AI_TELEMETRY, 0.01)


async def test_a_brake_is_noted_for_each_lane_and_over_a_restart(home: SpoolHome) -> None:
    spool = home.open(exporters=["archive"])
    await spool.note_brake(AI_TELEMETRY, "why")
    await spool.note_brake(AI_TELEMETRY, "why else")
    await spool.note_brake("archive", "other")
    await spool.note_brake("archive", None)
    await spool.close()
    again = home.open(exporters=["archive"])
    assert await again.brake_reason(AI_TELEMETRY) == "why else"
    assert await again.brake_reason("archive") is None
    await again.close()
