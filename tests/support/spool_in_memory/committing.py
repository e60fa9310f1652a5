"""What each part of a spool in memory stands on: one commit after another, on the event loop's
thread. An append is gathered, and kept in the next commit or lost with it.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Final, TypeVar

from spool.age import AgeClock, Seen, age_at_start
from spool.clock import uuid7
from spool.errors import SpoolError, SpoolFull
from spool.record import AI_TELEMETRY, OWN_LANES, Lane
from spool.settings import SpoolSettings
from spool.settling import Position
from spool.store import Depth, ItemCounts, LostAppend
from tests.support.spool_in_memory.disk import NEVER_SETTLES, Chunk, Disk, LaneState, Operation
from tests.support.spool_in_memory.home import MemoryHome

T = TypeVar("T")
CHUNK_RECORDS: Final = 500


class Committing:
    def __init__(
        self,
        home: MemoryHome,
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
        self._wakes = {lane: asyncio.Event() for lane in self._sources}
        self._not_before_ms: dict[Lane, int] = {}
        self._oldest_ms: dict[Lane, int | None] = {}
        self._lost: SpoolError | None = None
        self.lost_appends = 0
        self.on_lost_append: LostAppend | None = None

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
                disk.counters.keep(lane, disk.held_in(source))
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

    def batch_id(self) -> str:
        return uuid7(self._wall_ms(), os.urandom(10))

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
                self.wake(chunk.lane)

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

    async def close(self) -> None:
        await self.ask(self._note_time)
        self._lost = SpoolError("the spool is closed")
        self._is_closed = True

    def _note_time(self, disk: Disk) -> None:
        disk.seen = Seen(self._now_ms(), self._wall_ms())

    # ---- lanes that wait

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

    def wake(self, own: Lane) -> None:
        """Something may be ready in the lanes that read *own*."""
        for lane, source in self._sources.items():
            if source == own:
                self._wakes[lane].set()

    def wake_lane(self, lane: Lane) -> None:
        self._wakes[lane].set()

    def lanes(self) -> Sequence[Lane]:
        return list(self._sources)

    def depth(self, lane: Lane) -> Depth:
        x = self.disk.counters.lanes[lane]
        oldest_ms = self._oldest_ms.get(lane) if x.pending else None
        return Depth(x.kept, x.delivered, x.pending, x.dead_lettered, x.expired, oldest_ms)

    @property
    def used_bytes(self) -> int:
        gathered = (chunk.size_bytes() for chunks in self._open.values() for chunk in chunks)
        return self.disk.size_bytes() + sum(gathered)
