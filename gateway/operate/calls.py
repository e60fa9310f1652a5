"""The operations on settled calls: what became of each call that the spool still keeps, and why."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict, get_args

from gateway.common.contract.errors import NotFound
from gateway.common.contract.flags import FLAG_MEANINGS
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
from gateway.observability.limited_calls import LimitedCalls
from gateway.observability.one_call import FIND_BYTES, Relation, Report, find
from gateway.observability.settled_calls import CallReader, Found, Place, Search
from gateway.observability.tap import FILTERS as TAP_FILTERS
from gateway.observability.tap import Line, Outcome, line_from
from gateway.operate.operation import Listed, Operation, OperationAnswer, OperationCall
from gateway.pipeline.explain.outcomes import BECAUSE
from gateway.pipeline.explain.records import USAGE_STATUS, unpriced
from gateway.usage.sums.tags import by_dimension

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

KEPT_BECAUSE: Final = {
    "": "it is a call of its own",
    "merged": "several reports of it were merged into one record",
    "conflict": "it is a call of its own: a report that shares an id with it, or is above or below it, differs",
    "inherited": "it is a call of its own: whose it is was taken from a span above it",
    "learnt": "it is a call of its own: other calls proved whether its input holds the cached tokens",
}
"""The reason of a kept record -> why it counts, in words."""
_PLACE: Final = re.compile(r"([0-9]{1,18})\.([0-9]{1,9})")
"""`Place.before_seq` and `passed_over`, as a cursor holds them; its row id is `newer`."""


class SettledCall(Line):
    because: str | None
    """The reason in words."""


class FlagOfCall(TypedDict):
    flag: str
    means: str


class RelatedReport(SettledCall):
    relation: Relation
    """What it shares with the call: span, id, a place just above or below it, only the trace, or
    service and time, for reports that are dropped by these."""


class CallDetail(SettledCall):
    record: Mapping[str, Any]
    """All that is known of it, as `docs/formats.md` lists it. It holds no prompt."""
    cost_from: str
    """Who states the cost, or by which prices it was estimated, or why there is none."""
    usage_from: str | None
    """What is known of its tokens, in words."""
    flags: list[FlagOfCall]
    related: list[RelatedReport]
    """Other reports that belong to it: those merged into it, dropped for it, and calls of
    its trace. They are looked for in 1 MiB of records before it and after it."""


class CallAnswer(TypedDict):
    call: CallDetail


async def listed(spool: CallReader, call: OperationCall[None]) -> dict[str, Any]:
    """Raises BadListRequest, SpoolError."""
    request = read_request(CALL_LIST, call.query)
    return envelope(CALL_LIST, request, page_of(await search(spool, request)))


async def show(spool: CallReader, call: OperationCall[None]) -> CallAnswer:
    """Raises BadListRequest, NotFound, SpoolError."""
    found = await find(spool, call.path["record_id"], before_seq_of(call.query))
    if found is None:
        raise NotFound(NO_SUCH_CALL)
    settled = settled_call(found.report)
    related: list[RelatedReport] = [
        {**settled_call(report), "relation": relation} for relation, report in found.related
    ]
    record = found.report.record
    return {
        "call": {
            **settled,
            "record": record,
            "cost_from": cost_from(record),
            "usage_from": USAGE_STATUS.get(settled["usage"] or ""),
            "flags": [{"flag": flag, "means": FLAG_MEANINGS.get(flag, "")} for flag in record.get("flags", ())],
            "related": related,
        }
    }


def settled_call(report: Report) -> SettledCall:
    line = line_from(report.outcome, report.record)
    return {**line, "because": because(line)}


def before_seq_of(query: Sequence[tuple[str, str]]) -> int | None:
    """Where the page of the list begins that a cursor leads to; None without one. Raises
    BadListRequest.
    """
    request = read_request(CALL_LIST, query)
    return (
        None if request.position is None or request.position.backwards else place_of(request.position.place).before_seq
    )


def cost_from(record: Mapping[str, Any]) -> str:
    """The source of the cost in words."""
    cost = record.get("cost")
    if cost is None:
        return str(unpriced({"flags": record.get("flags", ())}).note)
    if cost["source"] == "reported":
        return "the sender states it"
    return f"estimated from its tokens by the price list {cost.get('price_version') or 'of this gateway'}"


async def search(spool: CallReader, request: ListRequest) -> Found:
    calls = Search(spool, {name: frozenset(values) for name, values in by_dimension(request.filters).items()})
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
        return KEPT_BECAUSE.get(line["reason"] or "", KEPT_BECAUSE[""])
    return BECAUSE.get(line["reason"] or "")


# ---- the table

CALLS: Final = "/v2/calls"
NO_SUCH_CALL: Final = (
    f"no call with this id is among the newest {FIND_BYTES >> 20} MiB of records that are kept: delivered ones are"
    " deleted after spool.keep_delivered"
)

LIST: Final = Operation(
    method="GET", path=CALLS, id="listCalls", tag="Usage",
    summary="Calls that settled and are still kept, the newest first, and why each was counted as it was",
    limited=LimitedCalls,
    text="No content, no user. A request reads 8 MiB of records at most. So a page may hold fewer calls than its"
    " `limit`, or none, while `next_cursor` goes on with older ones. `total_count` and `page_count` are null where"
    " more than 2 MiB of records follow the page.",
    handler=listed, answer=Listed(CALL_LIST, SettledCall),
)  # fmt: skip
SHOW: Final = Operation(
    method="GET", path=CALLS + "/{record_id}", id="readCall", tag="Usage",
    summary="One call with its record, why it was counted so, and the reports that were merged into it or dropped for it",
    text="A request reads 64 MiB of records at most, from the newest back.",
    query=(
        {
            "name": "cursor", "in": "query", "schema": {"type": "string"},
            "description": "Of the list: the search begins where its page does.",
        },
    ),
    limited=LimitedCalls, handler=show, answer=OperationAnswer("The call.", CallAnswer), errors=(400, 503),
)  # fmt: skip
OPERATIONS: Final[tuple[Operation[CallReader, Any], ...]] = (LIST, SHOW)
