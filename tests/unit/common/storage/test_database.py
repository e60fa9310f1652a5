"""The database's two forms of work, statements and functions: each whole, one at a time, and never
half after a cancellation.
"""

import asyncio
import sqlite3
import stat
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gateway.common.storage.database import Database
from gateway.common.storage.errors import DatabaseUnavailable
from tests.support.polling import HANGS_S

FULL = 2


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def modes_in(folder: Path) -> dict[str, int]:
    return {path.name: mode_of(path) for path in folder.iterdir()}


def pragma(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


async def test_the_database_file_and_its_wal_are_the_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    path.touch(mode=0o644)
    database = await Database.open(path)
    await database.write(lambda connection: connection.execute("CREATE TABLE t (x)"))
    assert modes_in(tmp_path) == {
        "some.db": 0o600,
        "some.db-wal": 0o600,
        "some.db-shm": 0o600,
    }
    assert await database.write(lambda connection: pragma(connection, "journal_mode")) == "wal"
    assert await database.write(lambda connection: pragma(connection, "synchronous")) == FULL
    await database.close()


async def test_a_change_that_fails_leaves_nothing_and_the_next_one_works(tmp_path: Path) -> None:
    def half(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO t VALUES (1)")
        raise ValueError("stop")

    database = await Database.open(tmp_path / "some.db")
    await database.write(lambda connection: connection.execute("CREATE TABLE t (x)"))
    with pytest.raises(ValueError, match="stop"):
        await database.write(half)
    with pytest.raises(DatabaseUnavailable, match=r"some\.db: no such table"):
        await database.write(lambda connection: connection.execute("INSERT INTO missing VALUES (1)"))
    await database.write(lambda connection: connection.execute("INSERT INTO t VALUES (2)"))
    assert await database.read(lambda connection: connection.execute("SELECT x FROM t").fetchall()) == [(2,)]
    with pytest.raises(DatabaseUnavailable, match="readonly"):
        await database.read(lambda connection: connection.execute("INSERT INTO t VALUES (3)"))
    await database.close()
    with pytest.raises(DatabaseUnavailable, match="closed"):
        await database.read(lambda connection: connection.execute("SELECT 1"))


async def test_a_transaction_is_whole_or_not_there(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "some.db")
    async with database.transaction() as connection:
        await connection.execute("CREATE TABLE t (x)")

    async def half(then: Callable[[], object], *more: str) -> None:
        async with database.transaction() as connection:
            await connection.execute("INSERT INTO t VALUES (1)")
            for statement in more:
                await connection.execute(statement)
            then()

    with pytest.raises(DatabaseUnavailable, match=r"some\.db: no such table"):
        await half(dict, "INSERT INTO missing VALUES (1)")
    with pytest.raises(ZeroDivisionError):
        await half(lambda: 1 // 0)
    assert await rows(database) == []
    await database.close()


async def test_a_cancelled_transaction_is_rolled_back_and_the_next_one_waits_for_that(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "some.db")
    await database.write(lambda connection: connection.execute("CREATE TABLE t (x)"))
    inserted = asyncio.Event()

    async def stuck() -> None:
        async with database.transaction() as connection:
            await connection.execute("INSERT INTO t VALUES (1)")
            inserted.set()
            await asyncio.Event().wait()

    async def add(value: int) -> None:
        async with database.transaction() as connection:
            await connection.execute("INSERT INTO t VALUES (?)", (value,))

    first = asyncio.create_task(stuck())
    await inserted.wait()
    second = asyncio.create_task(add(2))
    first.cancel()
    await second
    assert await rows(database) == [2]
    await database.close()


async def test_a_write_whose_caller_is_cancelled_is_whole_before_the_next_one_begins(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "some.db")
    await database.write(lambda connection: connection.execute("CREATE TABLE t (x)"))
    began, go_on = threading.Event(), threading.Event()

    def slow(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO t VALUES (1)")
        began.set()
        go_on.wait(10)
        connection.execute("INSERT INTO t VALUES (2)")

    first = asyncio.create_task(database.write(slow))
    await asyncio.to_thread(began.wait, 10)
    first.cancel()
    second = asyncio.create_task(database.write(lambda connection: connection.execute("INSERT INTO t VALUES (3)")))
    go_on.set()
    await second
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await rows(database) == [1, 2, 3]
    await database.close()


async def rows(database: Database) -> list[int]:
    async with database.snapshot() as connection:
        return [x for (x,) in await connection.execute_fetchall("SELECT x FROM t ORDER BY rowid")]


async def test_migrations_run_once_each_and_a_newer_file_is_refused(tmp_path: Path) -> None:
    first, second = "CREATE TABLE t (x);\n-- a comment\nINSERT INTO t VALUES (1);", "INSERT INTO t VALUES (2);"
    database = await Database.open(tmp_path / "some.db")
    await database.migrate("part", [first])
    await database.migrate("part", [first, second])
    await database.migrate("part", [first, second])
    assert await database.read(lambda connection: connection.execute("SELECT x FROM t").fetchall()) == [(1,), (2,)]
    with pytest.raises(DatabaseUnavailable, match="newer release"):
        await database.migrate("part", [first])
    await database.close()


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "some.db").write_bytes(b"this is no database at all" * 100)
    with pytest.raises(DatabaseUnavailable, match="not a database"):
        await Database.open(tmp_path / "some.db")


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = await Database.open(tmp_path / "some.db")
    await database.migrate("part", ["CREATE TABLE t (x);"])
    yield database
    await database.close()


async def test_a_snapshot_shows_one_state_and_cannot_write(database: Database) -> None:
    async with database.snapshot() as before:
        assert await before.execute_fetchall("SELECT x FROM t") == []
        async with database.transaction() as connection:
            await connection.execute("INSERT INTO t VALUES (1)")
        assert await before.execute_fetchall("SELECT x FROM t") == []
    assert await rows(database) == [1]
    with pytest.raises(DatabaseUnavailable, match="readonly"):
        async with database.snapshot() as reading:
            await reading.execute("DELETE FROM t")


async def test_a_transaction_cancelled_in_a_statement_is_undone_before_the_next_begins(database: Database) -> None:
    busy, may_go = threading.Event(), threading.Event()

    def wait() -> int:
        busy.set()
        may_go.wait(HANGS_S)
        return 1

    async def slow() -> None:
        async with database.transaction() as connection:
            await connection.create_function("wait", 0, wait)
            await connection.execute("INSERT INTO t VALUES (wait())")

    cancelled = asyncio.create_task(slow())
    await asyncio.to_thread(busy.wait, HANGS_S)
    cancelled.cancel()
    following = asyncio.create_task(database.write(lambda c: c.execute("INSERT INTO t VALUES (2)")))
    await asyncio.sleep(0)
    assert not following.done()
    cancelled.cancel()  # impatient: twice
    may_go.set()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    await following
    assert await rows(database) == [2]


async def test_a_closed_file_is_unavailable_in_every_form(database: Database) -> None:
    await database.close()
    for work in (database.read, database.write):
        with pytest.raises(DatabaseUnavailable, match="closed"):
            await work(lambda connection: connection.execute("SELECT 1"))
    for begun in (database.transaction, database.snapshot):
        with pytest.raises(DatabaseUnavailable, match="closed"):
            async with begun():
                pass
