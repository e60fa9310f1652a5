"""The files beside the keys: database, pepper, kept secrets."""

import asyncio
import sqlite3
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.contract.scopes import SEND_AI_TELEMETRY, Fixed, Managed
from gateway.keys.control_store import open_control
from gateway.keys.errors import DatabaseUnavailable, PepperMismatch
from gateway.keys.local_key_file import kept_key
from gateway.keys.pepper import load_pepper
from gateway.keys.store import KeyStore
from gateway.storage.database import Database
from gateway.storage.private_files import read_or_create, write_private

SENDING = Managed(frozenset({SEND_AI_TELEMETRY}))
FULL = 2
READING = Fixed(frozenset({"billing:read_costs"}))


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def modes_in(folder: Path) -> dict[str, int]:
    return {path.name: mode_of(path) for path in folder.iterdir()}


def pragma(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def test_a_private_file_is_the_owners_alone_and_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "secret"
    write_private(path, b"one")
    write_private(path, b"two")
    assert (path.read_bytes(), mode_of(path)) == (b"two", 0o600)
    assert [each.name for each in path.parent.iterdir()] == ["secret"]


def test_a_file_that_exists_is_read_and_its_rights_are_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    assert read_or_create(path, lambda: b"first") == b"first"
    path.chmod(0o644)
    assert read_or_create(path, lambda: b"second") == b"first"
    assert mode_of(path) == 0o600


def test_the_pepper_is_made_once_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pepper"
    pepper = load_pepper(path, lambda count: bytes(range(count)))
    assert pepper == bytes(range(32)) == load_pepper(path, bytes)
    assert mode_of(path) == 0o600
    path.write_text("abc")
    with pytest.raises(PepperMismatch):
        load_pepper(path, bytes)


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


async def test_a_file_that_is_no_database_is_told_as_such(tmp_path: Path) -> None:
    (tmp_path / "some.db").write_bytes(b"this is no database at all" * 100)
    with pytest.raises(DatabaseUnavailable, match="not a database"):
        await Database.open(tmp_path / "some.db")


async def test_a_file_that_lost_its_keys_beside_a_pepper_is_refused(tmp_path: Path) -> None:
    database = await open_control(tmp_path)
    await database.close()
    await (await open_control(tmp_path)).close()  # ended before the pepper was made: nothing is lost
    load_pepper(tmp_path / "control.pepper", bytes)
    with pytest.raises(DatabaseUnavailable, match="its keys are gone"):
        await open_control(tmp_path)


async def test_a_kept_key_stays_the_same_until_it_no_longer_fits(keys: KeyStore, tmp_path: Path) -> None:
    path = tmp_path / "service-key"

    async def kept(grant: Fixed | Managed = SENDING) -> str:
        return (await kept_key(keys, path, name="local reader", grant=grant, by="gateway@localhost")).reveal()

    first = await kept()
    assert mode_of(path) == 0o600
    assert path.read_text() == f"{first}\n"
    assert await kept() == first
    regranted = await kept(READING)
    assert regranted != first
    await keys.disable("local reader", by="operator@example.com")
    after_disabling = await kept(READING)
    assert after_disabling != regranted
    path.unlink()
    assert await kept(READING) != after_disabling
    assert [key.name for key in await keys.list()] == ["local reader"]
