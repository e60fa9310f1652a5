"""Copies of several databases as of one moment, taken while they are written to.

A snapshot is a read transaction: SQLite keeps what it sees in the write-ahead log until it ends, so
the log grows by what is written meanwhile.
"""

import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from spool.data_dir import make_private_dir, touch_private
from spool.errors import SpoolCorrupt, SpoolFull
from spool.sqlite.database import mapped_errors
from spool.system.sync import sync_path


class SqliteSnapshots:
    """See `spool.store.Snapshots`. May be used on another thread than it was made on."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        """Begin a read transaction on each of *files*: name of its copy -> database.

        Raises SpoolError.
        """
        self._connections: dict[str, sqlite3.Connection] = {}
        try:
            for name, path in files.items():
                with mapped_errors(str(path)):
                    self._begin(name, path)
        except BaseException:
            self.close()
            raise

    def _begin(self, name: str, path: Path) -> None:
        address = f"{path.absolute().as_uri()}?mode=ro"
        connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
        self._connections[name] = connection
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()

    def size_bytes(self) -> int:
        """Of all copies."""
        return sum(map(_size_bytes, self._connections.values()))

    def copy(self, folder: Path, *, keep_free_bytes: int = 0) -> None:
        """Write each copy into *folder*, synced, 0600. Raises SpoolError: for a database that is
        damaged, and where less than *keep_free_bytes* would be left on the disk.
        """
        with mapped_errors(str(folder)):
            needed, free = self.size_bytes() + keep_free_bytes, shutil.disk_usage(folder).free
            if free < needed:
                raise SpoolFull(
                    f"{folder}: the copies need {needed >> 20} MiB and {free >> 20} MiB are free:"
                    " make room, or name a folder on another disk (--work-dir)"
                )
            for name, connection in self._connections.items():
                to = folder / name
                make_private_dir(to.parent)
                touch_private(to)
                _copy(connection, to)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


def _size_bytes(connection: sqlite3.Connection) -> int:
    ((pages,),) = connection.execute("PRAGMA page_count").fetchall()
    ((page_bytes,),) = connection.execute("PRAGMA page_size").fetchall()
    return int(pages) * int(page_bytes)


def _copy(source: sqlite3.Connection, to: Path) -> None:
    with closing(sqlite3.connect(to)) as target:
        target.execute("PRAGMA synchronous=OFF")  # it is synced below, once
        source.backup(target)
        # One file that can be read from anywhere: the copy states a log, like its original.
        target.execute("PRAGMA journal_mode=DELETE").fetchall()
        (found,) = target.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise SpoolCorrupt(f"{to.name} is damaged, so it was not backed up: {str(found).splitlines()[-1]}")
    sync_path(to)
