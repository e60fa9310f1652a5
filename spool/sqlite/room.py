"""What the spool takes on the disk, and what the disk has left."""

import os
import sqlite3
from pathlib import Path
from typing import NamedTuple

from spool.data_dir import DATABASE
from spool.status import Room
from spool.system.files import free_bytes

NOTHING_KNOWN = Room(0, 0, 0, 0)


class Pages(NamedTuple):
    """Of the file, the write-ahead log included."""

    live: int
    free: int
    page_bytes: int


def pages(connection: sqlite3.Connection) -> Pages:
    total, free, page_bytes = connection.execute(
        "SELECT page_count, freelist_count, page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
    ).fetchone()
    return Pages(int(total) - int(free), int(free), int(page_bytes))


def measure(connection: sqlite3.Connection, data_dir: Path, before: Room) -> Room:
    """The room now; *before* where it cannot be reported."""
    path = f"{data_dir}/{DATABASE}"
    try:
        live, free, page_bytes = pages(connection)
        file_bytes, log_bytes = _size(path), _size(f"{path}-wal")
        still_bytes = max(0, (live + free) * page_bytes - file_bytes)
        return Room(
            live * page_bytes + log_bytes,
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
