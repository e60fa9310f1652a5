"""Appending: one commit for many, an answer only after it, order, and the limits at
which new data is refused.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path

import pytest

from spool.errors import SpoolError, SpoolFull
from spool.record import AI_TELEMETRY, DEVICES, USAGE_EVENTS
from spool.settling import Position
from spool.sqlite.gathering import CHUNK_RECORDS
from spool.sqlite.spool import SqliteSpool
from spool.store import ItemCounts
from tests.support.spool_rig import SETTINGS, Clock, append, copied, drained, noise, open_spool


def chunks_on_disk(data_dir: Path) -> list[tuple[str, int]]:
    """(lane, records) of each chunk, as another process sees them: only what is committed."""
    with sqlite3.connect(f"file:{data_dir / 'spool.db'}?mode=ro", uri=True) as connection:
        found: list[tuple[str, int]] = connection.execute("SELECT lane, n FROM chunk ORDER BY seq").fetchall()
    connection.close()
    return found


async def test_an_answered_append_is_in_the_file(spool: SqliteSpool, data_dir: Path) -> None:
    await append(spool, [b"1"])
    assert chunks_on_disk(data_dir) == [(AI_TELEMETRY, 1)]


async def test_many_appends_at_once_share_one_commit_and_are_all_answered(spool: SqliteSpool, data_dir: Path) -> None:
    with spool.reserve():  # until all have come
        waiting = [append(spool, [str(n).encode()]) for n in range(300)]
    await asyncio.gather(*waiting)
    assert chunks_on_disk(data_dir) == [(AI_TELEMETRY, 300)], "one chunk, so one commit"
    assert spool.edge()["received"] == spool.edge()["kept"] == 300


async def test_appends_that_come_during_a_commit_go_into_the_next_one(spool: SqliteSpool, data_dir: Path) -> None:
    blocker = sqlite3.connect(data_dir / "spool.db", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    first = append(spool, [b"0"])
    while spool._gathering._open.size:  # noqa: ASYNC110 until the writer took it, which has no event
        await asyncio.sleep(0)
    others = [append(spool, [b"x"]) for _ in range(20)]
    blocker.execute("ROLLBACK")
    blocker.close()
    await first
    await asyncio.gather(*others)
    assert chunks_on_disk(data_dir) == [(AI_TELEMETRY, 1), (AI_TELEMETRY, 20)]


async def test_nothing_is_answered_before_its_commit(spool: SqliteSpool, data_dir: Path) -> None:
    """Another connection holds the write lock: the commit cannot happen, so no answer may come."""
    blocker = sqlite3.connect(data_dir / "spool.db", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    waiting = asyncio.ensure_future(append(spool, [b"1"]))
    done, _ = await asyncio.wait({waiting}, timeout=0.3)
    assert not done
    blocker.execute("ROLLBACK")
    blocker.close()
    await waiting
    assert await drained(spool) == [b"1"]


async def test_positions_handed_out_at_append_name_the_records(spool: SqliteSpool) -> None:
    positions: list[Position] = []
    waiting: list[Awaitable[None]] = []
    with spool.reserve():
        for n in range(1200):
            positions.append(Position(*spool.position(AI_TELEMETRY)))
            waiting.append(append(spool, [str(n).encode()]))
    await asyncio.gather(*waiting)
    assert len({seq for seq, _ in positions}) == 3, f"a chunk is closed at {CHUNK_RECORDS} records"
    assert await spool.read(AI_TELEMETRY, positions) == [str(n).encode() for n in range(1200)]


async def test_records_leave_in_the_order_in_which_they_were_accepted(spool: SqliteSpool) -> None:
    for start in range(0, 3000, 300):
        await asyncio.gather(*(append(spool, [str(n).encode()]) for n in range(start, start + 300)))
    assert await drained(spool, max_records=70) == [str(n).encode() for n in range(3000)]


async def test_lanes_do_not_mix(spool: SqliteSpool) -> None:
    await asyncio.gather(*(append(spool, [lane.encode()], lane) for lane in (AI_TELEMETRY, DEVICES, USAGE_EVENTS)))
    assert await drained(spool, DEVICES) == [b"devices"]
    assert await drained(spool, USAGE_EVENTS) == [b"usage_events"]
    assert spool.depth(AI_TELEMETRY).pending == 1


async def test_a_payload_of_no_records_is_counted_and_leaves_no_chunk(spool: SqliteSpool, data_dir: Path) -> None:
    await spool.append(
        AI_TELEMETRY, [], ItemCounts(received=4, duplicate=1, ignored=3, reasons={"duplicate.same_span": 1})
    )
    assert chunks_on_disk(data_dir) == []
    assert (spool.edge()["received"], spool.edge()["ignored"]) == (4, 3)
    assert spool.reasons() == {"duplicate.same_span": 1}


async def test_empty_and_large_records_come_back_as_they_are(spool: SqliteSpool) -> None:
    records = [b"", b"x" * (3 << 20), b"", "é\u2028".encode()]
    await append(spool, records)
    assert await drained(spool) == records


async def test_a_full_spool_refuses_at_once_and_keeps_nothing_of_it(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, settings=replace(SETTINGS, max_bytes=400_000))
    with pytest.raises(SpoolFull):
        spool.admit(500_000)
    while True:
        try:
            spool.admit(20_000)
        except SpoolFull:
            break
        await append(spool, [noise(20_000)])
    assert 250_000 < spool.used_bytes <= 400_000 + 20_000 + 3 * 8192, "stops within the limit and one payload"
    assert len(await drained(spool)) == spool.depth(AI_TELEMETRY).delivered
    await spool.close()


async def test_what_waits_for_its_commit_counts_against_the_limit(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, settings=replace(SETTINGS, max_bytes=1_000_000))
    waiting = append(spool, [noise(900_000)])
    with pytest.raises(SpoolFull):
        spool.admit(200_000)
    await waiting
    await spool.close()


async def test_a_lower_limit_does_not_stop_a_start_and_is_left_by_draining(data_dir: Path) -> None:
    spool = open_spool(data_dir)
    for _ in range(40):
        await append(spool, [noise(50_000)])
    await spool.close()
    clock = Clock()
    clock.now_ms += 1000
    spool = open_spool(data_dir, clock, settings=replace(SETTINGS, max_bytes=600_000))
    await spool.run_maintenance()
    with pytest.raises(SpoolFull):
        spool.admit(1)
    assert len(await drained(spool)) == 40
    await spool.run_maintenance()
    spool.admit(100_000)
    await spool.close()


async def test_a_closed_spool_refuses_and_leaves_nobody_waiting(data_dir: Path) -> None:
    spool = open_spool(data_dir)
    last = asyncio.ensure_future(append(spool, [b"1"]))
    await asyncio.sleep(0)
    await spool.close()
    await last
    with pytest.raises(SpoolError):
        append(spool, [b"2"])
    with pytest.raises(SpoolError):
        await spool.freeze(AI_TELEMETRY, max_records=1, max_bytes=1)
    spool = open_spool(data_dir)
    assert await drained(spool) == [b"1"]
    await spool.close()


async def test_an_answered_append_is_there_after_a_kill(spool: SqliteSpool, data_dir: Path, tmp_path: Path) -> None:
    await append(spool, [b"1", b"2"])
    after = open_spool(copied(data_dir, tmp_path / "killed"))
    assert await drained(after) == [b"1", b"2"]
    await after.close()


async def test_what_only_reads_commits_nothing(spool: SqliteSpool, data_dir: Path) -> None:
    await append(spool, [b"1"])
    before = (data_dir / "spool.db-wal").read_bytes()
    await spool.read(AI_TELEMETRY, [])
    await spool.settled_seq(AI_TELEMETRY)
    assert await spool.evidence_of(AI_TELEMETRY, 99) is None
    assert await spool.freeze(DEVICES, max_records=1, max_bytes=1) is None
    assert (data_dir / "spool.db-wal").read_bytes() == before


async def test_what_comes_after_a_numbered_chunk_has_a_higher_number(spool: SqliteSpool) -> None:
    """Else it would be let go with that chunk, whatever is to be decided about it."""
    with spool.reserve():
        asked, _ = spool.position(AI_TELEMETRY)
        numbered = spool.number_chunk()
        taken, _ = spool.position(AI_TELEMETRY)
        appended = append(spool, [b"1"])
    await appended
    assert asked < numbered < taken
