"""Pages of a list that is held in memory. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from gateway.common.lists.conventions import MAX_SORT_CHARS, CursorPosition, ListRequest, Order, Page, SortValue
from gateway.common.lists.keyset import keyset_page

T = TypeVar("T")

_Rank = tuple[bool, SortValue, int]
"""Numbers, then texts, as SQLite orders them: a cursor may hold either type."""


def page_of(
    request: ListRequest,
    rows: Iterable[T],
    *,
    field_of: Callable[[T, str], SortValue],
    id_of: Callable[[T], int],
    item_of: Callable[[T], object],
) -> Page:
    """The page of *rows*, given in any order. *field_of* gives a row's value for a filter's or sort
    key's name.
    """
    filters = request.filters.items()
    kept = [row for row in rows if all(str(field_of(row, name)) in values for name, values in filters)]
    return keyset_page(request, _Sorted(kept, lambda row: _cut(field_of(row, request.sort.key)), id_of, item_of))


class _Sorted(Generic[T]):
    def __init__(
        self,
        rows: Sequence[T],
        value_of: Callable[[T], SortValue],
        id_of: Callable[[T], int],
        item_of: Callable[[T], object],
    ) -> None:
        self._value_of = value_of
        self._id_of = id_of
        self._item_of = item_of
        self._rows = sorted(rows, key=lambda row: _rank(self.place(row)))
        self._ranks = [_rank(self.place(row)) for row in self._rows]

    def count(self) -> int:
        return len(self._rows)

    def walk(self, order: Order, beyond: CursorPosition | None, most: int) -> Sequence[T]:
        if order == "asc":
            start = 0 if beyond is None else bisect_right(self._ranks, _rank(beyond))
            return self._rows[start : start + most]
        end = len(self._rows) if beyond is None else bisect_left(self._ranks, _rank(beyond))
        return self._rows[max(0, end - most) : end][::-1]

    def is_any(self, order: Order, beyond: CursorPosition) -> bool:
        return bool(self.walk(order, beyond, 1))

    def place(self, row: T) -> CursorPosition:
        return CursorPosition(self._value_of(row), self._id_of(row))

    def item(self, row: T) -> object:
        return self._item_of(row)


def _rank(place: CursorPosition) -> _Rank:
    return isinstance(place.value, str), place.value, place.row_id


def _cut(value: SortValue) -> SortValue:
    return value[:MAX_SORT_CHARS] if isinstance(value, str) else value
