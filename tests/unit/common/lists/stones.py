"""One small list, in memory and as a table of either engine; all are asked the same."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import cache
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlencode

import psycopg
import pytest

from gateway.common.lists.conventions import Filterable, ListShape, Sort, envelope, read_request
from gateway.common.lists.memory import page_of
from gateway.common.lists.table import BELOW_ALL, ListTable, cut, fetch_page
from gateway.stores.postgres.database import PostgresConnection
from spool.sql.connection import Connection
from tests.support.postgres import needs_postgres, shared_server

SHAPE = ListShape(
    root="stones",
    sort_keys=("colour", "cost", "name", "size"),
    default_sort=Sort("size", "asc"),
    filters=(Filterable("colour", ("red", "green", "blue")), Filterable("name", (), is_open=True)),
)
TABLE = ListTable(
    shape=SHAPE,
    source="stones",
    row_id="stone_no",
    expressions={
        "colour": "colour",
        "cost": f"coalesce(CAST(cost AS DOUBLE PRECISION), {BELOW_ALL})",
        "name": cut("coalesce(name, '')"),
        "size": "coalesce(size, 0)",
    },
    select="stone_no",
    item_of=lambda row: row[0],
    numbers=("cost", "size"),
)


class Stone(NamedTuple):
    number: int
    colour: str = "red"
    size: int | None = 0
    name: str | None = None
    cost: str | None = None

    def value(self, key: str) -> str | int | float:
        match key:
            case "cost":
                return float("-inf") if self.cost is None else float(self.cost)
            case "size":
                return self.size or 0
            case "name":
                return (self.name or "")[:256]
            case _:
                return self.colour


Ask = Callable[[Iterable[tuple[str, str]], Sequence[Stone]], dict[str, Any]]


def ask_memory(pairs: Iterable[tuple[str, str]], stones: Sequence[Stone]) -> dict[str, Any]:
    request = read_request(SHAPE, pairs)
    page = page_of(request, stones, field_of=Stone.value, id_of=lambda row: row.number, item_of=lambda row: row.number)
    return written(envelope(SHAPE, request, page))


def ask_sqlite(pairs: Iterable[tuple[str, str]], stones: Sequence[Stone]) -> dict[str, Any]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(
            "CREATE TABLE stones (stone_no INTEGER PRIMARY KEY, colour TEXT, size INTEGER, name TEXT, cost TEXT)"
        )
        return _ask(connection, pairs, stones)


def ask_postgres(pairs: Iterable[tuple[str, str]], stones: Sequence[Stone]) -> dict[str, Any]:
    connection = _session()
    connection.execute("TRUNCATE stones")
    return _ask(PostgresConnection(connection), pairs, stones)


@cache
def _session() -> psycopg.Connection:
    """Its table goes with it."""
    connection = psycopg.connect(shared_server().dsn(), autocommit=True)
    connection.execute(
        'CREATE TEMP TABLE stones (stone_no BIGINT PRIMARY KEY, colour TEXT COLLATE "C", size BIGINT,'
        ' name TEXT COLLATE "C", cost TEXT COLLATE "C")'
    )
    return connection


def _ask(connection: Connection, pairs: Iterable[tuple[str, str]], stones: Sequence[Stone]) -> dict[str, Any]:
    request = read_request(SHAPE, pairs)
    connection.executemany("INSERT INTO stones VALUES (?, ?, ?, ?, ?)", stones)
    return written(envelope(SHAPE, request, fetch_page(connection, TABLE, request)))


each_home: Final = pytest.mark.parametrize(
    "ask",
    [
        pytest.param(ask_memory, id="memory"),
        pytest.param(ask_sqlite, id="sqlite"),
        pytest.param(ask_postgres, id="postgres", marks=needs_postgres),
    ],
)


def written(body: dict[str, object]) -> dict[str, Any]:
    """As a client reads it."""
    read: dict[str, Any] = json.loads(json.dumps(body))
    return read


def pairs_of(query: str | dict[str, str]) -> list[tuple[str, str]]:
    return parse_qsl(query if isinstance(query, str) else urlencode(query), keep_blank_values=True)
