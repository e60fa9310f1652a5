"""Columns by which rows are grouped, as few numbers of 64 bits. Pure.

SQLite sorts all rows to group them. It compares one number several times faster than five columns.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

_MAX_BITS: Final = 62


class Column(NamedTuple):
    sql: str
    bits: int
    """Of its largest value; none is below 0."""


class GroupKeys:
    def __init__(self, columns: Sequence[Column]) -> None:
        keys = [*_shared_out(columns)]
        self.sql = [_key_sql(key) for key in keys]
        self._places = [place for at, key in enumerate(keys) for place in _places(at, key)]

    def values(self, keys: Sequence[int]) -> tuple[int, ...]:
        """Those of each column, of one row."""
        return tuple([keys[at] >> shift & mask for at, shift, mask in self._places])


def _places(at: int, columns: Sequence[Column]) -> list[tuple[int, int, int]]:
    """Where each column is: the number of its key, its lowest bit, and its bits there."""
    left = sum(column.bits for column in columns)
    return [(at, left := left - column.bits, (1 << column.bits) - 1) for column in columns]


def _shared_out(columns: Sequence[Column]) -> Iterator[list[Column]]:
    """Columns of one key, as many as it has room for, in their order."""
    key: list[Column] = []
    for column in columns:
        if key and sum(each.bits for each in key) + column.bits > _MAX_BITS:
            yield key
            key = []
        key.append(column)
    if key:
        yield key


def _key_sql(columns: Sequence[Column]) -> str:
    sql = columns[0].sql
    for column in columns[1:]:
        sql = f"({sql}) * {1 << column.bits} + {column.sql}"
    return sql
