"""The intake of usage events and unit-cost records: read, known again, on disk, answered."""

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import structlog

from gateway.common.contract.errors import BadRecord, StreamInUse, StreamMismatch, StreamUnknown, TooLarge
from gateway.common.contract.event_form import OWN_FORM, EventForm
from gateway.common.contract.intake import Receipt, Sender
from gateway.common.contract.outcomes import Rejection
from gateway.common.contract.unit_cost import MAX_BYTES, Target
from gateway.common.in_thread import in_thread
from gateway.common.plural import plural
from gateway.usage.events.checks import EventRules
from gateway.usage.events.events import Events, at_line
from gateway.usage.events.faults import REMEDIES, event_mismatch_text, mismatch_text, record_mismatch_text
from gateway.usage.events.reading import BodyReader, ReadHere
from gateway.usage.events.unit_cost import BadUnitCost, check_stream, read_shape
from spool.events import FORGET_AT_ONCE, NewEvent, RepeatKey
from spool.store import EventStore, StatusStore
from spool.unit_cost import Metered, Mismatch, StreamState

log = structlog.get_logger()

MAX_SHAPE_BYTES = 16 * 1024
"""Of the shape of a stream, which is read on the event loop."""
ITEMS_HERE = 2_000
"""What a body of more events came to takes milliseconds to go through."""
MAX_EVENTS_BYTES = 16 * 1024 * 1024
"""Of a body of usage events: one call into C over 64 MiB would keep everyone waiting for 0.3 s."""


class Metering:
    def __init__(
        self, store: EventStore, rules: EventRules, *, now_ms: Callable[[], int], reader: BodyReader | None = None
    ) -> None:
        """*now_ms* is the wall clock: times of events and buckets are by it. Without *reader*
        bodies are read in this process.
        """
        self._store = store
        self._rules = rules
        self._reader = reader or ReadHere()
        self._now_ms = now_ms

    async def events(
        self, body: bytes, sender: Sender, *, form: EventForm = OWN_FORM, are_metered: bool = True
    ) -> Receipt:
        """Keep what is sound and new of *body*; each event that is not is reported by its position.
        Raises TooLarge, BadPayload, SpoolError.

        Unless *are_metered*, what does not state its route goes nowhere but to the lane of events.
        """
        if len(body) > MAX_EVENTS_BYTES:
            raise TooLarge(f"the body is larger than {MAX_EVENTS_BYTES} bytes: send the events in several requests")
        rules = self._rules if are_metered else self._rules._replace(route="event")
        events = await self._reader.events(body, form, self._now_ms(), rules, os.urandom(8), sender.key or sender.peer)
        is_long = events.items > ITEMS_HERE
        new, reasons = await in_thread(partial(as_kept, events), is_long=is_long)
        outcomes = await self._store.keep_events(new, reasons)
        return await in_thread(partial(receipt_of, events, outcomes), is_long=is_long)

    async def unit_cost(self, target: Target | None, body: bytes, sender: Sender) -> Receipt:
        """Keep all records of *body* or none; without a *target* each names its stream.

        Raises TooLarge, BadRecord, StreamMismatch, SpoolError.
        """
        if len(body) > MAX_BYTES:
            raise TooLarge(f"the body is larger than {MAX_BYTES} bytes: send the records in several requests")
        records = await self._read(target, body, sender)
        outcome = await self._store.keep_records(records, request_key(target, body, sender))
        if isinstance(outcome, Mismatch):
            raise StreamMismatch(outcome.code, record_mismatch_text(outcome))
        if outcome == "conflict":
            raise StreamMismatch("idempotency_key_reused", REMEDIES["idempotency_key_reused"])
        return Receipt(len(records), (), answer={"duplicate": len(records) if outcome == "duplicate" else 0})

    async def create_stream(self, name: str, body: bytes) -> Receipt:
        """Make the stream with the shape in *body*, unless it is there with that shape.

        Raises TooLarge, BadRecord, StreamInUse, StreamMismatch, SpoolError.
        """
        if len(body) > MAX_SHAPE_BYTES:
            raise TooLarge(f"the body is larger than {MAX_SHAPE_BYTES} bytes: send the shape of the stream alone")
        try:
            check_stream(name)
            shape = read_shape(body, self._rules.more_dimensions)
        except BadUnitCost as error:
            raise BadRecord(error.fault.code, error.fault.message) from error
        made = await self._store.create_stream(name, shape)
        if isinstance(made, Mismatch):
            refused = StreamMismatch if made.code == "too_many_streams" else StreamInUse
            raise refused(made.code, mismatch_text(made))
        return Receipt(1, (), answer={"duplicate": int(made == "exists")})

    async def delete_stream(self, name: str, sender: Sender, *, forced: bool) -> Receipt:
        """Delete the stream with what waits in it. Raises StreamUnknown, StreamInUse,
        StreamMismatch, SpoolError.
        """
        content = b"force" if forced else b""
        outcome = await self._store.delete_stream(
            name, repeat_key_of("delete", name, content=content, sender=sender), forced=forced
        )
        if isinstance(outcome, Mismatch):
            refused = StreamUnknown if outcome.code == "stream_unknown" else StreamInUse
            raise refused(outcome.code, mismatch_text(outcome))
        if outcome == "conflict":
            raise StreamMismatch("idempotency_key_reused", REMEDIES["idempotency_key_reused"])
        return Receipt(1, (), answer={"duplicate": int(outcome == "duplicate")})

    async def streams(self) -> list[StreamState]:
        """The streams in use, by name. Raises SpoolError."""
        return await self._store.streams()

    async def _read(self, target: Target | None, body: bytes, sender: Sender) -> list[Metered]:
        try:
            return await self._reader.records(body, target, self._now_ms(), self._rules, sender.key or sender.peer)
        except BadUnitCost as error:
            fault = error.fault
            if error.records:
                await self._store.note_rejected(error.records, fault.code)
            refused = StreamMismatch if fault.code.startswith("stream_") else BadRecord
            raise refused(fault.code, fault.message) from error

    async def run_maintenance(self, spool: StatusStore, *, window_ms: int, crowded_window_ms: int) -> None:
        """Forget event ids older than *window_ms*; while *spool* is crowded
        also those older than the other.
        """
        now_ms = spool.age_ms()
        while await self._store.forget(now_ms - window_ms) >= FORGET_AT_ONCE:
            pass
        if forgotten := await self.make_room(now_ms - crowded_window_ms, lambda: spool.is_crowded):
            log.warning("the spool is crowded: older event ids are forgotten, and their repeats count", ids=forgotten)

    async def make_room(self, taken_before_ms: int, is_crowded: Callable[[], bool]) -> int:
        """Forget the oldest event ids of before then for as long as
        the spool *is_crowded*; how many.

        Ids alone could fill it, and nothing that is sent would make room for anything.
        """
        forgotten = 0
        while is_crowded() and (some := await self._store.forget(taken_before_ms)):
            forgotten += some
        return forgotten


def as_kept(events: Events) -> tuple[list[NewEvent], Counter[str]]:
    """The sound ones as they are kept, and why the others are rejected."""
    new = [NewEvent(event_key(x.event_id, x.content), x.record, x.metered) for x in events.events]
    return new, Counter(rejection.reason for rejection in events.rejected)


def receipt_of(events: Events, outcomes: Sequence[object]) -> Receipt:
    """*outcomes*: of the sound ones, as they were kept."""
    rejected = [
        *events.rejected,
        *(
            Rejection(
                outcome.code, event.position, at_line(event.line, event_mismatch_text(outcome, is_cloud=event.is_cloud))
            )
            for event, outcome in zip(events.events, outcomes, strict=True)
            if isinstance(outcome, Mismatch)
        ),
    ]
    conflicts = outcomes.count("conflict")
    return Receipt(
        events.items,
        tuple(sorted(rejected, key=number_of)),
        warning=f"{plural(conflicts, 'event carries', 'events carry')} {CONFLICTS}" if conflicts else None,
        answer={"duplicate": outcomes.count("duplicate") + conflicts},
    )


CONFLICTS = "an event_id under which something else was sent before; what came first stands"


def number_of(rejection: Rejection) -> int:
    """Of an event in its request."""
    return int(rejection.position.removeprefix("events[").removesuffix("]"))


def event_key(event_id: str, content: bytes) -> RepeatKey:
    return RepeatKey(hashlib.sha256(b"event\x00" + event_id.encode("utf-8", "replace")).digest()[:16], content[:8])


def request_key(target: Target | None, body: bytes, sender: Sender) -> RepeatKey | None:
    """By which a repeated request is known: its path, its key, and who sent it. None without a key.

    Another gateway's batch is known by its own id: after an answer that was an error it comes under
    another key, and it may have been taken by then, whoever stands between states what.
    """
    return repeat_key_of(*(target or ("post",)), content=body, sender=sender)


def repeat_key_of(*path: str, content: bytes, sender: Sender) -> RepeatKey | None:
    """The same, of what *path* names and of *content*."""
    if sender.batch is not None:
        text = "\x00".join(("unit-cost batch", *path, *sender.batch))
    elif sender.repeat_key is not None:
        text = "\x00".join(("unit-cost", *path, sender.key or "", sender.repeat_key))
    else:
        return None
    return RepeatKey(
        hashlib.sha256(text.encode("utf-8", "replace")).digest()[:16], hashlib.sha256(content).digest()[:8]
    )
