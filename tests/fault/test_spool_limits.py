"""C13, C20: the limit in bytes is of real files, is kept within one batch, and never
stops a start or a drain.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from spool.errors import SpoolFull
from spool.record import AI_TELEMETRY
from spool.sqlite.spool import SqliteSpool
from tests.support.spool_rig import SETTINGS, Clock, append, assert_balanced, drained, log_copied, noise, open_spool

MIB = 1 << 20
LIMIT_BYTES = 48 * MIB


def size_bytes(data_dir: Path) -> int:
    """Of spool.db with its write-ahead log, as the system states it."""
    return sum(path.stat().st_size for path in data_dir.glob("spool.db*") if not path.name.endswith("-shm"))


async def fill(spool: SqliteSpool, data_dir: Path, *, record_bytes: int, batch_bytes: int) -> int:
    """Append batches until they are refused; the largest size that the files had.

    The figure is compared at each step.
    """
    records = [noise(record_bytes, n) for n in range(max(1, batch_bytes // record_bytes))]
    largest = 0
    while True:
        try:
            spool.admit(batch_bytes)
        except SpoolFull:
            return largest
        await append(spool, records)
        await log_copied(spool)
        real = size_bytes(data_dir)
        assert spool.room.file_bytes == pytest.approx(real, rel=0.05)
        largest = max(largest, real)


@pytest.mark.parametrize("record_bytes", [1, 100, 3000, 40_000, 4 * MIB])
async def test_the_files_end_at_the_limit_and_one_batch_whatever_the_records_are(
    tmp_path: Path, record_bytes: int
) -> None:
    """C13. Also the figure that counts against the limit is then within 5 % of the files."""
    spool = open_spool(tmp_path, settings=replace(SETTINGS, max_bytes=LIMIT_BYTES))
    batch_bytes = max(record_bytes, 512 * 1024 if record_bytes > 1 else 10_000)
    largest = await fill(spool, tmp_path, record_bytes=record_bytes, batch_bytes=batch_bytes)
    assert LIMIT_BYTES * 0.85 - batch_bytes < largest < LIMIT_BYTES + 2 * batch_bytes
    assert spool.used_bytes == pytest.approx(LIMIT_BYTES, rel=0.05, abs=batch_bytes)
    await assert_balanced(spool)
    await spool.close()


async def test_appends_under_way_count_against_the_limit(tmp_path: Path) -> None:
    """C13.

    What was admitted and is not yet on disk has its room: many at once stop
    where one after the other would.
    """
    spool = open_spool(tmp_path, settings=replace(SETTINGS, max_bytes=8 * MIB))
    waiting = []
    with suppress(SpoolFull):
        for _ in range(1000):
            spool.admit(100_000)
            waiting.append(append(spool, [noise(100_000)]))
    assert len(waiting) < 1000
    await asyncio.gather(*waiting)
    assert size_bytes(tmp_path) <= 8 * MIB + 2 * MIB
    await spool.close()


async def test_a_limit_below_the_backlog_starts_drains_and_then_takes_new_data(tmp_path: Path) -> None:
    """C20."""
    clock = Clock()
    spool = open_spool(tmp_path, clock)
    records = [b"%08d" % n + noise(50_000, n) for n in range(400)]
    for record in records:
        await append(spool, [record])
    await spool.close()

    spool = open_spool(tmp_path, clock, settings=replace(SETTINGS, max_bytes=2 * MIB))
    with pytest.raises(SpoolFull, match="max_bytes"):
        spool.admit(1)
    assert await drained(spool, max_records=50) == records
    clock.now_ms += 1
    for _ in range(3):
        await spool.run_maintenance()
    spool.admit(100_000)
    await append(spool, [b"new"])
    assert spool.depth(AI_TELEMETRY).delivered == 400
    assert await drained(spool) == [b"new"]
    await assert_balanced(spool)
    await spool.close()


async def test_a_full_spool_says_when_to_come_again_by_how_fast_it_drains(tmp_path: Path) -> None:
    spool = open_spool(tmp_path, clock := Clock(), settings=replace(SETTINGS, max_bytes=4 * MIB))
    await fill(spool, tmp_path, record_bytes=50_000, batch_bytes=50_000)
    assert refused_for_s(spool) == 30, "nothing drains"
    await drained(spool)
    clock.now_ms += 1
    await spool.run_maintenance()
    assert spool.used_bytes < 4 * MIB
    await fill(spool, tmp_path, record_bytes=50_000, batch_bytes=50_000)
    assert refused_for_s(spool) == 1, "megabytes left within the last second"
    await spool.close()


def refused_for_s(spool: SqliteSpool) -> int | None:
    with pytest.raises(SpoolFull) as refused:
        spool.admit(50_000)
    return refused.value.retry_after_s
