"""What the spool takes on the disk, and what the disk has left."""

import os
import sqlite3
from pathlib import Path
from typing import NamedTuple

from spool.data_dir import DATABASE
from spool.sqlite.database import PAGE_BYTES
from spool.status import Room
from spool.system.files import free_bytes

NOTHING_KNOWN = Room(0, 0, 0, 0)


class Pages(NamedTuple):
    """Of the file, the write-ahead log included."""

    live: int
    free: int


def pages(connection: sqlite3.Connection) -> Pages:
    total, free = connection.execute(
        "SELECT page_count, freelist_count FROM pragma_page_count, pragma_freelist_count"
    ).fetchone()
    return Pages(int(total) - int(free), int(free))


def measure(connection: sqlite3.Connection, data_dir: Path, before: Room) -> Room:
    """The room now; *before* where it cannot be reported."""
    path = f"{data_dir}/{DATABASE}"
    try:
        live, free = pages(connection)
        file_bytes, log_bytes = _size(path), _size(f"{path}-wal")
        still_bytes = max(0, (live + free) * PAGE_BYTES - file_bytes)
        return Room(
            live * PAGE_BYTES + log_bytes,
            file_bytes + log_bytes,
            log_bytes,
            free_bytes(data_dir) - still_bytes,
        )
    except (sqlite3.Error, OSError):
        return before


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 after each commit: a Path costs more than the call
    except FileNotFoundError:
        return 0
