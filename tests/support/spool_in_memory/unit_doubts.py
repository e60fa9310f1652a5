"""Unit cost in memory that is put back from a backup: totals are in doubt until the upstream is
read.
"""

from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal

import orjson

from spool.clock import rfc3339_ms
from spool.record import UNIT_COST, Batch
from spool.store import Refusal
from spool.unit_cost import DELETE_STREAM, EXACT, ZERO, Stream, Total, TotalKey, item_body, operation_of
from tests.support.spool_in_memory.disk import Disk
from tests.support.spool_in_memory.unit_streams import Item, KeptTotal, UnitBatch, UnitStream

READ = "read"
MAY_BE_THERE = "the upstream may hold it already, so compare before a replay"


def put_back(disk: Disk, batch_ids: Iterable[str], now_ms: int) -> None:
    for stream, batch_id in zip(disk.streams.values(), batch_ids, strict=False):
        _give_up_deletion(disk, stream, now_ms)
        if stream.ships == "replace":
            _doubt(stream, batch_id, now_ms)
        _give_up_rest(disk, stream, now_ms)


def _doubt(stream: UnitStream, batch_id: str, now_ms: int) -> None:
    frozen: dict[TotalKey, list[Item]] = {}
    for unit in stream.batches:
        for item in unit.items if unit.operation in {"replace", "delete"} else ():
            if item.place is not None:
                frozen.setdefault(item.place, []).append(item)
    links = []
    for place, kept in stream.totals.items():
        if place.is_wide(stream.shape.kind):
            for item in frozen.get(place, []):
                kept.since_ms = min(item.since_ms, kept.since_ms if kept.total.records else item.since_ms)
                kept.total = kept.total._replace(records=kept.total.records + item.records)
        else:
            links += _links(stream, place, kept, frozen.get(place, []))
    stream.batches = [unit for unit in stream.batches if unit.operation not in {"replace", "delete"}]
    stream.whole_from_ms = None
    stream.totals = {at: x for at, x in stream.totals.items() if x.total.records or not at.is_wide(stream.shape.kind)}
    if links:
        stream.reading(_read(stream, batch_id, now_ms)).items += links


def _links(stream: UnitStream, place: TotalKey, kept: KeptTotal, frozen: list[Item]) -> list[Item]:
    """What waits in the total, which holds nothing of its own from now on."""
    if not kept.total.is_whole and stream.whole_from_ms is not None:
        kept.held = None
    before = stream.links(place)
    start = before[-1].value if before else kept.held or ZERO
    value = kept.total.value if kept.total.is_whole else EXACT.add(start, kept.total.value)
    links = []
    for item in [*frozen, Item(place, kept.total.records, kept.since_ms, b"", value)]:
        if item.records or item.value != start:
            links.append(replace(item, body=_body(stream, "sum", place, item.value - start)))
        start = item.value
    kept.total = Total(ZERO, False, 0)  # noqa: FBT003 - it is not whole
    return links


def _read(stream: UnitStream, batch_id: str, now_ms: int) -> UnitBatch:
    body = orjson.dumps({"stream": stream.name, "kind": stream.shape.kind, "operation": READ})
    behind_ms = 1 + max((unit.frozen_ms for unit in stream.batches), default=0)
    return UnitBatch(Batch(batch_id, UNIT_COST, 0, 0, rfc3339_ms(now_ms), (body,)), READ, behind_ms, [])


# ---- what no read can show


def _give_up_deletion(disk: Disk, stream: UnitStream, now_ms: int) -> None:
    frozen = [unit for unit in stream.batches if unit.operation == DELETE_STREAM]
    body = {"stream": stream.name, "kind": stream.shape.kind, "operation": DELETE_STREAM, "record": {"force": True}}
    for items in (stream.deleting, *(unit.records() for unit in frozen)):
        bury(disk, orjson.dumps(body), items, now_ms, "the stream may hold what was sent after the backup")
    stream.batches = [unit for unit in stream.batches if unit not in frozen]
    stream.deleting, stream.is_forced = 0, False


def _give_up_rest(disk: Disk, stream: UnitStream, now_ms: int) -> None:
    frozen = [unit for unit in stream.batches if unit.operation in {"replace", "delete"}]
    for item in (item for unit in frozen for item in unit.items):
        bury(disk, item.body, item.records, now_ms)
    stream.batches = [unit for unit in stream.batches if unit not in frozen]
    for place, kept in list(stream.totals.items()):
        if kept.total.records:
            operation = operation_of(kept.total)
            bury(disk, _body(stream, operation, place, kept.total.value), kept.total.records, now_ms)
            del stream.totals[place]


def set_aside(disk: Disk, unclear: Iterable[Item], now_ms: int) -> None:
    for link in unclear:
        bury(disk, link.body, link.records, now_ms)


def _body(stream: UnitStream, operation: str, place: TotalKey, value: Decimal) -> bytes:
    shown = Stream(stream.stream_id, stream.name, stream.shape, stream.ships, None)
    return item_body(shown, operation, place, value)  # type: ignore[arg-type]  # as `operation_of` has it


def bury(disk: Disk, body: bytes, records: int, now_ms: int, why: str = MAY_BE_THERE) -> None:
    if records:
        disk.bury(UNIT_COST, [(Refusal(None, "restored", why, records), body)], now_ms)
        lane = disk.counters.lane(UNIT_COST)
        lane.pending -= records
        lane.dead_lettered += records
