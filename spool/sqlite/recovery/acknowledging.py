"""Acknowledging the losses of a spool that no gateway has open."""

import sqlite3
from contextlib import closing
from pathlib import Path

from spool.data_dir import DATABASE
from spool.errors import SpoolError
from spool.sqlite.database import mapped_errors, one_commit, refuse_newer
from spool.sqlite.recovery.reconcile import acknowledge


def acknowledge_stopped(data_dir: Path) -> int:
    """Note in spool.db that an operator has seen every loss; how many were new. The caller holds
    the lock.

    Raises SpoolTooNew, SpoolError, also where there is no spool.db: the next start reports that.
    """
    path = data_dir / DATABASE
    if not path.exists() or path.stat().st_size == 0:
        raise SpoolError(f"{path} is missing or empty: start the gateway, which reports what is lost, then acknowledge")
    with mapped_errors(str(path)), closing(sqlite3.connect(path, isolation_level=None)) as connection:
        refuse_newer(connection)
        connection.execute("PRAGMA fullfsync=ON")
        with one_commit(connection):
            return acknowledge(connection)
