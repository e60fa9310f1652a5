"""The list conventions of service-interface parts 2.3 and 4.2: filters, sorting, cursors both ways, the envelope. Pure.

A list says once what it can do (`ListShape`). A query string becomes a `ListRequest`, any store answers it with a
`Page`, and `envelope` writes what the client sees. A cursor holds the position it continues from and also the filters,
sorting and page size it was made under, so that a client need not repeat them and a page cannot be read under others.
"""

import base64
import binascii
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeVar

T = TypeVar("T")

Order = Literal["asc", "desc"]
ORDERS: tuple[Order, ...] = ("asc", "desc")
SortValue = str | int | float
"""What a row sorts by. A list maps a missing value to "" or 0, so that every row has a place."""
_Place = tuple[bool, SortValue, int]
"""Numbers, then text, as SQLite orders them: a cursor made elsewhere may compare one with the other."""

DEFAULT_LIMIT = 100
MAX_LIMIT = 1000
"""Neither is published; a larger limit is served as the largest."""


class BadListRequest(ValueError):
    """A parameter that the list does not offer, in words for the client."""


class Filterable(NamedTuple):
    name: str
    valid_values: tuple[str, ...]
    valid_types: tuple[str, ...] = ("string",)
    is_open: bool = False
    """Any value may be asked for: `valid_values` are those that the list holds now."""


class Sort(NamedTuple):
    key: str
    order: Order


class Position(NamedTuple):
    """Between two rows: beside the row with this sort value and id."""

    value: SortValue
    row_id: int
    backwards: bool
    """The page wanted is the one before the row, else the one after it."""


@dataclass(frozen=True)
class ListShape:
    """What one list offers."""

    root: str
    """Name of the array of items in the envelope."""
    sort_keys: tuple[str, ...]
    default_sort: Sort
    filters: tuple[Filterable, ...] = ()


@dataclass(frozen=True)
class ListRequest:
    sort: Sort
    limit: int = DEFAULT_LIMIT
    filters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Field -> the values any of which a row must have; a field without a filter is absent."""
    position: Position | None = None
    """None: the first page."""


class Page(NamedTuple):
    """A store's answer. Items are in the order of the list, also when the page was reached backwards."""

    items: Sequence[object]
    total_count: int
    """Rows on all pages."""
    previous: Position | None
    """Where the page before begins; None when there is none."""
    next: Position | None


def read_request(shape: ListShape, query: Iterable[tuple[str, str]]) -> ListRequest:
    """The request in a query string's pairs. Parameters that no list has are ignored. Raises BadListRequest."""
    pairs = tuple(query)
    cursor = _last(pairs, "cursor")
    base = ListRequest(shape.default_sort) if cursor is None else _read_cursor(shape, cursor)
    request = replace(base, limit=_limit(pairs, base.limit), sort=_sort(shape, pairs, base.sort))
    filters = _filters(shape, pairs) or base.filters
    if cursor is not None and (request.sort, filters) != (base.sort, base.filters):
        raise BadListRequest("cursor: it was made under another sorting or filter")
    return replace(request, filters=filters)


def envelope(shape: ListShape, request: ListRequest, page: Page) -> dict[str, object]:
    """The response body. Each feature that the list supports has its root key, whether asked for or not."""
    body: dict[str, object] = {shape.root: page.items, "pagination": _pagination(request, page)}
    if shape.filters:
        body["filtering"] = {
            "available": [
                {"field": each.name, "valid_values": each.valid_values, "valid_types": each.valid_types}
                for each in shape.filters
            ],
            "current": request.filters,
        }
    if shape.sort_keys:
        body["sorting"] = {
            "available": shape.sort_keys,
            "current": [{"sort_key": request.sort.key, "sort_order": request.sort.order}],
            "ordering": ORDERS,
        }
    return body


def page_of(
    request: ListRequest,
    rows: Iterable[T],
    *,
    field_of: Callable[[T, str], SortValue],
    id_of: Callable[[T], int],
    item_of: Callable[[T], object],
) -> Page:
    """The page of a list that is held in memory. *field_of* gives a row's value for a filter's or sort key's name."""
    key, order = request.sort

    def place(row: T) -> _Place:
        return _place(field_of(row, key), id_of(row))

    def beside(row: T, *, backwards: bool) -> Position:
        return Position(field_of(row, key), id_of(row), backwards)

    kept = [row for row in rows if all(str(field_of(row, name)) in values for name, values in request.filters.items())]
    kept.sort(key=place, reverse=order == "desc")
    start, stop = _bounds([place(row) for row in kept], request)
    shown = kept[start:stop]
    return Page(
        items=[item_of(row) for row in shown],
        total_count=len(kept),
        previous=beside(shown[0], backwards=True) if shown and start > 0 else None,
        next=beside(shown[-1], backwards=False) if shown and stop < len(kept) else None,
    )


def _place(value: SortValue, row_id: int) -> _Place:
    return isinstance(value, str), value, row_id


def _bounds(places: Sequence[_Place], request: ListRequest) -> tuple[int, int]:
    if request.position is None:
        return 0, min(request.limit, len(places))
    value, row_id, backwards = request.position
    anchor = _place(value, row_id)
    descending = request.sort.order == "desc"
    before = sum((place > anchor) if descending else (place < anchor) for place in places)
    if backwards:
        return max(0, before - request.limit), before
    start = before + (anchor in places)
    return start, min(start + request.limit, len(places))


def _pagination(request: ListRequest, page: Page) -> dict[str, object]:
    return {
        "page_count": math.ceil(page.total_count / request.limit),
        "item_count": len(page.items),
        "total_count": page.total_count,
        "cursor": {
            "next_cursor": _write_cursor(request, page.next),
            "previous_cursor": _write_cursor(request, page.previous),
            "has_next": page.next is not None,
            "has_previous": page.previous is not None,
        },
    }


def _last(pairs: Iterable[tuple[str, str]], name: str) -> str | None:
    values = [value for key, value in pairs if key == name]
    return values[-1] if values else None


def _limit(pairs: Iterable[tuple[str, str]], base: int) -> int:
    text = _last(pairs, "limit")
    if text is None:
        return base
    if not (text.isascii() and text.isdigit() and int(text[:9]) >= 1):
        raise BadListRequest("limit: a whole number from 1 on is needed")
    return min(int(text[:9]), MAX_LIMIT)


def _sort(shape: ListShape, pairs: Iterable[tuple[str, str]], base: Sort) -> Sort:
    key = _last(pairs, "sort_key")
    order = _last(pairs, "sort_order")
    if key is not None and key not in shape.sort_keys:
        raise BadListRequest(f"sort_key: one of {', '.join(shape.sort_keys)} is needed")
    if order is not None and order not in ORDERS:
        raise BadListRequest("sort_order: asc or desc is needed")
    known_order: Order | None = "desc" if order == "desc" else "asc" if order == "asc" else None
    # A key without an order begins ascending, whatever the list's own order is.
    return Sort(key or base.key, known_order or (base.order if key in (None, base.key) else "asc"))


def _filters(shape: ListShape, pairs: Sequence[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    filters = {}
    for name, valid_values, _, is_open in shape.filters:
        values = tuple(dict.fromkeys(value for key, value in pairs if key == name))
        if not is_open and not set(values) <= set(valid_values):
            raise BadListRequest(f"{name}: one of {', '.join(valid_values)} is needed")
        if values:
            filters[name] = values
    return filters


def _write_cursor(request: ListRequest, position: Position | None) -> str | None:
    if position is None:
        return None
    content = [*request.sort, request.limit, dict(request.filters), *position]
    return base64.urlsafe_b64encode(json.dumps(content, separators=(",", ":")).encode()).decode().rstrip("=")


def _read_cursor(shape: ListShape, cursor: str) -> ListRequest:
    """Cursors are ours, but come back from outside: each part is checked as any parameter is."""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        key, order, limit, filters, value, row_id, backwards = json.loads(text)
        pairs = [("sort_key", key), ("sort_order", order), ("limit", str(limit))]
        pairs += [(name, each) for name, values in filters.items() for each in values]
        request = read_request(shape, pairs)
        sound = isinstance(value, SortValue) and isinstance(row_id, int) and isinstance(backwards, bool)
    except (ValueError, TypeError, AttributeError, RecursionError, binascii.Error) as error:
        raise BadListRequest("cursor: it is none of this list's") from error
    if not sound or abs(row_id) >= 2**63:
        raise BadListRequest("cursor: it is none of this list's")
    return replace(request, position=Position(value, row_id, backwards))
