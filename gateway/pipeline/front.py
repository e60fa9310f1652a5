"""The front of a gateway: what a payload takes before it is counted. It is read, priced, and what
blocked devices sent is left out; then the core counts and keeps it.

Nothing here knows other payloads, so there may be many fronts to one core.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from gateway.common.contract.errors import DeviceBlocked
from gateway.common.contract.intake import Receipt, Sender, TakenTogether
from gateway.common.contract.outcomes import Rejection
from gateway.common.contract.parsed_payload import ParsedPayload
from gateway.fleet.devices.attribution import Labels, attribute_calls
from gateway.fleet.senders.repeats import sent_once
from gateway.observability.telemetry.tracer import Tracer
from gateway.pipeline.core import PIECE_CALLS, Counting, Kept
from gateway.pipeline.parsing.parse import Parsed, Payload
from gateway.pipeline.parsing.parser import Parser
from gateway.rules.context import Context
from gateway.rules.points import UsagePoints
from spool.clock import rfc3339_ms
from spool.errors import SpoolError
from spool.histogram import Histogram
from spool.store import IntakeStore

REFUSED_WHOLE: Final = frozenset({"traces", "logs", "metrics"})
"""Kinds whose answer has no other way to name a blocked device than to refuse the request. Not so
what another gateway states, which has records of others to send."""
BLOCKED: Final = (
    "the device is blocked: its data is refused until an operator lets it in again (telemetry-gateway devices unblock)"
)


class ParsedIntake(Protocol):
    """What keeps the payloads that a front read: the core of this process, or the journal of a
    cell, from where another process' core takes them.
    """

    tracer: Tracer | None
    append_seconds: Histogram
    """As `Core` has it."""

    def admit_metrics(self, context: Context) -> None:
        """Raises OverQuota for a sender of too many series."""

    async def take(self, kind: str, parsed: Parsed, context: Context) -> Kept:
        """Keep *parsed*, a payload of that *kind*: on disk when this returns. Raises SpoolError."""

    def takes_at_once(self, calls: ParsedPayload) -> bool:
        """Whether one commit is enough for *calls*, and no one asks for their positions."""

    def take_at_once(self, calls: ParsedPayload, context: Context, payloads: int) -> Counting:
        """`take` of *calls* that `takes_at_once`, of so many *payloads*. Raises SpoolError."""


class DeviceGate(Protocol):
    """Leaves out what blocked devices sent."""

    async def admitted(self, packed: ParsedPayload) -> tuple[ParsedPayload, Mapping[str, Labels]]:
        """*packed* without the calls of blocked devices, and the labels of its devices. Raises
        DatabaseUnavailable where a new device must be written first.
        """

    def labels_at_once(self, packed: ParsedPayload) -> Mapping[str, Labels] | None:
        """The labels of the devices in *packed*; None where they must be waited for, or one is
        blocked.
        """

    async def admit_points(self, measured: UsagePoints, context: Context) -> bool:
        """The same for usage points, in place; False when none is left of those that there were.
        Raises DatabaseUnavailable.
        """


class Taken(NamedTuple):
    """A payload that is on disk."""

    parsed: Parsed
    admitted: Parsed
    """*parsed* without what blocked devices sent, which its rejections name, and with what is
    known of its traces."""
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


class Front:
    def __init__(
        self,
        spool: IntakeStore,
        core: ParsedIntake,
        parser: Parser,
        *,
        now_ms: Callable[[], int],
        context: Context | None = None,
        devices: DeviceGate | None = None,
    ) -> None:
        """*context*: what is the same for all payloads.

        Without *devices* none is known and each is admitted.
        """
        self._spool = spool
        self.core = core
        self.parser = parser
        self._now_ms = now_ms
        self.base = context or Context(0, "")
        """What is the same for all payloads."""
        self._devices = devices

    async def put(self, payload: Payload, sender: Sender) -> Taken:
        """On disk when this returns.

        Raises BadPayload, TooLarge, OverQuota, DeviceBlocked, SpoolError; DatabaseUnavailable
        where a device must be written first.
        """
        self._spool.admit(len(payload.body))
        context = self.context_of(sender)
        if payload.kind == "metrics":
            self.core.admit_metrics(context)
        parsed = await self.parser.parse(payload, context)
        had_usage = parsed.has_usage
        await _turn_behind(parsed)
        admitted = await self.admitted(parsed, context)
        await _turn_behind(parsed)
        kept = await self.core.take(payload.kind, admitted, context)
        if payload.kind in REFUSED_WHOLE and had_usage and not admitted.has_usage and not parsed.is_stated:
            raise DeviceBlocked(BLOCKED)
        return Taken(parsed, *kept)

    def put_together(self, bodies: Sequence[bytes], sender: Sender) -> TakenTogether | None:
        """`put` of several payloads of spans in protobuf, where nothing but their commit is to be
        waited for: one commit for all. None, with nothing done, where each is to be taken by
        itself. Raises SpoolError.
        """
        try:
            self._spool.admit(sum(map(len, bodies)))
        except SpoolError:  # one of them may still be small enough
            return None
        context, reader = self.context_of(sender), self.parser.reader
        read = reader.read_together(bodies, context)
        if read is None or len(read.left) == len(bodies) or not self.core.takes_at_once(read.calls):
            return None
        calls = self._admitted_at_once(read.calls, context)
        if calls is None:
            return None
        reader.note_together(read)
        counting = self.core.take_at_once(calls, context, len(bodies) - len(read.left))
        receipt = Receipt(calls.items, (), format="otlp.traces", sent=sent_once(read.sent, counting.repeats))
        return TakenTogether(counting.kept, read.left, receipt)

    def context_of(self, sender: Sender) -> Context:
        """What normalisers get besides the payload of *sender*."""
        now_ms, base = self._now_ms(), self.base
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
            base.tags,
        )

    async def admitted(self, parsed: Parsed, context: Context) -> Parsed:
        """*parsed* without the items of blocked devices, attributed by its devices; new
        devices are on disk then.
        """
        if self._devices is None:
            return parsed
        if parsed.points is not None:
            await self._devices.admit_points(parsed.points, context)
        if parsed.calls is None:
            return parsed
        calls, labels = await self._devices.admitted(parsed.calls)
        if parsed.names_traces:
            return parsed._replace(calls=calls, labels=labels)
        calls = _attributed(calls, labels, context)
        return parsed if calls is parsed.calls else parsed._replace(calls=calls)

    def _admitted_at_once(self, calls: ParsedPayload, context: Context) -> ParsedPayload | None:
        """`admitted` of *calls*, where each device is known and none is blocked; None where one is
        not.
        """
        if self._devices is None:
            return calls
        labels = self._devices.labels_at_once(calls)
        return None if labels is None else _attributed(calls, labels, context)


def _attributed(calls: ParsedPayload, labels: Mapping[str, Labels], context: Context) -> ParsedPayload:
    return attribute_calls(calls, labels, context) if labels else calls


async def _turn_behind(parsed: Parsed) -> None:
    """Give others their turn where each step takes milliseconds."""
    if parsed.calls is not None and len(parsed.calls.records) > PIECE_CALLS:
        await asyncio.sleep(0)
