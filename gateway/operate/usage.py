"""The operation on usage: sums of calls, tokens and cost, by dimensions or over time."""

from collections.abc import Iterable
from typing import Any, Final

from gateway.common.lists.openapi.lists import list_answer, list_parameters
from gateway.operate.operation import Json, Operation, OperationAnswer, OperationCall
from gateway.usage.sums.bounds import MAX_VERSIONS
from gateway.usage.sums.figures import COUNTS
from gateway.usage.sums.grains import DIMENSIONS
from gateway.usage.sums.names import Absent
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.request import (
    DEFAULT_DAYS,
    GROUPS,
    INTERVALS,
    MAX_GROUPED,
    Question,
    buckets_json,
    groups_json,
    read_question,
    time_text,
)
from gateway.usage.sums.tally import HOUR_MS, INPUT
from gateway.usage.sums.timespan import TimeRange


async def show(queries: UsageQueries, call: OperationCall[None]) -> dict[str, Any]:
    """A page of groups, or of hours or days; with totals and the time of the sums. Raises
    BadListRequest, Overloaded.
    """
    asked = read_question(call.query, queries.now_ms())
    await queries.refresh()
    async with queries.apart() as apart:
        return {**await _answer(apart, asked), **await _state(apart, asked.within)}


async def _answer(queries: UsageQueries, asked: Question) -> Json:
    if asked.interval is not None:
        buckets = await queries.over_time(asked.within, interval=asked.interval, where=asked.where)
        return buckets_json(asked, buckets, await queries.totals(asked.within, where=asked.where))
    found = await queries.by(
        *asked.group_by,
        within=asked.within,
        where=asked.where,
        order_by=asked.order_by,
        currency=asked.currency,
        ascending=asked.request.sort.order == "asc",
        offset=asked.offset,
        limit=asked.request.limit,
    )
    return groups_json(asked, found)


async def _state(queries: UsageQueries, within: TimeRange) -> Json:
    """Through when the sums are counted, and the hours that they cover."""
    as_of = await queries.as_of()
    return {
        "from": time_text(within.first_hour * HOUR_MS),
        "to": time_text(within.end_hour * HOUR_MS),
        "counted_through": time_text(as_of.counted_through_ms),
        "hours_from": time_text(as_of.hours_from_ms),
    }


# ---- the table

USAGE: Final = "/v2/usage"
_TIME: Final[Json] = {"type": "string", "examples": ["2026-01-05", "2026-01-05T10:00:00Z"]}


def _parameter(name: str, description: str, schema: Json) -> Json:
    return {"name": name, "in": "query", "description": description, "schema": schema}


PARAMETERS: Final = (
    _parameter("from", f"The first hour (inclusive); without it {DEFAULT_DAYS} UTC days, today included.", _TIME),
    _parameter("to", "The end (exclusive); without it, now.", _TIME),
    _parameter(
        "group_by",
        f"Up to {MAX_GROUPED} of {', '.join(DIMENSIONS)}, separated by commas; provider,model without it.",
        {"type": "string", "examples": ["team", "provider,model"]},
    ),
    _parameter("interval", "Hours or UTC days in place of groups.", {"type": "string", "enum": list(INTERVALS)}),
    _parameter("currency", "In which costs are compared; that of most calls without it.", {"type": "string"}),
    _parameter("unknown", "Dimensions whose name is to be unknown, separated by commas.", {"type": "string"}),
    *(
        {**each, "schema": {"type": "string", "enum": [*GROUPS.sort_keys, "start"]}}
        if each.get("name") == "sort_key"
        else each
        for each in list_parameters(GROUPS)
    ),
)
_TIME_OR_NULL: Final[Json] = {"type": ["string", "null"], "format": "date-time"}
_AMOUNTS: Final[Json] = {"type": "object", "additionalProperties": {"type": "string"}, "examples": [{"USD": "12.50"}]}


def object_schema(properties: Json, required: Iterable[str]) -> Json:
    return {"type": "object", "required": list(required), "properties": properties}


_COUNTED: Final[Json] = {
    **{name: {"type": "integer", "minimum": 0} for name in COUNTS[:INPUT]},
    **{name: {"type": ["integer", "null"], "minimum": 0} for name in COUNTS[INPUT:]},
    "costs": _AMOUNTS,
    "estimated_costs": _AMOUNTS,
}
_NAMES: Final[Json] = {
    **{name: {"type": ["string", "null"]} for name in DIMENSIONS},
    "start": {"type": "string", "format": "date-time", "description": "Of the hour or day; only with an interval."},
    "versions": {
        "type": "array",
        "description": "Of a model that dated names are versions of: its names with most calls, each with its own sums.",
        "maxItems": MAX_VERSIONS,
        "items": object_schema({"model": {"type": "string"}, **_COUNTED}, ("model", *_COUNTED)),
    },
    "absent": {
        "type": "object",
        "description": "Dimension -> why its name is null; other is beyond a bound.",
        "additionalProperties": {"type": "string", "enum": [each.value for each in Absent]},
    },
}


_LIST: Final = list_answer(GROUPS, "Usage")["content"]["application/json"]["schema"]["properties"]
_SUMS: Final = object_schema(_COUNTED, _COUNTED)
ANSWER_KEYS: Final[Json] = {
    **_LIST,
    GROUPS.root: {"type": "array", "items": object_schema(_NAMES | _COUNTED, _COUNTED)},
    "rest": {"description": "What no row of this page holds.", "oneOf": [_SUMS, {"type": "null"}]},
    "totals": _SUMS,
    "from": _TIME_OR_NULL,
    "to": _TIME_OR_NULL,
    "counted_through": _TIME_OR_NULL | {"description": "Calls whose outcome was final by then are in the sums."},
    "hours_from": _TIME_OR_NULL | {"description": "Hours are kept since then; before it only days."},
}
_ANSWER: Final = object_schema(ANSWER_KEYS, ANSWER_KEYS)

SHOW: Final = Operation(
    method="GET", path=USAGE, id="showUsage", tag="Usage",
    summary="Calls, tokens and cost by dimensions, or by hour or day",
    text="Billed calls by the start of the call, from the gateway's own sums.",
    handler=show, query=PARAMETERS, errors=(400, 503), answer=OperationAnswer("A page, with the totals.", _ANSWER),
)  # fmt: skip
OPERATIONS: Final[tuple[Operation[UsageQueries, Any], ...]] = (SHOW,)
