"""A view: a question about usage that is kept, with a range that moves with the time. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypedDict

from gateway.common.contract.json_types import Schema, Time
from gateway.common.lists.conventions import Order
from gateway.usage.sums.grains import Dimension
from gateway.usage.sums.ranges import Range, times_of
from gateway.usage.sums.request import OrderBy
from gateway.usage.sums.saved_filter import Kept, ShownFilter, query_of
from gateway.usage.sums.timespan import Interval
from spool.clock import rfc3339_ms


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
    range: Range
    created_at_ms: int
    created_by: str
    updated_at_ms: int
    updated_by: str


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
    range: Annotated[str, Schema(examples=("last_7_days", "this_month"))]
    """UTC; it moves with the time."""
    created_at: Time
    created_by: str
    updated_at: Time
    updated_by: str


class ViewDetail(ViewJson):
    usage: str
    """Path and query of the usage that it shows now."""


def question_of(view: View, now_ms: int) -> list[tuple[str, str]]:
    """As parameters of `GET /v2/usage`."""
    since, until = (time.strftime("%Y-%m-%dT%H:%M:%SZ") for time in times_of(view.range, now_ms))
    what = {"interval": view.interval} if view.interval else {"group_by": ",".join(view.group_by)}
    key = "start" if view.interval else view.sort_key
    order = "asc" if view.interval else view.sort_order
    return [
        ("from", since),
        ("to", until),
        *what.items(),
        *query_of(view.filter),
        ("sort_key", key),
        ("sort_order", order),
    ]


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
        "created_at": rfc3339_ms(view.created_at_ms),
        "created_by": view.created_by,
        "updated_at": rfc3339_ms(view.updated_at_ms),
        "updated_by": view.updated_by,
    }
