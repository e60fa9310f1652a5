"""C14: what is delivered leaves the file in small slices; a kill in the midst of it loses nothing,
and it takes no second room.
"""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from spool.record import AI_TELEMETRY
from spool.sql import rows
from spool.sql.spool import RECLAIM_BYTES
from spool.sqlite import room
from spool.sqlite.spool import VACUUM_PAGES, SqliteSpool
from tests.support.spool_rig import Clock, append, assert_balanced, drained, noise, open_spool

MIB = 1 << 20
DAY_MS = 86_400_000
BACKLOG_MIB = int(os.environ.get("VACUUM_TEST_MIB", "96"))
ROUNDS_PER_MIB = 2.0
"""Rounds of upkeep within which the file must have shrunk. Measured are 0.05: a round takes a share
of time, so a busy machine takes more of them."""


async def delivered_backlog(spool: SqliteSpool, clock: Clock, mib: int) -> None:
    """*mib* MiB that were delivered long ago."""
    for n in range(mib):
        await append(spool, [b"%06d" % n + noise(MIB // 4, 4 * n + i) for i in range(4)])
    assert len(await drained(spool, max_records=64)) == 4 * mib
    clock.now_ms += 2 * DAY_MS


def size_bytes(data_dir: Path) -> int:
    return sum(path.stat().st_size for path in data_dir.glob("spool.db*"))


async def shrunk(spool: SqliteSpool, data_dir: Path, to_bytes: int) -> None:
    for _ in range(60):
        if size_bytes(data_dir) <= to_bytes:
            return
        await spool.run_maintenance()
    raise AssertionError("the file does not shrink")


async def test_a_drained_backlog_leaves_the_file_within_a_bounded_time_and_takes_no_second_room(tmp_path: Path) -> None:
    """C14."""
    clock = Clock()
    spool = open_spool(tmp_path, clock)
    await delivered_backlog(spool, clock, BACKLOG_MIB)
    full_bytes = largest = size_bytes(tmp_path)
    rounds = 0
    while size_bytes(tmp_path) > full_bytes // 10:
        await spool.run_maintenance()
        largest = max(largest, size_bytes(tmp_path))
        rounds += 1
        assert rounds < max(10, BACKLOG_MIB * ROUNDS_PER_MIB), "the file does not shrink"
    assert largest < full_bytes + 2 * 32 * MIB, "no more than the write-ahead log besides"
    sys.stderr.write(f"{full_bytes // MIB} MiB left the file in {rounds} rounds, at most {largest // MIB} MiB\n")
    await spool.close()


async def test_no_slice_holds_the_writer_for_longer_than_its_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C14.

    An append waits for one slice at most: each is a commit of its own, of so many pages or bytes.
    """
    clock = Clock()
    spool = open_spool(tmp_path, clock)
    await delivered_backlog(spool, clock, 48)
    slices: list[int] = []
    deletions: list[int] = []

    def give_back(connection: sqlite3.Connection, *, most: int, real: Any = room.give_back_pages) -> int:
        slices.append(real(connection, most=most))
        return slices[-1]

    def reclaim(*arguments: Any, real: Any = rows.reclaim, **named: Any) -> rows.Reclaimed:
        done: rows.Reclaimed = real(*arguments, **named)
        deletions.append(done.size_bytes)
        return done

    monkeypatch.setattr(room, "give_back_pages", give_back)
    monkeypatch.setattr(rows, "reclaim", reclaim)
    await shrunk(spool, tmp_path, 8 * MIB)
    assert len(slices) > 3
    assert len(deletions) > 3
    assert max(slices) <= VACUUM_PAGES
    assert max(deletions) <= RECLAIM_BYTES + 100, "or one chunk, which is no longer here"
    await spool.close()


def kill_inside_a_slice(data_dir: Path, now_ms: int) -> None:
    shrinking = [sys.executable, "-m", "tests.support.shrinking", str(data_dir), str(now_ms)]
    with subprocess.Popen(shrinking, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "a slice was given back, and is not committed\n"
        os.kill(process.pid, signal.SIGKILL)


async def test_a_kill_in_the_midst_of_a_vacuum_leaves_a_whole_file_that_goes_on_shrinking(tmp_path: Path) -> None:
    """C14."""
    clock = Clock()
    spool = open_spool(tmp_path, clock)
    await delivered_backlog(spool, clock, 32)
    await append(spool, [b"pending 1", b"pending 2"])
    await spool.close()
    for _ in range(3):
        kill_inside_a_slice(tmp_path, clock.now_ms)
        with closing(sqlite3.connect(tmp_path / "spool.db")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    spool = open_spool(tmp_path, clock)
    await shrunk(spool, tmp_path, 4 * MIB)
    assert spool.depth(AI_TELEMETRY).delivered == 128
    assert await drained(spool) == [b"pending 1", b"pending 2"]
    await assert_balanced(spool)
    await spool.close()
