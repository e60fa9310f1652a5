"""What an append waits for while a drained backlog leaves the file: `python -m
benchmarks.reclaim --mib 400`.

One append at a time, each of one record, on a spool of its own: first with nothing else to
do, then while upkeep deletes what was delivered and gives the pages back. Prints both as
JSON, with the ratio of the p99s.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median

from spool.record import AI_TELEMETRY
from spool.settings import SpoolSettings
from spool.sqlite.spool import SqliteSpool
from spool.store import ItemCounts

MIB = 1 << 20
DAY_MS = 86_400_000
QUIET_S = 10.0
LONGEST_S_PER_MIB = 0.3
RECORD = os.urandom(700)
PAUSE_S = 0.002
"""Between two appends, so that what they bring is small beside what leaves."""
ROUND_S = 1.0
"""As often as the gateway looks after its spool."""


class Clock:
    """Both clocks of a spool: they go on, and can be moved."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def __call__(self) -> int:
        return int(time.monotonic() * 1000) + self.ahead_ms


async def backlog(spool: SqliteSpool, mib: int) -> None:
    """So many MiB that were delivered."""
    for _ in range(mib):
        chunk = [os.urandom(MIB // 512) for _ in range(512)]  # that no compression makes smaller
        await spool.append(AI_TELEMETRY, chunk, ItemCounts(received=len(chunk), kept=len(chunk)))
        while (batch := await spool.freeze(AI_TELEMETRY, max_records=1000, max_bytes=8 * MIB)) is not None:
            await spool.ack(batch)


async def waits_ms(spool: SqliteSpool, until: asyncio.Event) -> list[float]:
    """What each append took."""
    taken: list[float] = []
    while not until.is_set():
        began_s = time.perf_counter()
        await spool.append(AI_TELEMETRY, [RECORD], ItemCounts(received=1, kept=1))
        taken.append((time.perf_counter() - began_s) * 1000)
        await asyncio.sleep(PAUSE_S)
    return sorted(taken)


async def measured(spool: SqliteSpool, seconds: float) -> list[float]:
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, over.set)
    return await waits_ms(spool, over)


async def while_shrinking(
    spool: SqliteSpool, size_bytes: Callable[[], int], longest_s: float
) -> tuple[list[float], float]:
    """What appends took until the file was a tenth of its size, and
    after how many seconds that was.
    """
    over, full_bytes, began_s = asyncio.Event(), size_bytes(), time.monotonic()
    measuring = asyncio.create_task(waits_ms(spool, over))
    while size_bytes() > full_bytes / 10 and time.monotonic() < began_s + longest_s:
        await spool.run_maintenance()
        await asyncio.sleep(ROUND_S)
    over.set()
    return await measuring, time.monotonic() - began_s


async def run(folder: Path, mib: int) -> dict[str, object]:
    clock = Clock()
    settings = replace(SpoolSettings(), linger_ms=0)
    spool = SqliteSpool(folder, settings, now_ms=clock, monotonic_ms=clock, settling=())
    await backlog(spool, mib)
    quiet = await measured(spool, QUIET_S)
    clock.ahead_ms = 2 * DAY_MS
    path = folder / "spool.db"
    full_bytes = path.stat().st_size
    meanwhile, seconds = await while_shrinking(spool, lambda: path.stat().st_size, mib * LONGEST_S_PER_MIB)
    await spool.close()
    at_99 = [each[len(each) * 99 // 100] for each in (quiet, meanwhile)]
    return {
        "MiB": mib,
        "quiet": {"appends": len(quiet), "p50_ms": round(median(quiet), 3), "p99_ms": round(at_99[0], 3)},
        "reclaiming": {"appends": len(meanwhile), "p50_ms": round(median(meanwhile), 3), "p99_ms": round(at_99[1], 3)},
        "p99_ratio": round(at_99[1] / at_99[0], 2),
        "seconds": round(seconds, 1),
        "shrank": path.stat().st_size <= full_bytes / 10,
        "file_MiB": [round(full_bytes / MIB), round(path.stat().st_size / MIB)],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=400)
    parser.add_argument("--dir", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reclaim-", dir=given.dir) as folder:
        result = asyncio.run(run(Path(folder), given.mib))
    sys.stdout.write(json.dumps(result) + "\n")
    if not result["shrank"]:
        sys.exit("the file did not come down to a tenth in time")


if __name__ == "__main__":
    main()
