"""Appending: an answer only after the commit, order, and the limits at which new data is
refused.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace

import pytest

from spool.errors import SpoolError, SpoolFull
from spool.record import AI_TELEMETRY, DEVICES, USAGE_EVENTS
from spool.settling import Position
from spool.store import Spool
from tests.support.spool_homes import SpoolHome
from tests.support.spool_rig import SETTINGS, Clock, append, drained, noise


async def test_positions_handed_out_at_append_name_the_records(spool: Spool) -> None:
    positions: list[Position] = []
    waiting: list[Awaitable[None]] = []
    with spool.reserve():
        for n in range(1200):
            positions.append(Position(*spool.position(AI_TELEMETRY)))
            waiting.append(append(spool, [str(n).encode()]))
    await asyncio.gather(*waiting)
    assert len({seq for seq, _ in positions}) == 3, "a chunk is closed at 500 records"
    assert await spool.read(AI_TELEMETRY, positions) == [str(n).encode() for n in range(1200)]


async def test_records_leave_in_the_order_in_which_they_were_accepted(spool: Spool) -> None:
    for start in range(0, 3000, 300):
        await asyncio.gather(*(append(spool, [str(n).encode()]) for n in range(start, start + 300)))
    assert await drained(spool, max_records=70) == [str(n).encode() for n in range(3000)]


async def test_lanes_do_not_mix(spool: Spool) -> None:
    await asyncio.gather(*(append(spool, [lane.encode()], lane) for lane in (AI_TELEMETRY, DEVICES, USAGE_EVENTS)))
    assert await drained(spool, DEVICES) == [b"devices"]
    assert await drained(spool, USAGE_EVENTS) == [b"usage_events"]
    assert spool.depth(AI_TELEMETRY).pending == 1


async def test_empty_and_large_records_come_back_as_they_are(spool: Spool) -> None:
    records = [b"", b"x" * (3 << 20), b"", "é\u2028".encode()]
    await append(spool, records)
    assert await drained(spool) == records


async def test_what_waits_for_its_commit_counts_against_the_limit(home: SpoolHome) -> None:
    spool = home.open(settings=replace(SETTINGS, max_bytes=1_000_000))
    waiting = append(spool, [noise(900_000)])
    with pytest.raises(SpoolFull):
        spool.admit(200_000)
    await waiting
    await spool.close()


async def test_a_closed_spool_refuses_and_leaves_nobody_waiting(home: SpoolHome) -> None:
    spool = home.open()
    last = asyncio.ensure_future(append(spool, [b"1"]))
    await asyncio.sleep(0)
    await spool.close()
    await last
    with pytest.raises(SpoolError):
        append(spool, [b"2"])
    with pytest.raises(SpoolError):
        await spool.freeze(AI_TELEMETRY, max_records=1, max_bytes=1)
    spool = home.open()
    assert await drained(spool) == [b"1"]
    await spool.close()


async def test_an_answered_append_is_there_after_a_kill(home: SpoolHome) -> None:
    spool = home.open()
    await append(spool, [b"1", b"2"])
    home.kill()
    await spool.close()
    after = home.open()
    assert await drained(after) == [b"1", b"2"]
    await after.close()


async def test_what_comes_after_a_numbered_chunk_has_a_higher_number(spool: Spool) -> None:
    """Else it would be let go with that chunk, whatever is to be decided about it."""
    with spool.reserve():
        asked, _ = spool.position(AI_TELEMETRY)
        numbered = spool.number_chunk()
        taken, _ = spool.position(AI_TELEMETRY)
        appended = append(spool, [b"1"])
    await appended
    assert asked < numbered < taken


async def test_a_lower_limit_does_not_stop_a_start_and_is_left_by_draining(home: SpoolHome, clock: Clock) -> None:
    spool = home.open()
    for _ in range(40):
        await append(spool, [noise(50_000)])
    await spool.close()
    clock.now_ms += 1000
    spool = home.open(settings=replace(SETTINGS, max_bytes=600_000))
    await spool.run_maintenance()
    with pytest.raises(SpoolFull):
        spool.admit(1)
    assert len(await drained(spool)) == 40
    await spool.run_maintenance()
    spool.admit(100_000)
    await spool.close()
