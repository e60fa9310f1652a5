"""A process that appends to a spool as fast as it can and says what was acknowledged: `python -m tests.support.appending DIR FIRST [MAX_BYTES]`.

Each line on stdout is the number of a record that is on disk. Some are frozen, acked and released on the way, so that a
kill may fall into any of it; `acking N` says that an ack was begun, `delivered N` that it is on disk.
"""

import asyncio
import os
import random
import sys
from dataclasses import replace
from pathlib import Path

from tests.support.spool_rig import SETTINGS, append, freeze, open_spool

WORKERS = 6


async def main(data_dir: Path, first: int, max_bytes: int = SETTINGS.max_bytes) -> None:
    spool = open_spool(data_dir, settings=replace(SETTINGS, max_bytes=max_bytes))
    chance = random.Random(first)
    numbers = iter(range(first, first + 1_000_000))

    async def feed() -> None:
        for n in numbers:
            await append(spool, [b"%08d" % n])
            say(f"{n}")

    async def deliver() -> None:
        while True:
            batch = await freeze(spool, max_records=chance.randint(1, 20))
            if batch is None:
                await asyncio.sleep(0)
            elif chance.random() < 0.3:
                await spool.release(batch, answered=True)
            else:
                say("\n".join(f"acking {int(record)}" for record in batch.records))
                await spool.ack(batch)
                say("\n".join(f"delivered {int(record)}" for record in batch.records))

    async with asyncio.TaskGroup() as group:
        for _ in range(WORKERS):
            group.create_task(feed())
        group.create_task(deliver())


def say(line: str) -> None:
    """In one write, so that a kill cuts no line."""
    os.write(1, line.encode() + b"\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
