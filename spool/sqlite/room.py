"""What the spool takes on the disk, and what the disk has left."""

import os
import sqlite3
import time
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


VACUUM_LONGEST_S = 0.003
"""Whatever the disk does meanwhile, and however long the list of free pages is, which SQLite
searches from its beginning."""


def give_back_pages(connection: sqlite3.Connection, *, most: int) -> int:
    """Return up to *most* free pages at the file's end to the system, for at most
    `VACUUM_LONGEST_S`; how many.

    One statement a page: Python steps a PRAGMA that has no columns only once, so
    `incremental_vacuum(N)` frees one.
    """
    until_s = time.monotonic() + VACUUM_LONGEST_S
    count = min(pages(connection).free, most)
    for done in range(count):
        connection.execute("PRAGMA incremental_vacuum(1)")
        if time.monotonic() > until_s:
            return done + 1
    return count


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
