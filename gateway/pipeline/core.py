"""The core of a gateway: reports get their numbers, are counted, appended, and settle later.

What comes here was read, priced and admitted by a front. Nothing of a sender's answer depends on
what is decided here, but for calls that were reported before: where one is counted, one core
counts.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from time import perf_counter
from typing import Final, NamedTuple

from gateway.common.contract.parsed_payload import ParsedPayload
from gateway.common.futures import failure_of
from gateway.counting.calls.digest import DIGEST_BYTES, TRACE_ID_BYTES, call_ref
from gateway.fleet.devices.attribution import attribute_calls
from gateway.observability.telemetry.tracer import Tracer
from gateway.pipeline.parsing.parse import Parsed
from gateway.pipeline.settle import Settler
from gateway.pipeline.trace_attributes import TraceAttributes
from gateway.rules.context import Context
from gateway.rules.metrics import sender_of
from spool.histogram import ANSWER_S, Histogram
from spool.record import AI_TELEMETRY
from spool.store import AppendStore, ItemCounts

PIECE_CALLS: Final = 500
"""Calls that are counted and appended at once: a larger payload is cut, so that others have their
turn and no chunk grows past a few MiB."""


class Kept(NamedTuple):
    """A payload that is on disk."""

    parsed: Parsed
    """As it was counted: with what is known of its traces."""
    repeats: Sequence[bytes]
    """Records of calls that were reported before."""


class Counting(NamedTuple):
    """A payload that is counted, and on its way to the disk."""

    kept: "asyncio.Future[object]"
    """Done when all of it is on disk, or with SpoolError."""
    repeats: Sequence[bytes]
    """As in `Kept`."""


class Core:
    """Used on the event loop's thread."""

    def __init__(self, spool: AppendStore, settler: Settler) -> None:
        self._spool = spool
        self._settler = settler
        self._trace_attributes = TraceAttributes(settler.settle_ms)
        self.tracer: Tracer | None = None
        self.append_seconds = Histogram(ANSWER_S)
        """Of each payload, from its count to the end of its last commit."""

    def admit_metrics(self, context: Context) -> None:
        """Raises OverQuota for a sender of too many series."""
        self._settler.aggregates.admit(sender_of(context))

    async def take(self, kind: str, parsed: Parsed, context: Context) -> Kept:
        """Count *parsed*, a payload of that *kind*, and keep it: on disk when this returns. Raises
        SpoolError.
        """
        if parsed.names_traces:
            parsed = await self._with_traces(kind, parsed, context)
        began_s = perf_counter()
        repeats: list[bytes] = []
        if parsed.calls is not None:
            await self._append(parsed.calls, context, repeats)
            self._counted(parsed.calls)
        if parsed.points is not None:
            await self._settler.aggregates.take(parsed.points, context)
            if parsed.points.points:
                services = {said.get("service_name") for said in parsed.points.attributions}
                self._settler.coverage.see_usage(services, self._settler.now_ms())
        self.append_seconds.observe(perf_counter() - began_s)
        return Kept(parsed, repeats)

    def takes_at_once(self, calls: ParsedPayload) -> bool:
        """Whether one commit is enough for *calls*, and no one asks for their positions."""
        return self.tracer is None and len(calls.records) <= PIECE_CALLS

    def take_at_once(self, calls: ParsedPayload, context: Context, payloads: int) -> Counting:
        """`take` of *calls* that `takes_at_once`, of so many *payloads*. Raises SpoolError."""
        began_s = perf_counter()
        repeats: list[bytes] = []
        kept = asyncio.ensure_future(all_of(self._append_first(calls, context, self._settler.now_ms(), repeats)))

        def note(done: "asyncio.Future[object]") -> None:
            if failure_of(done) is None:
                self._counted(calls)
                self.append_seconds.observe(perf_counter() - began_s, payloads)

        kept.add_done_callback(note)
        return Counting(kept, repeats)

    async def _with_traces(self, kind: str, parsed: Parsed, context: Context) -> Parsed:
        """*parsed* with what is stated of its traces, and behind that what its devices state."""
        parsed = await self._trace_attributes.complete(kind, parsed, context)
        if parsed.calls is None or not parsed.labels:
            return parsed
        return parsed._replace(calls=attribute_calls(parsed.calls, parsed.labels, context))

    def _counted(self, calls: ParsedPayload) -> None:
        """Note who reports AI spans, and who calls."""
        self._settler.counted()
        coverage, now_ms = self._settler.coverage, self._settler.now_ms()
        if calls.used:
            coverage.see_usage({used[0] for used in calls.used}, now_ms)
        if calls.ai_spans:
            coverage.see_ai_spans(calls.ai_spans, now_ms)
        if calls.rows and coverage.watches_traces:
            coverage.see_calls(calls.rows[at : at + TRACE_ID_BYTES] for at in range(0, len(calls.rows), DIGEST_BYTES))

    async def _append(self, calls: ParsedPayload, context: Context, repeats: list[bytes]) -> None:
        """Count and append, and wait until all is on disk.

        Other requests have their turn between two pieces, so a payload of several may be in several
        commits; where one fails the sender sends all again, and what was kept is a duplicate.
        """
        now_ms, began_s = self._settler.now_ms(), perf_counter()
        if self.takes_at_once(calls):  # the common request: no one asks for its position
            await all_of(self._append_first(calls, context, now_ms, repeats))
            return
        position = self._spool.position(AI_TELEMETRY)
        waiting = self._append_first(calls, context, now_ms, repeats)
        if len(calls.records) > PIECE_CALLS:
            await self._append_rest(calls, now_ms, call_ref(*position), waiting, repeats)
        await all_of(waiting)
        if self.tracer is not None:
            self.tracer.appended(position[0], calls.records, began_s)

    async def _append_rest(
        self, calls: ParsedPayload, now_ms: int, first: int, waiting: list[Awaitable[None]], repeats: list[bytes]
    ) -> None:
        """Append all pieces but the first, which is *waiting*; *first*: the reference of its first
        call.
        """
        try:
            with self._settler.counting(first):
                for start in range(PIECE_CALLS, len(calls.records), PIECE_CALLS):
                    await asyncio.sleep(0)
                    records, rows = piece_of(calls, start)
                    counts = ItemCounts(received=len(records))
                    waiting.append(self._append_piece(records, rows, counts, b"", now_ms, repeats))
        except BaseException:
            for appended in waiting:  # no one waits for them any more
                asyncio.ensure_future(appended).add_done_callback(_overlook)
            raise

    def _append_first(
        self, calls: ParsedPayload, context: Context, now_ms: int, repeats: list[bytes]
    ) -> list[Awaitable[None]]:
        """Append the first piece, with what is to be written beside the calls, in one commit."""
        counts = counts_of(calls)
        counts.received -= max(0, len(calls.records) - PIECE_CALLS)
        with self._spool.reserve():
            appended = self._append_piece(*piece_of(calls, 0), counts, calls.links, now_ms, repeats)
            first = asyncio.ensure_future(appended)
            if calls.bearers:
                self._settler.ledger.bear(calls.bearers)
            noted = self._settler.aggregates.note_used(
                calls.used, sender_of(context), now_ms, calls.forwarded, kept=first
            )
        return [first] if noted is None else [first, noted]

    def _append_piece(
        self, records: list[bytes], rows: bytes, counts: ItemCounts, links: bytes, now_ms: int, repeats: list[bytes]
    ) -> Awaitable[None]:
        with self._spool.reserve():
            seq, first = self._spool.position(AI_TELEMETRY)
            try:
                counted = self._settler.ledger.count_rows(rows, links, seq, first, now_ms)
                duplicates = counted.duplicates
                if duplicates:
                    repeats.extend(records[i] for i in duplicates)
                    records = [record for i, record in enumerate(records) if i not in duplicates]
                    counts.reasons["duplicate.same_span"] = len(duplicates)
                    counts.duplicate = len(duplicates)
                counts.kept = len(records)
                return self._spool.append(AI_TELEMETRY, records, counts, facts=counted.facts, links=counted.links)
            except BaseException:
                # The ledger may know calls that the spool does not: their resend must not be taken
                # for a duplicate.
                self._settler.distrust()
                raise


def all_of(waiting: Sequence[Awaitable[None]]) -> Awaitable[object]:
    """To be awaited for all of them."""
    return waiting[0] if len(waiting) == 1 else asyncio.gather(*waiting)


def _overlook(appended: "asyncio.Future[None]") -> None:
    """Its error is that of the piece that was reported."""
    failure_of(appended)


def counts_of(calls: ParsedPayload) -> ItemCounts:
    """The items that are decided before counting."""
    counts = ItemCounts(
        received=calls.items,
        suppressed=sum(calls.suppressed.values()),
        rejected=len(calls.rejected),
        ignored=calls.ignored,
    )
    if calls.suppressed:
        counts.reasons.update({f"suppressed.{reason}": n for reason, n in calls.suppressed.items()})
    for reason, _ in calls.rejected:
        name = f"rejected.{reason}"
        counts.reasons[name] = counts.reasons.get(name, 0) + 1
    return counts


def piece_of(calls: ParsedPayload, start: int) -> tuple[list[bytes], bytes]:
    """The records from *start* on that go into one append, and their rows."""
    stop = start + PIECE_CALLS
    if start == 0 and stop >= len(calls.records):
        return calls.records, calls.rows
    return calls.records[start:stop], calls.rows[start * DIGEST_BYTES : stop * DIGEST_BYTES]
