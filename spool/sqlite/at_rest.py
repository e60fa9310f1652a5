"""Dead letters and resends in the file of a stopped gateway."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from spool.counters import Counters
from spool.data_lock import DataLock
from spool.errors import SpoolError
from spool.sql import rows
from spool.sql.counter_rows import load_counters, save_counters
from spool.sql.replay.operator import SqlDeadLetters
from spool.sqlite import database

T = TypeVar("T")


@contextmanager
def at_rest(data_dir: Path, now_ms: Callable[[], int]) -> Iterator[SqlDeadLetters]:
    """The spool of a stopped gateway; the lock is held meanwhile. No lane is opened or closed,
    nothing expires. *now_ms*: the wall clock.

    Raises SpoolLocked, SpoolTooNew, SpoolCorrupt, SpoolError.
    """
    with DataLock(data_dir):
        refuse_older(data_dir)
        with closing(database.connect(data_dir)) as connection:
            yield _operator(connection, lambda: rows.age_ms(connection, now_ms()))


def refuse_older(data_dir: Path) -> None:
    """Bringing the layout forward is the gateway's, which has its configuration.

    Raises SpoolError.
    """
    with database.mapped_errors(str(data_dir)):
        connection = database.connect_to_read(data_dir)
        try:
            database.refuse_newer(connection)
            if database.layout_version(connection) < database.migrations()[-1][0]:
                raise SpoolError(
                    "the spool was laid out by an older release: start the gateway once to bring it forward"
                )
        finally:
            connection.close()


def _operator(connection: sqlite3.Connection, now_ms: Callable[[], int]) -> SqlDeadLetters:
    async def ask(operation: Callable[[sqlite3.Connection, Counters], T]) -> T:
        with database.mapped_errors("the spool could not be written"):
            return _in_one_commit(connection, operation)

    return SqlDeadLetters(
        ask, number_chunk=lambda c: rows.last_seq(c) + 1, now_ms=now_ms, wake=lambda _: None, erase=database.erase
    )


def _in_one_commit(connection: sqlite3.Connection, operation: Callable[[sqlite3.Connection, Counters], T]) -> T:
    with database.one_commit(connection):
        counters = load_counters(connection)
        before = counters.copy()
        result = operation(connection, counters)
        if counters != before:
            save_counters(connection, counters)
    return result
