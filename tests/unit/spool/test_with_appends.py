"""What is asked with appends is in their commit: both are kept, or neither."""

import sqlite3
from typing import Any

import pytest

from spool.counters import Counters
from spool.errors import SpoolError
from spool.sqlite.spool import SqliteSpool
from tests.support.spool_rig import append, drained

NOTED = "SELECT value FROM meta WHERE name='joined'"


def note(connection: sqlite3.Connection, _: Counters) -> None:
    connection.execute("INSERT INTO meta (name, value) VALUES ('joined', 'yes')")


async def noted(spool: SqliteSpool) -> list[Any]:
    return await spool.ask(lambda connection, _: connection.execute(NOTED).fetchall())


async def test_it_is_kept_with_the_append(spool: SqliteSpool) -> None:
    with spool.reserve():
        appended, joined = append(spool, [b"{}"]), spool.ask_with_appends(note)
    await appended
    await joined
    assert await noted(spool) == [("yes",)]
    assert await drained(spool) == [b"{}"]


async def test_where_it_fails_the_append_is_not_kept_and_operations_are(spool: SqliteSpool) -> None:
    def fail(*_: Any) -> None:
        raise LookupError("of the test")

    with spool.reserve():
        appended, joined, asked = append(spool, [b"{}"]), spool.ask_with_appends(fail), spool.ask(note)
    with pytest.raises(SpoolError):
        await appended
    with pytest.raises(SpoolError):
        await joined
    await asked
    assert await noted(spool) == [("yes",)]
    assert await drained(spool) == []


async def test_where_the_append_fails_it_is_not_kept(spool: SqliteSpool) -> None:
    await spool.ask(
        lambda c, _: c.execute("CREATE TRIGGER broken BEFORE INSERT ON chunk BEGIN SELECT RAISE(ABORT, 'broken'); END")
    )
    with spool.reserve():
        appended, joined = append(spool, [b"{}"]), spool.ask_with_appends(note)
    with pytest.raises(SpoolError):
        await appended
    with pytest.raises(SpoolError):
        await joined
    assert await noted(spool) == []
    await spool.ask(lambda c, _: c.execute("DROP TRIGGER broken"))
