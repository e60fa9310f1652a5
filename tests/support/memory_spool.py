"""A `LaneStore` in memory with the same behaviour as the durable one,
for pump tests that need no disk.

`reopen()` is a restart: leases end, frozen batches stay.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from exporters.clock import Clock
from spool.record import Batch, Lane
from spool.store import Depth, Refusal


@dataclass(slots=True)
class _Lane:
    waiting: deque[bytes] = field(default_factory=deque)
    frozen: list[Batch] = field(default_factory=list)
    leased: set[str] = field(default_factory=set)
    kept: int = 0
    delivered: int = 0
    dead_letters: list[tuple[bytes, str, str]] = field(default_factory=list)
    ready: asyncio.Event = field(default_factory=asyncio.Event)


class MemorySpool:
    def __init__(self, clock: Clock, gateway_id: str = "gw-test") -> None:
        self._clock = clock
        self._gateway_id = gateway_id
        self._lanes: dict[Lane, _Lane] = defaultdict(_Lane)
        self._made = 0
        self.brakes: dict[Lane, str] = {}
        self.lose_wakeups = False
        """When set, appends and releases wake no one."""

    @property
    def gateway_id(self) -> str:
        return self._gateway_id

    def add(self, lane: Lane, records: Sequence[bytes]) -> None:
        self._lanes[lane].waiting.extend(records)
        self._lanes[lane].kept += len(records)
        self._wake(lane)

    async def put(self, lane: Lane, records: Sequence[bytes]) -> None:
        self.add(lane, records)

    def dead_letters(self, lane: Lane) -> list[tuple[bytes, str, str]]:
        """(record, code, message) of each."""
        return self._lanes[lane].dead_letters

    def leased(self, lane: Lane) -> int:
        return len(self._lanes[lane].leased)

    def frozen(self, lane: Lane) -> list[Batch]:
        return list(self._lanes[lane].frozen)

    def reopen(self) -> None:
        for lane in self._lanes.values():
            lane.leased.clear()
            lane.ready.set()

    async def freeze(self, lane: Lane, *, max_records: int, max_bytes: int) -> Batch | None:
        state = self._lanes[lane]
        for position, batch in enumerate(state.frozen):
            if batch.batch_id not in state.leased:
                again = replace(batch, attempts=batch.attempts + 1)
                state.frozen[position] = again
                state.leased.add(again.batch_id)
                return again
        records: list[bytes] = []
        size_bytes = 0
        while state.waiting and len(records) < max_records:
            size_bytes += len(state.waiting[0])
            if records and size_bytes > max_bytes:
                break
            records.append(state.waiting.popleft())
        if not records:
            return None
        batch = self._batch(lane, tuple(records))
        state.frozen.append(batch)
        state.leased.add(batch.batch_id)
        return batch

    async def ack(self, batch: Batch, refused: Sequence[Refusal] = ()) -> None:
        state = self._take(batch)
        for refusal in refused:
            record = b"" if refusal.index is None else batch.records[refusal.index]
            state.dead_letters += [(record, refusal.code, refusal.message)] * refusal.records
        state.delivered += len(batch.records) - sum(refusal.records for refusal in refused)

    async def release(self, batch: Batch, *, answered: bool) -> None:
        state = self._lanes[batch.lane]
        position = self._position(batch)
        if answered:
            state.frozen[position] = replace(state.frozen[position], generation=batch.generation + 1)
        state.leased.remove(batch.batch_id)
        self._wake(batch.lane)

    async def split(self, batch: Batch) -> None:
        assert len(batch.records) > 1, "a single record cannot be split"
        state = self._lanes[batch.lane]
        position = self._position(batch)
        middle = len(batch.records) // 2
        halves = [
            self._batch(batch.lane, batch.records[:middle], batch.sent_at),
            self._batch(batch.lane, batch.records[middle:], batch.sent_at),
        ]
        state.frozen[position : position + 1] = halves
        state.leased.remove(batch.batch_id)
        self._wake(batch.lane)

    async def bury(self, batch: Batch, code: str, message: str) -> None:
        state = self._take(batch)
        state.dead_letters.extend((record, code, message) for record in batch.records)

    def depth(self, lane: Lane) -> Depth:
        state = self._lanes[lane]
        pending = len(state.waiting) + sum(len(batch.records) for batch in state.frozen)
        return Depth(
            kept=state.kept,
            delivered=state.delivered,
            pending=pending,
            dead_lettered=len(state.dead_letters),
            expired=0,
            oldest_pending_ms=0 if pending else None,
        )

    async def brake_reason(self, lane: Lane) -> str | None:
        return self.brakes.get(lane)

    async def note_brake(self, lane: Lane, reason: str | None) -> None:
        self.brakes.pop(lane, None)
        if reason is not None:
            self.brakes[lane] = reason

    async def wait_ready(self, lane: Lane, timeout_s: float) -> None:
        state = self._lanes[lane]
        state.ready.clear()
        if not self.lose_wakeups and (state.waiting or len(state.leased) < len(state.frozen)):
            return
        await self._clock.wait(state.ready, timeout_s)

    def _batch(self, lane: Lane, records: tuple[bytes, ...], sent_at: str | None = None) -> Batch:
        self._made += 1
        return Batch(
            batch_id=f"0199-{self._made:08d}",
            lane=lane,
            generation=0,
            attempts=0,
            sent_at=sent_at or f"2026-01-05T10:00:05.{self._made:06d}Z",
            records=records,
        )

    def _position(self, batch: Batch) -> int:
        state = self._lanes[batch.lane]
        assert batch.batch_id in state.leased, "only a leased batch is settled"
        return [known.batch_id for known in state.frozen].index(batch.batch_id)

    def _take(self, batch: Batch) -> _Lane:
        state = self._lanes[batch.lane]
        del state.frozen[self._position(batch)]
        state.leased.remove(batch.batch_id)
        return state

    def _wake(self, lane: Lane) -> None:
        if not self.lose_wakeups:
            self._lanes[lane].ready.set()
