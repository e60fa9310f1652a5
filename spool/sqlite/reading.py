"""What the file of a stopped gateway holds.

Nothing in it is changed: no lane is opened or closed, nothing expires.
"""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from spool.counters import Counters
from spool.data_lock import DataLock
from spool.errors import SpoolError
from spool.record import AI_TELEMETRY, OWN_LANES, Lane
from spool.sql import pending, rows
from spool.sql.counter_rows import load_counters
from spool.sqlite import database


class Held(NamedTuple):
    """The counters as committed last, and of each lane when its oldest pending record
    was received; None for none.
    """

    counters: Counters
    oldest_ms: dict[Lane, int | None]
    aggregates: int
    """Sums of metrics among what is pending, which wait to be settled."""


def read_held(data_dir: Path) -> Held:
    """The lock is held meanwhile. Raises SpoolLocked, SpoolTooNew, SpoolCorrupt, SpoolError."""
    with (
        DataLock(data_dir),
        database.mapped_errors(str(data_dir)),
        closing(database.connect_to_read(data_dir)) as connection,
    ):
        return _read(connection)


def _read(connection: sqlite3.Connection) -> Held:
    database.refuse_newer(connection)
    if database.layout_version(connection) < database.migrations()[-1][0]:
        raise SpoolError("the spool was laid out by an older release: start the gateway once to bring it forward")
    counters = load_counters(connection)
    further = sorted(name for (name,) in connection.execute("SELECT name FROM lane") if name not in OWN_LANES)
    return Held(
        counters,
        {
            lane: rows.oldest_pending_ms(connection, lane) if counters.lane(lane).pending else None
            for lane in (*OWN_LANES, *further)
        },
        rows.held(connection, AI_TELEMETRY),
    )


def age_at_rest(data_dir: Path, wall_ms: int) -> int:
    """What time it is by the suspend-aware monotonic clock (`spool.age`), as a gateway that starts
    now will have it; the lock is held by the caller.
    """
    try:
        with closing(database.connect_to_read(data_dir)) as connection:
            return rows.age_ms(connection, wall_ms)
    except sqlite3.Error:  # of a file that is missing or damaged no time is known
        return wall_ms


def pending_bodies(data_dir: Path, lane: Lane, from_seq: int | None) -> tuple[list[bytes], int | None]:
    """`spool.sql.pending.pending_bodies` of a file, also of one that is in use.

    Raises SpoolCorrupt, SpoolError.
    """
    with database.mapped_errors(str(data_dir)), closing(database.connect_to_read(data_dir)) as connection:
        return pending.pending_bodies(connection, lane, from_seq)
