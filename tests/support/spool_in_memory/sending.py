"""A spool in memory as the pumps of its lanes use it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from spool.clock import rfc3339_ms
from spool.record import USAGE_EVENTS, Batch, Lane
from spool.settling import Position
from spool.store import Refusal
from tests.support.spool_in_memory.committing import Committing
from tests.support.spool_in_memory.disk import FIRST, ONCE_MORE, Disk, Frozen

AGAIN_EVERY: Final = 4
"""One batch in so many may be one that is sent again while fresh records wait."""


class Sending(Committing):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._leased: dict[Lane, set[str]] = {lane: set() for lane in self._sources}
        self._freezes = dict.fromkeys(self._sources, 0)
        self._may_have_gone_out = {USAGE_EVENTS}
        """Lanes whose batches an earlier pump may have sent unheard, which its upstream could take
        for new ones."""

    async def freeze(self, lane: Lane, *, max_records: int, max_bytes: int) -> Batch | None:
        found = await self.ask_behind(lambda disk: self._freeze(disk, lane, max_records, max_bytes))
        if isinstance(found, int):
            self._not_before_ms[lane] = found
            return None
        return found

    def _freeze(self, disk: Disk, lane: Lane, max_records: int, max_bytes: int) -> Batch | int | None:
        """The batch; the time from which on there may be one; None for nothing."""
        self._freezes[lane] += 1
        if lane in self._may_have_gone_out:
            self._may_have_gone_out.discard(lane)
            for frozen in disk.lanes[lane].frozen:
                frozen.batch = replace(frozen.batch, attempts=frozen.batch.attempts + 1)
        leased = self._leased[lane]
        batched = sorted(disk.lanes[lane].frozen, key=lambda frozen: frozen.first)
        found: Batch | int | None = next((x.batch for x in batched if x.batch.batch_id not in leased), None)
        if found is None and self._freezes[lane] % AGAIN_EVERY == 0:
            found = self._freeze_again(disk, lane, max_records, max_bytes)
        if found is None:
            found = self._freeze_fresh(disk, lane, max_records, max_bytes)
        if not isinstance(found, Batch):
            found = self._freeze_again(disk, lane, max_records, max_bytes) or found
        if isinstance(found, Batch):
            leased.add(found.batch_id)
        return found

    def _freeze_again(self, disk: Disk, lane: Lane, max_records: int, max_bytes: int) -> Batch | None:
        state = disk.lanes[lane]
        if not state.again:
            return None
        stretch = state.again[0]
        taken = _up_to(((at, disk.at(at)) for at in stretch.positions), max_records, max_bytes)
        del stretch.positions[: len(taken)]
        if not stretch.positions:
            del state.again[0]
        return self._frozen(disk, lane, taken, stretch.origin)

    def _freeze_fresh(self, disk: Disk, lane: Lane, max_records: int, max_bytes: int) -> Batch | int | None:
        ready_ms = self._ready_ms(disk, lane, max_records, max_bytes)
        if ready_ms is not None:
            return ready_ms
        taken, disk.lanes[lane].next = _take(disk, lane, max_records, max_bytes)
        return self._frozen(disk, lane, taken, FIRST) if taken else None

    def _frozen(self, disk: Disk, lane: Lane, taken: Sequence[tuple[Position, bytes]], origin: str) -> Batch:
        records = tuple(record for _, record in taken)
        batch = Batch(self.batch_id(), lane, 0, 0, rfc3339_ms(self._wall_ms()), records)
        disk.lanes[lane].frozen.append(Frozen(batch, [position for position, _ in taken], origin))
        return batch

    def _ready_ms(self, disk: Disk, lane: Lane, max_records: int, max_bytes: int) -> int | None:
        """From when on the few young records of *lane* go; None where nothing waits for more."""
        state, chunks, now_ms = disk.lanes[lane], disk.ready(lane), self._now_ms()
        records = sum(len(x.records) - (state.next.idx if x.seq == state.next.seq else 0) for x in chunks)
        size_bytes = sum(sum(map(len, x.records)) for x in chunks)
        if not chunks or records >= max_records or size_bytes >= max_bytes:
            return None
        ready_ms = chunks[0].received_ms + self.settings.linger_ms
        return None if chunks[0].received_ms > now_ms or ready_ms <= now_ms else ready_ms

    async def ack(self, batch: Batch, refused: Sequence[Refusal] = ()) -> None:
        placed = {x.index: x for x in refused if x.index is not None and 0 <= x.index < len(batch.records)}
        letters = [(refusal, batch.records[index]) for index, refusal in sorted(placed.items())]
        letters += [(refusal, b"") for refusal in refused if refusal.index is None]
        await self._end(batch, letters)

    async def bury(self, batch: Batch, code: str, message: str) -> None:
        await self._end(batch, [(Refusal(None, code, message), record) for record in batch.records])

    async def _end(self, batch: Batch, letters: Sequence[tuple[Refusal, bytes]]) -> None:
        now_ms = self._now_ms()

        def end(disk: Disk) -> None:
            known = _forget(disk, batch)
            if known is None:
                return
            n_refused = sum(refusal.records for refusal, _ in letters)
            n_delivered = len(batch.records) - n_refused
            if known.origin == ONCE_MORE:
                disk.beside[batch.lane, "sent_again.delivered"] += n_delivered
                disk.beside[batch.lane, "sent_again.refused"] += n_refused
                return
            counters = disk.counters.lane(batch.lane)
            counters.pending -= len(batch.records)
            counters.delivered += n_delivered
            counters.dead_lettered += n_refused
            disk.bury(batch.lane, letters, now_ms)

        await self.ask_behind(end)
        self._leased[batch.lane].discard(batch.batch_id)

    async def release(self, batch: Batch, *, answered: bool) -> None:
        def release(disk: Disk) -> None:
            for frozen in disk.lanes[batch.lane].frozen:
                if frozen.batch.batch_id == batch.batch_id:
                    before = frozen.batch
                    frozen.batch = replace(
                        before, attempts=before.attempts + 1, generation=before.generation + answered
                    )

        await self.ask_behind(release)
        self._give_back(batch)

    async def split(self, batch: Batch) -> None:
        ids = self.batch_id(), self.batch_id()

        def split(disk: Disk) -> None:
            half = len(batch.records) // 2
            if not half:
                raise ValueError("a batch of one record cannot be split")
            known = _forget(disk, batch)
            assert known is not None
            for batch_id, part in zip(ids, (slice(half), slice(half, None)), strict=True):
                made = replace(
                    known.batch, batch_id=batch_id, generation=0, attempts=0, records=known.batch.records[part]
                )
                disk.lanes[batch.lane].frozen.append(Frozen(made, known.positions[part], known.origin))

        await self.ask_behind(split)
        self._give_back(batch)

    def _give_back(self, batch: Batch) -> None:
        self._leased[batch.lane].discard(batch.batch_id)
        self._wakes[batch.lane].set()

    async def brake_reason(self, lane: Lane) -> str | None:
        return await self.ask_behind(lambda disk: disk.brakes.get(lane))

    async def note_brake(self, lane: Lane, reason: str | None) -> None:
        def note(disk: Disk) -> None:
            disk.brakes.pop(lane, None)
            if reason is not None:
                disk.brakes[lane] = reason

        await self.ask_behind(note)

    async def is_ready(self, lane: Lane, *, max_records: int, max_bytes: int) -> bool:
        def is_ready(disk: Disk) -> bool:
            if disk.lanes[lane].frozen or disk.lanes[lane].again:
                return True
            return bool(disk.ready(lane)) and self._ready_ms(disk, lane, max_records, max_bytes) is None

        return await self.ask_behind(is_ready)

    def forget_leases(self, lane: Lane) -> None:
        self._leased[lane].clear()
        self._may_have_gone_out |= {lane} & {USAGE_EVENTS}
        self._wakes[lane].set()


def _up_to(records: Iterable[tuple[Position, bytes]], max_records: int, max_bytes: int) -> list[tuple[Position, bytes]]:
    """The first ones, up to the limits; at least one."""
    taken: list[tuple[Position, bytes]] = []
    size_bytes = 0
    for position, record in records:
        size_bytes += len(record) + 1
        if taken and (len(taken) == max_records or size_bytes > max_bytes):
            break
        taken.append((position, record))
    return taken


def _take(disk: Disk, lane: Lane, max_records: int, max_bytes: int) -> tuple[list[tuple[Position, bytes]], Position]:
    """The next records of *lane*, and the position after them."""
    first, chunks = disk.lanes[lane].next, disk.ready(lane)
    ready = [
        (Position(chunk.seq, idx), record)
        for chunk in chunks
        for idx, record in chunk.left(first.idx if chunk.seq == first.seq else 0)
    ]
    taken = _up_to(ready, max_records, max_bytes)
    if len(taken) < len(ready):
        return taken, ready[len(taken)][0]
    return taken, Position(chunks[-1].seq + 1, 0) if chunks else first


def _forget(disk: Disk, batch: Batch) -> Frozen | None:
    """The batch as it was; None where it has ended."""
    frozen = disk.lanes[batch.lane].frozen
    known = next((x for x in frozen if x.batch.batch_id == batch.batch_id), None)
    if known is not None:
        frozen.remove(known)
    return known
