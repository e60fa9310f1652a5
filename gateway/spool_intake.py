"""The intake over a spool and its ledger: each payload is counted and on disk before its receipt is given."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from gateway.decode.events import decode_events
from gateway.decode.heartbeat import decode_heartbeat
from gateway.decode.otlp_json import decode_logs_json, decode_metrics_json, decode_traces_json
from gateway.decode.otlp_protobuf import decode_logs, decode_metrics, decode_traces
from gateway.intake import Receipt, Sender
from gateway.normalise.call import Call, Normalised
from gateway.normalise.context import Context, UserPolicy
from gateway.normalise.device import enrolment_record, heartbeat_record
from gateway.normalise.logs import normalise_logs
from gateway.normalise.metrics import normalise_metrics
from gateway.normalise.record import record_json
from gateway.normalise.traces import normalise_traces
from gateway.pricing.prices import Prices
from gateway.settling import Counting
from spool.clock import rfc3339_ms
from spool.record import AI_TELEMETRY, DEVICES, USAGE_EVENTS
from spool.sqlite.spool import SqliteSpool
from spool.store import Tally

PIECE_CALLS = 2000
"""Calls appended at once: a larger payload is cut, in one commit, so that no chunk grows past a few MiB."""


class SpoolIntake:
    """The intake over a spool and its ledger."""

    def __init__(
        self,
        spool: SqliteSpool,
        counting: Counting,
        *,
        users: UserPolicy,
        prices: Prices,
        now_ms: Callable[[], int],
    ) -> None:
        self._spool = spool
        self._counting = counting
        self._users = users
        self._prices = prices
        self._now_ms = now_ms
        self._devices: set[str] = set()
        """Devices whose enrolment is on disk; after a restart it is asked for again, under the same enrolment id."""
        self.unknown_conventions: Counter[str] = Counter()
        """Scope name -> calls that only the generic table could read."""

    async def traces(self, body: bytes, *, json: bool, sender: Sender) -> Receipt:
        self._spool.admit(len(body))
        traces = decode_traces_json(body) if json else decode_traces(body)
        return await self._keep(normalise_traces(traces, self._context(sender)))

    async def logs(self, body: bytes, *, json: bool, sender: Sender) -> Receipt:
        self._spool.admit(len(body))
        logs = decode_logs_json(body) if json else decode_logs(body)
        return await self._keep(normalise_logs(logs, self._context(sender)))

    async def metrics(self, body: bytes, *, json: bool, sender: Sender) -> Receipt:
        self._spool.admit(len(body))
        metrics = decode_metrics_json(body) if json else decode_metrics(body)
        return await self._keep(normalise_metrics(metrics, self._context(sender)))

    async def events(self, body: bytes, *, sender: Sender) -> Receipt:
        self._spool.admit(len(body))
        events = decode_events(body, self._now_ms())
        tally = Tally(received=events.items, kept=len(events.records), rejected=len(events.rejected))
        await self._spool.append(USAGE_EVENTS, events.records, tally)
        return Receipt(events.items, tuple(events.rejected))

    async def heartbeat(self, device_id: str, body: bytes, *, sender: Sender) -> Receipt:
        self._spool.admit(len(body))
        beat, now_ms = decode_heartbeat(body), self._now_ms()
        records = [heartbeat_record(device_id, beat, self._spool.gateway_id, now_ms)]
        if device_id not in self._devices:
            records.insert(0, enrolment_record(device_id, beat, self._spool.gateway_id, now_ms))
        await self._spool.append(DEVICES, records, Tally(received=len(records), kept=len(records)))
        self._devices.add(device_id)
        return Receipt(1, ())

    def forget_device(self, device_id: str) -> None:
        """The service does not know it any more: enrol it again at its next heartbeat."""
        self._devices.discard(device_id)

    def _context(self, sender: Sender) -> Context:
        now_ms = self._now_ms()
        return Context(now_ms, rfc3339_ms(now_ms), key=sender.key, users=self._users)

    async def _keep(self, normalised: Normalised) -> Receipt:
        """Count, append, and wait for the disk."""
        if normalised.unknown_conventions:
            self.unknown_conventions += normalised.unknown_conventions
        price = self._prices.price
        for call in normalised.calls:
            price(call.record, call.start_ms)
        records = [record_json(call.record) for call in normalised.calls]
        tally = Tally(
            received=normalised.items,
            suppressed=normalised.suppressed.total(),
            rejected=len(normalised.rejected),
            ignored=normalised.ignored,
        )
        if normalised.suppressed:
            tally.reasons.update({f"suppressed.{reason}": n for reason, n in normalised.suppressed.items()})
        for rejection in normalised.rejected:
            name = f"rejected.{rejection.reason}"
            tally.reasons[name] = tally.reasons.get(name, 0) + 1
        await self._append(normalised, records, tally)
        self._counting.counted()
        return Receipt(normalised.items, tuple(normalised.rejected))

    async def _append(self, normalised: Normalised, records: list[bytes], tally: Tally) -> None:
        """Count and append in one turn, so that all of a payload is in one commit; wait for that."""
        calls = normalised.calls
        waiting: list[Awaitable[None]] = []
        try:
            with self._spool.turn():
                waiting.append(self._append_piece(calls[:PIECE_CALLS], records[:PIECE_CALLS], tally, normalised.links))
                for start in range(PIECE_CALLS, len(calls), PIECE_CALLS):
                    piece = slice(start, start + PIECE_CALLS)
                    waiting.append(self._append_piece(calls[piece], records[piece], Tally(), ()))
        except BaseException:
            # The ledger may know calls that the spool does not: their resend must not be taken for a duplicate.
            self._counting.distrust()
            raise
        for commit in waiting:
            await commit

    def _append_piece(
        self, calls: Sequence[Call], records: list[bytes], tally: Tally, links: Sequence[bytes]
    ) -> Awaitable[None]:
        seq, first = self._spool.position(AI_TELEMETRY)
        counted = self._counting.ledger.count(calls, links, seq, first, self._now_ms())
        duplicates = counted.duplicates
        if duplicates:
            records = [record for i, record in enumerate(records) if i not in duplicates]
            tally.reasons["duplicate.same_span"] = len(duplicates)
            tally.duplicate = len(duplicates)
        tally.kept = len(records)
        return self._spool.append(AI_TELEMETRY, records, tally, facts=counted.facts, links=counted.links)
