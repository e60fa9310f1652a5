"""Pages of a list that is a table: filtered, sorted and walked by the database, so that a page
reads about a page of rows. The SQL is read alike by SQLite and Postgres.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from gateway.common.lists.conventions import MAX_SORT_CHARS, CursorPosition, ListRequest, ListShape, Order, Page
from gateway.common.lists.keyset import keyset_page
from spool.sql.connection import Connection

Params = tuple[object, ...]
_Row = tuple[object, ...]
"""(sort value, row id, the columns of `select`)"""


@dataclass(frozen=True)
class ListTable:
    """Where a list's rows are. Every text here is SQL of ours; values of clients only ever travel
    as parameters.
    """

    shape: ListShape
    source: str
    """Table, with its joins."""
    row_id: str
    """Column of the unique integer that settles ties."""
    expressions: Mapping[str, str]
    """Sort key or filter -> expression that is never NULL. A text to sort by has at most
    `MAX_SORT_CHARS` characters: see `cut`.
    """
    select: str
    item_of: Callable[[tuple[object, ...]], object]
    """The item that a row of `select` becomes."""
    numbers: Collection[str] = ()
    """Sort keys whose expressions are numbers; those of the others are texts."""

    def of(self, part: str) -> "ListTable":
        """The same table as a list of its own, below *part*: see `ListShape.of`."""
        return replace(self, shape=self.shape.of(part))


# Each engine has its own form of minus infinity; only Postgres takes '1' for 1.
BELOW_ALL: Final = "CAST(CASE WHEN '1' = 1 THEN '-Infinity' ELSE '-9e999' END AS DOUBLE PRECISION)"
"""The expression of a number below every other, for an unknown one."""


def cut(column: str) -> str:
    """The expression to sort a text by that may be longer than a cursor holds."""
    return f"substr({column}, 1, {MAX_SORT_CHARS})"


def fetch_page(
    connection: Connection, table: ListTable, request: ListRequest, *, only: str = "TRUE", params: Params = ()
) -> Page:
    """The page of the rows for which the SQL condition *only* holds. Called inside a transaction:
    it runs several queries.
    """
    return keyset_page(request, _TableRows(connection, table, request, _filtered(table, request, _Where(only, params))))


class _Where(NamedTuple):
    sql: str
    params: Params

    def and_(self, sql: str, params: Params) -> "_Where":
        return _Where(f"{self.sql} AND {sql}", self.params + params)


def _filtered(table: ListTable, request: ListRequest, where: _Where) -> _Where:
    for name, values in request.filters.items():
        marks = ", ".join("?" * len(values))
        where = where.and_(f"{table.expressions[name]} IN ({marks})", values)
    return where


@dataclass(frozen=True)
class _TableRows:
    connection: Connection
    table: ListTable
    request: ListRequest
    where: _Where

    def count(self) -> int:
        count = f"SELECT count(*) FROM {self.table.source} WHERE {self.where.sql}"  # noqa: S608 - own SQL
        (n,) = self.connection.execute(count, self.where.params).fetchone()
        return int(n)

    def walk(self, order: Order, beyond: CursorPosition | None, most: int) -> Sequence[_Row]:
        """Up to *most* rows in *order*, after the position *beyond*."""
        table, where = self.table, self.where
        key = table.expressions[self.request.sort.key]
        if beyond is not None:
            where = where.and_(*self._after(order, beyond, key))
        in_order = f"ORDER BY {key} {order}, {table.row_id} {order}"
        # Sorted by place alone first: what is shown of the other rows stays unread.
        shown = f"SELECT {table.row_id} FROM {table.source} WHERE {where.sql} {in_order} LIMIT ?"  # noqa: S608 - own SQL
        return self.connection.execute(
            f"SELECT {key}, {table.row_id}, {table.select} FROM {table.source} WHERE {table.row_id} IN ({shown}) {in_order}",  # noqa: S608 - own SQL
            (*where.params, most),
        ).fetchall()

    def _after(self, order: Order, beyond: CursorPosition, key: str) -> tuple[str, Params]:
        """The condition of the rows after *beyond*, whose value may be of the other type: a cursor
        comes from outside. Numbers are before texts.
        """
        if isinstance(beyond.value, str) == self._is_number:
            are_after = (order == "asc") != self._is_number
            return ("TRUE" if are_after else "FALSE"), ()
        sign = ">" if order == "asc" else "<"
        return f"({key}, {self.table.row_id}) {sign} (?, ?)", beyond

    @property
    def _is_number(self) -> bool:
        return self.request.sort.key in self.table.numbers

    def is_any(self, order: Order, beyond: CursorPosition) -> bool:
        return bool(self.walk(order, beyond, 1))

    def place(self, row: _Row) -> CursorPosition:
        value, row_id, *_ = row
        if not isinstance(value, str | int | float) or not isinstance(row_id, int):
            raise TypeError("a list's sort expression gave NULL")
        if isinstance(value, str) == self._is_number:
            raise TypeError("a list's sort expression is of another type than it says")
        if isinstance(value, str) and len(value) > MAX_SORT_CHARS:
            raise ValueError("a list sorts by texts that are too long for a cursor")
        return CursorPosition(value, row_id)

    def item(self, row: _Row) -> object:
        return self.table.item_of(row[2:])
