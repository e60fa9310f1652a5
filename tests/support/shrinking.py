"""A process that gives pages back, and waits inside the third slice for its end: `python -m
tests.support.shrinking DIR NOW_MS`.
"""

import asyncio
import os
import sqlite3
import sys
import threading
from pathlib import Path
from typing import Any

from spool.sqlite import room
from tests.support.spool_rig import Clock, open_spool

SLICE = 3


async def main(data_dir: Path, now_ms: int) -> None:
    slices = 0

    def give_back(connection: sqlite3.Connection, *, most: int, real: Any = room.give_back_pages) -> int:
        nonlocal slices
        done: int = real(connection, most=most)
        slices += 1
        if slices == SLICE:
            os.write(1, b"a slice was given back, and is not committed\n")
            threading.Event().wait()
        return done

    room.give_back_pages = give_back
    spool = open_spool(data_dir, Clock(now_ms))
    while True:
        await spool.run_maintenance()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
