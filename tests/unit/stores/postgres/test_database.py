"""A commit that returned is durable; one of unknown outcome is never answered as done."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

import psycopg
import pytest

from gateway.common.storage.errors import DatabaseUnavailable
from gateway.stores.postgres import database as postgres_database
from gateway.stores.postgres.database import PostgresConnection, PostgresDatabase
from tests.support.polling import HANGS_S, until_true
from tests.support.postgres import Server, needs_postgres, running_server, shared_server

pytestmark = needs_postgres

NUMBERS = ["CREATE TABLE numbers (name TEXT PRIMARY KEY, n BIGINT NOT NULL); INSERT INTO numbers VALUES ('a', 0)"]


@pytest.fixture
def dsn() -> str:
    return shared_server().new_schema()


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[PostgresDatabase]:
    opened = await PostgresDatabase.open(dsn, durability="storage")
    await opened.migrate("numbers", NUMBERS)
    yield opened
    await opened.close()


@pytest.fixture(scope="module")
def without_standbys() -> Iterator[Server]:
    """Its commits wait for a standby that never comes."""
    with running_server(["synchronous_standby_names=nobody"]) as server:
        yield server


def add(connection: PostgresConnection) -> None:
    """As a store does: a read, and a write that depends on it."""
    (n,) = connection.execute("SELECT n FROM numbers WHERE name = ?", ("a",)).fetchone() or (0,)
    connection.execute("UPDATE numbers SET n = ? WHERE name = ?", (n + 1, "a"))


def total(connection: PostgresConnection) -> int:
    (n,) = connection.execute("SELECT sum(n) FROM numbers").fetchone() or (0,)
    return int(n)


async def test_changes_of_several_gateways_are_made_one_at_a_time(dsn: str, database: PostgresDatabase) -> None:
    other = await PostgresDatabase.open(dsn, durability="storage")
    await asyncio.gather(*(each.write(add) for _ in range(50) for each in (database, other)))
    assert await database.read(total) == 100
    await other.close()


async def test_gateways_that_start_together_make_each_table_once(dsn: str) -> None:
    gateways = [await PostgresDatabase.open(dsn, durability="storage") for _ in range(4)]
    await asyncio.gather(*(each.migrate("numbers", NUMBERS) for each in gateways))
    await gateways[0].migrate("numbers", [*NUMBERS, "ALTER TABLE numbers ADD COLUMN label TEXT"])
    await gateways[1].migrate("numbers", NUMBERS)  # the older release, which starts again
    question = "SELECT version, (SELECT count(label) FROM numbers) FROM parts WHERE part = 'numbers'"
    assert await gateways[1].read(lambda connection: connection.execute(question).fetchone()) == (2, 0)
    for each in gateways:
        await each.close()


async def test_nothing_is_kept_of_a_change_that_raises(database: PostgresDatabase) -> None:
    def failing(connection: PostgresConnection) -> None:
        add(connection)
        raise LookupError

    def asks_wrongly(connection: PostgresConnection) -> None:
        add(connection)
        connection.execute("SELECT 1 FROM nothing")

    with pytest.raises(LookupError):
        await database.write(failing)
    with pytest.raises(DatabaseUnavailable, match="does not exist"):
        await database.write(asks_wrongly)
    assert await database.read(total) == 0
    await database.write(add)


async def test_an_error_quotes_no_row(database: PostgresDatabase) -> None:
    with pytest.raises(DatabaseUnavailable, match="duplicate key") as refused:
        await database.write(
            lambda c: c.execute("INSERT INTO numbers VALUES (?, ?), (?, ?)", ("secret", 1, "secret", 2))
        )
    assert "secret" not in str(refused.value)


async def test_a_question_changes_nothing(database: PostgresDatabase) -> None:
    with pytest.raises(DatabaseUnavailable, match="read-only"):
        await database.read(add)


async def test_a_text_with_nul_is_kept_and_a_percent_sign_is_one(database: PostgresDatabase) -> None:
    def put(connection: PostgresConnection) -> None:
        connection.executemany("INSERT INTO numbers VALUES (?, ?)", [("b\0c", 2), ("50%", 3)])

    await database.write(put)
    query = "SELECT name FROM numbers WHERE n % 7 > ? AND name LIKE '%' ORDER BY n"
    found = await database.read(lambda connection: connection.execute(query, (1,)).fetchall())
    assert found == [("b�c",), ("50%",)]


async def test_a_cancelled_caller_leaves_a_whole_change(database: PostgresDatabase) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(connection: PostgresConnection) -> None:
        add(connection)
        begun.set()
        go_on.wait()
        add(connection)

    caller = asyncio.create_task(database.write(slow))
    await asyncio.to_thread(begun.wait)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    go_on.set()
    await database.write(add)  # after the other, whose lock it waits for
    assert await database.read(total) == 3


@pytest.mark.parametrize("turns", range(6))
async def test_a_caller_that_is_cancelled_is_told_so_whenever_that_is(database: PostgresDatabase, turns: int) -> None:
    is_cancelled = threading.Event()

    def slow(connection: PostgresConnection) -> int:
        is_cancelled.wait()
        return total(connection)

    caller = asyncio.create_task(database.read(slow))
    for _ in range(turns):
        await asyncio.sleep(0)
    caller.cancel()
    is_cancelled.set()
    with pytest.raises(asyncio.CancelledError):
        await caller


async def test_a_process_that_falls_silent_in_a_change_holds_nobody_up(
    dsn: str, database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that was stopped: its change is undone, and the next one is made."""
    monkeypatch.setattr(postgres_database, "SESSION", "SET idle_in_transaction_session_timeout = 200")
    stopped = await PostgresDatabase.open(dsn, durability="storage")
    begun, go_on = threading.Event(), threading.Event()

    def silent(connection: PostgresConnection) -> None:
        add(connection)
        begun.set()
        go_on.wait()

    writing = asyncio.create_task(stopped.write(silent))
    await asyncio.to_thread(begun.wait)
    await database.write(add)
    go_on.set()
    with pytest.raises(DatabaseUnavailable, match="idle-in-transaction"):
        await writing
    assert await database.read(total) == 1
    await stopped.close()


async def test_connections_that_were_broken_are_replaced(dsn: str, database: PostgresDatabase) -> None:
    await asyncio.gather(*(database.read(total) for _ in range(8)))
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'ai-telemetry-gateway' AND pid <> pg_backend_pid()"
        )
    await database.write(add)
    assert await database.read(total) == 1


async def test_a_server_that_answers_too_early_is_refused_at_the_start() -> None:
    hasty = shared_server().dsn(synchronous_commit="off")
    with pytest.raises(DatabaseUnavailable, match=r"synchronous_commit is off.*synchronous_standby_names is empty"):
        await PostgresDatabase.open(hasty, durability="quorum")


async def test_a_limit_of_the_role_cancels_no_statement_of_ours() -> None:
    limited = shared_server().dsn(statement_timeout="1ms", lock_timeout="1ms")
    database = await PostgresDatabase.open(limited, durability="storage")
    await database.read(lambda connection: connection.execute("SELECT pg_sleep(0.05)").fetchone())
    await database.close()


def write_wal(connection: PostgresConnection) -> None:
    connection.execute("SELECT pg_logical_emit_message(TRUE, 'test', '')")


def waits_for_standby(server: Server) -> bool:
    with psycopg.connect(server.dsn(), autocommit=True) as other:
        return other.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'").fetchone() is not None


async def test_a_commit_whose_wait_was_cancelled_is_no_success(without_standbys: Server) -> None:
    database = await PostgresDatabase.open(without_standbys.dsn(), durability="quorum")
    writing = asyncio.create_task(database.write(write_wal))
    await until_true(lambda: waits_for_standby(without_standbys), what="a commit that waits for a standby")
    with psycopg.connect(without_standbys.dsn(), autocommit=True) as other:
        other.execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
    with pytest.raises(DatabaseUnavailable, match="outcome of a commit is unknown: canceling wait for synchronous"):
        await writing
    await database.close()


async def test_without_standbys_a_further_change_is_refused_and_a_stop_ends(
    without_standbys: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_database, "WAIT_S", 0.2)
    database = await PostgresDatabase.open(without_standbys.dsn(), durability="quorum", connections=2)
    writing = [asyncio.create_task(database.write(write_wal)) for _ in range(2)]
    await until_true(lambda: waits_for_standby(without_standbys), what="a commit that waits for a standby")
    with pytest.raises(DatabaseUnavailable, match="no connection of 2 was free"):
        await database.write(write_wal)
    await database.close()
    ended = await asyncio.gather(*writing, return_exceptions=True)
    assert [type(each) for each in ended] == [DatabaseUnavailable, DatabaseUnavailable]
    with pytest.raises(DatabaseUnavailable, match="is closed"):
        await database.write(write_wal)


async def test_a_command_does_not_wait_for_standbys_that_are_gone(
    without_standbys: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_database, "WAIT_S", 0.2)
    opened = await PostgresDatabase.open(without_standbys.dsn(), durability="quorum", answer_s=0.2)
    with pytest.raises(DatabaseUnavailable, match="so nobody knows whether it was done: are its standbys there"):
        await opened.write(write_wal)
    await opened.close()


async def test_a_long_answer_comes_in_pieces_of_one_snapshot(database: PostgresDatabase) -> None:
    await database.commit(add_numbers)
    async with aclosing(database.pieces("SELECT n FROM numbers ORDER BY n", 4)) as pieces:
        found = [await anext(pieces)]
        await database.commit(lambda c: c.execute("DELETE FROM numbers"))
        found += [piece async for piece in pieces]
    assert found == [[(n,) for n in range(start, min(start + 4, 11))] for start in (0, 4, 8)]


async def test_pieces_that_nobody_wants_any_more_leave_no_connection(database: PostgresDatabase) -> None:
    await database.commit(add_numbers)
    async with aclosing(database.pieces("SELECT pg_backend_pid() FROM numbers", 4)) as pieces:
        (session, *_) = await anext(pieces)
    asked = "SELECT 1 FROM pg_stat_activity WHERE pid = ?"
    async with asyncio.timeout(HANGS_S):
        while await database.read(lambda c: c.execute(asked, session).fetchone()):
            pass


async def test_a_question_apart_keeps_no_other_waiting(dsn: str) -> None:
    database = await PostgresDatabase.open(dsn, durability="storage", connections=1)
    began, may_end = threading.Event(), threading.Event()

    def wait(connection: PostgresConnection) -> None:
        began.set()
        may_end.wait(HANGS_S)

    apart = asyncio.create_task(database.read_apart(wait))
    try:
        assert await asyncio.to_thread(began.wait, HANGS_S)
        assert await database.read(lambda c: c.execute("SELECT 1").fetchone()) == (1,)
        assert not apart.done()
    finally:
        may_end.set()
        await apart
        await database.close()


async def test_a_closed_database_answers_nothing_apart(database: PostgresDatabase) -> None:
    await database.close()
    with pytest.raises(DatabaseUnavailable, match="is closed"):
        await database.read_apart(lambda c: c.execute("SELECT 1").fetchone())
    with pytest.raises(DatabaseUnavailable, match="is closed"):
        await anext(database.pieces("SELECT 1", 1))


def add_numbers(connection: PostgresConnection) -> None:
    connection.executemany("INSERT INTO numbers VALUES (?, ?)", [(f"n{n}", n) for n in range(1, 11)])
