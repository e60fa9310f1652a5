"""A process whose spool leaves the disk: it delivers most of a backlog, and then only deletes it
and gives its pages back: `python -m tests.support.emptying DIR`.

It states what `tests.support.appending` states, then `idle 0` when only upkeep goes on, and `end 0`
when nothing is left to do.
"""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

from tests.support.appending import say
from tests.support.spool_rig import SETTINGS, Clock, append, freeze, open_spool

RECORDS, DELIVERED, RECORD_BYTES = 300, 260, 60_000
"""What is not delivered lies at the end of the file, so that giving pages back moves it. A
record is a number and spaces, which compress to a third."""
SPACES = b" \t\n\v\f\r"
ROUNDS = 12
AGE_MS = 1000


async def main(data_dir: Path) -> None:
    clock = Clock()
    settings = replace(SETTINGS, max_bytes=64 << 20, keep_delivered_ms=AGE_MS, window_ms=0)
    spool = open_spool(data_dir, clock, settings=settings)
    for n in range(RECORDS):
        await append(spool, [b"%08d" % n + bytes(Random(n).choices(SPACES, k=RECORD_BYTES))])
        say(f"{n}")
    for _ in range(0, DELIVERED, 20):
        batch = await freeze(spool, max_records=20)
        assert batch is not None
        say("\n".join(f"acking {int(record)}" for record in batch.records))
        await spool.ack(batch)
        say("\n".join(f"delivered {int(record)}" for record in batch.records))
    clock.now_ms += AGE_MS + 1
    say("idle 0")
    for _ in range(ROUNDS):
        await spool.run_maintenance()
    say("end 0")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
