"""Rows between the files of a data directory and a cell, table by table, one row at a time in
memory. The caller begins and commits.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg.sql import SQL, Composed, Identifier

from gateway.stores.moving.tables import Files, Table

Row = Sequence[Any]

_NO_NUL: Final[Callable[[str], str]] = lambda text: text.replace("\0", "\ufffd")  # noqa: E731 - beside `bool`
_CONVERTED: Final[Mapping[str, Callable[[Any], Any]]] = {"boolean": bool, "text": _NO_NUL}
"""Type in Postgres -> what makes a value of SQLite one of it: as `PostgresConnection` keeps it."""


def fill_cell(tables: Sequence[Table], files: Files, postgres: psycopg.Connection) -> dict[str, int]:
    """Every row of *files*, in place of what the tables held; table -> rows.

    Raises sqlite3.Error, psycopg.Error.
    """
    for table in reversed(tables):
        postgres.execute(SQL("DELETE FROM {}").format(Identifier(table.name)))
    return {table.name: _fill_cell_table(table, files[table.file], postgres) for table in tables}


def _fill_cell_table(table: Table, source: sqlite3.Connection, postgres: psycopg.Connection) -> int:
    with _without_triggers(table, postgres):
        n = _copy_in(table, source.execute(f"SELECT {_names(table)} FROM {table.name}"), postgres)  # noqa: S608 - own SQL
    if table.identity is not None and (last := _last_number(table, source)):
        postgres.execute("SELECT setval(pg_get_serial_sequence(%s, %s), %s)", (table.name, table.identity, last))
    return n


def _copy_in(table: Table, rows: Iterable[Row], postgres: psycopg.Connection) -> int:
    """COPY keeps the numbers of identity columns, whoever gives them."""
    converted = [_CONVERTED.get(kind) for kind in table.columns.values()]
    command = SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(Identifier(table.name), _identifiers(table))
    n = 0
    with postgres.cursor() as cursor, cursor.copy(command) as copy:
        copy.set_types([*table.columns.values()])
        for row in rows:
            copy.write_row(
                [x if x is None or as_kept is None else as_kept(x) for x, as_kept in zip(row, converted, strict=True)]
            )
            n += 1
    return n


@contextmanager
def _without_triggers(table: Table, postgres: psycopg.Connection) -> Iterator[None]:
    """What a trigger writes is moved itself."""
    for verb in (SQL("DISABLE"), SQL("ENABLE")):
        postgres.execute(SQL("ALTER TABLE {} {} TRIGGER USER").format(Identifier(table.name), verb))
        if verb == SQL("DISABLE"):
            yield


def fill_files(tables: Sequence[Table], postgres: psycopg.Connection, files: Files) -> dict[str, int]:
    """As `fill_cell`, the other way."""
    for table in reversed(tables):
        files[table.file].execute(f"DELETE FROM {table.name}")  # noqa: S608 - own SQL
    return {table.name: _fill_file_table(table, postgres, files[table.file]) for table in tables}


def _fill_file_table(table: Table, postgres: psycopg.Connection, target: sqlite3.Connection) -> int:
    triggers = target.execute(
        "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?", (table.name,)
    ).fetchall()
    for name, _ in triggers:
        target.execute(f"DROP TRIGGER {name}")
    places = ", ".join("?" * len(table.columns))
    sql = f"INSERT INTO {table.name} ({_names(table)}) VALUES ({places})"  # noqa: S608 - own SQL
    n = target.executemany(sql, _copy_out(table, postgres)).rowcount
    for _, script in triggers:
        target.execute(script)
    if table.identity is not None:
        _go_on_after(target, table.name, _last_of_sequence(table, postgres))
    return max(n, 0)


def _copy_out(table: Table, postgres: psycopg.Connection) -> Iterator[Row]:
    command = SQL("COPY (SELECT {} FROM {}) TO STDOUT (FORMAT BINARY)").format(
        _identifiers(table), Identifier(table.name)
    )
    with postgres.cursor() as cursor, cursor.copy(command) as copy:
        copy.set_types([*table.columns.values()])
        yield from copy.rows()


def _last_number(table: Table, source: sqlite3.Connection) -> int:
    """The largest number that was given, also where its row is gone; 0 for none."""
    (last,) = source.execute(f"SELECT coalesce(max({table.identity}), 0) FROM {table.name}").fetchone()  # noqa: S608 - own SQL
    row = _sequence_row(source, table.name)
    return max(int(last), int(row[0]) if row else 0)


def _last_of_sequence(table: Table, postgres: psycopg.Connection) -> int:
    (name,) = postgres.execute("SELECT pg_get_serial_sequence(%s, %s)", (table.name, table.identity)).fetchone() or (
        "",
    )
    row = postgres.execute(SQL("SELECT last_value, is_called FROM {}").format(SQL(name))).fetchone()
    return int(row[0]) if row and row[1] else 0


def _go_on_after(target: sqlite3.Connection, table: str, last: int) -> None:
    """Without AUTOINCREMENT, SQLite goes on after the largest number that is there."""
    (is_kept,) = target.execute(
        "SELECT count(*) FROM sqlite_schema WHERE name = ? AND sql LIKE '%AUTOINCREMENT%'", (table,)
    ).fetchone()
    if not is_kept or not last:
        return
    if _sequence_row(target, table) is None:
        target.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, 0)", (table,))
    target.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", (last, table))


def _sequence_row(connection: sqlite3.Connection, table: str) -> tuple[int] | None:
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_sequence'").fetchone():
        return None
    row: tuple[int] | None = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
    return row


def _names(table: Table) -> str:
    return ", ".join(f'"{column}"' for column in table.columns)


def _identifiers(table: Table) -> Composed:
    return SQL(", ").join(map(Identifier, table.columns))
