"""A list by the published conventions as a page shows it: filters, links that sort, links to the
pages beside it. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlencode

Query = Sequence[tuple[str, str]]

MAX_BOXES: Final = 6
"""Values of a filter that stand as boxes to tick; more are a menu."""
FEATURES: Final = ("pagination", "filtering", "sorting")


class Choice(NamedTuple):
    value: str
    is_chosen: bool


class Filter(NamedTuple):
    name: str
    kind: Literal["boxes", "menu", "text"]
    choices: tuple[Choice, ...]
    typed: str
    """Of a text; several values are not shown in one, but stay in the links."""


class SortLink(NamedTuple):
    url: str
    """Sorts by this column; by the one that is sorted by already, in the other direction."""
    order: Literal["ascending", "descending"] | None
    """As `aria-sort` has it; None for a column that is not sorted by."""


class Listing(NamedTuple):
    path: str
    items: Sequence[Mapping[str, Any]]
    total_count: int | None
    """None where it was not counted."""
    filters: tuple[Filter, ...]
    sorts: Mapping[str, SortLink]
    """By sort key."""
    kept: Query
    """Parameters that the form with the filters keeps."""
    previous: str | None
    next: str | None
    current: Query
    """The filters as parameters: what the whole list holds."""

    @property
    def is_filtered(self) -> bool:
        return bool(self.current)


def listing(path: str, answer: Mapping[str, Any], *, shown: Sequence[str] = ()) -> Listing:
    """The list of *answer*, an envelope of the conventions, on the page at *path*.

    *shown*: names of the filters that the page offers; the others work by the address alone.
    """
    (root,) = [name for name in answer if name not in FEATURES]
    current = [
        (name, value) for name, values in answer.get("filtering", {}).get("current", {}).items() for value in values
    ]
    sorting, paging = answer.get("sorting", {}), answer["pagination"]
    sort = [(name, each[name]) for each in sorting.get("current", ()) for name in ("sort_key", "sort_order")]
    cursor = paging["cursor"]
    return Listing(
        path=path,
        items=answer[root],
        total_count=paging["total_count"],
        filters=tuple(filters_of(answer, shown)),
        sorts={key: sort_link(path, key, dict(sort), current) for key in sorting.get("available", ())},
        kept=[*sort, *((name, value) for name, value in current if name not in shown)],
        previous=page_url(path, cursor["previous_cursor"]),
        next=page_url(path, cursor["next_cursor"]),
        current=current,
    )


def filters_of(answer: Mapping[str, Any], shown: Sequence[str]) -> list[Filter]:
    """In the order of *shown*."""
    filtering = answer.get("filtering", {})
    offered = {each["field"]: each["valid_values"] for each in filtering.get("available", ())}
    return [filter_of(name, offered[name], filtering["current"].get(name, ())) for name in shown if name in offered]


def filter_of(name: str, valid: Sequence[str], chosen: Sequence[str]) -> Filter:
    choices = tuple(Choice(value, value in chosen) for value in valid)
    if not valid:
        return Filter(name, "text", (), chosen[0] if len(chosen) == 1 else "")
    return Filter(name, "boxes" if len(valid) <= MAX_BOXES else "menu", choices, "")


def sort_link(path: str, key: str, sort: Mapping[str, str], current: Query) -> SortLink:
    is_sorted = sort.get("sort_key") == key
    turned = "desc" if is_sorted and sort["sort_order"] == "asc" else "asc"
    url = f"{path}?{urlencode([*current, ('sort_key', key), ('sort_order', turned)])}"
    return SortLink(url, None if not is_sorted else "descending" if sort["sort_order"] == "desc" else "ascending")


def page_url(path: str, cursor: str | None) -> str | None:
    return None if cursor is None else f"{path}?{urlencode({'cursor': cursor})}"
