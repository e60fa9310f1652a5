"""Appending: one commit for many, an answer only after it, order, and the limits at
which new data is refused.
"""

import asyncio
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from spool.errors import SpoolFull
from spool.record import AI_TELEMETRY, DEVICES
from spool.sqlite.spool import SqliteSpool
from spool.store import ItemCounts
from tests.support.spool_rig import SETTINGS, append, drained, noise, open_spool


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


async def test_a_payload_of_no_records_is_counted_and_leaves_no_chunk(spool: SqliteSpool, data_dir: Path) -> None:
    await spool.append(
        AI_TELEMETRY, [], ItemCounts(received=4, duplicate=1, ignored=3, reasons={"duplicate.same_span": 1})
    )
    assert chunks_on_disk(data_dir) == []
    assert (spool.edge()["received"], spool.edge()["ignored"]) == (4, 3)
    assert spool.reasons() == {"duplicate.same_span": 1}


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


async def test_what_only_reads_commits_nothing(spool: SqliteSpool, data_dir: Path) -> None:
    await append(spool, [b"1"])
    before = (data_dir / "spool.db-wal").read_bytes()
    await spool.read(AI_TELEMETRY, [])
    await spool.settled_seq(AI_TELEMETRY)
    assert await spool.evidence_of(AI_TELEMETRY, 99) is None
    assert await spool.freeze(DEVICES, max_records=1, max_bytes=1) is None
    assert (data_dir / "spool.db-wal").read_bytes() == before
