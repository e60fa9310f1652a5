"""What is said of a whole thread (a Langfuse trace), brought to its calls, whichever comes first and in whatever request. Pure.

1. Said before a call or with it: it fills what the call does not say itself of user, session, team, project, environment, labels.
2. Said while a call settles: a further report of that call, with nothing but this, goes beside it; counting makes one of both. It
   counts as an item and, in the end, a duplicate.
3. Said later than that: it reaches the calls to come only.

It is in memory only, within bounds: a restart forgets what was said, never a call.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import orjson

from gateway.common.lru import forget_oldest
from gateway.contract.parsed_payload import ParsedPayload
from gateway.contract.partial_flags import START_UNKNOWN, UNFINISHED
from gateway.counting.calls.digest import DIGEST_BYTES, bare_row
from gateway.counting.calls.merge import complete_attribution
from gateway.normalise.context import Context
from gateway.normalise.record import UNKNOWN_PROVIDER
from gateway.normalise.times import rfc3339
from gateway.sources.reporting import source_of
from spool.record import SCHEMA, Record

MAX_THREADS = 10_000
MAX_CALLS = 64
"""Of one thread, the latest: about 200 bytes each, for as long as they settle."""

TraceUpdate = tuple[str, dict[str, Any], int]
"""A thread's id, the attribution that was said of it, and when in ms (0 for unknown). A plain tuple: it comes from a worker."""


class _Call(NamedTuple):
    """A call that may still settle."""

    record_id: str
    row: bytes
    received_ms: int
    lacks: frozenset[str]
    """Fields of the attribution that neither it nor its thread said."""


@dataclass(slots=True)
class _Thread:
    said: dict[str, Any] = field(default_factory=dict)
    """An attribution; what is said later goes over it."""
    calls: deque[_Call] = field(default_factory=lambda: deque(maxlen=MAX_CALLS))


_FIELDS = frozenset({"user", "session", "team", "project", "environment"})


class TraceAttributes:
    """One gateway's memory of threads."""

    def __init__(self, settle_ms: int) -> None:
        self._settle_ms = settle_ms
        self._threads: dict[tuple[str, str, str], _Thread] = {}

    def complete(
        self,
        name: str,
        packed: ParsedPayload,
        told: Sequence[TraceUpdate],
        threads_of_calls: Mapping[str, str],
        context: Context,
    ) -> ParsedPayload:
        """*packed* with what is known of its calls' threads, and further reports of earlier calls (rule 2).

        *told*: what this payload of the source *name* says of threads; *threads_of_calls*: record id -> thread's id.
        """
        if not told and not threads_of_calls:
            return packed
        sender = context.counted_key or context.peer
        reports: list[tuple[bytes, bytes]] = []
        for thread_id, said, at_ms in told:
            thread = self._thread(name, sender, thread_id)
            thread.said = _over(thread.said, said)
            reports += self._reports(name, thread, at_ms or context.received_at_ms, context)
        records = list(packed.records)
        for i, record in enumerate(packed.records):
            call = cast("Record", orjson.loads(record))
            thread_id = threads_of_calls.get(call["record_id"], "")
            if thread_id:
                row = packed.rows[i * DIGEST_BYTES : (i + 1) * DIGEST_BYTES]
                records[i] = self._said_of(call, self._thread(name, sender, thread_id), row, context) or record
        return packed._replace(
            items=packed.items + len(reports),
            records=[*records, *(record for record, _ in reports)],
            rows=packed.rows + b"".join(row for _, row in reports),
        )

    def _thread(self, name: str, sender: str, thread_id: str) -> _Thread:
        """The thread, used last from now on."""
        key = (name, sender, thread_id)
        thread = self._threads.pop(key, None) or _Thread()
        self._threads[key] = thread
        forget_oldest(self._threads, MAX_THREADS)
        return thread

    def _said_of(self, call: Record, thread: _Thread, row: bytes, context: Context) -> bytes | None:
        """Rule 1: the completed record; None where nothing is added to it. It is remembered for what may be said yet."""
        attribution = cast("dict[str, Any]", call["attribution"])
        before = orjson.dumps(attribution)
        complete_attribution(attribution, thread.said)
        lacks = frozenset(name for name in _FIELDS if attribution.get(name) is None)
        if lacks and UNFINISHED not in call["flags"]:
            thread.calls.append(_Call(call["record_id"], row, context.received_at_ms, lacks))
        return orjson.dumps(call) if orjson.dumps(attribution) != before else None

    def _reports(self, name: str, thread: _Thread, at_ms: int, context: Context) -> list[tuple[bytes, bytes]]:
        """Rule 2: record and row of each further report."""
        found: list[tuple[bytes, bytes]] = []
        known = {field_name for field_name, value in thread.said.items() if value is not None}
        for _ in range(len(thread.calls)):
            call = thread.calls.popleft()
            if context.received_at_ms - call.received_ms > self._settle_ms:
                continue
            news = call.lacks & known
            thread.calls.append(call._replace(lacks=call.lacks - news))
            if news:
                said = {field_name: thread.said[field_name] for field_name in news}
                found.append((orjson.dumps(_report(name, call, said, at_ms, context)), bare_row(call.row, at_ms)))
        return found


def _over(before: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    labels = {**before.get("labels", {}), **said.get("labels", {})}
    return {**before, **said, **({"labels": labels} if labels else {})}


def _report(name: str, call: _Call, said: dict[str, Any], at_ms: int, context: Context) -> dict[str, Any]:
    """A record of the call that knows nothing but what is *said* of its thread."""
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
