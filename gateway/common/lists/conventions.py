"""The list conventions of service-interface parts 2.3 and 4.2: shape, request, envelope. Pure.

A list states its features once (`ListShape`). A query string becomes a `ListRequest`, any store
answers it with a `Page` (`memory.py`, `table.py`, or its own rows by `keyset.py`), and `envelope`
writes what the client sees. A cursor holds the position it continues from and the filters, sorting
and page size it was made under, so that a client need not repeat them, and cannot change them on
the way.

Not published, and settled here: the default limit is 50, the largest 500; a value or a parameter
that the list does not offer is refused, because to ignore `?statsu=new` would return the wrong
list.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, Literal, NamedTuple, TypedDict

from gateway.common.contract.json_types import Count
from gateway.common.lists.cursor import NotACursor, opened, sealed

Order = Literal["asc", "desc"]
ORDERS: Final[tuple[Order, ...]] = ("asc", "desc")
SortValue = str | int | float
"""What a row sorts by, numbers before texts. A list puts something in the place of a missing value,
so that every row has one.
"""

DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 500
MAX_SORT_CHARS: Final = 256
"""A cursor holds a sort value: a list whose texts may be longer sorts by so many characters of
them, then by id.
"""
MAX_FILTER_CHARS: Final = 1024
"""Of all values of one request together; a cursor holds them too."""

_PAGING = ("cursor", "limit")
_SORTING = ("sort_key", "sort_order")
_WHOLE = re.compile(r"[1-9][0-9]{0,3}", re.ASCII)
_MAX_ROW_ID = 2**62
"""Below what a row id can be, so that the ids beside it are ids too."""


class BadListRequest(ValueError):
    """A parameter that the list does not offer, in words for the client; they begin with the
    parameter's name.
    """

    kind: ClassVar = "invalid_request"
    """The error's type, on either side."""


class Filterable(NamedTuple):
    name: str
    valid_values: tuple[str, ...]
    valid_types: tuple[str, ...] = ("string",)
    is_open: bool = False
    """Any value may be asked for: `valid_values` are those that the list holds now."""


class Sort(NamedTuple):
    key: str
    order: Order


class CursorPosition(NamedTuple):
    """Where a row is in its list: no two rows are at one place."""

    value: SortValue
    row_id: int


class Position(NamedTuple):
    """Where a page begins: beside this place, whether there is a row at it or not."""

    place: CursorPosition
    backwards: bool
    """The page wanted is the one before the place, else the one after it."""


@dataclass(frozen=True)
class ListShape:
    """What one list offers."""

    root: str
    """Name of the array of items in the envelope."""
    sort_keys: tuple[str, ...]
    default_sort: Sort
    filters: tuple[Filterable, ...] = ()
    is_always_counted: bool = True
    """False: `total_count` and `page_count` are null where counting would take too long."""
    name: str = ""
    """Distinguishes its cursors from those of another list with the same root."""

    def of(self, part: str) -> "ListShape":
        """The same list below *part*, such as one stream's records; its cursors are of that part
        only.
        """
        return replace(self, name=f"{self.name}/{part}")

    @property
    def full_name(self) -> str:
        return f"{self.root}:{self.name}"

    @property
    def parameters(self) -> tuple[str, ...]:
        """Every name that its query may hold."""
        sorting = _SORTING if self.sort_keys else ()
        return tuple(sorted((*_PAGING, *sorting, *(each.name for each in self.filters))))


@dataclass(frozen=True)
class ListRequest:
    sort: Sort
    limit: int = DEFAULT_LIMIT
    filters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Field -> the values any of which a row must have; a field without a filter is absent."""
    position: Position | None = None
    """None for the first page."""


class Page(NamedTuple):
    """A store's answer. Items are in the order of the list, also when the page was reached
    backwards.
    """

    items: Sequence[object]
    total_count: int | None
    """Rows on all pages; None where the list is not always counted."""
    previous: Position | None
    """Where the previous page begins; None on the first page."""
    next: Position | None


def read_request(shape: ListShape, query: Iterable[tuple[str, str]]) -> ListRequest:
    """The request in a query string's pairs. Raises BadListRequest."""
    pairs = tuple(query)
    _refuse_unknown(shape, pairs)
    asked = _asked(shape, pairs)
    cursor = _single(pairs, "cursor")
    if cursor is None:
        return asked
    made = _read_cursor(shape, cursor)
    _refuse_others(pairs, asked, made)
    return made


class PageCursors(TypedDict):
    next_cursor: str | None
    """Opaque; null when there is no next page."""
    previous_cursor: str | None
    """Opaque; null when there is no previous page."""
    has_next: bool
    has_previous: bool


class Pagination(TypedDict):
    page_count: Count
    """Total number of pages."""
    item_count: Count
    """Items in this answer."""
    total_count: Count
    """Items on all pages."""
    cursor: PageCursors


class BoundedPagination(TypedDict):
    page_count: Count | None
    """Total number of pages; null while `total_count` is."""
    item_count: Count
    """Items in this answer."""
    total_count: Count | None
    """Items on all pages; null where a request does not reach the end of the list."""
    cursor: PageCursors


class AvailableFilter(TypedDict):
    field: str
    valid_values: Sequence[str]
    """Empty where any value of these types can be asked for."""
    valid_types: Sequence[str]


class Filtering(TypedDict):
    available: Sequence[AvailableFilter]
    current: Mapping[str, Sequence[str]]
    """Field -> the values that are applied."""


class AppliedSort(TypedDict):
    sort_key: str
    sort_order: Order


class Sorting(TypedDict):
    available: Sequence[str]
    current: Sequence[AppliedSort]
    ordering: Sequence[str]


def envelope(shape: ListShape, request: ListRequest, page: Page) -> dict[str, object]:
    """The response body. Each feature that the list supports has its root key, whether asked for or
    not.
    """
    body: dict[str, object] = {shape.root: page.items, "pagination": _pagination(shape, request, page)}
    if shape.filters:
        filtering: Filtering = {
            "available": [
                {"field": each.name, "valid_values": each.valid_values, "valid_types": each.valid_types}
                for each in shape.filters
            ],
            "current": request.filters,
        }
        body["filtering"] = filtering
    if shape.sort_keys:
        sorting: Sorting = {
            "available": shape.sort_keys,
            "current": [{"sort_key": request.sort.key, "sort_order": request.sort.order}],
            "ordering": ORDERS,
        }
        body["sorting"] = sorting
    return body


def _pagination(shape: ListShape, request: ListRequest, page: Page) -> BoundedPagination:
    return {
        "page_count": None if page.total_count is None else math.ceil(page.total_count / request.limit),
        "item_count": len(page.items),
        "total_count": page.total_count,
        "cursor": {
            "next_cursor": _write_cursor(shape, request, page.next),
            "previous_cursor": _write_cursor(shape, request, page.previous),
            "has_next": page.next is not None,
            "has_previous": page.previous is not None,
        },
    }


# ---- what a query asks


def _asked(shape: ListShape, pairs: Sequence[tuple[str, str]]) -> ListRequest:
    """The request of the parameters alone, without their cursor."""
    return ListRequest(_sort(shape, pairs), _limit(pairs), _filters(shape, pairs))


def _refuse_unknown(shape: ListShape, pairs: Iterable[tuple[str, str]]) -> None:
    """The error does not quote the name: it may hold anything, a key by mistake."""
    if not {name for name, _ in pairs} <= set(shape.parameters):
        raise BadListRequest(f"query: only {', '.join(shape.parameters)} can be asked of this list")


def _single(pairs: Iterable[tuple[str, str]], name: str) -> str | None:
    values = {value for key, value in pairs if key == name}
    if len(values) > 1:
        raise BadListRequest(f"{name}: it is given more than once, with different values; one is needed")
    return values.pop() if values else None


def _limit(pairs: Iterable[tuple[str, str]]) -> int:
    text = _single(pairs, "limit")
    if text is None:
        return DEFAULT_LIMIT
    if _WHOLE.fullmatch(text) is None or int(text) > MAX_LIMIT:
        raise BadListRequest(f"limit: a whole number from 1 to {MAX_LIMIT} is needed")
    return int(text)


def _sort(shape: ListShape, pairs: Iterable[tuple[str, str]]) -> Sort:
    key = _single(pairs, "sort_key")
    order = _single(pairs, "sort_order")
    if key is not None and key not in shape.sort_keys:
        raise BadListRequest(f"sort_key: one of {', '.join(shape.sort_keys)} is needed")
    if order is not None and order not in ORDERS:
        raise BadListRequest(f"sort_order: one of {', '.join(ORDERS)} is needed")
    known_order: Order | None = "desc" if order == "desc" else "asc" if order == "asc" else None
    # A key without an order begins ascending, whatever the list's own order is.
    own = shape.default_sort
    return Sort(key or own.key, known_order or (own.order if key in (None, own.key) else "asc"))


def _filters(shape: ListShape, pairs: Sequence[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    filters = {}
    for each in shape.filters:
        values = tuple(dict.fromkeys(value for key, value in pairs if key == each.name))
        if not each.is_open and not set(values) <= set(each.valid_values):
            raise BadListRequest(f"{each.name}: one of {', '.join(each.valid_values)} is needed")
        if not all(value and _is_text(value) for value in values):
            raise BadListRequest(f"{each.name}: a value is needed, in UTF-8")
        if values:
            filters[each.name] = values
    if sum(len(value) for values in filters.values() for value in values) > MAX_FILTER_CHARS:
        raise BadListRequest(f"{', '.join(filters)}: at most {MAX_FILTER_CHARS} characters of values can be asked for")
    return filters


def _refuse_others(pairs: Iterable[tuple[str, str]], asked: ListRequest, made: ListRequest) -> None:
    """A parameter beside a cursor must equal the cursor's own; an absent one is the cursor's."""
    names = {name for name, _ in pairs} - {"cursor"}
    same = {
        "limit": asked.limit == made.limit,
        "sort_key": asked.sort.key == made.sort.key,
        "sort_order": asked.sort.order == made.sort.order,
    }
    of_filters = names - same.keys()
    others = [name for name in sorted(names & same.keys()) if not same[name]]
    if of_filters and _value_sets(asked) != _value_sets(made):
        others += sorted(of_filters)
    if others:
        raise BadListRequest(
            f"cursor: it was made under another {', '.join(others)}; leave that out, or begin without a cursor"
        )


def _value_sets(request: ListRequest) -> dict[str, frozenset[str]]:
    return {name: frozenset(values) for name, values in request.filters.items()}


# ---- cursors


def _write_cursor(shape: ListShape, request: ListRequest, position: Position | None) -> str | None:
    if position is None:
        return None
    content = [*request.sort, request.limit, dict(request.filters), *position.place, position.backwards]
    return sealed(shape.full_name, content)


def _read_cursor(shape: ListShape, cursor: str) -> ListRequest:
    """Cursors are ours, but come back from outside: each part is checked as any parameter is."""
    try:
        match opened(shape.full_name, cursor):
            case [str() as key, str() as order, int() as limit, dict() as filters, value, row_id, bool() as backwards]:
                sorting = [("sort_key", key), ("sort_order", order)] if shape.sort_keys else []
                pairs = [*sorting, ("limit", str(limit)), *_pairs(filters)]
                _refuse_unknown(shape, pairs)
                return replace(_asked(shape, pairs), position=Position(_place(value, row_id), backwards))
            case _:
                raise NotACursor
    except ValueError as error:
        raise BadListRequest(
            "cursor: it is no cursor of this list, or came damaged; a next_cursor or previous_cursor is needed as it was given"
        ) from error


def _pairs(filters: Mapping[str, object]) -> Iterable[tuple[str, str]]:
    for name, values in filters.items():
        for value in values if isinstance(values, list) else (None,):
            if not isinstance(value, str):
                raise NotACursor
            yield name, value


def _place(value: object, row_id: object) -> CursorPosition:
    """Raises NotACursor for what no row of any store can be at."""
    if type(row_id) is not int or abs(row_id) > _MAX_ROW_ID:
        raise NotACursor
    match value:
        case bool():
            raise NotACursor
        case str() if len(value) <= MAX_SORT_CHARS and _is_text(value):
            return CursorPosition(value, row_id)
        case int() if abs(value) < 2**63:  # what SQLite can hold
            return CursorPosition(value, row_id)
        case float() if not math.isnan(value):
            return CursorPosition(value, row_id)
        case _:
            raise NotACursor


def _is_text(value: str) -> bool:
    """Without halves of surrogate pairs, which no store takes."""
    return value.isascii() or not any("\ud800" <= each <= "\udfff" for each in value)
