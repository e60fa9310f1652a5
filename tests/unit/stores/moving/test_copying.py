"""Every table, with every kind of value, goes into a cell and comes back as it was."""

import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gateway.stores.moving.copying import fill_cell, fill_files
from gateway.stores.moving.files import make_every_table, make_files, reading, writing
from gateway.stores.moving.tables import ONLY_IN_CELL, Files, Table, TablesDiffer, shared_tables
from gateway.stores.postgres.database import PostgresDatabase
from spool.data_dir import DATABASE
from spool.postgres.migrating import spool_scripts
from spool.postgres.session import connect
from tests.support.postgres import needs_postgres, shared_server

pytestmark = needs_postgres

VALUES: dict[str, Any] = {"bigint": 7, "boolean": 1, "text": "a\x00é'\\N\t\n", "bytea": b"\x00\xff\x80"}
CHOICES = {
    "keys.mode": "fixed",
    "keys.status": "Enabled",
    "insights.status": "new",
    "budget_alerts.delivery": "pending",
}
"""Columns of which only some values may be."""
NUMBERS = 1_000_000
HISTORY = "SELECT count(*) FROM insight_history"


async def cell() -> psycopg.Connection:
    """An empty one, of an own schema."""
    dsn = shared_server().new_schema()
    database = await PostgresDatabase.open(dsn, durability="storage", connections=1)
    await make_every_table(database)
    await database.migrate("spool", spool_scripts())
    await database.close()
    return connect(dsn, "storage")


@pytest.fixture
async def source(tmp_path: Path) -> Path:
    """A data directory with two rows in each table that may have them."""
    folder = tmp_path / "source"
    folder.mkdir()
    await make_files(folder)
    with writing(folder) as files, await cell() as postgres:
        for connection in files.values():
            connection.execute("PRAGMA foreign_keys = OFF")
        for table in shared_tables(files, postgres):
            fill_table(files[table.file], table)
        files["control.db"].execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'budget_alerts'", (NUMBERS,))
    return folder


def fill_table(connection: sqlite3.Connection, table: Table) -> None:
    for n in (0, 1):
        row = [value(f"{table.name}.{name}", kind, n) for name, kind in table.columns.items()]
        names, places = ", ".join(f'"{name}"' for name in table.columns), ", ".join("?" * len(row))
        connection.execute(f"INSERT OR IGNORE INTO {table.name} ({names}) VALUES ({places})", row)


def value(name: str, kind: str, n: int) -> Any:
    """The rows differ in what may differ, and refer to each other."""
    if kind == "boolean":
        return n
    if kind == "bigint":
        return 20 + n
    return CHOICES.get(name, VALUES[kind] + ("xy"[n] if kind == "text" else b"xy"[n : n + 1]))


def content(files: Files, tables: list[Table]) -> dict[str, list[tuple[Any, ...]]]:
    return {table.name: sorted(files[table.file].execute(f"SELECT * FROM {table.name}").fetchall()) for table in tables}


def as_kept(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """As Postgres keeps it: no NUL in texts."""
    return [tuple(x.replace("\0", "\ufffd") if isinstance(x, str) else x for x in row) for row in rows]


async def test_every_row_of_every_table_comes_back_as_it_was(source: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    again.mkdir()
    await make_files(again)
    with await cell() as postgres, reading(source) as files:
        tables = shared_tables(files, postgres)
        rows = fill_cell(tables, files, postgres)
        before = content(files, tables)
        assert rows == {name: len(found) for name, found in before.items()}
        assert all(before.values()), [name for name, found in before.items() if not found]
        with writing(again) as target:
            assert fill_files(tables, postgres, target) == rows
        with reading(again) as found:
            assert content(found, tables) == {name: as_kept(kept) for name, kept in before.items()}
            (seq,) = (
                found["control.db"].execute("SELECT seq FROM sqlite_sequence WHERE name = 'budget_alerts'").fetchone()
            )
            assert seq == NUMBERS


async def test_numbers_go_on_after_what_was_given(source: Path) -> None:
    with await cell() as postgres, reading(source) as files:
        tables = shared_tables(files, postgres)
        fill_cell(tables, files, postgres)
        following = {}
        for table in tables:
            if table.identity is not None:
                (following[table.name],) = postgres.execute(
                    "SELECT nextval(pg_get_serial_sequence(%s, %s))", (table.name, table.identity)
                ).fetchone() or (None,)
        assert following.pop("budget_alerts") == NUMBERS + 1
        assert set(following.values()) == {22}
        assert len(following) > 8


async def test_triggers_add_nothing_and_are_there_afterwards(source: Path) -> None:
    with await cell() as postgres, reading(source) as files:
        fill_cell(shared_tables(files, postgres), files, postgres)
        assert postgres.execute(HISTORY).fetchone() == files["control.db"].execute(HISTORY).fetchone() == (4,)
        postgres.execute("UPDATE insights SET status = 'ignored', last_updated_ms = 1")
        assert postgres.execute(HISTORY).fetchone() == (6,)


async def test_a_column_or_table_that_one_side_lacks_is_named(source: Path) -> None:
    with await cell() as postgres, reading(source) as files:
        postgres.execute("ALTER TABLE budgets DROP COLUMN webhook; ALTER TABLE views ADD COLUMN more TEXT")
        postgres.execute(
            "CREATE TABLE further (x BIGINT); ALTER TABLE lane ALTER COLUMN next_seq TYPE TEXT; DROP TABLE change"
        )
        with pytest.raises(TablesDiffer) as refused:
            shared_tables(files, postgres)
        for text in (
            "the column budgets.webhook is only in the data directory",
            "the column views.more is only in the cell",
            "the table further is only in the cell",
            "the table change is only in the data directory",
            "the column lane.next_seq is INTEGER in the data directory, text in the cell",
        ):
            assert text in str(refused.value)


async def test_tables_of_the_cell_alone_are_not_moved(source: Path) -> None:
    with await cell() as postgres, reading(source) as files:
        assert not {table.name for table in shared_tables(files, postgres)} & ONLY_IN_CELL.keys()
        found = postgres.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
        )
        assert {name for (name,) in found} >= ONLY_IN_CELL.keys()
        assert DATABASE in files
