"""A spool in memory as the ledger, settling and those who read along use it."""

from collections.abc import AsyncIterator, Sequence
from functools import partial

from spool.errors import SpoolError
from spool.record import Lane
from spool.settling import MERGED, MOVED, Change, Evidence, Moved, Outcomes, Position, Settled
from tests.support.spool_in_memory.committing import Committing
from tests.support.spool_in_memory.disk import Chunk, Disk


class Counting(Committing):
    async def settle(
        self,
        lane: Lane,
        through_seq: int,
        changes: Sequence[Change] = (),
        *,
        lost_appends: int | None = None,
        moved: Moved | None = None,
    ) -> None:
        def settle(disk: Disk) -> None:
            if lost_appends not in {None, self.lost_appends}:
                raise SpoolError("what was decided upon did not come to disk")
            before = disk.settled[lane]
            disk.settled[lane] = max(before, through_seq)
            for change in changes:
                if change.seq > before:
                    _change(disk, lane, change)
            if moved is not None:
                disk.add(Chunk(moved.seq, lane, moved.received_ms, list(moved.records), moved.facts))

        await self.ask(settle)
        self.wake(lane)

    async def read(self, lane: Lane, positions: Sequence[Position]) -> list[bytes | None]:
        def read(disk: Disk) -> list[bytes | None]:
            found = {
                (chunk.seq, idx): record
                for chunk in disk.of(lane)
                if chunk.seq in {position.seq for position in positions}
                for idx, record in chunk.left()
            }
            return [found.get((at.seq, at.idx)) for at in positions]

        return await self.ask_behind(read)

    async def evidence(self, lane: Lane, received_after_ms: int, most_records: int) -> AsyncIterator[list[Evidence]]:
        def first(disk: Disk) -> int:
            settled, records = disk.settled[lane], 0
            found = settled + 1
            for chunk in reversed(disk.of(lane)):
                records += len(chunk.records)
                if chunk.seq <= settled and (chunk.received_ms < received_after_ms or records > most_records):
                    break
                found = chunk.seq
            return found

        return self._pages(lane, await self.ask_behind(first))

    async def _pages(self, lane: Lane, seq: int) -> AsyncIterator[list[Evidence]]:
        while page := await self.ask_behind(partial(_evidence_from, lane=lane, seq=seq)):
            yield page
            seq = page[-1].seq + 1

    async def evidence_of(self, lane: Lane, seq: int) -> Evidence | None:
        found = await self.ask_behind(lambda disk: disk.of(lane, seq, seq))
        return _evidence(found[0]) if found else None

    async def settled_seq(self, lane: Lane) -> int:
        return await self.ask_behind(lambda disk: disk.settled[disk.lanes[lane].source])

    async def kept_chunks(self, lane: Lane, first_seq: int) -> list[int]:
        return await self.ask_behind(lambda disk: [chunk.seq for chunk in disk.of(lane, first_seq)])

    # ---- behind the lanes

    async def settled_records(self, lane: Lane, after_seq: int, *, max_bytes: int) -> Settled:
        def read(disk: Disk) -> Settled:
            records: list[bytes] = []
            through_seq = min(after_seq, disk.settled[lane])
            for chunk in disk.of(lane, after_seq + 1, disk.settled[lane]):
                records += [record for _, record in chunk.left()]
                through_seq = chunk.seq
                if sum(map(len, records)) >= max_bytes:
                    return Settled(records, through_seq, is_more=True)
            return Settled(records, through_seq, is_more=False)

        return await self.ask_behind(read)

    async def settled_outcomes(self, lane: Lane, after_seq: int, *, max_bytes: int, max_behind: int) -> Outcomes:
        def read(disk: Disk) -> Outcomes:
            settled = disk.settled[lane]
            from_seq = max(min(after_seq, settled), settled - max_behind)
            skipped = sum(len(chunk.records) for chunk in disk.of(lane, after_seq + 1, from_seq))
            return _outcomes(disk.of(lane, from_seq + 1, settled), from_seq, skipped, max_bytes)

        return await self.ask_behind(read)

    async def outcomes_before(self, lane: Lane, before_seq: int, *, max_bytes: int) -> Outcomes:
        def read(disk: Disk) -> Outcomes:
            chunks = disk.of(lane, 0, min(before_seq - 1, disk.settled[lane]))
            return _outcomes(chunks[::-1], before_seq, 0, max_bytes, newest_first=True)

        return await self.ask_behind(read)

    async def pending_bodies(self, lane: Lane) -> AsyncIterator[bytes]:
        state = self.disk.lanes[lane]
        first = min([state.next.seq, *(frozen.first.seq for frozen in state.frozen)])
        for chunk in self.disk.of(state.source, first):
            yield b"".join(chunk.records)


def _change(disk: Disk, lane: Lane, change: Change) -> None:
    chunk = disk.chunks[change.seq]
    was_dropped = chunk.changes.get(change.idx, ("", b""))[1] is None
    chunk.changes[change.idx] = (change.outcome, change.record)
    if change.record is not None or was_dropped:
        return
    lanes = disk.followers(lane)
    counted = [name for name in lanes if disk.lanes[name].next <= (change.seq, change.idx)]
    if change.outcome != MOVED:
        disk.counters.drop(counted, change.outcome)
        return
    for name in set(lanes) - set(counted):
        disk.counters.keep(name, 1)


def _evidence_from(disk: Disk, lane: Lane, seq: int) -> list[Evidence]:
    return [_evidence(chunk) for chunk in disk.of(lane, seq)[:2]]


def _evidence(chunk: Chunk) -> Evidence:
    dropped = {idx: outcome for idx, (outcome, record) in chunk.changes.items() if record is None}
    merged = frozenset(idx for idx, (outcome, _) in chunk.changes.items() if outcome == MERGED)
    return Evidence(chunk.seq, chunk.received_ms, len(chunk.records), chunk.facts, chunk.links, dropped, merged)


def _outcomes(
    chunks: Sequence[Chunk], through_seq: int, skipped: int, max_bytes: int, *, newest_first: bool = False
) -> Outcomes:
    items: list[tuple[str, bytes]] = []
    size_bytes = 0
    for chunk in chunks:
        found = list(chunk.outcomes())
        items += found[::-1] if newest_first else found
        size_bytes += sum(map(len, chunk.records))
        through_seq = chunk.seq
        if size_bytes >= max_bytes:
            return Outcomes(items, through_seq, is_more=True, skipped=skipped)
    return Outcomes(items, through_seq, is_more=False, skipped=skipped)
