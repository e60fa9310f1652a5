"""The batches of unit cost in memory: frozen, acked, set aside, split."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final, Literal, NamedTuple

import orjson

from spool.record import UNIT_COST, Batch
from spool.store import Refusal
from spool.unit_cost import (
    CREATE_STREAM,
    DELETE_STREAM,
    EXACT,
    NAME_BLOCKED_MS,
    ZERO,
    Operation,
    Total,
    TotalKey,
    operation_of,
    place_in,
    sent_value,
    wire_record,
)
from tests.support.spool_in_memory.disk import Disk, Letter
from tests.support.spool_in_memory.unit_streams import Item, UnitBatch, UnitStream

READ: Final = "read"


class May(NamedTuple):
    """What the upstream's keys let the lane do now."""

    read: bool
    create: bool
    delete: bool

    def send(self, operation: str) -> bool:
        return {CREATE_STREAM: self.create, DELETE_STREAM: self.delete}.get(operation, True)


class Moment(NamedTuple):
    now_ms: int
    wall_ms: int
    batch_id: str
    sent_at: str


class Limits(NamedTuple):
    max_records: int
    max_bytes: int
    linger_ms: int


def frozen_before(disk: Disk, leased: Collection[str], now_ms: int, may: May) -> tuple[UnitStream, UnitBatch] | None:
    """The oldest batch that no one has and that may go out now."""
    found = [
        (stream, unit)
        for stream in disk.streams.values()
        for unit in stream.batches
        if stream.name not in leased
        and may.send(unit.operation)
        and (stream.blocked_until_ms <= now_ms or unit.operation == DELETE_STREAM)
    ]
    return min(found, key=lambda x: (x[1].frozen_ms, x[1].batch.batch_id), default=None)


def longest_waiting(disk: Disk, now_ms: int, may: May) -> tuple[UnitStream, int] | None:
    """The stream without a batch of which something waits longest, and since when."""
    found = [
        (stream, since_ms)
        for stream in disk.streams.values()
        if not stream.batches and (since_ms := _waits_since_ms(stream, now_ms, may)) is not None
    ]
    return min(found, key=lambda x: (x[1], x[0].stream_id), default=None)


def _waits_since_ms(stream: UnitStream, now_ms: int, may: May) -> int | None:
    if stream.deleting and may.delete:
        return stream.asked_ms
    if stream.deleting or stream.blocked_until_ms > now_ms:
        return None
    times = [kept.since_ms for kept in stream.totals.values() if kept.total.records]
    times += [stream.asked_ms] if stream.creating and may.create else []
    return min(times, default=None)


def freeze(
    disk: Disk, leased: Collection[str], limits: Limits, moment: Moment, may: May
) -> tuple[UnitStream, UnitBatch] | int | None:
    """The next batch with its stream; the time from which on there may be one; None for nothing."""
    for stream in disk.streams.values():
        if stream.deleting and stream.name not in leased:
            stream.batches = []  # what they stood for goes with the deletion
    if found := frozen_before(disk, leased, moment.now_ms, may):
        return found
    while waiting := longest_waiting(disk, moment.now_ms, may):
        if not _settle_nothing(disk, waiting[0]):
            break
    if waiting is None:
        return None
    stream, since_ms = waiting
    if since_ms <= moment.now_ms < since_ms + limits.linger_ms:
        return since_ms + limits.linger_ms
    operation, items = _items(stream, limits, moment, may)
    bodies = [item.body for item in items] or [_encoded(stream, READ)]
    batch = Batch(moment.batch_id, UNIT_COST, 0, 0, moment.sent_at, tuple(bodies))
    stream.batches.append(UnitBatch(batch, operation, moment.now_ms, items))
    return stream, stream.batches[-1]


def _settle_nothing(disk: Disk, stream: UnitStream) -> bool:
    """A sum of zero changes nothing at the upstream: its records are delivered unsent."""
    settled = 0
    for kept in stream.totals.values():
        if not kept.total.is_whole and not kept.total.value:
            settled += kept.total.records
            kept.total = kept.total._replace(records=0)
    end(disk, settled, "delivered")
    return bool(settled)


def _items(stream: UnitStream, limits: Limits, moment: Moment, may: May) -> tuple[str, list[Item]]:
    """What the stream's next batch does, and with what; nothing of one that reads."""
    if stream.deleting and may.delete:
        body = _encoded(stream, DELETE_STREAM, {"force": stream.is_forced})
        items, stream.deleting, stream.is_forced = stream.deleting, 0, False
        return DELETE_STREAM, [Item(None, items, stream.asked_ms, body)]
    if stream.creating and may.create:
        body = _encoded(stream, CREATE_STREAM, stream.shape._asdict())
        items, stream.creating = stream.creating, 0
        return CREATE_STREAM, [Item(None, items, stream.asked_ms, body)]
    if stream.whole_from_ms is None and may.read:
        return READ, []
    if stream.whole_from_ms is None:
        stream.begin_with_sums(moment.wall_ms)
    operation, totals = _totals(stream, limits)
    totals[0].records += stream.creating  # no key may send it: the first totals make the stream
    stream.creating = 0
    return operation, totals


def _totals(stream: UnitStream, limits: Limits) -> tuple[Operation, list[Item]]:
    """Those of one operation, wide deletes first: what stands below one came after it."""
    waiting = sorted(
        ((place, kept) for place, kept in stream.totals.items() if kept.total.records),
        key=lambda x: (not x[0].is_wide(stream.shape.kind), x[1].since_ms),
    )
    operation = operation_of(waiting[0][1].total)
    items: list[Item] = []
    size = 0
    for place, kept in [x for x in waiting if operation_of(x[1].total) == operation][: limits.max_records]:
        value = None if operation == "delete" else sent_value(kept.total.value)
        body = _encoded(stream, operation, wire_record(stream.shape, place, value))
        size += len(body) + 1
        if items and size > limits.max_bytes:
            break
        items.append(Item(place, kept.total.records, kept.since_ms, body, value or ZERO))
        kept.total = _left(stream, kept.total, operation, value)
    return operation, items


def _left(stream: UnitStream, total: Total, operation: Operation, sent: Decimal | None) -> Total:
    """What stays of a total that is in a batch."""
    if operation == "sum":
        return Total(EXACT.subtract(total.value, sent or ZERO), False, 0)  # noqa: FBT003 - it is not whole
    if stream.ships == "replace":
        return total._replace(records=0)
    return Total(ZERO, False, 0)  # noqa: FBT003 - as above


def _encoded(stream: UnitStream, operation: str, record: object = None) -> bytes:
    item = {"stream": stream.name, "kind": stream.shape.kind, "operation": operation}
    return orjson.dumps(item if record is None else item | {"record": record})


# ---- endings


def end(disk: Disk, records: int, outcome: Literal["delivered", "dead_lettered", "expired"]) -> None:
    lane = disk.counters.lane(UNIT_COST)
    lane.pending -= records
    setattr(lane, outcome, getattr(lane, outcome) + records)


def found(disk: Disk, batch: Batch) -> tuple[UnitStream, UnitBatch] | None:
    """None where it was dropped or has ended."""
    for stream in disk.streams.values():
        for unit in stream.batches:
            if unit.batch.batch_id == batch.batch_id:
                return stream, unit
    return None


def finish(disk: Disk, batch: Batch, why: Callable[[int], Refusal | None], now_ms: int) -> None:
    """End the batch: *why* states of an item, by its index, why it was refused."""
    known = found(disk, batch)
    if known is None:
        return
    stream, unit = known
    stream.batches.remove(unit)
    for index, item in enumerate(unit.items):
        refusal = why(index)
        if refusal is None:
            end(disk, item.records, "delivered")
            _note_held(stream, unit.operation, item)
        elif item.records:  # else its stream was deleted meanwhile
            disk.bury(UNIT_COST, [(replace(refusal, records=item.records), item.body)], now_ms)
            end(disk, item.records, "dead_lettered")
    if unit.operation == DELETE_STREAM and why(0) is None:
        stream.blocked_until_ms = max(stream.blocked_until_ms, now_ms + NAME_BLOCKED_MS)


def _note_held(stream: UnitStream, operation: str, item: Item) -> None:
    """What the upstream has by now at the item's place, and below a delete of several."""
    if item.place not in stream.totals or operation not in {"replace", "delete"}:
        return
    if stream.totals[item.place].total.is_whole:
        stream.totals[item.place].held = item.value
    for below in stream.covered_by(item.place) if item.place.is_wide(stream.shape.kind) else ():
        stream.totals[below].held = ZERO


def ack(disk: Disk, batch: Batch, refused: Sequence[Refusal], now_ms: int) -> None:
    finish(disk, batch, {refusal.index: refusal for refusal in refused}.get, now_ms)


def split(disk: Disk, batch: Batch, ids: tuple[str, str]) -> None:
    known = found(disk, batch)
    assert known is not None
    stream, unit = known
    half = len(unit.items) // 2
    if not half:
        raise ValueError("a batch of one record cannot be split")
    stream.batches.remove(unit)
    for batch_id, part in zip(ids, (slice(half), slice(half, None)), strict=True):
        records = unit.batch.records[part]
        made = replace(unit.batch, batch_id=batch_id, generation=0, attempts=0, records=records)
        stream.batches.append(UnitBatch(made, unit.operation, unit.frozen_ms, unit.items[part]))


def release(unit: UnitBatch, *, answered: bool) -> None:
    before = unit.batch
    unit.batch = replace(before, attempts=before.attempts + 1, generation=before.generation + answered)


def note_silence(disk: Disk) -> None:
    """Each frozen `sum` may have gone out unanswered: its key must stay."""
    for stream in disk.streams.values():
        for unit in stream.batches:
            if unit.operation == "sum":
                release(unit, answered=False)


# ---- dead letters that come back


def put_back(disk: Disk, letter: Letter, now_ms: int) -> bool:
    """Let what a dead letter stands for wait again; whether that could be done."""
    item = orjson.loads(letter.shown.record)
    stream, operation = disk.streams.get(item["stream"]), item["operation"]
    if stream is None:
        return False
    if operation in {CREATE_STREAM, DELETE_STREAM}:
        return _ask_again(stream, operation, item["record"], letter.records, now_ms)
    place = place_in(stream.shape, item["record"])
    if not stream.takes_back(place, operation, letter.shown.buried_ms):
        return False
    carried = Decimal(item["record"].get("value", "0"))
    stream.take_back(TotalKey(*place), operation, carried, letter.records, now_ms)
    return True


def _ask_again(stream: UnitStream, operation: str, record: dict[str, object], items: int, now_ms: int) -> bool:
    """A deletion comes too late where records came to the stream since: it would take them."""
    if stream.is_gone is not (operation == DELETE_STREAM):
        return False
    stream.ask_for(operation, items, now_ms)
    stream.is_forced = stream.is_forced or bool(record.get("force"))
    return True
