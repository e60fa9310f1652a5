"""A copy of spool.db at one moment, taken while the gateway goes on; the copy
opens as a spool of its own.

Until it is whole the copy is a hidden file beside its later place, locked by who writes it. One
that a killed backup left has no lock any more: the next backup into that folder deletes it, and the
next start one in the data directory.
"""

import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from spool.data_dir import touch_private
from spool.errors import SpoolError
from spool.sqlite.database import connect_to_read, mapped_errors, refuse_newer
from spool.system.locks import lock, lock_now
from spool.system.sync import sync_path

UNFINISHED = ".unfinished-backup"
"""How the name of a copy ends that is not whole."""


def back_up(data_dir: Path, to: Path) -> int:
    """Write the copy to *to*, 0600, whole or not at all; its bytes.

    Raises SpoolError, also where *to* exists.
    """
    with mapped_errors(str(to)), written_whole(to) as beside:
        _copy(data_dir, beside)
    return to.stat().st_size


@contextmanager
def written_whole(to: Path) -> Iterator[Path]:
    """An empty file beside *to*, 0600, which is synced and renamed to it when the block ends, and
    deleted when it raises. Raises SpoolError where *to* exists; OSError.
    """
    beside = to.with_name(f".{to.name}.{os.getpid()}{UNFINISHED}")
    if to.exists():
        raise SpoolError(f"{to} exists already: name a file that does not")
    remove_unfinished(to.parent)
    touch_private(beside)
    try:
        with beside.open("rb") as held:
            lock(held.fileno())
            yield beside
            sync_path(beside)
            os.link(beside, to)
    finally:
        beside.unlink(missing_ok=True)
    sync_path(to.parent)


def remove_unfinished(folder: Path) -> None:
    """Delete what killed backups left in *folder*, as far as this user may."""
    for path in folder.glob(f".*{UNFINISHED}"):
        with suppress(OSError):
            _remove_unlocked(path)
    for path in folder.glob(f".*{UNFINISHED}-*"):  # SQLite's own files beside a copy
        if not path.with_name(path.name.rpartition("-")[0]).exists():
            with suppress(OSError):
                path.unlink()


def _remove_unlocked(path: Path) -> None:
    """Raises OSError where another process writes it. Windows removes no file that is open."""
    if sys.platform == "win32":
        path.unlink()
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        lock_now(descriptor)
        path.unlink()
    finally:
        os.close(descriptor)


def _copy(data_dir: Path, to: Path) -> None:
    with closing(connect_to_read(data_dir)) as source, closing(sqlite3.connect(to)) as target:
        refuse_newer(source)
        source.backup(target)
        # The copy states that it has a log, like its original: without, it is one file that can be
        # read from anywhere.
        target.execute("PRAGMA journal_mode=DELETE").fetchall()
