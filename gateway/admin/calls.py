"""The operation on settled calls: what became of each call that the spool still keeps, and why."""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gateway.admin.operation import Answer, Call, Json, Operation
from gateway.contract.errors import BadPayload
from gateway.explain.outcomes import BECAUSE
from gateway.observability.tap import FILTERS as TAP_FILTERS
from gateway.observability.tap import Filters, Line, line_of, passes
from spool.record import AI_TELEMETRY
from spool.store import SettledReader

FILTERS: Final = (*TAP_FILTERS, "record_id")
DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 500
MAX_DIGITS: Final = 9
PAGE_BYTES: Final = 256 << 10
MOST_BYTES: Final = 8 << 20
"""Of records that one request looks through."""

_CURSOR: Final = re.compile(r"([0-9]{1,18})\.([0-9]{1,9})")


class CursorPosition(NamedTuple):
    """Where a search goes on."""

    before_seq: int
    """Only chunks before this one are searched."""
    passed_over: int
    """Calls of the newest of them that the earlier request answered already."""


class Search(NamedTuple):
    """What a request asks for."""

    filters: Filters
    limit: int
    position: CursorPosition | None
    """None: from the newest call on."""


class Found(NamedTuple):
    lines: Sequence[Line]
    looked_at: int
    """Records."""
    next: CursorPosition | None
    """None: no older call is kept."""


async def listed(spool: SettledReader, call: Call[None]) -> dict[str, Any]:
    """Raises BadPayload, SpoolError."""
    found = await search(spool, read_search(call.query))
    return {
        "calls": [{**line, "because": because(line)} for line in found.lines],
        "looked_at": found.looked_at,
        "next_cursor": None if found.next is None else f"{found.next.before_seq}.{found.next.passed_over}",
    }


def because(line: Line) -> str | None:
    """Why the call has its outcome, in words; None where the words of its reason are not known."""
    if line["outcome"] == "kept":
        return "several reports of it were merged into one record" if line["reason"] else "it is a call of its own"
    return BECAUSE.get(line["reason"] or "")


def read_search(query: Iterable[tuple[str, str]]) -> Search:
    """Raises BadPayload."""
    filters: dict[str, set[str]] = {}
    own = {"limit": str(DEFAULT_LIMIT), "cursor": ""}
    for name, value in query:
        if name in own:
            own[name] = value
        elif name in FILTERS:
            filters.setdefault(name, set()).add(value)
        else:
            raise BadPayload(f"{name} is not a parameter: one of {', '.join((*FILTERS, *own))} is needed")
    limit = own["limit"]
    if not (limit.isascii() and limit.isdigit() and len(limit) <= MAX_DIGITS and 1 <= int(limit) <= MAX_LIMIT):
        raise BadPayload(f"limit: a number from 1 to {MAX_LIMIT} is needed")
    return Search(filters, int(limit), read_cursor(own["cursor"]) if own["cursor"] else None)


def read_cursor(text: str) -> CursorPosition:
    """Raises BadPayload."""
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise BadPayload("cursor: the next_cursor of an answer is needed")
    return CursorPosition(int(found[1]), int(found[2]))


async def search(spool: SettledReader, asked: Search) -> Found:
    """The newest calls that pass, the newest first. Ends after `limit` calls or `MOST_BYTES`;
    `next` is where it goes on.
    """
    newest = CursorPosition(await spool.settled_seq(AI_TELEMETRY) + 1, 0)
    before_seq, passed_over = newest if asked.position is None else asked.position
    lines: list[Line] = []
    looked_at = size = 0
    while size < MOST_BYTES:
        page = await spool.outcomes_before(AI_TELEMETRY, before_seq, most_bytes=PAGE_BYTES)
        looked_at += len(page.items)
        size += sum(len(record) for _, record in page.items)
        passing = list(_passing(page.items, asked.filters))[passed_over:]
        room = asked.limit - len(lines)
        lines += passing[:room]
        if len(passing) > room:
            return Found(lines, looked_at, CursorPosition(before_seq, passed_over + room))
        before_seq, passed_over = page.through_seq, 0
        if not page.is_more:
            return Found(lines, looked_at, None)
        await asyncio.sleep(0)
    return Found(lines, looked_at, CursorPosition(before_seq, 0))


def _passing(items: Iterable[tuple[str, bytes]], filters: Filters) -> Iterator[Line]:
    for outcome, record in items:
        line = line_of(outcome, record)
        if line is not None and passes(line, filters):
            yield line


# ---- the table

CALLS: Final = "/v2/calls"

_TEXT: Final[Json] = {"type": ["string", "null"]}
_COUNT: Final[Json] = {"type": ["integer", "null"], "minimum": 0}
_CALL: Final[Mapping[str, Json]] = {
    "at": {**_TEXT, "description": "The start of the call."},
    "received_at": _TEXT,
    "outcome": {"type": "string", "enum": ["kept", "duplicate", "suppressed", "rejected", "ignored"]},
    "reason": {**_TEXT, "description": "As in the reasons of the status; null for a call of its own."},
    "because": {**_TEXT, "description": "The reason in words."},
    "kind": _TEXT,
    "operation": _TEXT,
    "provider": _TEXT,
    "model": _TEXT,
    "status": _TEXT,
    "usage": {**_TEXT, "description": "Whether the sender stated the tokens."},
    "input_tokens": _COUNT,
    "cache_read_input_tokens": _COUNT,
    "output_tokens": _COUNT,
    "cost": {"description": "Amount, currency, and who states it; null where it is unknown."},
    "duration_ms": {"type": ["number", "null"]},
    "key": _TEXT,
    "team": _TEXT,
    "project": _TEXT,
    "service": _TEXT,
    "device": _TEXT,
    "source": {**_TEXT, "description": "The format in which it was reported."},
    "record_id": _TEXT,
}
_ANSWER: Final[Json] = {
    "type": "object",
    "required": ["calls", "looked_at", "next_cursor"],
    "properties": {
        "calls": {
            "type": "array",
            "items": {"type": "object", "required": list(_CALL), "properties": dict(_CALL)},
        },
        "looked_at": {"type": "integer", "minimum": 0, "description": "Records that this request looked through."},
        "next_cursor": {**_TEXT, "description": "Goes on with older calls; null where none is kept."},
    },
}
_PARAMETERS: Final[tuple[Json, ...]] = (
    *(
        {
            "name": name,
            "in": "query",
            "description": "Filter; may be repeated to select several values.",
            "schema": {"type": "array", "items": {"type": "string"}},
        }
        for name in FILTERS
    ),
    {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT}},
    {"name": "cursor", "in": "query", "schema": {"type": "string", "pattern": f"^{_CURSOR.pattern}$"}},
)

LIST: Final = Operation(
    method="GET", path=CALLS, id="listCalls", tag="Usage",
    summary="Calls that settled and are still kept, the newest first, and why each was counted as it was",
    text="No content, no user. A request looks through 8 MiB of records at most; `next_cursor` goes on with older ones.",
    handler=listed, query=_PARAMETERS, errors=(400, 503), answer=Answer("Calls.", _ANSWER),
)  # fmt: skip
OPERATIONS: Final[tuple[Operation[SettledReader, Any], ...]] = (LIST,)
