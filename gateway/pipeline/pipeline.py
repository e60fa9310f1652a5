"""The way of a payload of telemetry: parse, admit, count, append.

It ends when the commit is on disk.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Final, NamedTuple

from gateway.common.contract.errors import DeviceBlocked
from gateway.common.contract.intake import Receipt, Sender, TakenTogether
from gateway.common.contract.outcomes import Rejection
from gateway.common.contract.parsed_payload import ParsedPayload
from gateway.common.futures import failure_of
from gateway.counting.calls.digest import DIGEST_BYTES, TRACE_ID_BYTES, call_ref
from gateway.fleet.devices.intake import DeviceIntake
from gateway.fleet.senders.repeats import sent_once
from gateway.observability.telemetry.tracer import Tracer
from gateway.pipeline.parsing.parse import Parsed, Payload
from gateway.pipeline.parsing.parser import Parser
from gateway.pipeline.settle import Settler
from gateway.pipeline.trace_attributes import TraceAttributes
from gateway.rules.context import Context
from gateway.rules.metrics import sender_of
from spool.clock import rfc3339_ms
from spool.errors import SpoolError
from spool.histogram import ANSWER_S, Histogram
from spool.record import AI_TELEMETRY
from spool.store import IntakeStore, ItemCounts

PIECE_CALLS: Final = 500
"""Calls that are counted and appended at once: a larger payload is cut, so that others have their
turn and no chunk grows past a few MiB."""
REFUSED_WHOLE: Final = frozenset({"traces", "logs", "metrics"})
"""Kinds whose answer has no other way to name a blocked device than to refuse the request. Not so
what another gateway states, which has records of others to send."""
BLOCKED: Final = (
    "the device is blocked: its data is refused until an operator lets it in again (telemetry-gateway devices unblock)"
)


class Taken(NamedTuple):
    """A payload that is on disk."""

    parsed: Parsed
    admitted: Parsed
    """*parsed* without what blocked devices sent; its rejections name that."""
    repeats: Sequence[bytes] = ()
    """Records of calls that were reported before."""

    @property
    def receipt(self) -> Receipt:
        """How many items were taken, ignored and rejected, and what else the answer states."""
        calls, points, *_ = self.admitted
        items = ignored = 0
        rejected: list[Rejection] = []
        if calls is not None:
            items, ignored = calls.items, calls.ignored
            rejected += [Rejection(*x) for x in calls.rejected]
        if points is not None:
            items, ignored = items + points.items, ignored + points.ignored
            rejected += points.rejected
        return Receipt(items, tuple(rejected), answer=self.admitted.answer, ignored=ignored)


class IngestPipeline:
    def __init__(
        self,
        spool: IntakeStore,
        settler: Settler,
        parser: Parser,
        *,
        now_ms: Callable[[], int],
        context: Context | None = None,
        devices: DeviceIntake | None = None,
    ) -> None:
        """*context*: what is the same for all payloads.

        Without *devices* none is known and each is admitted.
        """
        self._spool = spool
        self._settler = settler
        self.parser = parser
        self._now_ms = now_ms
        self._base = context or Context(0, "")
        self._devices = devices
        self.tracer: Tracer | None = None
        self.append_seconds = Histogram(ANSWER_S)
        """Of each payload, from its count to the end of its last commit."""
        self._trace_attributes = TraceAttributes(settler.settle_ms)

    async def take(self, payload: Payload, sender: Sender) -> Taken:
        """Raises BadPayload, TooLarge, OverQuota, DeviceBlocked, SpoolError; DatabaseUnavailable
        where a device must be written first.
        """
        self._spool.admit(len(payload.body))
        context = self.context_of(sender)
        if payload.kind == "metrics":
            self._settler.aggregates.admit(sender_of(context))
        parsed = await self.parser.parse(payload, context)
        if parsed.trace_updates or parsed.traces_of_calls:
            parsed = await self._trace_attributes.complete(payload.kind, parsed, context)
        had_usage = parsed.has_usage
        await _turn_behind(parsed)
        admitted = await self._admit(parsed, context)
        await _turn_behind(parsed)
        began_s = perf_counter()
        repeats: list[bytes] = []
        await self._count_and_append(admitted, context, repeats)
        self.append_seconds.observe(perf_counter() - began_s)
        if payload.kind in REFUSED_WHOLE and had_usage and not admitted.has_usage and not parsed.is_stated:
            raise DeviceBlocked(BLOCKED)
        return Taken(parsed, admitted, repeats)

    def take_together(self, bodies: Sequence[bytes], sender: Sender) -> TakenTogether | None:
        """`take` of several payloads of spans in protobuf, where nothing but their commit is to be
        waited for: one commit for all. None, with nothing done, where each is to be taken by
        itself. Raises SpoolError.
        """
        if self.tracer is not None:
            return None
        try:
            self._spool.admit(sum(map(len, bodies)))
        except SpoolError:  # one of them may still be small enough
            return None
        context, reader = self.context_of(sender), self.parser.reader
        read = reader.read_together(bodies, context)
        if read is None or len(read.left) == len(bodies) or len(read.calls.records) > PIECE_CALLS:
            return None
        calls = read.calls if self._devices is None else self._devices.admitted_at_once(read.calls, context)
        if calls is None:
            return None
        reader.note_together(read)
        began_s = perf_counter()
        repeats: list[bytes] = []
        kept = asyncio.ensure_future(all_of(self._append_first(calls, context, self._settler.now_ms(), repeats)))

        def note(done: "asyncio.Future[object]") -> None:
            if failure_of(done) is None:
                self._settler.counted()
                self._see(calls)
                self.append_seconds.observe(perf_counter() - began_s, len(bodies) - len(read.left))

        kept.add_done_callback(note)
        receipt = Receipt(calls.items, (), format="otlp.traces", sent=sent_once(read.sent, repeats))
        return TakenTogether(kept, read.left, receipt)

    def context_of(self, sender: Sender) -> Context:
        """What normalisers get besides the payload of *sender*."""
        now_ms, base = self._now_ms(), self._base
        return Context(
            now_ms,
            rfc3339_ms(now_ms),
            sender.key,
            base.counted_as if sender.counted_as is None else sender.counted_as,
            base.device_id,
            dict(sender.fixes) if sender.fixes else base.key_fixes,
            base.users,
            sender.peer,
            base.machines,
            base.own_device,
            base.limits,
        )

    async def _admit(self, parsed: Parsed, context: Context) -> Parsed:
        """*parsed* without the items of blocked devices, attributed by its devices; new
        devices are on disk then.
        """
        if self._devices is None:
            return parsed
        if parsed.points is not None:
            await self._devices.admit_points(parsed.points, context)
        if parsed.calls is None:
            return parsed
        calls = await self._devices.admitted(parsed.calls, context)
        return parsed if calls is parsed.calls else parsed._replace(calls=calls)

    async def _count_and_append(self, parsed: Parsed, context: Context, repeats: list[bytes]) -> None:
        """*repeats* gets the records of calls that were reported before."""
        if parsed.calls is not None:
            await self._append(parsed.calls, context, repeats)
            self._settler.counted()
            self._see(parsed.calls)
        if parsed.points is not None:
            await self._settler.aggregates.take(parsed.points, context)
            if parsed.points.points:
                services = {said.get("service_name") for said in parsed.points.attributions}
                self._settler.coverage.see_usage(services, self._settler.now_ms())

    def _see(self, calls: ParsedPayload) -> None:
        """Note who reports AI spans, and who calls."""
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
        if (
            len(calls.records) <= PIECE_CALLS and self.tracer is None
        ):  # the common request: no one asks for its position
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
            first = self._append_piece(*piece_of(calls, 0), counts, calls.links, now_ms, repeats)
            if calls.bearers:
                self._settler.ledger.bear(calls.bearers)
            noted = self._settler.aggregates.note_used(calls.used, sender_of(context), now_ms, calls.forwarded)
        return [first] if noted is None else [first, noted]

    def _append_piece(
        self, records: list[bytes], rows: bytes, counts: ItemCounts, links: bytes, now_ms: int, repeats: list[bytes]
    ) -> Awaitable[None]:
        try:
            with self._spool.reserve():
                seq, first = self._spool.position(AI_TELEMETRY)
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
            # The ledger may know calls that the spool does not: their resend must not be taken for
            # a duplicate.
            self._settler.distrust()
            raise


async def _turn_behind(parsed: Parsed) -> None:
    """Give others their turn where each step takes milliseconds."""
    if parsed.calls is not None and len(parsed.calls.records) > PIECE_CALLS:
        await asyncio.sleep(0)


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
