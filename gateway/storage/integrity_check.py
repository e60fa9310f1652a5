"""Refuses a damaged or missing control.db: taken for a file that never held a key, it would open
the intake.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

from gateway.keys.errors import DatabaseUnavailable
from gateway.storage.database import read_only

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
    try:
        with closing(read_only(database)) as connection:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if found == "ok" and pepper.exists() and not connection.execute(KEY_TABLES).fetchone():
                found = "its keys are gone, as when its write-ahead log was deleted"
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        found = "it cannot be read" if isinstance(error, UnicodeDecodeError) else str(error)
    if found != "ok":
        raise DatabaseUnavailable(f"{database.name} is damaged ({str(found).splitlines()[0]}): {remedy}")
