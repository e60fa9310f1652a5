"""Whether a spool's files may be opened as they are, asked before SQLite writes to them.

A file up to `CHECKED_BYTES` is checked whole at every start. A larger one is checked where it
costs nothing, for a start must not take longer the more is kept: its damaged pages are found
when they are read, or by `spool verify`, which leaves `spool.check` behind so that the next
start checks the whole of it.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from spool.data_dir import DATABASE, RESERVE
from spool.disk_faults import EIO, disk_fault, fault_of_reading
from spool.errors import SpoolCorrupt, SpoolError
from spool.sqlite import database
from spool.sqlite.recovery.log_file import forgets_commits
from spool.sqlite.recovery.summary import FILES as SUMMARIES

CHECKED_BYTES = 64 << 20
"""Checked in a tenth of a second."""
CHECK = "spool.check"
_HEADER_BYTES = 100
_LAST_SCHEMA_FORMAT = 4


def damage(data_dir: Path) -> str | None:
    """What is wrong with spool.db or its log; None when nothing was found. Nothing is changed.

    Raises SpoolError where the disk or rights keep it from being read: that is no damage.
    """
    path = data_dir / DATABASE
    if not path.exists() or path.stat().st_size == 0:
        log = Path(f"{path}-wal")
        if has_summary(data_dir) or (log.exists() and log.stat().st_size > 0):
            return "spool.db is missing or empty, and this data directory had one"
        return (
            "spool.db and both of its summaries are missing, and this data directory had them"
            if was_used(data_dir)
            else None
        )
    if _found(data_dir) is None:
        return None
    refuse_unreadable(data_dir)
    return _found(data_dir)  # once more: what the disk did not give it may give now


def has_summary(data_dir: Path) -> bool:
    """Whether a file of that name is there, readable or not."""
    return any((data_dir / name).exists() for name in SUMMARIES)


def was_used(data_dir: Path) -> bool:
    """Whether a spool was open here before: commands that need none leave no reserve behind."""
    return (data_dir / RESERVE).exists()


def refuse_unreadable(data_dir: Path) -> None:
    """Raise SpoolError when the disk does not give all of spool.db and its log: SQLite calls that
    damage, too.
    """
    path = data_dir / DATABASE
    if fault := fault_of_reading(path, Path(f"{path}-wal")):
        raise SpoolError(f"{DATABASE} cannot be read: {fault}")


def _found(data_dir: Path) -> str | None:
    path = data_dir / DATABASE
    if not _has_sound_header(path):
        return "spool.db: its header does not hold together"
    try:
        with closing(database.connect_to_read(data_dir)) as connection:
            return _damage(connection, path)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if disk_fault(error) == EIO:
            raise SpoolError(f"{DATABASE} cannot be read: {EIO}") from error
        found = database.spool_error(DATABASE, error)
        return str(found) if isinstance(found, SpoolCorrupt) else None
    except SpoolCorrupt as error:
        return str(error)


def _has_sound_header(path: Path) -> bool:
    """Whether SQLite can write to a file of these formats; others it does not report as damaged.

    Raises SpoolError.
    """
    with database.mapped_errors(DATABASE), path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    versions, schema_format = header[18:20], header[44:48]
    return set(versions) <= {1, 2} and int.from_bytes(schema_format) <= _LAST_SCHEMA_FORMAT


def _damage(connection: sqlite3.Connection, path: Path) -> str | None:
    if database.is_newer(connection):
        return None  # it is not ours to judge
    if forgets_commits(path):
        return "the write-ahead log is damaged before its end"
    if not database.has_own_layout(connection):
        return "spool.db: its tables do not have the columns of their layout"
    if path.stat().st_size > CHECKED_BYTES and not (path.parent / CHECK).exists():
        return None
    # Not quick_check: a record that an index does not name is passed over, and would never be sent.
    (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    return None if found == "ok" else f"spool.db: {str(found).splitlines()[-1]}"
