"""The journal gives each row until it is counted, whatever commits late."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator

import psycopg
import pytest

from gateway.stores.postgres import journal as journal_module
from gateway.stores.postgres.database import PostgresConnection, PostgresDatabase
from gateway.stores.postgres.journal import PostgresJournal
from gateway.stores.sql.database import make_tables
from tests.support.postgres import needs_postgres, shared_server

pytestmark = needs_postgres

ALL = {"max_rows": 100, "max_bytes": 1 << 20}


@pytest.fixture
def dsn() -> str:
    return shared_server().new_schema()


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[PostgresDatabase]:
    opened = await PostgresDatabase.open(dsn, durability="storage")
    await make_tables(opened, "cell")
    yield opened
    await opened.close()


@pytest.fixture
def journal(database: PostgresDatabase) -> PostgresJournal:
    return PostgresJournal(database)


async def bodies(journal: PostgresJournal) -> list[bytes | None]:
    return [row.body for row in await journal.read((0, 0), **ALL)]


async def test_rows_are_read_as_they_were_kept(journal: PostgresJournal) -> None:
    kept = [b"small", b"large " * 10_000, b"\x28\xb5\x2f\xfd begins like a frame"]
    for body in kept:
        await journal.keep(1, body, 3)
    rows = await journal.read((0, 0), **ALL)
    assert [(row.form, row.body) for row in rows] == [(1, body) for body in kept]


async def test_a_page_ends_at_its_limits_and_has_a_row_at_least(journal: PostgresJournal) -> None:
    for number in range(5):
        await journal.keep(1, bytes([number]) * 50, 1)  # too short to be packed
    first = await journal.read((0, 0), max_rows=2, max_bytes=1 << 20)
    assert [row.body for row in first] == [b"\0" * 50, b"\1" * 50]
    rest = await journal.read(first[-1].place, max_rows=100, max_bytes=10)
    assert [row.body for row in rest] == [b"\2" * 50]


async def test_a_row_that_commits_late_holds_nothing_up_and_is_not_left_out(
    dsn: str, database: PostgresDatabase, journal: PostgresJournal
) -> None:
    """Its transaction began before others that are committed."""
    with psycopg.connect(dsn) as late:
        late.execute("INSERT INTO journal (form, payloads, packed, body) VALUES (1, 1, FALSE, 'late')")
        await journal.keep(1, b"early", 1)
        (row,) = await journal.read((0, 0), **ALL)
        assert row.body == b"early"
        await database.commit(journal.dropping([row.place]))
        late.commit()
    assert await bodies(journal) == [b"late"]


async def test_a_row_that_another_server_numbered_is_read(database: PostgresDatabase, journal: PostgresJournal) -> None:
    """As after a restore of a dump: its transaction is still to come here."""
    await journal.keep(1, b"restored", 1)
    await database.commit(lambda c: c.execute("UPDATE journal SET xid = '9000000000000'"))
    await journal.keep(1, b"new", 1)
    rows = await journal.read((0, 0), **ALL)
    assert [row.body for row in rows] == [b"new", b"restored"]
    await database.commit(journal.dropping([row.place for row in rows]))
    assert await bodies(journal) == []


async def test_what_waits_is_measured_whatever_the_table_was_before(
    database: PostgresDatabase, journal: PostgresJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(40):
        await journal.keep(1, os.urandom(50_000), 1)
    assert await journal.waiting_bytes() == 40 * 50_100
    await database.commit(
        journal.dropping([row.place for row in await journal.read((0, 0), max_rows=39, max_bytes=1 << 30)])
    )
    assert await journal.waiting_bytes() == 50_100


async def test_of_a_long_table_a_sample_says_what_waits(
    database: PostgresDatabase, journal: PostgresJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While most of it is empty, too: nothing was vacuumed yet."""
    many = (
        "INSERT INTO journal (form, payloads, packed, body)"
        " SELECT 1, 1, FALSE, decode(repeat('00', 1900), 'hex') FROM generate_series(1, 24000)"
    )
    await database.commit(lambda c: c.execute(many))
    monkeypatch.setattr(journal_module, "PAGES", 10_000)
    exact = await journal.waiting_bytes()
    assert exact == 24_000 * 2_000
    monkeypatch.setattr(journal_module, "PAGES", 2_000)
    assert exact * 0.8 < await journal.waiting_bytes() < exact * 1.2
    await database.commit(lambda c: c.execute("DELETE FROM journal WHERE id % 10 > 0"))
    assert exact * 0.04 < await journal.waiting_bytes() < exact * 0.16


async def test_rows_leave_with_the_commit_that_has_what_came_of_them(
    database: PostgresDatabase, journal: PostgresJournal
) -> None:
    for body in (b"a", b"b", b"c"):
        await journal.keep(1, body, 1)
    rows = await journal.read((0, 0), **ALL)

    def failing(connection: PostgresConnection) -> None:
        journal.dropping([row.place for row in rows])(connection)
        raise LookupError

    with pytest.raises(LookupError):
        await database.commit(failing)
    assert await bodies(journal) == [b"a", b"b", b"c"]
    await database.commit(journal.dropping([rows[0].place, rows[2].place]))
    assert await bodies(journal) == [b"b"]


async def test_a_row_that_does_not_hold_together_is_set_aside(
    database: PostgresDatabase, journal: PostgresJournal
) -> None:
    await journal.keep(1, b"whole " * 100, 1)
    await database.commit(lambda c: c.execute("UPDATE journal SET body = substr(body, 1, 20)"))
    (row,) = await journal.read((0, 0), **ALL)
    assert row.body is None
    await database.commit(journal.setting_aside([row.place]))
    await database.commit(journal.dropping([row.place]))
    kept = await database.read(
        lambda c: c.execute("SELECT form, payloads, length(body) FROM journal_damaged").fetchall()
    )
    assert (kept, await bodies(journal)) == ([(1, 1, 20)], [])


async def test_many_edges_and_a_reader_lose_and_repeat_nothing(dsn: str, database: PostgresDatabase) -> None:
    edges = [PostgresJournal(await PostgresDatabase.open(dsn, durability="storage")) for _ in range(3)]
    journal, seen, is_done = PostgresJournal(database), list[bytes | None](), threading.Event()

    async def keep(edge: int) -> None:
        for number in range(40):
            await asyncio.gather(*(edges[edge].keep(1, f"{edge}.{number}.{part}".encode(), 1) for part in range(3)))

    async def read() -> None:
        while True:
            was_done = is_done.is_set()
            rows = await journal.read((0, 0), **ALL)
            seen.extend(row.body for row in rows)
            if rows:
                await database.commit(journal.dropping([row.place for row in rows]))
            elif was_done:
                return

    reading = asyncio.create_task(read())
    await asyncio.gather(*(keep(edge) for edge in range(3)))
    is_done.set()
    await reading
    wanted = sorted(f"{edge}.{n}.{part}".encode() for edge in range(3) for n in range(40) for part in range(3))
    assert sorted(body or b"" for body in seen) == wanted
    for edge in edges:
        await edge._database.close()
