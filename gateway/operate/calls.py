"""The operation on settled calls: what became of each call that the spool still keeps, and why."""

import re
from typing import Any, Final, get_args

from gateway.common.lists.conventions import (
    BadListRequest,
    CursorPosition,
    Filterable,
    ListRequest,
    ListShape,
    Page,
    Position,
    Sort,
    envelope,
    read_request,
)
from gateway.observability.settled_calls import Found, Place, Search
from gateway.observability.tap import FILTERS as TAP_FILTERS
from gateway.observability.tap import Line, Outcome
from gateway.operate.operation import Listed, Operation, OperationCall
from gateway.pipeline.explain.outcomes import BECAUSE
from spool.store import SettledReader

OUTCOMES: Final = get_args(Outcome)
CALL_LIST: Final = ListShape(
    root="calls",
    sort_keys=(),
    default_sort=Sort("settled_at", "desc"),
    filters=(
        Filterable("outcome", OUTCOMES),
        *(Filterable(name, (), is_open=True) for name in (*TAP_FILTERS, "record_id") if name != "outcome"),
    ),
    is_always_counted=False,
)

_PLACE: Final = re.compile(r"([0-9]{1,18})\.([0-9]{1,9})")
"""`Place.before_seq` and `passed_over`, as a cursor holds them; its row id is `newer`."""


class SettledCall(Line):
    because: str | None
    """The reason in words."""


async def listed(spool: SettledReader, call: OperationCall[None]) -> dict[str, Any]:
    """Raises BadListRequest, SpoolError."""
    request = read_request(CALL_LIST, call.query)
    return envelope(CALL_LIST, request, page_of(await search(spool, request)))


async def search(spool: SettledReader, request: ListRequest) -> Found:
    calls = Search(spool, {name: frozenset(values) for name, values in request.filters.items()})
    if request.position is None:
        return await calls.newest(request.limit)
    place = place_of(request.position.place)
    return await (calls.newer if request.position.backwards else calls.older)(place, request.limit)


def page_of(found: Found) -> Page:
    return Page(
        items=[{**line, "because": because(line)} for line in found.lines],
        total_count=found.total,
        previous=Position(position_of(found.start), backwards=True) if found.start.newer else None,
        next=None if found.end is None else Position(position_of(found.end), backwards=False),
    )


def position_of(place: Place) -> CursorPosition:
    return CursorPosition(f"{place.before_seq}.{place.passed_over}", place.newer)


def place_of(position: CursorPosition) -> Place:
    """Raises BadListRequest."""
    held = _PLACE.fullmatch(str(position.value))
    if held is None or position.row_id < 0:
        raise BadListRequest("cursor: it is no place in this list; begin without a cursor")
    return Place(int(held[1]), int(held[2]), position.row_id)


def because(line: Line) -> str | None:
    """Why the call has its outcome, in words; None where the words of its reason are not known."""
    if line["outcome"] == "kept":
        return "several reports of it were merged into one record" if line["reason"] else "it is a call of its own"
    return BECAUSE.get(line["reason"] or "")


# ---- the table

CALLS: Final = "/v2/calls"

LIST: Final = Operation(
    method="GET", path=CALLS, id="listCalls", tag="Usage",
    summary="Calls that settled and are still kept, the newest first, and why each was counted as it was",
    text="No content, no user. A request reads 8 MiB of records at most. So a page may hold fewer calls than its"
    " `limit`, or none, while `next_cursor` goes on with older ones. `total_count` and `page_count` are null where"
    " more than 2 MiB of records follow the page.",
    handler=listed, answer=Listed(CALL_LIST, SettledCall),
)  # fmt: skip
OPERATIONS: Final[tuple[Operation[SettledReader, Any], ...]] = (LIST,)
