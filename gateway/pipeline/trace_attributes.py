"""Attribution that is stated for a whole trace (Langfuse), joined to the calls of that trace.

1. Stated before a call or with it: it fills what the call lacks of user, session, team, project,
   environment and labels.
2. Stated while a call settles: a further observation of that call, with nothing else, is appended;
   counting merges both. It counts as an item and, in the end, a duplicate.
3. Stated later than that: it reaches only later calls of the trace.

It is in memory only, within bounds: a restart forgets attribution, never a call.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import orjson

from gateway.common.contract.flags import START_UNKNOWN, UNFINISHED
from gateway.common.json_bytes import json_bytes
from gateway.common.lru import forget_oldest
from gateway.common.operations import rfc3339
from gateway.counting.calls.digest import DIGEST_BYTES, bare_row
from gateway.counting.calls.merge import complete_attribution
from gateway.pipeline.parsing.parse import Parsed
from gateway.products.reporting import source_of
from gateway.rules.context import Context
from gateway.rules.record import UNKNOWN_PROVIDER
from spool.record import SCHEMA, Record

MAX_TRACES = 10_000
AT_ONCE = 200
"""Calls or traces in one turn of the event loop: a few milliseconds."""
MAX_CALLS = 64
"""Of one trace, the latest: about 200 bytes each, for as long as they settle."""


class _Call(NamedTuple):
    """A call that may still settle."""

    record_id: str
    row: bytes
    received_ms: int
    lacks: frozenset[str]
    """Fields of the attribution that neither it nor its trace states."""


@dataclass(slots=True)
class _Trace:
    said: dict[str, Any] = field(default_factory=dict)
    """An attribution; what is stated later replaces it."""
    calls: deque[_Call] = field(default_factory=lambda: deque(maxlen=MAX_CALLS))
    lacks: frozenset[str] = frozenset()
    """What any of these calls lacks."""


_FIELDS = frozenset({"user", "session", "team", "project", "environment"})


class TraceAttributes:
    """One gateway's memory of traces."""

    def __init__(self, settle_ms: int) -> None:
        self._settle_ms = settle_ms
        self._traces: dict[tuple[str, str, str], _Trace] = {}

    async def complete(self, name: str, parsed: Parsed, context: Context) -> Parsed:
        """*parsed*, from the source *name*, with what is known of its calls' traces,
        and rule 2's observations. Others have their turn in between.
        """
        calls, traces_of_calls = parsed.calls, parsed.traces_of_calls
        if calls is None:
            return parsed
        sender = context.counted_key or context.peer
        observations: list[tuple[bytes, bytes]] = []
        for n, (trace_id, said, at_ms) in enumerate(parsed.trace_updates, start=1):
            trace = self._trace(name, sender, trace_id)
            trace.said = _over(trace.said, said)
            observations += self._observations(name, trace, at_ms or context.received_at_ms, context)
            await _turn_behind(n)
        records = list(calls.records)
        for n, record in enumerate(calls.records):
            call = cast("Record", orjson.loads(record))
            trace_id = traces_of_calls.get(call["record_id"], "")
            if trace_id:
                row = calls.rows[n * DIGEST_BYTES : (n + 1) * DIGEST_BYTES]
                records[n] = self._completed(call, self._trace(name, sender, trace_id), row, context) or record
            await _turn_behind(n + 1)
        return parsed._replace(
            calls=calls._replace(
                items=calls.items + len(observations),
                records=[*records, *(record for record, _ in observations)],
                rows=calls.rows + b"".join(row for _, row in observations),
            )
        )

    def _trace(self, name: str, sender: str, trace_id: str) -> _Trace:
        """The trace, used last from now on."""
        key = (name, sender, trace_id)
        trace = self._traces.pop(key, None) or _Trace()
        self._traces[key] = trace
        forget_oldest(self._traces, MAX_TRACES)
        return trace

    def _completed(self, call: Record, trace: _Trace, row: bytes, context: Context) -> bytes | None:
        """Rule 1: the completed record; None where nothing is added to it. It is remembered
        for what may be stated later.
        """
        attribution = cast("dict[str, Any]", call["attribution"])
        before = orjson.dumps(attribution)
        complete_attribution(attribution, trace.said)
        lacks = frozenset(name for name in _FIELDS if attribution.get(name) is None)
        if lacks and UNFINISHED not in call["flags"]:
            trace.calls.append(_Call(call["record_id"], row, context.received_at_ms, lacks))
            trace.lacks |= lacks
        return json_bytes(call) if orjson.dumps(attribution) != before else None

    def _observations(self, name: str, trace: _Trace, at_ms: int, context: Context) -> list[tuple[bytes, bytes]]:
        """Rule 2: record and row of each further observation."""
        found: list[tuple[bytes, bytes]] = []
        known = {field_name for field_name, value in trace.said.items() if value is not None}
        if trace.lacks.isdisjoint(known):  # the same is often stated over and over
            return found
        trace.lacks -= known
        for _ in range(len(trace.calls)):
            call = trace.calls.popleft()
            if context.received_at_ms - call.received_ms > self._settle_ms:
                continue
            news = call.lacks & known
            trace.calls.append(call._replace(lacks=call.lacks - news))
            if news:
                said = {field_name: trace.said[field_name] for field_name in news}
                found.append((orjson.dumps(_observation(name, call, said, at_ms, context)), bare_row(call.row, at_ms)))
        return found


async def _turn_behind(n: int) -> None:
    """Give others their turn behind every so many."""
    if n % AT_ONCE == 0:
        await asyncio.sleep(0)


def _over(before: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    labels = {**before.get("labels", {}), **said.get("labels", {})}
    return {**before, **said, **({"labels": labels} if labels else {})}


def _observation(name: str, call: _Call, said: dict[str, Any], at_ms: int, context: Context) -> dict[str, Any]:
    """A record of the call with nothing but what is *said* of its trace."""
    return {
        "schema": SCHEMA,
        "record_id": call.record_id,
        "kind": "call",
        "billed": True,
        "source": source_of(name, None),
        "operation": "chat",
        "provider": UNKNOWN_PROVIDER,
        "request_model": None,
        "response_model": None,
        "response_id": None,
        "started_at": rfc3339(at_ms),
        "duration_ms": None,
        "usage": {"status": "missing"},
        "status": "ok",
        "attribution": said,
        "received_at": context.received_at,
        "flags": [START_UNKNOWN, UNFINISHED],
    }
