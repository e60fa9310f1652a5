"""A spool in memory: plain lists behind the protocols of `spool.store`, for the same tests as the
one on a disk. It has no resends, no usage events and no unit cost.

What a commit leaves is a `Disk`; a kill leaves a copy of it.
"""

import asyncio
import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeVar

from spool.age import AgeClock, Seen, age_at_start
from spool.clock import rfc3339_ms, uuid7
from spool.counters import Counters
from spool.dead_letters import DeadLetter, DeadLetterSummary
from spool.errors import SpoolError, SpoolFull
from spool.histogram import ANSWER_S, Histogram
from spool.record import AI_TELEMETRY, OWN_LANES, Batch, Lane
from spool.series import Ending, Held, NewHeld, SeriesRow, SightingRow
from spool.settings import SpoolSettings
from spool.settling import MERGED, MOVED, Change, Evidence, Moved, Outcomes, Position, Settled
from spool.store import Depth, ItemCounts, LostAppend, Refusal

T = TypeVar("T")
CHUNK_RECORDS: Final = 500
EMPTY_BYTES: Final = 8192
"""Nothing is kept for nothing."""
NEVER_SETTLES: Final = 1 << 62
MESSAGE_CHARS: Final = 512


@dataclass(slots=True)
class Chunk:
    seq: int
    lane: Lane
    received_ms: int = 0
    records: list[bytes] = field(default_factory=list)
    facts: bytes = b""
    links: bytes = b""
    changes: dict[int, tuple[str, bytes | None]] = field(default_factory=dict)

    def left(self, first: int = 0) -> Iterator[tuple[int, bytes]]:
        """Index and bytes of each record from *first* on, as settling left it."""
        for idx, stored in enumerate(self.records[first:], first):
            record = self.changes[idx][1] if idx in self.changes else stored
            if record is not None:
                yield idx, record

    def outcomes(self) -> Iterator[tuple[str, bytes]]:
        for idx, stored in enumerate(self.records):
            outcome, record = self.changes.get(idx, ("kept", None))
            if outcome != MOVED:
                yield outcome, stored if record is None else record

    def size_bytes(self) -> int:
        return sum(map(len, self.records)) + len(self.facts) + len(self.links)


@dataclass(slots=True)
class LaneState:
    source: Lane
    next: Position
    """Of the first record that was in no batch."""
    frozen: list["Frozen"] = field(default_factory=list)
    """The oldest first."""


@dataclass(slots=True)
class Frozen:
    batch: Batch
    positions: list[Position]

    @property
    def first(self) -> Position:
        return self.positions[0]


@dataclass(slots=True)
class Disk:
    """What is kept."""

    gateway_id: str = "gw-0000000000000000"
    next_seq: int = 1
    chunks: dict[int, Chunk] = field(default_factory=dict)
    lanes: dict[Lane, LaneState] = field(default_factory=dict)
    settled: dict[Lane, int] = field(default_factory=dict)
    letters: list[DeadLetter] = field(default_factory=list)
    last_letter: int = 0
    letter_bytes: int = 0
    """What dead letters may take."""
    counters: Counters = field(default_factory=Counters)
    brakes: dict[Lane, str] = field(default_factory=dict)
    seen: Seen | None = None
    series: dict[bytes, SeriesRow] = field(default_factory=dict)
    sightings: dict[str, int] = field(default_factory=dict)
    held: dict[int, Held] = field(default_factory=dict)
    last_held: int = 0
    refuses_chunks: bool = False
    """Every commit that has a chunk in it fails."""

    def add(self, chunk: Chunk) -> None:
        """Raises SpoolError."""
        if self.refuses_chunks:
            raise SpoolError("the disk takes no records")
        self.chunks[chunk.seq] = chunk

    def of(self, source: Lane, first_seq: int = 0, last_seq: int = NEVER_SETTLES) -> list[Chunk]:
        """The chunks of *source* from *first_seq* through *last_seq*, in order."""
        return [
            chunk for seq, chunk in sorted(self.chunks.items()) if chunk.lane == source and first_seq <= seq <= last_seq
        ]

    def ready(self, lane: Lane) -> list[Chunk]:
        """Those of which *lane* may freeze records."""
        state = self.lanes[lane]
        return self.of(state.source, state.next.seq, self.settled[state.source])

    def followers(self, own: Lane) -> list[Lane]:
        return [name for name, state in self.lanes.items() if state.source == own]

    def size_bytes(self) -> int:
        kept = sum(chunk.size_bytes() for chunk in self.chunks.values())
        return EMPTY_BYTES + kept + sum(len(letter.record) for letter in self.letters)

    def newest_ms(self) -> int | None:
        times = [self.chunks[max(self.chunks)].received_ms] if self.chunks else []
        return max([*times, *(held.received_ms for held in self.held.values())], default=None)

    def last_seq(self) -> int:
        settled = [seq for seq in self.settled.values() if seq < NEVER_SETTLES]
        return max([0, *self.chunks, *(state.next.seq for state in self.lanes.values()), *settled])

    def bury(self, lane: Lane, refusals: Sequence[tuple[Refusal, bytes]], now_ms: int) -> None:
        for refusal, record in refusals:
            self.last_letter += 1
            message = refusal.message[:MESSAGE_CHARS]
            self.letters.append(DeadLetter(self.last_letter, lane, now_ms, refusal.code, message, len(record), record))


Operation = Callable[[Disk], T]


class SpoolInMemory:
    """`spool.store.Spool`, but for what it says above. Used on the event loop's thread."""

    def __init__(
        self,
        home: "MemoryHome",
        settings: SpoolSettings,
        *,
        now_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
        exporters: Sequence[Lane] = (),
        settling: Sequence[Lane] = (AI_TELEMETRY,),
    ) -> None:
        self.settings = settings
        self._home = home
        self._is_closed = False
        self._wall_ms = now_ms
        self._settling = frozenset(settling)
        self._sources = {lane: lane for lane in OWN_LANES} | dict.fromkeys(exporters, AI_TELEMETRY)
        self._loop = asyncio.get_running_loop()
        home.commit(self._prepare)
        disk = home.disk
        self._now_ms = AgeClock(age_at_start(disk.seen, disk.newest_ms(), now_ms()), monotonic_ms)
        self._next_seq = disk.last_seq() + 1
        self._sealed_seq = disk.last_seq()
        self._open: dict[Lane, list[Chunk]] = {}
        self._counts: list[ItemCounts] = []
        self._appenders: list[asyncio.Future[None]] = []
        self._asked: list[Callable[[], None]] = []
        self._behind: list[Callable[[], None]] = []
        self._commits_soon = False
        self._leased: dict[Lane, set[str]] = {lane: set() for lane in self._sources}
        self._wakes = {lane: asyncio.Event() for lane in self._sources}
        self._not_before_ms: dict[Lane, int] = {}
        self._oldest_ms: dict[Lane, int | None] = {}
        self._kept_after: dict[Lane, int] = {}
        self._lost: SpoolError | None = None
        self.lost_appends = 0
        self.on_lost_append: LostAppend | None = None
        self.series = SeriesInMemory(self)
        self._random = 0

    def _prepare(self, disk: Disk) -> None:
        for lane in [lane for lane in disk.lanes if lane not in self._sources]:
            counters = disk.counters.lane(lane)
            counters.expired, counters.pending = counters.expired + counters.pending, 0
            del disk.lanes[lane]
        for lane, source in self._sources.items():
            disk.counters.lane(lane)
            disk.settled.setdefault(source, 0 if source in self._settling else NEVER_SETTLES)
            if lane not in disk.lanes:
                start = 0 if lane == source else disk.last_seq() + 1
                disk.lanes[lane] = LaneState(source, Position(start, 0))
                if source == AI_TELEMETRY and disk.held:
                    disk.counters.keep(lane, len(disk.held))
        disk.letter_bytes = max(disk.letter_bytes, self.settings.dead_letter_bytes)

    @property
    def disk(self) -> Disk:
        return self._home.disk

    @property
    def gateway_id(self) -> str:
        return self.disk.gateway_id

    def age_ms(self) -> int:
        return self._now_ms()

    def wall_ms(self) -> int:
        return self._wall_ms()

    # ---- in

    def admit(self, size: int) -> None:
        self._refuse_if_lost()
        if self.used_bytes + size > self.settings.max_bytes:
            error = SpoolFull("the spool holds as much as spool.max_bytes allows")
            error.retry_after_s = 1
            raise error

    def _refuse_if_lost(self) -> None:
        if self._lost is not None:
            raise self._lost.copied()

    def reserve(self) -> AbstractContextManager[object]:
        return nullcontext()  # commits are made between turns of the loop

    @property
    def sealed_seq(self) -> int:
        return self._sealed_seq

    def _chunk(self, lane: Lane) -> Chunk:
        chunks = self._open.setdefault(lane, [])
        if not chunks or len(chunks[-1].records) >= CHUNK_RECORDS:
            chunks.append(Chunk(self._numbered(), lane))
        return chunks[-1]

    def _numbered(self) -> int:
        self._next_seq += 1
        return self._next_seq - 1

    def position(self, lane: Lane) -> tuple[int, int]:
        self._refuse_if_lost()
        chunk = self._chunk(lane)
        return chunk.seq, len(chunk.records)

    def number_chunk(self) -> int:
        for chunks in self._open.values():
            if chunks and not chunks[-1].records and not chunks[-1].links:
                chunks.pop()
        return self._numbered()

    def append(
        self, lane: Lane, records: Sequence[bytes], counts: ItemCounts, *, facts: bytes = b"", links: bytes = b""
    ) -> Awaitable[None]:
        self._refuse_if_lost()
        if records or links:
            chunk = self._chunk(lane)
            chunk.records += records
            chunk.facts += facts
            chunk.links += links
        self._counts.append(counts)
        self._appenders.append(self._loop.create_future())
        self._commit_soon()
        return self._appenders[-1]

    def _commit_soon(self) -> None:
        if not self._commits_soon:
            self._commits_soon = True
            self._loop.call_soon(self._commit)

    def ask(self, operation: Operation[T]) -> Awaitable[T]:
        return self._ask(operation, self._asked)

    def ask_behind(self, operation: Operation[T]) -> Awaitable[T]:
        return self._ask(operation, self._behind)

    def ask_with_appends(self, operation: Callable[[Any, Any], T]) -> Awaitable[T]:
        self._refuse_if_lost()
        lost_appends = self.lost_appends

        def checked(disk: Disk) -> T:
            if lost_appends != self.lost_appends:
                raise SpoolError("what was decided upon did not come to disk")
            return operation(disk, disk.counters)

        return self.ask(checked)

    def _ask(self, operation: Operation[T], asked: list[Callable[[], None]]) -> Awaitable[T]:
        if self._is_closed:
            raise SpoolError("the spool is closed")
        future: asyncio.Future[T] = self._loop.create_future()

        def answer() -> None:
            try:
                found = self._home.commit(operation)
            except Exception as error:  # noqa: BLE001 it is raised where it was asked
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(found)

        asked.append(answer)
        self._commit_soon()
        return future

    def _commit(self) -> None:
        """What was gathered, then what was asked, then what waits behind."""
        self._commits_soon = False
        self._sealed_seq = self._next_seq - 1
        opened, self._open = self._open, {}
        counts, self._counts = self._counts, []
        appenders, self._appenders = self._appenders, []
        asked, self._asked, self._behind = [*self._asked, *self._behind], [], []
        if appenders:
            chunks = [x for chunks in opened.values() for x in chunks if x.records or x.links]
            self._keep(chunks, counts, appenders)
        for answer in asked:
            answer()

    def _keep(self, chunks: list[Chunk], counts: list[ItemCounts], appenders: list[asyncio.Future[None]]) -> None:
        now_ms = self._now_ms()

        def keep(disk: Disk) -> None:
            for chunk in chunks:
                disk.add(replace(chunk, received_ms=now_ms))
                for lane in disk.followers(chunk.lane):
                    disk.counters.keep(lane, len(chunk.records))
            for each in counts:
                disk.counters.add(each)

        try:
            self._home.commit(keep)
        except SpoolError as error:
            self._lose(error, appenders)
            return
        for appender in appenders:
            if not appender.done():
                appender.set_result(None)
        for chunk in chunks:
            if chunk.lane not in self._settling:
                self._wake(chunk.lane)

    def _lose(self, error: SpoolError, appenders: list[asyncio.Future[None]]) -> None:
        for appender in [*appenders, *self._appenders]:
            if not appender.done():
                appender.set_exception(error.copied())
        self._appenders, self._open, self._counts = [], {}, []
        self.lost_appends += 1
        if self.on_lost_append is not None:
            self._lost = error
            self.on_lost_append(is_distrusted=False)

    def refuse_appends(self, error: SpoolError) -> None:
        self._lost = error
        if self.on_lost_append is not None:
            self.on_lost_append(is_distrusted=True)

    def accept_appends(self) -> None:
        self._lost = None

    # ---- settling

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
        self._wake(lane)

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

    # ---- out

    async def freeze(self, lane: Lane, *, max_records: int, max_bytes: int) -> Batch | None:
        found = await self.ask_behind(lambda disk: self._freeze(disk, lane, max_records, max_bytes))
        if isinstance(found, int):
            self._not_before_ms[lane] = found
            return None
        return found

    def _freeze(self, disk: Disk, lane: Lane, max_records: int, max_bytes: int) -> Batch | int | None:
        """The batch; the time from which on there may be one; None for nothing."""
        state, leased = disk.lanes[lane], self._leased[lane]
        for frozen in state.frozen:
            if frozen.batch.batch_id not in leased:
                leased.add(frozen.batch.batch_id)
                return frozen.batch
        ready_ms = self._ready_ms(disk, lane, max_records, max_bytes)
        if ready_ms is not None:
            return ready_ms
        taken, upto = self._take(disk, lane, max_records, max_bytes)
        state.next = upto
        if not taken:
            return None
        wall_ms = self._wall_ms()
        batch = Batch(self._batch_id(), lane, 0, 0, rfc3339_ms(wall_ms), tuple(record for _, record in taken))
        state.frozen.append(Frozen(batch, [position for position, _ in taken]))
        leased.add(batch.batch_id)
        return batch

    def _batch_id(self) -> str:
        self._random += 1
        return uuid7(self._wall_ms(), self._random.to_bytes(10, "big"))

    def _take(
        self, disk: Disk, lane: Lane, max_records: int, max_bytes: int
    ) -> tuple[list[tuple[Position, bytes]], Position]:
        taken: list[tuple[Position, bytes]] = []
        size_bytes, upto = 0, disk.lanes[lane].next
        for chunk in disk.ready(lane):
            if len(taken) >= max_records:
                break
            for idx, record in chunk.left(upto.idx if chunk.seq == upto.seq else 0):
                if taken and (len(taken) == max_records or size_bytes + len(record) + 1 > max_bytes):
                    return taken, Position(chunk.seq, idx)
                taken.append((Position(chunk.seq, idx), record))
                size_bytes += len(record) + 1
            upto = Position(chunk.seq + 1, 0)
        return taken, upto

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
        now_ms = self._now_ms()

        def ack(disk: Disk) -> None:
            if not _forget(disk, batch):
                return
            placed = {x.index: x for x in refused if x.index is not None and 0 <= x.index < len(batch.records)}
            counted = [x for x in refused if x.index is None]
            n = len(placed) + sum(x.records for x in counted)
            counters = disk.counters.lane(batch.lane)
            counters.pending -= len(batch.records)
            counters.delivered += len(batch.records) - n
            counters.dead_lettered += n
            letters = [(x, batch.records[index]) for index, x in sorted(placed.items())]
            disk.bury(batch.lane, [*letters, *((x, b"") for x in counted)], now_ms)

        await self.ask_behind(ack)
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
        self._leased[batch.lane].discard(batch.batch_id)
        self._wakes[batch.lane].set()

    async def split(self, batch: Batch) -> None:
        ids = self._batch_id(), self._batch_id()

        def split(disk: Disk) -> None:
            frozen = disk.lanes[batch.lane].frozen
            (at,) = [i for i, known in enumerate(frozen) if known.batch.batch_id == batch.batch_id]
            known = frozen[at]
            half = len(known.positions) // 2
            if not half:
                raise ValueError("a batch of one record cannot be split")
            frozen[at : at + 1] = [
                Frozen(
                    replace(
                        known.batch, batch_id=batch_id, generation=0, attempts=0, records=known.batch.records[part]
                    ),
                    known.positions[part],
                )
                for batch_id, part in zip(ids, (slice(half), slice(half, None)), strict=True)
            ]

        await self.ask_behind(split)
        self._leased[batch.lane].discard(batch.batch_id)
        self._wakes[batch.lane].set()

    async def bury(self, batch: Batch, code: str, message: str) -> None:
        now_ms = self._now_ms()

        def bury(disk: Disk) -> None:
            if not _forget(disk, batch):
                return
            counters = disk.counters.lane(batch.lane)
            counters.pending -= len(batch.records)
            counters.dead_lettered += len(batch.records)
            disk.bury(batch.lane, [(Refusal(None, code, message), record) for record in batch.records], now_ms)

        await self.ask_behind(bury)
        self._leased[batch.lane].discard(batch.batch_id)

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
            if disk.lanes[lane].frozen:
                return True
            return bool(disk.ready(lane)) and self._ready_ms(disk, lane, max_records, max_bytes) is None

        return await self.ask_behind(is_ready)

    def forget_leases(self, lane: Lane) -> None:
        self._leased[lane].clear()
        self._wakes[lane].set()

    async def wait_ready(self, lane: Lane, timeout_s: float) -> None:
        wake = self._wakes[lane]
        if not_before_ms := self._not_before_ms.pop(lane, None):
            timeout_s = min(timeout_s, max(0.0, (not_before_ms - self._now_ms()) / 1000))
        try:
            async with asyncio.timeout(timeout_s):
                await wake.wait()
        except TimeoutError:
            return
        wake.clear()

    def _wake(self, own: Lane) -> None:
        for lane, source in self._sources.items():
            if source == own:
                self._wakes[lane].set()

    # ---- what it holds

    def edge(self) -> Mapping[str, int]:
        return self.disk.counters.edge

    def reasons(self) -> Mapping[str, int]:
        return self.disk.counters.reasons

    def lanes(self) -> Sequence[Lane]:
        return list(self._sources)

    def depth(self, lane: Lane) -> Depth:
        x = self.disk.counters.lanes[lane]
        oldest_ms = self._oldest_ms.get(lane) if x.pending else None
        return Depth(x.kept, x.delivered, x.pending, x.dead_lettered, x.expired, oldest_ms)

    def dead_letter_summary(self) -> DeadLetterSummary:
        return DeadLetterSummary()

    @property
    def commit_seconds(self) -> Histogram:
        return Histogram(ANSWER_S)

    @property
    def used_bytes(self) -> int:
        gathered = (chunk.size_bytes() for chunks in self._open.values() for chunk in chunks)
        return self.disk.size_bytes() + sum(gathered)

    @property
    def is_crowded(self) -> bool:
        return self.used_bytes > self.settings.max_bytes * 3 // 4

    def keep_after(self, lane: Lane, seq: int) -> None:
        self._kept_after[lane] = seq

    async def settled_records(self, lane: Lane, after_seq: int, *, most_bytes: int) -> Settled:
        def read(disk: Disk) -> Settled:
            records: list[bytes] = []
            through_seq = min(after_seq, disk.settled[lane])
            for chunk in disk.of(lane, after_seq + 1, disk.settled[lane]):
                records += [record for _, record in chunk.left()]
                through_seq = chunk.seq
                if sum(map(len, records)) >= most_bytes:
                    return Settled(records, through_seq, is_more=True)
            return Settled(records, through_seq, is_more=False)

        return await self.ask_behind(read)

    async def settled_outcomes(self, lane: Lane, after_seq: int, *, most_bytes: int, most_behind: int) -> Outcomes:
        def read(disk: Disk) -> Outcomes:
            settled = disk.settled[lane]
            from_seq = max(min(after_seq, settled), settled - most_behind)
            skipped = sum(len(chunk.records) for chunk in disk.of(lane, after_seq + 1, from_seq))
            return _outcomes(disk.of(lane, from_seq + 1, settled), from_seq, skipped, most_bytes)

        return await self.ask_behind(read)

    async def outcomes_before(self, lane: Lane, before_seq: int, *, most_bytes: int) -> Outcomes:
        def read(disk: Disk) -> Outcomes:
            chunks = disk.of(lane, 0, min(before_seq - 1, disk.settled[lane]))
            return _outcomes(chunks[::-1], before_seq, 0, most_bytes, newest_first=True)

        return await self.ask_behind(read)

    async def pending_bodies(self, lane: Lane) -> AsyncIterator[bytes]:
        state = self.disk.lanes[lane]
        first = min([state.next.seq, *(frozen.first.seq for frozen in state.frozen)])
        for chunk in self.disk.of(state.source, first):
            yield b"".join(chunk.records)

    # ---- upkeep

    async def run_maintenance(self) -> None:
        now_ms, settings = self._now_ms(), self.settings
        is_crowded = self.is_crowded

        def maintain(disk: Disk) -> None:
            for lane in self._sources:
                _expire(disk, lane, now_ms - settings.max_age_ms, self._leased[lane])
            before_ms = now_ms if is_crowded else now_ms - max(settings.keep_delivered_ms, settings.window_ms)
            _reclaim(disk, before_ms, {} if is_crowded else self._kept_after)
            disk.letters = [x for x in disk.letters if x.buried_ms >= now_ms - settings.keep_dead_letters_ms]
            while (kept := sum(len(x.record) for x in disk.letters)) > disk.letter_bytes:
                del disk.letters[0]
            needed = disk.letter_bytes if disk.size_bytes() > settings.max_bytes else min(disk.letter_bytes, kept)
            disk.letter_bytes = max(settings.dead_letter_bytes, needed)
            disk.seen = Seen(now_ms, self._wall_ms())

        await self.ask_behind(maintain)
        self._oldest_ms = {lane: _oldest_pending_ms(self.disk, lane) for lane in self._sources}

    async def close(self) -> None:
        seen = Seen(self._now_ms(), self._wall_ms())

        def note(disk: Disk) -> None:
            disk.seen = seen

        await self.ask(note)
        self._lost = SpoolError("the spool is closed")
        self._is_closed = True


class SeriesInMemory:
    """`spool.store.SeriesStore`."""

    def __init__(self, spool: SpoolInMemory) -> None:
        self._spool = spool

    async def series(self, keys: Sequence[bytes]) -> list[SeriesRow]:
        return await self._spool.ask(lambda disk: [disk.series[key] for key in keys if key in disk.series])

    def keep(
        self,
        held: Sequence[NewHeld],
        series: Sequence[SeriesRow],
        sightings: Sequence[SightingRow],
        counts: ItemCounts,
        received_ms: int,
    ) -> Awaitable[None]:
        def keep(disk: Disk) -> None:
            disk.series |= {row.key: row for row in series}
            _see(disk, sightings)
            for new in held:
                disk.last_held += 1
                disk.held[disk.last_held] = Held(disk.last_held, received_ms, new.facts, new.record)
            for lane in disk.followers(AI_TELEMETRY):
                disk.counters.keep(lane, len(held))
            disk.counters.add(counts)

        return self._spool.ask(keep)

    def note(self, sightings: Sequence[SightingRow]) -> Awaitable[None]:
        return self._spool.ask(lambda disk: _see(disk, sightings))

    async def sightings(self, seen_after_ms: int, most: int) -> list[SightingRow]:
        def read(disk: Disk) -> list[SightingRow]:
            found = [SightingRow(whose, at_ms) for whose, at_ms in disk.sightings.items() if at_ms > seen_after_ms]
            return sorted(found, key=lambda row: row.seen_ms)[-most:]

        return await self._spool.ask(read)

    async def oldest_held_ms(self) -> int | None:
        return await self._spool.ask(lambda disk: min((x.received_ms for x in disk.held.values()), default=None))

    async def held_count(self) -> int:
        return await self._spool.ask(lambda disk: len(disk.held))

    async def due(self, received_through_ms: int, most: int) -> list[Held]:
        def read(disk: Disk) -> list[Held]:
            found = [x for x in disk.held.values() if x.received_ms <= received_through_ms]
            return sorted(found, key=lambda x: (x.received_ms, x.held_id))[:most]

        return await self._spool.ask(read)

    async def turn_back(self, now_ms: int) -> None:
        def turn_back(disk: Disk) -> None:
            disk.held = {i: x._replace(received_ms=min(x.received_ms, now_ms)) for i, x in disk.held.items()}

        await self._spool.ask(turn_back)

    async def end(self, endings: Sequence[Ending], now_ms: int, announce: Callable[[int], None]) -> None:
        seq = 0
        if any(ending.outcome is None for ending in endings):
            seq = self._spool.number_chunk()
            announce(seq)

        def end(disk: Disk) -> None:
            known = [ending for ending in endings if disk.held.pop(ending.held_id, None) is not None]
            for ending in known:
                if ending.outcome is not None:
                    disk.counters.drop(disk.followers(AI_TELEMETRY), ending.outcome)
            if released := [ending.record for ending in known if ending.outcome is None]:
                disk.add(Chunk(seq, AI_TELEMETRY, now_ms, released))

        await self._spool.ask(end)

    async def forget(self, now_ms: int, seen_before_ms: int) -> int:
        def forget(disk: Disk) -> int:
            before = len(disk.series) + len(disk.sightings)
            disk.series = {key: row for key, row in disk.series.items() if row.until_ms >= now_ms}
            disk.sightings = {whose: at for whose, at in disk.sightings.items() if at >= seen_before_ms}
            return before - len(disk.series) - len(disk.sightings)

        return await self._spool.ask(forget)


class MemoryHome:
    """Where a spool in memory is kept while it is closed."""

    def __init__(self, disk: Disk | None = None) -> None:
        self.disk = disk or Disk()
        self.on_commit: Callable[[], None] = lambda: None
        """Called before and after each commit."""

    def commit(self, operation: Operation[T]) -> T:
        """What *operation* returns, and what it changed is kept; nothing where it raises."""
        self.on_commit()
        changed = copy.deepcopy(self.disk)
        found = operation(changed)
        self.disk = changed
        self.on_commit()
        return found


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
    chunks: Sequence[Chunk], through_seq: int, skipped: int, most_bytes: int, *, newest_first: bool = False
) -> Outcomes:
    items: list[tuple[str, bytes]] = []
    size_bytes = 0
    for chunk in chunks:
        found = list(chunk.outcomes())
        items += found[::-1] if newest_first else found
        size_bytes += sum(map(len, chunk.records))
        through_seq = chunk.seq
        if size_bytes >= most_bytes:
            return Outcomes(items, through_seq, is_more=True, skipped=skipped)
    return Outcomes(items, through_seq, is_more=False, skipped=skipped)


def _forget(disk: Disk, batch: Batch) -> bool:
    """Whether the batch was there."""
    frozen = disk.lanes[batch.lane].frozen
    left = [known for known in frozen if known.batch.batch_id != batch.batch_id]
    disk.lanes[batch.lane].frozen = left
    return len(left) < len(frozen)


def _expire(disk: Disk, lane: Lane, received_before_ms: int, leased: set[str]) -> None:
    state, expired = disk.lanes[lane], 0
    for chunk in disk.ready(lane):
        if chunk.received_ms >= received_before_ms:
            break
        expired += sum(1 for _ in chunk.left(state.next.idx if chunk.seq == state.next.seq else 0))
        state.next = Position(chunk.seq + 1, 0)
    for frozen in list(state.frozen):
        newest_ms = max(disk.chunks[position.seq].received_ms for position in frozen.positions)
        if newest_ms < received_before_ms and frozen.batch.batch_id not in leased:
            state.frozen.remove(frozen)
            expired += len(frozen.positions)
    counters = disk.counters.lane(lane)
    counters.pending -= expired
    counters.expired += expired


def _reclaim(disk: Disk, before_ms: int, kept_after: Mapping[Lane, int]) -> None:
    for own in OWN_LANES:
        readers = [disk.lanes[lane] for lane in disk.followers(own)]
        needed = min(min([x.next.seq, *(frozen.first.seq for frozen in x.frozen)]) for x in readers)
        for chunk in disk.of(own, 0, min(needed - 1, kept_after.get(own, needed))):
            if chunk.received_ms >= before_ms:
                break
            del disk.chunks[chunk.seq]


def _oldest_pending_ms(disk: Disk, lane: Lane) -> int | None:
    state = disk.lanes[lane]
    first = min([state.next.seq, *(frozen.first.seq for frozen in state.frozen)])
    times = [chunk.received_ms for chunk in disk.of(state.source, first)[:1]]
    if state.source == AI_TELEMETRY:
        times += [held.received_ms for held in disk.held.values()]
    return min(times, default=None)


def _see(disk: Disk, sightings: Sequence[SightingRow]) -> None:
    for whose, seen_ms in sightings:
        disk.sightings[whose] = max(seen_ms, disk.sightings.get(whose, 0))
