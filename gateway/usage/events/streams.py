"""Unit-cost streams as they are listed and read. Pure."""

from collections.abc import Sequence
from typing import Final, TypedDict, get_args

from gateway.common.contract.errors import StreamUnknown
from gateway.common.contract.json_types import Count
from gateway.common.lists.conventions import Filterable, ListRequest, ListShape, Page, Sort
from gateway.common.lists.memory import page_of
from gateway.usage.events.faults import REMEDIES
from spool.unit_cost import Granularity, Kind, StreamState

STREAMS: Final = ListShape(
    root="streams",
    name="unit-cost",
    sort_keys=("granularity", "kind", "name"),
    default_sort=Sort("name", "asc"),
    filters=(Filterable("granularity", get_args(Granularity)), Filterable("kind", get_args(Kind))),
)


class UnitCostStreamJson(TypedDict):
    name: str
    kind: Kind
    granularity: Granularity
    dimensions: list[str]
    """Each record has these."""
    pending: Count
    """Items of it that wait to be sent."""


def stream_page(streams: Sequence[StreamState], asked: ListRequest) -> Page:
    return page_of(asked, streams, field_of=_field, id_of=lambda stream: stream.stream_id, item_of=item_of)


def stream_named(streams: Sequence[StreamState], name: str) -> UnitCostStreamJson:
    """Raises StreamUnknown."""
    for known in streams:
        if known.name == name:
            return item_of(known)
    raise StreamUnknown("stream_unknown", REMEDIES["stream_unknown"])


def item_of(stream: StreamState) -> UnitCostStreamJson:
    kind, granularity, dimensions = stream.shape
    return {
        "name": stream.name,
        "kind": kind,
        "granularity": granularity,
        "dimensions": list(dimensions),
        "pending": stream.pending,
    }


def _field(stream: StreamState, name: str) -> str:
    return str({**item_of(stream)}[name])
