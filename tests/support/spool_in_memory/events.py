"""`spool.store.EventStore` in memory: what a request adds is kept in one commit with the keys by
which its repeat is known.
"""

from collections import Counter
from collections.abc import Sequence

from spool.events import FORGET_AT_ONCE, EventOutcome, IntakeOutcome, NewEvent, RepeatKey
from spool.record import UNIT_COST, USAGE_EVENTS
from spool.store import ItemCounts
from spool.unit_cost import (
    CREATE_STREAM,
    Created,
    Metered,
    Mismatch,
    Rules,
    Shape,
    StreamState,
    mismatch,
)
from tests.support.spool_in_memory.committing import CHUNK_RECORDS, Committing
from tests.support.spool_in_memory.disk import Chunk, Disk, Taken
from tests.support.spool_in_memory.unit_streams import UnitStream


class EventsInMemory:
    def __init__(self, spool: Committing, rules: Rules) -> None:
        self._spool = spool
        self._rules = rules

    async def keep_events(
        self, events: Sequence[NewEvent], rejected: Counter[str], *, counts_repeats: bool = True
    ) -> list[IntakeOutcome]:
        now_ms = self._spool.age_ms()
        seqs = [self._spool.number_chunk() for _ in range(0, len(events), CHUNK_RECORDS)]

        def keep(disk: Disk) -> list[IntakeOutcome]:
            outcomes = [self._keep_event(disk, event, now_ms) for event in events]
            kept = [x.event for x, outcome in zip(events, outcomes, strict=True) if outcome == "kept"]
            _insert(disk, [record for record in kept if record is not None], seqs, now_ms)
            for reason, n in rejected.items():
                disk.counters.add(_rejected(n, reason))
            for event, outcome in zip(events, outcomes, strict=True):
                if outcome == "kept" or counts_repeats:
                    disk.counters.add(_counted(event.items, outcome, "event_id", "duplicate.event_id_of_another"))
            return outcomes

        outcomes = await self._spool.ask(keep)
        self._spool.wake(USAGE_EVENTS)
        self._spool.wake(UNIT_COST)
        return outcomes

    def _keep_event(self, disk: Disk, event: NewEvent, now_ms: int) -> IntakeOutcome:
        known = _known(disk, event.repeat_key)
        if known is not None:
            return known
        if event.metered is not None:
            metered = event.metered
            if why := _why_not(disk, [metered]) or _why_no_room(disk, {metered.stream}, self._rules):
                return why
            self._apply(disk, metered.stream, [metered], now_ms)
        disk.taken[event.repeat_key.key] = Taken(event.repeat_key.content, now_ms)
        return "kept"

    def _apply(self, disk: Disk, name: str, records: Sequence[Metered], now_ms: int) -> None:
        stream = _in_use(disk, name) or _made(disk, name, records[0].shape, self._rules)
        stream.take([record.change for record in records], now_ms)
        disk.counters.keep(UNIT_COST, len(records))

    async def keep_records(self, records: Sequence[Metered], repeat_key: RepeatKey | None) -> IntakeOutcome:
        now_ms = self._spool.age_ms()

        def keep(disk: Disk) -> IntakeOutcome:
            outcome = self._keep_records(disk, records, repeat_key, now_ms)
            disk.counters.add(_counted(len(records), outcome, "idempotency_key", "rejected.idempotency_key_reused"))
            return outcome

        outcome = await self._spool.ask(keep)
        self._spool.wake(UNIT_COST)
        return outcome

    def _keep_records(
        self, disk: Disk, records: Sequence[Metered], repeat_key: RepeatKey | None, now_ms: int
    ) -> IntakeOutcome:
        known = _known(disk, repeat_key)
        if known is not None:
            return known
        names = list(dict.fromkeys(record.stream for record in records))
        for name in names:
            numbers = [number for number, record in enumerate(records) if record.stream == name]
            if why := _why_not(disk, [records[number] for number in numbers]):
                return why._replace(number=numbers[why.number])
        if why := _why_no_room(disk, set(names), self._rules):
            return why
        for name in names:
            self._apply(disk, name, [record for record in records if record.stream == name], now_ms)
        if repeat_key is not None:
            disk.taken[repeat_key.key] = Taken(repeat_key.content, now_ms)
        return "kept"

    async def create_stream(self, name: str, shape: Shape) -> Created | Mismatch:
        now_ms = self._spool.age_ms()

        def create(disk: Disk) -> Created | Mismatch:
            stream = _in_use(disk, name)
            if stream is None:
                why = _why_no_room(disk, {name}, self._rules)
            else:
                why = mismatch(stream.shape, shape, is_wide=False)
            if why is not None:
                disk.counters.add(_rejected(1, why.code))
                return why
            if stream is not None:
                disk.counters.add(ItemCounts(received=1, duplicate=1, reasons={"duplicate.stream": 1}))
                return "exists"
            _made(disk, name, shape, self._rules).ask_for(CREATE_STREAM, 1, now_ms)
            _count_kept(disk)
            return "made"

        made = await self._spool.ask(create)
        self._spool.wake(UNIT_COST)
        return made

    async def delete_stream(self, name: str, repeat_key: RepeatKey | None, *, forced: bool) -> EventOutcome | Mismatch:
        now_ms = self._spool.age_ms()

        def delete(disk: Disk) -> EventOutcome | Mismatch:
            known = _known(disk, repeat_key)
            if known is not None:
                disk.counters.add(_counted(1, known, "idempotency_key", "rejected.idempotency_key_reused"))
                return known
            stream = _in_use(disk, name)
            if stream is None or (not forced and stream.holds_records()):
                why = Mismatch("stream_unknown" if stream is None else "stream_holds_records", "")
                disk.counters.add(_rejected(1, why.code))
                return why
            stream.delete(now_ms, forced=forced)
            _count_kept(disk)
            if repeat_key is not None:
                disk.taken[repeat_key.key] = Taken(repeat_key.content, now_ms)
            return "kept"

        outcome = await self._spool.ask(delete)
        self._spool.wake(UNIT_COST)
        return outcome

    async def streams(self) -> list[StreamState]:
        def read(disk: Disk) -> list[StreamState]:
            found = sorted(disk.streams.values(), key=lambda stream: stream.name)
            return [StreamState(x.stream_id, x.name, x.shape, x.pending()) for x in found if not x.is_gone]

        return await self._spool.ask(read)

    async def note_rejected(self, items: int, reason: str) -> None:
        await self._spool.ask(lambda disk: disk.counters.add(_rejected(items, reason)))

    async def forget(self, taken_before_ms: int) -> int:
        def forget(disk: Disk) -> int:
            old = [key for key, taken in disk.taken.items() if taken.taken_ms < taken_before_ms]
            old = sorted(old, key=lambda key: disk.taken[key].taken_ms)[:FORGET_AT_ONCE]
            for key in old:
                del disk.taken[key]
            return len(old)

        return await self._spool.ask(forget)


def _known(disk: Disk, repeat_key: RepeatKey | None) -> EventOutcome | None:
    """What the repeat of something that was taken is; None for what is new."""
    taken = None if repeat_key is None else disk.taken.get(repeat_key.key)
    if taken is None or repeat_key is None:
        return None
    return "duplicate" if taken.content == repeat_key.content else "conflict"


def _in_use(disk: Disk, name: str) -> UnitStream | None:
    stream = disk.streams.get(name)
    return None if stream is None or stream.is_gone else stream


def _made(disk: Disk, name: str, shape: Shape, rules: Rules) -> UnitStream:
    """A new stream, or a deleted one that begins again."""
    if name not in disk.streams:
        disk.last_stream += 1
        disk.streams[name] = UnitStream(disk.last_stream, name, shape, rules.ships)
        if rules.ships == "replace":
            return disk.streams[name]
    disk.streams[name].begin_again(shape, rules.ships)
    return disk.streams[name]


def _why_not(disk: Disk, records: Sequence[Metered]) -> Mismatch | None:
    """Why records of one stream do not belong to it; those of a new one need one shape."""
    stream = _in_use(disk, records[0].stream)
    if stream is None and records[0].change.operation == "delete":
        return Mismatch("stream_unknown", "")
    shape = records[0].shape if stream is None else stream.shape
    for number, record in enumerate(records):
        place, operation = record.change.place, record.change.operation
        is_wide = operation == "delete" and place.is_wide(record.shape.kind)
        if found := mismatch(shape, record.shape, is_wide=is_wide):
            return found._replace(number=number, is_new=stream is None)
    return None


def _why_no_room(disk: Disk, names: set[str], rules: Rules) -> Mismatch | None:
    used = {stream.name for stream in disk.streams.values() if not stream.is_gone}
    if names <= used or len(used | names) <= rules.max_streams:
        return None
    return Mismatch("too_many_streams", str(rules.max_streams))


def _insert(disk: Disk, records: Sequence[bytes], seqs: Sequence[int], now_ms: int) -> None:
    for seq, start in zip(seqs, range(0, len(records), CHUNK_RECORDS), strict=False):
        disk.add(Chunk(seq, USAGE_EVENTS, now_ms, list(records[start : start + CHUNK_RECORDS])))
    disk.counters.keep(USAGE_EVENTS, len(records))


def _counted(items: int, outcome: IntakeOutcome, repeats: str, conflicts: str) -> ItemCounts:
    """*repeats*: the reason of a duplicate; *conflicts*: outcome and reason of a conflict."""
    match outcome:
        case "kept":
            return ItemCounts(received=items, kept=items)
        case "duplicate":
            return ItemCounts(received=items, duplicate=items, reasons={f"duplicate.{repeats}": items})
        case "conflict" if conflicts.startswith("duplicate."):
            return ItemCounts(received=items, duplicate=items, reasons={conflicts: items})
        case "conflict":
            return ItemCounts(received=items, rejected=items, reasons={conflicts: items})
        case Mismatch():
            return _rejected(items, outcome.code)


def _rejected(items: int, reason: str) -> ItemCounts:
    return ItemCounts(received=items, rejected=items, reasons={f"rejected.{reason}": items})


def _count_kept(disk: Disk) -> None:
    disk.counters.keep(UNIT_COST, 1)
    disk.counters.add(ItemCounts(received=1, kept=1))
