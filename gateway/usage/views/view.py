"""A view: a question about usage that is kept, with a range that moves with the time. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Annotated, Any, Final, TypedDict

from gateway.common.contract.json_types import Schema, Time
from gateway.common.lists.conventions import BadListRequest, Order
from gateway.usage.sums.grains import Dimension
from gateway.usage.sums.ranges import range_of as range_named
from gateway.usage.sums.ranges import times_of, zone_of
from gateway.usage.sums.request import Compare, OrderBy, read_time
from gateway.usage.sums.saved_filter import Kept, ShownFilter, kept_filter, query_of
from gateway.usage.sums.timespan import Interval
from spool.clock import rfc3339_ms

SLASH: Final = "/"


@dataclass(frozen=True, slots=True)
class View:
    view_id: str
    view_no: int
    """In the order in which they were made."""
    name: str
    filter: Kept
    group_by: tuple[Dimension, ...]
    interval: Interval | None
    """Hours or days in place of groups."""
    sort_key: OrderBy
    sort_order: Order
    range: str
    """A `Range`, or two times with a slash between: the end is not included."""
    created_at_ms: int
    created_by: str
    updated_at_ms: int
    updated_by: str
    time_zone: str = "UTC"
    """IANA name of the zone in which days begin."""
    compare: Compare | None = None
    search: str | None = None
    """A text that names of the first dimension hold."""


class ViewJson(TypedDict):
    id: str
    name: str
    filter: ShownFilter
    """Dimension -> names, null for an unknown one. A call has any of the names of each; an empty
    object keeps every call."""
    group_by: Sequence[str]
    interval: Interval | None
    """Hours or days in place of groups."""
    sort_key: str
    sort_order: Order
    range: Annotated[str, Schema(examples=("last_7_days", "this_month", "2026-11-02/2026-11-09"))]
    """It moves with the time, or is two times of the zone with a slash between."""
    time_zone: Annotated[str, Schema(examples=("UTC", "Europe/Berlin"))]
    """In which days begin."""
    compare: Annotated[str | None, Schema(examples=("previous",))]
    """Whether rows are compared with the period before."""
    search: str | None
    """A text that names of the first dimension hold."""
    created_at: Time
    created_by: str
    updated_at: Time
    updated_by: str


class ViewDetail(ViewJson):
    usage: str
    """Path and query of the usage that it shows now."""


def range_of(view: View, now_ms: int) -> list[tuple[str, str]]:
    """As parameters of `GET /v2/usage`: the times, or the range where the period before depends on
    its name.
    """
    if view.compare is not None and SLASH not in view.range:
        return [("range", view.range)]
    since, until = view_times(view, now_ms)
    form = "%Y-%m-%dT%H:%M:%SZ"
    return [("from", since.astimezone(UTC).strftime(form)), ("to", until.astimezone(UTC).strftime(form))]


def view_times(view: View, now_ms: int) -> tuple[datetime, datetime]:
    """The first moment of its range, and the end, in its zone. Raises BadListRequest."""
    zone = zone_of(view.time_zone)
    if SLASH in view.range:
        return two_times(view.range, zone)
    return times_of(range_named(view.range), now_ms, zone)


def two_times(text: str, zone: tzinfo) -> tuple[datetime, datetime]:
    """Raises BadListRequest."""
    since, _, until = text.partition(SLASH)
    start, end = read_time("range", since, zone), read_time("range", until, zone)
    if start >= end:
        raise BadListRequest("range: its first time is to be before its second")
    return start, end


def question_of(view: View, now_ms: int) -> list[tuple[str, str]]:
    """As parameters of `GET /v2/usage`."""
    what = {"interval": view.interval} if view.interval else {"group_by": ",".join(view.group_by)}
    key = "start" if view.interval else view.sort_key
    order = "asc" if view.interval else view.sort_order
    return [
        *range_of(view, now_ms),
        *({} if view.time_zone == "UTC" else {"time_zone": view.time_zone}).items(),
        *what.items(),
        *({name: text for name, text in (("compare", view.compare), ("search", view.search)) if text}).items(),
        *query_of(view.filter),
        ("sort_key", key),
        ("sort_order", order),
    ]


def view_of(item: Mapping[str, Any]) -> View:
    """The question of a `ViewJson`; who made it and when is left out."""
    kept: dict[str, Any] = {name: item[name] for name in _QUESTION}
    return View(
        view_id=item["id"], view_no=0, filter=kept_filter(item["filter"]), group_by=tuple(item["group_by"]), **kept,
        created_at_ms=0, created_by="", updated_at_ms=0, updated_by="",
    )  # fmt: skip


_QUESTION: Final = ("name", "interval", "sort_key", "sort_order", "range", "time_zone", "compare", "search")


def view_item(view: View) -> ViewJson:
    return {
        "id": view.view_id,
        "name": view.name,
        "filter": {name: list(names) for name, names in view.filter.items()},
        "group_by": list(view.group_by),
        "interval": view.interval,
        "sort_key": view.sort_key,
        "sort_order": view.sort_order,
        "range": view.range,
        "time_zone": view.time_zone,
        "compare": view.compare,
        "search": view.search,
        "created_at": rfc3339_ms(view.created_at_ms),
        "created_by": view.created_by,
        "updated_at": rfc3339_ms(view.updated_at_ms),
        "updated_by": view.updated_by,
    }
