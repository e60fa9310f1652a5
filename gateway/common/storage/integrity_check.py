"""Refuses a damaged or missing control.db: taken for a file that never held a key, it would open
the intake.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from gateway.common.storage.database import read_only
from gateway.common.storage.errors import DatabaseUnavailable
from spool.disk_faults import disk_fault, fault_of_reading

REMEDY = (
    "restore it from a backup together with its pepper file; or, to go on without the keys it held, move it and {pepper}"
    " away and create a key before the start (telemetry-gateway keys create): without one, intake on loopback is open"
)
KEY_TABLES = "SELECT 1 FROM sqlite_schema WHERE name = 'key_facts'"


def refuse_damaged(database: Path, pepper: Path) -> None:
    """Raise DatabaseUnavailable with a remedy when *database* is damaged, or missing beside its
    *pepper*.
    """
    remedy = REMEDY.format(pepper=pepper.name)
    if not database.exists() or database.stat().st_size == 0:
        if pepper.exists():
            raise DatabaseUnavailable(f"{database.name} is gone, and this data directory had one: {remedy}")
        return
    found = _damage(database, pepper)
    if found is None:
        return
    fault = fault_of_reading(database, Path(f"{database}-wal"))
    if fault is not None:
        raise DatabaseUnavailable(f"{database.name} cannot be read: {fault}")
    found = _damage(database, pepper)  # once more: what the disk did not give it may give now
    if found is not None:
        raise DatabaseUnavailable(f"{database.name} is damaged ({found}): {remedy}")


def _damage(database: Path, pepper: Path) -> str | None:
    """What is wrong with the file's content; None when nothing is. Raises DatabaseUnavailable where
    the disk or rights keep it from being read.
    """
    try:
        with closing(read_only(database)) as connection:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if found == "ok" and pepper.exists() and not connection.execute(KEY_TABLES).fetchone():
                found = "its keys are gone, as when its write-ahead log was deleted"
    except UnicodeDecodeError:
        return "it cannot be read"
    except sqlite3.DatabaseError as error:
        if fault := disk_fault(error):
            raise DatabaseUnavailable(f"{database.name} cannot be read: {fault}") from error
        found = str(error)
    return None if found == "ok" else str(found).splitlines()[0]
