"""The intake over a spool and its ledger: each payload is counted and on disk before its receipt is given."""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

import orjson

from gateway.common.in_thread import in_thread
from gateway.contract.errors import BadPayload, DeviceBlocked, NotFound
from gateway.contract.intake import Receipt, Sender
from gateway.contract.outcomes import Rejection
from gateway.contract.parsed_payload import ParsedPayload
from gateway.contract.unit_cost import Target
from gateway.counting.calls.digest import DIGEST_BYTES
from gateway.devices.intake import DeviceIntake
from gateway.ingest.metrics import POINTS_HERE
from gateway.ingest.parsing.calls import PARSERS
from gateway.ingest.parsing.points import ParsedMetrics, measured_in, read_metrics
from gateway.ingest.parsing.process import WorkerGone
from gateway.ingest.parsing.reader import Reader
from gateway.ingest.parsing.sources import ParsedSource, kind_of, parse_source
from gateway.ingest.settle import Settler
from gateway.ingest.trace_attributes import TraceAttributes
from gateway.normalise.context import NO_MACHINES, Context, Machines, UserPolicy
from gateway.normalise.metrics import sender_of
from gateway.normalise.points import UsagePoints
from gateway.pricing.prices import Prices
from gateway.sources.catalogue import SOURCES
from gateway.sources.records.envelope import index_of, positions_in
from gateway.sources.records.source import NAME as RECORDS
from gateway.sources.source import Source
from gateway.usage_events.intake import Metering
from spool.clock import rfc3339_ms
from spool.record import AI_TELEMETRY
from spool.store import IntakeStore, ItemCounts

OTLP_JSON = re.compile(rb'\s*\{\s*"resource(Spans|Logs|Metrics)"')
"""OTLP/JSON, which a source path takes as well."""

MAX_SCOPES = 1000
"""Unknown scopes that are counted by name."""
PIECE_CALLS = 2000
"""Calls appended at once: a larger payload is cut, in one commit, so that no chunk grows past a few MiB."""

BLOCKED = (
    "the device is blocked: its data is refused until an operator lets it in again (telemetry-gateway devices unblock)"
)

LARGE_SOURCE_BYTES = 1024 * 1024
LARGE_METRICS_BYTES = 256 * 1024
"""Reading such a payload takes some ten milliseconds, too long for the loop."""


class IngestPipeline:
    """The intake over a spool and its ledger."""

    def __init__(
        self,
        spool: IntakeStore,
        counting: Settler,
        *,
        users: UserPolicy,
        prices: Prices,
        metering: Metering,
        now_ms: Callable[[], int],
        reader: Reader | None = None,
        sources: Mapping[str, Source] = SOURCES,
        devices: DeviceIntake | None = None,
        machines: Machines = NO_MACHINES,
        own_device: str | None = None,
    ) -> None:
        """Without *devices* no device is known: one payload is looked at by itself. *own_device*: as `Context` has it."""
        self._spool = spool
        self._counting = counting
        self._users = users
        self._prices = prices
        self._now_ms = now_ms
        self._reader = reader
        self._sources = sources
        self._metering = metering
        self._prefer_metrics = counting.aggregates.settings.prefer_metrics
        self._threads = TraceAttributes(counting.settle_ms)
        self._devices = devices
        self._machines = machines
        self._own_device = own_device
        self.unknown_conventions: Counter[str] = Counter()
        """Scope name -> calls that only the generic table could read."""

    async def traces(self, body: bytes, *, json: bool, sender: Sender) -> Receipt:
        self._spool.admit(len(body))
        context = self._context(sender)
        return await self._keep(await self._packed("traces", body, json, context), context)

    async def logs(self, body: bytes, *, json: bool, sender: Sender) -> Receipt:
        self._spool.admit(len(body))
        context = self._context(sender)
        return await self._keep(await self._packed("logs", body, json, context), context)

    async def _packed(self, kind: str, body: bytes, json: bool, context: Context) -> ParsedPayload:  # noqa: FBT001 passed on
        """The payload, read: by the worker where that pays, else here."""
        if self._reader is not None and self._reader.is_free:
            try:
                packed, unpriced = await self._reader.pack(kind, body, json, context)
            except WorkerGone:
                pass
            else:
                self._note_unpriced(unpriced)
                return packed
        pack = PARSERS[kind]
        return pack(body, json=json, context=context, prices=self._prices, prefer_metrics=self._prefer_metrics)

    def _note_unpriced(self, unpriced: Mapping[str, int]) -> None:
        for model, calls in unpriced.items():
            self._prices.note_unpriced(model, calls)

    async def metrics(self, body: bytes, *, json: bool, sender: Sender) -> Receipt:
        self._spool.admit(len(body))
        context = self._context(sender)
        measured = await self._measured(body, json, context)
        is_admitted = self._devices is None or await self._devices.admit_points(measured)
        await self._counting.aggregates.take(measured, context)
        if not is_admitted:
            raise DeviceBlocked(BLOCKED)
        return Receipt(measured.items, tuple(measured.rejected))

    async def source(self, name: str, body: bytes, *, sender: Sender, first_line: int = 1) -> Receipt:
        self._spool.admit(len(body))
        context = self._context(sender)
        otlp = OTLP_JSON.match(body)
        if otlp is not None:
            receive = {b"Spans": self.traces, b"Logs": self.logs, b"Metrics": self.metrics}[otlp[1]]
            with suppress(BadPayload):  # it may be several export requests, one a line
                return await receive(body, json=True, sender=sender)
        packed = await self._packed_source(kind_of(name, first_line), body, context)
        calls = ParsedPayload._make(packed.calls)
        calls = self._threads.complete(name, calls, packed.threads, packed.threads_of_calls, context)
        receipt = (await self._keep(calls, context, refuse=False))._replace(answer=packed.answer, ignored=calls.ignored)
        if packed.measured is None:
            return receipt
        measured = measured_in(ParsedMetrics._make(packed.measured))
        if self._devices is not None:
            await self._devices.admit_points(measured)
        await self._counting.aggregates.take(measured, context)
        return receipt._replace(
            items=receipt.items + measured.items,
            rejected=(*receipt.rejected, *measured.rejected),
            ignored=receipt.ignored + measured.ignored,
        )

    async def _packed_source(self, kind: str, body: bytes, context: Context) -> ParsedSource:
        """The payload, read as `_packed` does; a large one that is read here is read beside the loop."""
        if self._reader is not None and self._reader.is_free:
            try:
                packed, unpriced = await self._reader.pack_source(kind, body, context)
            except WorkerGone:
                pass
            else:
                self._note_unpriced(unpriced)
                return packed
        read = partial(
            parse_source,
            kind,
            body,
            context=context,
            prices=self._prices,
            prefer_metrics=self._prefer_metrics,
            sources=self._sources,
        )
        return await in_thread(read, is_long=len(body) > LARGE_SOURCE_BYTES)

    async def _measured(self, body: bytes, json: bool, context: Context) -> UsagePoints:  # noqa: FBT001 passed on
        """The payload, read as `_packed` does; a large one that is read here is read beside the loop."""
        if self._reader is not None and self._reader.is_free:
            try:
                packed = await self._reader.pack_metrics(body, json, context)
            except WorkerGone:
                pass
            else:
                return await in_thread(partial(measured_in, packed), is_long=packed.items > POINTS_HERE)
        return await in_thread(
            partial(read_metrics, body, json=json, context=context), is_long=len(body) > LARGE_METRICS_BYTES
        )

    async def forwarded(self, body: bytes, *, sender: Sender) -> Receipt:
        self._spool.admit(len(body))
        context = self._context(sender)
        read = await self._packed_source(kind_of(RECORDS, 1), body, context)
        packed = ParsedPayload._make(read.calls)
        if any(index_of(position) is None for _, position in packed.rejected):
            raise BadPayload('the body must be {"schema": "ai-telemetry/1", "records": […]}')
        receipt = await self._keep(packed, context, refuse=False)
        blocked = receipt.rejected[len(packed.rejected) :]
        if not blocked:
            return receipt
        found = blocked_records(packed.records, body, blocked)
        return receipt._replace(rejected=(*receipt.rejected[: len(packed.rejected)], *found))

    async def events(self, body: bytes, *, sender: Sender, are_metered: bool = True) -> Receipt:
        self._spool.admit(len(body))
        return await self._metering.events(body, are_metered=are_metered)

    async def unit_cost(self, target: Target, body: bytes, *, sender: Sender) -> Receipt:
        self._spool.admit(len(body))
        return await self._metering.unit_cost(target, body, sender)

    async def heartbeat(self, device_id: str, body: bytes, *, sender: Sender, enrolls: bool = True) -> Receipt:
        return await self._known_devices.heartbeat(device_id, body, enrolls=enrolls)

    async def ping(self, device_id: str, body: bytes, *, sender: Sender, enrolls: bool = True) -> Receipt:
        return await self._known_devices.ping(device_id, body, enrolls=enrolls)

    async def enroll(self, body: bytes, *, sender: Sender) -> Receipt:
        return await self._known_devices.enroll(body)

    @property
    def _known_devices(self) -> DeviceIntake:
        if self._devices is None:
            raise NotFound("devices are not kept here")
        return self._devices

    def _context(self, sender: Sender) -> Context:
        now_ms = self._now_ms()
        context = Context(
            now_ms,
            rfc3339_ms(now_ms),
            key=sender.key,
            users=self._users,
            peer=sender.peer,
            machines=self._machines,
            own_device=self._own_device,
        )
        if sender.counted_as is not None:
            context = context._replace(counted_as=sender.counted_as)
        return context._replace(key_fixes=dict(sender.fixes)) if sender.fixes else context

    async def _keep(self, packed: ParsedPayload, context: Context, *, refuse: bool = True) -> Receipt:
        """Count, append, and wait for the disk. Raises DeviceBlocked where a blocked device sent all of it, unless told not to *refuse*."""
        had_calls = bool(packed.records)
        if self._devices is not None:
            packed = await self._devices.admitted(packed)
        for scope, calls in packed.unknown_conventions.items():
            if scope in self.unknown_conventions or len(self.unknown_conventions) < MAX_SCOPES:
                self.unknown_conventions[scope] += calls
        tally = ItemCounts(
            received=packed.items,
            suppressed=sum(packed.suppressed.values()),
            rejected=len(packed.rejected),
            ignored=packed.ignored,
        )
        if packed.suppressed:
            tally.reasons.update({f"suppressed.{reason}": n for reason, n in packed.suppressed.items()})
        for reason, _ in packed.rejected:
            name = f"rejected.{reason}"
            tally.reasons[name] = tally.reasons.get(name, 0) + 1
        await self._append(packed, tally, context)
        self._counting.counted()
        if refuse and had_calls and not packed.records:
            raise DeviceBlocked(BLOCKED)
        return Receipt(packed.items, tuple(Rejection(*x) for x in packed.rejected))

    async def _append(self, packed: ParsedPayload, tally: ItemCounts, context: Context) -> None:
        """Count and append in one turn, so that all of a payload is in one commit; wait for that."""
        waiting: list[Awaitable[None]] = []
        try:
            with self._spool.reserve():
                waiting.append(self._append_piece(*piece_of(packed, 0), tally, packed.links))
                waiting.extend(
                    self._append_piece(*piece_of(packed, start), ItemCounts(), b"")
                    for start in range(PIECE_CALLS, len(packed.records), PIECE_CALLS)
                )
                aggregates = self._counting.aggregates
                noted = aggregates.note_used(packed.used, sender_of(context), self._counting.now_ms())
                if noted is not None:
                    waiting.append(noted)
        except BaseException:
            # The ledger may know calls that the spool does not: their resend must not be taken for a duplicate.
            self._counting.distrust()
            raise
        await (waiting[0] if len(waiting) == 1 else asyncio.gather(*waiting))

    def _append_piece(self, records: list[bytes], rows: bytes, tally: ItemCounts, links: bytes) -> Awaitable[None]:
        seq, first = self._spool.position(AI_TELEMETRY)
        counted = self._counting.ledger.count_rows(rows, links, seq, first, self._counting.now_ms())
        duplicates = counted.duplicates
        if duplicates:
            records = [record for i, record in enumerate(records) if i not in duplicates]
            tally.reasons["duplicate.same_span"] = len(duplicates)
            tally.duplicate = len(duplicates)
        tally.kept = len(records)
        return self._spool.append(AI_TELEMETRY, records, tally, facts=counted.facts, links=counted.links)


def blocked_records(records: Sequence[bytes], body: bytes, blocked: Iterable[Rejection]) -> Iterator[Rejection]:
    """*blocked*, which names calls among *records*, with the place of each in the envelope *body* instead."""
    positions = positions_in(body)
    for rejection in blocked:
        number = int(rejection.position.removeprefix("calls[").removesuffix("]"))
        record_id = orjson.loads(records[number])["record_id"]
        yield rejection._replace(position=positions[record_id].pop(0))


def piece_of(packed: ParsedPayload, start: int) -> tuple[list[bytes], bytes]:
    """The records from *start* on that go into one append, and their rows."""
    stop = start + PIECE_CALLS
    return packed.records[start:stop], packed.rows[start * DIGEST_BYTES : stop * DIGEST_BYTES]
