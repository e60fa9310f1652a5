"""The operation on usage: sums of calls, tokens and cost, by dimensions or over time."""

from collections.abc import Iterable
from typing import Any, Final

from gateway.common.contract.tags import NAME, PREFIX
from gateway.common.lists.openapi.lists import list_answer, list_parameters
from gateway.operate.operation import Json, Operation, OperationAnswer, OperationCall
from gateway.usage.sums.allocation import involved
from gateway.usage.sums.answer_json import answer_json, range_json, time_text
from gateway.usage.sums.answering import answered, chosen
from gateway.usage.sums.bounds import MAX_VERSIONS
from gateway.usage.sums.buckets import PERCENTILES, Latency
from gateway.usage.sums.change import CHANGED
from gateway.usage.sums.figures import COUNTS
from gateway.usage.sums.grains import DIMENSIONS, TAGS
from gateway.usage.sums.latency import KEPT_BY
from gateway.usage.sums.names import Absent
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.ranges import MAX_ZONE_CHARS, RANGES
from gateway.usage.sums.request import (
    ALLOCATIONS,
    DEFAULT_DAYS,
    GROUPS,
    INTERVALS,
    MAX_GROUPED,
    MAX_SEARCH_CHARS,
    MAX_UNKNOWN,
    PREVIOUS,
    Question,
    read_question,
)
from gateway.usage.sums.tally import INPUT


async def show(queries: UsageQueries, call: OperationCall[None]) -> dict[str, Any]:
    """A page of groups, or of hours or days; with totals and the time of the sums. Raises
    BadListRequest, Overloaded.
    """
    asked = read_question(call.query, queries.now_ms())
    await queries.refresh()
    async with queries.apart() as apart:
        answer = await answered(apart, asked)
        allocation = allocation_json(chosen(apart, asked), asked)
        return {**answer_json(asked, answer), **range_json(answer.within), **await _state(apart), **allocation}


def allocation_json(queries: UsageQueries, asked: Question) -> Json:
    """The versions of rules by which it is answered."""
    applied = involved(queries.allocations(), (*asked.group_by, *asked.where))
    return {"allocation": [{"target": each.target, "version": each.version} for each in applied]}


async def _state(queries: UsageQueries) -> Json:
    """Through when the sums are counted, and since when there are hours."""
    as_of = await queries.as_of()
    return {"counted_through": time_text(as_of.counted_through_ms), "hours_from": time_text(as_of.hours_from_ms)}


# ---- the table

USAGE: Final = "/v2/usage"
_TIME: Final[Json] = {"type": "string", "examples": ["2026-01-05", "2026-01-05T10:00:00Z"]}


def _parameter(name: str, description: str, schema: Json) -> Json:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _list_parameter(name: str, description: str, most: int) -> Json:
    """Dimensions, in one text."""
    word: Json = {
        "anyOf": [{"type": "string", "enum": [*DIMENSIONS, TAGS]}, {"type": "string", "pattern": f"^{PREFIX}{NAME}$"}]
    }
    schema = {"type": "array", "items": word, "minItems": 1, "maxItems": most + 1}
    return {**_parameter(name, description, schema), "style": "form", "explode": False}


PARAMETERS: Final = (
    _parameter("from", f"The first hour (inclusive); without it {DEFAULT_DAYS} days, today included.", _TIME),
    _parameter("to", "The end (exclusive); without it, now.", _TIME),
    _parameter("range", "In place of from and to; it moves with the time.", {"type": "string", "enum": list(RANGES)}),
    _parameter(
        "time_zone",
        "IANA name of the zone in which days, weeks and months begin, and of times without an offset; UTC without it.",
        {"type": "string", "maxLength": MAX_ZONE_CHARS, "examples": ["Europe/Berlin"]},
    ),
    _list_parameter(
        "group_by",
        f"Up to {MAX_GROUPED} dimensions, and {TAGS} as a further one, separated by commas; provider,model without it.",
        MAX_GROUPED,
    ),
    _parameter("interval", "Hours or days in place of groups.", {"type": "string", "enum": list(INTERVALS)}),
    _parameter("currency", "In which costs are compared; that of most calls without it.", {"type": "string"}),
    _list_parameter("unknown", "Dimensions whose name is to be unknown, separated by commas.", MAX_UNKNOWN),
    _parameter(
        "compare",
        "Each row also has the same of the period before: as many whole months or days, else as many hours.",
        {"type": "string", "enum": [PREVIOUS]},
    ),
    _parameter(
        "allocation",
        "Whether allocation rules give targets to calls that bring none; none: the original figures. Applied without it.",
        {"type": "string", "enum": list(ALLOCATIONS)},
    ),
    _parameter(
        "search",
        "A text that names of the first dimension of group_by hold, in any case.",
        {"type": "string", "maxLength": MAX_SEARCH_CHARS},
    ),
    _parameter(
        "latency",
        f"Each row and the totals also have percentiles of how long calls took; by {', '.join(KEPT_BY)}.",
        {"type": "string", "enum": ["true", "false"]},
    ),
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


def _or_null(schema: Json, description: str) -> Json:
    return {"description": description, "oneOf": [schema, {"type": "null"}]}


_COUNTED: Final[Json] = {
    **{name: {"type": "integer", "minimum": 0} for name in COUNTS[:INPUT]},
    **{name: {"type": ["integer", "null"], "minimum": 0} for name in COUNTS[INPUT:]},
    "costs": _AMOUNTS,
    "estimated_costs": _AMOUNTS,
}
SUMS_SCHEMA: Final = object_schema(_COUNTED, _COUNTED)
_PERCENTILES: Final[Json] = {
    "calls": {"type": "integer", "minimum": 1, "description": "That did not fail, and state it."},
    **{f"p{each}_ms": {"type": "integer", "minimum": 0} for each in PERCENTILES},
}
_LATENCY: Final[Json] = {
    name: _or_null(object_schema(_PERCENTILES, _PERCENTILES), "Null where no call states it.")
    for name in Latency._fields
}
_OF_LATENCY: Final[Json] = {
    "latency": {
        **object_schema(_LATENCY, _LATENCY),
        "description": "Only with latency: percentiles, at most 4.5 % from the true ones.",
    }
}
_OF_COUNT: Final[Json] = {"difference": {"type": ["integer", "null"]}, "percent": {"type": ["string", "null"]}}
_OF_COST: Final[Json] = {"difference": {"type": ["string", "null"]}, "percent": {"type": ["string", "null"]}}
_CHANGES: Final[Json] = {
    **dict.fromkeys(CHANGED, object_schema(_OF_COUNT, _OF_COUNT)),
    "costs": {"type": "object", "additionalProperties": object_schema(_OF_COST, _OF_COST)},
}
_CHANGE: Final = _or_null(
    object_schema(_CHANGES, _CHANGES),
    "Of each figure, how much it is more than in the period before, and by how many percent of that. Null where one"
    " side is unknown, or nothing was before.",
)
_NAMES: Final[Json] = {
    **{name: {"type": ["string", "null"]} for name in DIMENSIONS},
    TAGS: {"type": ["string", "null"], "description": "All tags of a call as one JSON object in a text."},
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
    "previous": _or_null(SUMS_SCHEMA, "Only with compare: the same in the period before; null where it has no call."),
    "change": _CHANGE,
    **_OF_LATENCY,
}


_LIST: Final = list_answer(GROUPS, "Usage")["content"]["application/json"]["schema"]["properties"]
ANSWER_KEYS: Final[Json] = {
    **_LIST,
    GROUPS.root: {"type": "array", "items": object_schema(_NAMES | _COUNTED, _COUNTED)},
    "rest": {"description": "What no row of this page holds.", "oneOf": [SUMS_SCHEMA, {"type": "null"}]},
    "totals": object_schema(_COUNTED | _OF_LATENCY, _COUNTED),
    "from": _TIME_OR_NULL,
    "to": _TIME_OR_NULL,
    "counted_through": _TIME_OR_NULL | {"description": "Calls whose outcome was final by then are in the sums."},
    "allocation": {
        "type": "array",
        "description": "The versions of allocation rules by which it is answered; none where no target is asked for.",
        "items": object_schema({"target": {"type": "string"}, "version": {"type": "integer"}}, ("target", "version")),
    },
    "hours_from": _TIME_OR_NULL | {"description": "Hours are kept since then; before it only days."},
}
_BEFORE: Final[Json] = {
    "from": _TIME_OR_NULL,
    "to": _TIME_OR_NULL,
    "rest": _or_null(SUMS_SCHEMA, "What no row of this page holds."),
    "totals": _or_null(SUMS_SCHEMA, "Null where it has no call."),
    "change": _CHANGE,
}
WITH_COMPARE: Final[Json] = {
    "previous": _or_null(
        object_schema(_BEFORE, _BEFORE),
        "Only with compare: the period before. Null where its hours are no longer kept.",
    )
}
_ANSWER: Final = object_schema(ANSWER_KEYS | WITH_COMPARE, ANSWER_KEYS)

SHOW: Final = Operation(
    method="GET", path=USAGE, id="showUsage", tag="Usage",
    summary="Calls, tokens and cost by dimensions, or by hour or day",
    text="Billed calls by the start of the call, from the gateway's own sums.",
    handler=show, query=PARAMETERS, errors=(400, 503), limited=UsageQueries.limited, answer=OperationAnswer("A page, with the totals.", _ANSWER),
)  # fmt: skip
OPERATIONS: Final[tuple[Operation[UsageQueries, Any], ...]] = (SHOW,)
