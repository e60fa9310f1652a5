"""The list conventions on SQLite tables: filter, sort, keyset pages both ways."""

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gateway.list_conventions import (
    BadListRequest,
    ListRequest,
    ListShape,
    Order,
    Page,
    Position,
    envelope,
    read_request,
)
from gateway.local_service.call import Answer, Call, json_answer
from gateway.local_service.errors import Invalid

Params = tuple[object, ...]

_BACKWARDS: dict[Order, Order] = {"asc": "desc", "desc": "asc"}


@dataclass(frozen=True)
class ListTable:
    """Where a list's rows are. Every text here is SQL of ours; values of clients only ever travel as parameters."""

    shape: ListShape
    source: str
    """Table, with its joins."""
    row_id: str
    """Column of the unique integer that settles ties."""
    expressions: Mapping[str, str]
    """Sort key or filter -> expression that is never NULL."""
    select: str
    item_of: Callable[[tuple[object, ...]], object]
    """The item that a row of `select` becomes."""


class _Where(NamedTuple):
    sql: str
    params: Params

    def and_(self, sql: str, params: Params) -> "_Where":
        return _Where(f"{self.sql} AND {sql}", self.params + params)


def list_answer(
    connection: sqlite3.Connection, table: ListTable, call: Call, *, only: str = "1", params: Params = ()
) -> Answer:
    """The page that the query string asks for, of the rows for which the SQL condition *only* holds."""
    try:
        request = read_request(table.shape, call.query)
    except BadListRequest as error:
        raise Invalid("invalid_request", str(error)) from error
    page = fetch_page(connection, table, request, _Where(only, params))
    return json_answer(200, envelope(table.shape, request, page))


def fetch_page(connection: sqlite3.Connection, table: ListTable, request: ListRequest, only: _Where) -> Page:
    where = _filtered(table, request, only)
    count = f"SELECT count(*) FROM {table.source} WHERE {where.sql}"  # noqa: S608 - own SQL
    (total_count,) = connection.execute(count, where.params).fetchone()
    position = request.position
    backwards = position is not None and position.backwards
    rows = _rows(connection, table, request, where, position, request.limit + 1)
    more = len(rows) > request.limit
    shown = rows[: request.limit]
    if backwards:
        shown.reverse()
    if not shown:
        return Page([], total_count, None, None)
    previous = Position(*_place(shown[0]), backwards=True)
    following = Position(*_place(shown[-1]), backwards=False)
    behind = previous if not backwards else following
    rows_behind = position is not None and bool(_rows(connection, table, request, where, behind, 1))
    has_previous, has_next = (more, rows_behind) if backwards else (rows_behind, more)
    return Page(
        items=[table.item_of(row[2:]) for row in shown],
        total_count=total_count,
        previous=previous if has_previous else None,
        next=following if has_next else None,
    )


def _filtered(table: ListTable, request: ListRequest, where: _Where) -> _Where:
    for name, values in request.filters.items():
        marks = ", ".join("?" * len(values))
        where = where.and_(f"{table.expressions[name]} IN ({marks})", values)
    return where


def _rows(
    connection: sqlite3.Connection,
    table: ListTable,
    request: ListRequest,
    where: _Where,
    position: Position | None,
    limit: int,
) -> list[tuple[object, ...]]:
    """Up to *limit* rows from *position* on, walking away from it: (sort value, row id, the columns of `select`)."""
    order = request.sort.order
    if position is not None and position.backwards:
        order = _BACKWARDS[order]
    key = table.expressions[request.sort.key]
    if position is not None:
        sign = ">" if order == "asc" else "<"
        where = where.and_(f"({key}, {table.row_id}) {sign} (?, ?)", (position.value, position.row_id))
    return connection.execute(
        f"SELECT {key}, {table.row_id}, {table.select} FROM {table.source} WHERE {where.sql}"  # noqa: S608 - own SQL
        f" ORDER BY {key} {order}, {table.row_id} {order} LIMIT ?",
        (*where.params, limit),
    ).fetchall()


def _place(row: tuple[object, ...]) -> tuple[str | int | float, int]:
    value, row_id = row[:2]
    if not isinstance(value, str | int | float) or not isinstance(row_id, int):
        raise TypeError("a list's sort expression gave NULL")
    return value, row_id
