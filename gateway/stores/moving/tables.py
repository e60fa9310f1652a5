"""The tables that a data directory and a cell both have, compared as the databases themselves state
them: what one side has and the other lacks is an error, so that nothing is left behind.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from typing import Final, NamedTuple

import psycopg

ONLY_IN_CELL: Final[Mapping[str, str]] = {
    "cell": "who owns the cell: a data directory has a lock instead",
    "member": "the gateways of the cell: a data directory has one",
    "journal": "what the owner has not counted: nothing is moved until it is empty",
    "journal_damaged": "rows that could not be read, for whoever looks into them: they stay",
}
"""Table -> why it is not moved."""
OF_EACH_SIDE: Final[Mapping[str, str]] = {"parts": "the versions of the tables, which differ by side"}
"""The same, of tables that both sides have."""
KINDS: Final[Mapping[str, tuple[str, ...]]] = {"INTEGER": ("bigint", "boolean"), "TEXT": ("text",), "BLOB": ("bytea",)}
"""Type in SQLite -> the types that it may have in Postgres."""

Files = Mapping[str, sqlite3.Connection]
"""Name of a file in a data directory -> its connection."""

_COLUMNS: Final = (
    "SELECT table_name, column_name, data_type, is_identity = 'YES' FROM information_schema.columns"
    " WHERE table_schema = current_schema() ORDER BY table_name, ordinal_position"
)
_REFERENCES: Final = (
    "SELECT r.relname, p.relname FROM pg_constraint c JOIN pg_class r ON r.oid = c.conrelid"
    " JOIN pg_class p ON p.oid = c.confrelid WHERE c.contype = 'f' AND c.connamespace = current_schema()::regnamespace"
)


class TablesDiffer(Exception):
    """What one side has and the other lacks."""


class Table(NamedTuple):
    """One that both sides have."""

    name: str
    file: str
    """Of the data directory."""
    columns: Mapping[str, str]
    """Column -> its type in Postgres, in the order of SQLite."""
    identity: str | None
    """The column whose numbers Postgres gives; None where there is none."""


class _Found(NamedTuple):
    columns: dict[str, str]
    identity: str | None


def shared_tables(files: Files, postgres: psycopg.Connection) -> list[Table]:
    """Those to be moved, each after the ones that it refers to. Raises TablesDiffer."""
    in_files = {name: (file, columns) for file, name, columns in _of_files(files)}
    in_cell = _of_postgres(postgres)
    faults = [*_faults({name: columns for name, (_, columns) in in_files.items()}, in_cell)]
    if faults:
        raise TablesDiffer(f"the tables of the two sides differ: {'; '.join(faults)}: nothing was moved")
    return [_table(name, *in_files[name], in_cell[name]) for name in _ordered(in_files, postgres)]


def _table(name: str, file: str, columns: Mapping[str, str], found: _Found) -> Table:
    return Table(name, file, {column: found.columns[column] for column in columns}, found.identity)


def _of_files(files: Files) -> Iterator[tuple[str, str, dict[str, str]]]:
    """File, table, and column -> type."""
    for file, connection in files.items():
        listed = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite@_%' ESCAPE '@'"
        )
        for (name,) in listed.fetchall():
            if name not in OF_EACH_SIDE:
                rows = connection.execute("SELECT name, type FROM pragma_table_info(?) ORDER BY cid", (name,))
                yield file, name, dict(rows.fetchall())


def _of_postgres(postgres: psycopg.Connection) -> dict[str, _Found]:
    found: dict[str, _Found] = {}
    for table, column, kind, is_identity in postgres.execute(_COLUMNS):
        if table not in ONLY_IN_CELL and table not in OF_EACH_SIDE:
            before = found.get(table, _Found({}, None))
            found[table] = _Found({**before.columns, column: kind}, column if is_identity else before.identity)
    return found


def _faults(in_files: Mapping[str, Mapping[str, str]], in_cell: Mapping[str, _Found]) -> Iterator[str]:
    for name in sorted(in_files.keys() | in_cell.keys()):
        if name not in in_files or name not in in_cell:
            yield f"the table {name} is only in {'the cell' if name in in_cell else 'the data directory'}"
            continue
        here, there = in_files[name], in_cell[name].columns
        for column in sorted(here.keys() ^ there.keys()):
            yield f"the column {name}.{column} is only in {'the cell' if column in there else 'the data directory'}"
        for column in here.keys() & there.keys():
            if there[column] not in KINDS.get(here[column], ()):
                yield f"the column {name}.{column} is {here[column]} in the data directory, {there[column]} in the cell"


def _ordered(names: Mapping[str, object], postgres: psycopg.Connection) -> list[str]:
    needed: dict[str, set[str]] = {name: set() for name in sorted(names)}
    for name, refers_to in postgres.execute(_REFERENCES):
        needed[name].add(refers_to)
    return [*TopologicalSorter(needed).static_order()]
