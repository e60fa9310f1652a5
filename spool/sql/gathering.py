"""What waits for the next commit: filled on the event loop's thread, taken whole by the
writer's whenever that is free.

So commits follow each other without a turn of the loop between them, and what one commit holds is
what came while the one before it was on its way to the disk. A writer that sleeps is woken when an
iteration of the loop ends: all requests that it brought share a commit. A lock keeps the two apart;
who needs a position to stay true until its append holds it in between (`reserve`). Chunk numbers
are handed out here, so a record can be named before it is on disk.

Operations on which no append depends wait behind: they are committed after the appends that were
gathered, so that no sender waits for what a lane reads.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from spool.commit_delay import MAX_APPENDS
from spool.record import Lane
from spool.sql.chunks import ChunkRow, chunk_of
from spool.sql.groups import Group, Look, Operation
from spool.store import ItemCounts

CHUNK_RECORDS = 500
"""A chunk is closed when it holds this many records: about half of what travels in one batch."""
CHUNK_BYTES = 1 << 20


@dataclass(slots=True)
class _OpenChunk:
    """Records of one lane that wait for the next commit."""

    seq: int
    records: list[bytes] = field(default_factory=list)
    facts: list[bytes] = field(default_factory=list)
    links: list[bytes] = field(default_factory=list)
    size: int = 0

    def row(self, lane: Lane, received_ms: int) -> ChunkRow:
        """The row of table `chunk`."""
        return chunk_of(
            self.seq, lane, received_ms, self.records, facts=b"".join(self.facts), links=b"".join(self.links)
        )


@dataclass(slots=True)
class Gathered:
    """One commit's work, and who waits for it."""

    group: Group = field(default_factory=Group)
    chunks: dict[Lane, list[_OpenChunk]] = field(default_factory=dict)
    appenders: list[asyncio.Future[None]] = field(default_factory=list)
    askers: list[asyncio.Future[Any]] = field(default_factory=list)
    size: int = 0
    """Bytes of the chunks."""


def _of_one_kind(operations: Sequence[Operation]) -> int:
    """How many at the beginning only read, or do not."""
    kinds = [isinstance(operation, Look) for operation in operations]
    return kinds.index(not kinds[0]) if len({*kinds}) > 1 else len(kinds)


class Gathering:
    def __init__(
        self, next_seq: int, now_ms: Callable[[], int], call_soon: Callable[[Callable[[], None]], object]
    ) -> None:
        """*call_soon* is the event loop's."""
        self._call_soon = call_soon
        self._wakes_soon = False
        self.lock = threading.RLock()
        self.waiting = threading.Event()
        """Set while there is something to take; the writer's thread sleeps on it."""
        self.urgent = threading.Event()
        """Set while what waits should not wait for more: an operation, or enough appends."""
        self.enough = MAX_APPENDS
        """So many appends wait for no more; the writer's thread sets it."""
        self._behind: list[tuple[Operation, asyncio.Future[Any]]] = []
        self.since_s = 0.0
        """`time.monotonic()` when the first of what waits came."""
        self.sealed_seq = next_seq - 1
        """Chunks up to here take no more records: they are on disk or on their way."""
        self._next_seq = next_seq
        self._now_ms = now_ms
        self._open = Gathered()
        self._committing_bytes = self._unmeasured_bytes = 0

    @property
    def size(self) -> int:
        """Bytes that were gathered, or taken and not yet `landed` and measured."""
        return self._open.size + self._committing_bytes

    @property
    def waiting_bytes(self) -> int:
        """Of what is in memory: gathered, or on its way to the disk."""
        return self.size - self._unmeasured_bytes

    def chunk(self, lane: Lane) -> _OpenChunk:
        """The chunk that takes *lane*'s next record."""
        chunks = self._open.chunks.setdefault(lane, [])
        if not chunks or len(chunks[-1].records) >= CHUNK_RECORDS or chunks[-1].size >= CHUNK_BYTES:
            chunks.append(_OpenChunk(self._next_seq))
            self._next_seq += 1
        return chunks[-1]

    def number(self) -> int:
        """The number of a chunk that an operation will write itself; it is in the commit of
        what is asked in the same turn.

        A chunk that is open and empty gives its number up: what comes into it later would
        stand before this one.
        """
        with self.lock:
            for chunks in self._open.chunks.values():
                if chunks and not chunks[-1].records and not chunks[-1].links:
                    chunks.pop()
            self._next_seq += 1
            return self._next_seq - 1

    def add(
        self,
        lane: Lane,
        records: Sequence[bytes],
        counts: ItemCounts,
        facts: bytes,
        links: bytes,
        appender: asyncio.Future[None],
    ) -> None:
        """Add records to the lane's open chunk; *appender* is done when they are on disk."""
        with self.lock:
            gathered = self._open
            if records or links:
                chunk = self.chunk(lane)
                size = sum(map(len, records)) + len(facts) + len(links)
                chunk.records.extend(records)
                chunk.size += size
                if facts:
                    chunk.facts.append(facts)
                if links:
                    chunk.links.append(links)
                gathered.size += size
            gathered.group.counts.append(counts)
            gathered.appenders.append(appender)
            self._wake_soon()

    def join(self, operation: Operation, appender: asyncio.Future[None]) -> None:
        """Run *operation* in the commit of the appends that wait, with them or not at all."""
        with self.lock:
            self._open.group.joined.append(operation)
            self._open.appenders.append(appender)
            self._wake_soon()

    def _wake_soon(self) -> None:
        """Wake the writer when this iteration of the loop ends. Woken at once, it would ask for the
        interpreter in the middle of it, and commit the first of many alone.
        """
        if not self._wakes_soon:
            self._wakes_soon = True
            if not self.waiting.is_set():
                self.since_s = time.monotonic()
            self._call_soon(self._wake)

    def _wake(self) -> None:
        with self.lock:
            self._wakes_soon = False
            if self._open.askers or not 0 < len(self._open.appenders) < self.enough:
                self.urgent.set()
            self.waiting.set()

    def ask(self, operation: Operation, asker: asyncio.Future[Any]) -> None:
        with self.lock:
            self._open.group.operations.append(operation)
            self._open.askers.append(asker)
            self._wake_soon()

    def ask_behind(self, operation: Operation, asker: asyncio.Future[Any]) -> None:
        """Run *operation* in a later commit than that of the appends which wait now."""
        with self.lock:
            self._behind.append((operation, asker))
            self._wake_soon()

    def take_behind(self) -> Gathered:
        """The first operations that wait behind, of one kind: those that only read, or others. On
        the writer's thread, after `take`.
        """
        with self.lock:
            n = _of_one_kind([operation for operation, _ in self._behind])
            taken, self._behind = self._behind[:n], self._behind[n:]
            if self._behind:
                self.waiting.set()
        return Gathered(Group(operations=[operation for operation, _ in taken]), askers=[asker for _, asker in taken])

    def put_back(self, gathered: Gathered, done: int) -> None:
        """Of operations that were taken from behind only the first *done* were run."""
        left = list(zip(gathered.group.operations, gathered.askers, strict=True))[done:]
        if left:
            del gathered.askers[done:]
            with self.lock:
                self._behind[:0] = left
                self.waiting.set()

    def take(self) -> Gathered:
        """All that waits, less what waits behind; on the writer's thread.

        What is empty is taken too: the next one starts again.
        """
        with self.lock:
            gathered = self._open
            self._committing_bytes += gathered.size  # before it is no longer among the open ones: `size` takes no lock
            self._open = Gathered()
            self.sealed_seq = self._next_seq - 1
            self.waiting.clear()
            self.urgent.clear()
            now_ms = self._now_ms()
        for lane, chunks in gathered.chunks.items():
            gathered.group.chunks += [chunk.row(lane, now_ms) for chunk in chunks if chunk.records or chunk.links]
        return gathered

    def landed(self, gathered: Gathered, *, is_measured: bool) -> None:
        """What was taken is on the disk, or lost. It is counted in `size` until the room that the
        spool takes `is_measured` again.
        """
        with self.lock:
            self._unmeasured_bytes += gathered.size
            if is_measured:
                self._committing_bytes -= self._unmeasured_bytes
                self._unmeasured_bytes = 0

    def void_appends(self) -> list[asyncio.Future[None]]:
        """Forget the appends that wait, but not the operations; who waited for them."""
        with self.lock:
            gathered = self._open
            appenders = gathered.appenders
            gathered.appenders, gathered.chunks, gathered.size = [], {}, 0
            gathered.group.counts, gathered.group.joined = [], []
            return appenders
