"""One small list, in memory and as a table; both are asked the same."""

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from gateway.common.lists.conventions import Filterable, ListShape, Sort, envelope, read_request
from gateway.common.lists.memory import page_of
from gateway.common.lists.table import ListTable, cut, fetch_page

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
        "cost": "ifnull(CAST(cost AS REAL), -9e999)",
        "name": cut("ifnull(name, '')"),
        "size": "ifnull(size, 0)",
    },
    select="stone_no",
    item_of=lambda row: row[0],
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


def ask_table(pairs: Iterable[tuple[str, str]], stones: Sequence[Stone]) -> dict[str, Any]:
    request = read_request(SHAPE, pairs)
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute(
            "CREATE TABLE stones (stone_no INTEGER PRIMARY KEY, colour TEXT, size INTEGER, name TEXT, cost TEXT)"
        )
        connection.executemany("INSERT INTO stones VALUES (?, ?, ?, ?, ?)", stones)
        return written(envelope(SHAPE, request, fetch_page(connection, TABLE, request)))
    finally:
        connection.close()


def written(body: dict[str, object]) -> dict[str, Any]:
    """As a client reads it."""
    read: dict[str, Any] = json.loads(json.dumps(body))
    return read


def pairs_of(query: str | dict[str, str]) -> list[tuple[str, str]]:
    return parse_qsl(query if isinstance(query, str) else urlencode(query), keep_blank_values=True)
