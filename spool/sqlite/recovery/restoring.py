"""A spool that comes back from a backup: what it knew of the upstream is as old as the backup."""

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from spool.counters import Counters
from spool.data_dir import DATABASE
from spool.sql import unit_doubts
from spool.sql.counter_rows import load_counters, save_counters
from spool.sqlite import database
from spool.sqlite.recovery import reconcile
from spool.sqlite.recovery.summary import read_from, write_summary


class Restored(NamedTuple):
    """What a restored spool holds."""

    gateway_id: str | None
    counters: Counters


def settle_restored(data_dir: Path, now_ms: int) -> Restored:
    """Make the spool.db of a backup in *data_dir* ready for the next start.

    1. Totals of unit cost that the upstream may have newer ones of are read there before anything
       is replaced or added. What waits to be sent stays as it is, but for what may have been
       delivered since and no read can show: deletions, and totals that travel by `sum`, are dead
       letters.
    2. The summaries beside it are made to agree with it, so that the start does not take it for an
       old copy.

    Raises SpoolTooNew, SpoolError.
    """
    path = data_dir / DATABASE
    with database.mapped_errors(str(path)), closing(database.connect(data_dir)) as connection:
        with database.one_commit(connection):
            unit_doubts.distrust(connection, now_ms)
            counters = load_counters(connection)
            unit_doubts.give_up(connection, counters, now_ms)
            save_counters(connection, counters)
        row = connection.execute("SELECT value FROM meta WHERE name='gateway_id'").fetchone()
        if row is not None:
            summary = read_from(connection, counters, row[0], now_ms, reconcile.entries(connection))
            write_summary(data_dir, summary._replace(is_final=True))
    return Restored(None if row is None else row[0], counters)
