"""A process that appends to a spool as fast as it can and states what was acknowledged: `python -m
tests.support.appending DIR FIRST [MAX_BYTES]`.

Each line on stdout is the number of a record that is on disk. Some are frozen, acked
and released on the way, so that a kill may fall into any of it; `acking N` states that
an ack was begun, `delivered N` that it is on disk. What was delivered is deleted at
once and its pages are given back.
"""

import asyncio
import os
import random
import sys
from dataclasses import replace
from pathlib import Path

from tests.support.spool_rig import SETTINGS, Clock, append, freeze, open_spool

WORKERS = 6
ALONE_S = 0.01
ROUNDS = 6
"""Of upkeep, the first of which has the appends beside it."""
LARGE_EVERY, LARGE_BYTES = 8, 60_000
"""One record in so many has pages of its own, which are free when it is deleted."""


class Appending:
    def __init__(self, data_dir: Path, first: int, max_bytes: int) -> None:
        self._clock = Clock()
        settings = replace(SETTINGS, max_bytes=max_bytes, keep_delivered_ms=0, window_ms=0)
        self._spool = open_spool(data_dir, self._clock, settings=settings)
        self._chance = random.Random(first)
        self._numbers = iter(range(first, first + 1_000_000))
        self._feeding = asyncio.Event()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._feed())
            group.create_task(self._deliver())
            group.create_task(self._look_after())

    async def _feed(self) -> None:
        for n in self._numbers:
            await self._feeding.wait()
            await append(self._spool, [(b"%08d" % n).ljust(0 if n % LARGE_EVERY else LARGE_BYTES)])
            say(f"{n}")

    async def _deliver(self) -> None:
        while True:
            batch = await freeze(self._spool, max_records=self._chance.randint(1, 20))
            if batch is None:
                await asyncio.sleep(0)
            elif self._chance.random() < 0.3:
                await self._spool.release(batch, answered=True)
            else:
                say("\n".join(f"acking {int(record)}" for record in batch.records))
                await self._spool.ack(batch)
                say("\n".join(f"delivered {int(record)}" for record in batch.records))

    async def _look_after(self) -> None:
        """In turns: with the commits of others, and in commits of its own."""
        while True:
            self._feeding.set()
            for _ in range(ROUNDS):
                self._clock.now_ms += 1
                await self._spool.run_maintenance()
                self._feeding.clear()
                await asyncio.sleep(ALONE_S)


async def main(data_dir: Path, first: int, max_bytes: int = SETTINGS.max_bytes) -> None:
    await Appending(data_dir, first, max_bytes).run()


def say(line: str) -> None:
    """In one write, so that a kill cuts no line."""
    os.write(1, line.encode() + b"\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *map(int, sys.argv[2:])))
