"""The embedded spool: `spool.store.Spool` on one SQLite file.

The event loop's thread gathers appends and operations (`gathering`); the writer's thread takes all that waits whenever it
is free, and commits it, so under load many requests share one fsync, and a lone request waits for no timer.
"""

import asyncio
import logging
import os
import secrets
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from spool.clock import rfc3339_ms, uuid7
from spool.errors import SpoolError, SpoolFull
from spool.figures import Figures
from spool.record import AI_TELEMETRY, OWN_LANES, Batch, Lane
from spool.sqlite import database, rows
from spool.sqlite.gathering import Gathered, Gathering
from spool.sqlite.reserve import RESERVE_BYTES
from spool.sqlite.rows import Change, Evidence, Limits, Moved, Position, Waiting
from spool.sqlite.writer import GroupResult, Operation, Writer
from spool.store import Depth, Refusal, Tally

log = logging.getLogger(__name__)

T = TypeVar("T")

RECLAIM_CHUNKS = 64
"""Chunks deleted in one commit: keeps the wait of an append behind it short."""
VACUUM_PAGES = 256
"""Pages given back to the system in one commit."""
FULL_VACUUM_PAGES = 16_384
"""The same while the disk is full and no append waits: 128 MiB, a tenth of a second."""
EVIDENCE_CHUNKS = 64
"""Chunks read at a time when the ledger is rebuilt: bounds the memory of a start."""


@dataclass(frozen=True, slots=True)
class SpoolSettings:
    """What an operator sets; sizes in bytes, times in ms."""

    max_bytes: int = 8 << 30
    max_age_ms: int = 7 * 86_400_000
    keep_delivered_ms: int = 86_400_000
    window_ms: int = 600_000
    """How long the ledger's evidence is kept, whatever was delivered."""
    linger_ms: int = 1_000
    """How long a lane waits for a fuller batch."""
    synchronous: str = "FULL"
    """FULL survives power loss; NORMAL only the end of the process."""
    reserve_bytes: int = RESERVE_BYTES
    """Held back on the disk, so that deliveries go on when it is full."""


class SqliteSpool:
    """See `spool.store.Spool`. Make with `open_spool` on the event loop's thread; use on that thread only."""

    def __init__(
        self,
        data_dir: Path,
        settings: SpoolSettings,
        *,
        now_ms: Callable[[], int],
        exporters: Sequence[Lane] = (),
        settling: Sequence[Lane] = (AI_TELEMETRY,),
    ) -> None:
        """Open or make the spool in *data_dir*. Raises SpoolLocked, SpoolTooNew, SpoolCorrupt, SpoolError.

        *exporters* are further lanes that read the AI records; records of the *settling* lanes wait for `settle`.
        """
        self.settings = settings
        self._now_ms = now_ms
        with database.mapped_errors(str(data_dir)):
            database.make_private_dir(data_dir)
            self._lock = database.DataLock(data_dir)
        self._sources: dict[Lane, Lane] = {lane: lane for lane in OWN_LANES} | dict.fromkeys(exporters, AI_TELEMETRY)
        self._followers = {own: [x for x, source in self._sources.items() if source == own] for own in OWN_LANES}
        try:
            self._writer = Writer(
                data_dir,
                synchronous=settings.synchronous,
                followers=self._followers,
                reserve_bytes=settings.reserve_bytes,
            )
            prepared: tuple[str, int, Figures] = self._writer.run_now(self._prepare(settling))
            self._gateway_id, next_seq, self._figures = prepared
        except BaseException:
            self._lock.close()
            raise
        self._gathering = Gathering(next_seq, now_ms)
        self._used_bytes = 0
        self._leased: dict[Lane, set[str]] = {lane: set() for lane in self._sources}
        self._wakes: dict[Lane, asyncio.Event] = {lane: asyncio.Event() for lane in self._sources}
        self._not_before_ms: dict[Lane, int] = {}
        self._oldest_ms: dict[Lane, int | None] = {}
        self._committing_bytes = 0
        """Bytes that were gathered and are not yet among the used ones."""
        self._lost: SpoolError | None = None
        self.lost_appends = 0
        """Commits of appends that failed, as far as their senders were told; goes with `settle`."""
        self._freezing = {lane: asyncio.Lock() for lane in self._sources}
        self._is_closed = False
        self.on_lost_append: Callable[[], None] | None = None
        """Called when an append failed after its positions were handed out: what was counted since is void."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._write, name="spool-writer", daemon=True)
        self._thread.start()

    def _prepare(self, settling: Sequence[Lane]) -> Operation:
        def prepare(connection: sqlite3.Connection, figures: Figures) -> tuple[str, int, Figures]:
            connection.execute(
                "INSERT INTO meta (name, value) VALUES ('gateway_id', ?) ON CONFLICT DO NOTHING",
                (f"gw-{secrets.token_hex(8)}",),
            )
            for lane, source in self._sources.items():
                rows.open_lane(connection, figures, lane, source, settles=source in settling)
            for lane, n in rows.close_lanes(connection, figures, list(self._sources)).items():
                log.warning("the exporter %s is no longer set up: %d records that waited for it are expired", lane, n)
            (gateway_id,) = connection.execute("SELECT value FROM meta WHERE name='gateway_id'").fetchone()
            return gateway_id, rows.last_seq(connection) + 1, figures

        return prepare

    @property
    def gateway_id(self) -> str:
        return self._gateway_id

    # ---- in

    def admit(self, size: int) -> None:
        """Raise SpoolFull when *size* more bytes may not be kept, SpoolError while the spool cannot be trusted."""
        if self._writer.is_disk_full:
            raise SpoolFull("the disk is full")
        self._refuse_if_lost()
        if self._used_bytes + self._committing_bytes + self._gathering.size + size > self.settings.max_bytes:
            raise SpoolFull("the spool holds as much as spool.max_bytes allows")

    def _refuse_if_lost(self) -> None:
        if self._lost is not None:
            # A new error each time: one that is raised again and again keeps every frame it came through alive.
            raise type(self._lost)(*self._lost.args)

    def turn(self) -> AbstractContextManager[object]:
        """While it is held, a `position` stays true until the `append` that takes it; hold it briefly."""
        return self._gathering.lock

    @property
    def sealed_seq(self) -> int:
        """Chunks up to here take no more records: they are on disk or on their way."""
        return self._gathering.sealed_seq

    def position(self, lane: Lane) -> tuple[int, int]:
        with self._gathering.lock:
            chunk = self._gathering.chunk(lane)
            return chunk.seq, len(chunk.records)

    def append(
        self, lane: Lane, records: Sequence[bytes], tally: Tally, *, facts: bytes = b"", links: bytes = b""
    ) -> Awaitable[None]:
        self._refuse_if_lost()
        future = self._loop.create_future()
        self._gathering.add(lane, records, tally, facts, links, future)
        return future

    def ask(self, operation: Callable[[sqlite3.Connection, Figures], T]) -> Awaitable[T]:
        """Run *operation* in the next commit, whole or not at all; for the tables that are not of lanes and chunks."""
        return self._ask(operation)

    def followers(self, own: Lane) -> list[Lane]:
        """The lanes that read the chunks of *own*."""
        return self._followers[own]

    def number_chunk(self) -> int:
        """The number of a chunk that an operation asked in the same `turn` will write itself."""
        return self._gathering.number()

    def _ask(self, operation: Callable[[sqlite3.Connection, Figures], T]) -> Awaitable[T]:
        """Run *operation* in the next commit."""
        if self._is_closed:
            raise SpoolError("the spool is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._gathering.ask(operation, future)
        return future

    def _write(self) -> None:
        """The writer's thread: commit what was gathered, for as long as the spool is open."""
        gathering, loop = self._gathering, self._loop
        while True:
            gathering.waiting.wait()
            gathered = gathering.take()
            self._committing_bytes = gathered.size
            result = self._writer.run(gathered.group)
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._done, result, gathered)
            if self._is_closed and not gathering.waiting.is_set():
                break
        self._writer.close()

    def _done(self, result: GroupResult, gathered: Gathered) -> None:
        """Tell everyone what became of the commit."""
        self._figures = result.figures
        self._used_bytes = result.used_bytes
        self._committing_bytes = 0
        if result.appended is None:
            for appender in gathered.appenders:
                if not appender.done():
                    appender.set_result(None)
        else:
            self._lose(result.appended, gathered.appenders)
        for asker, value in zip(gathered.askers, result.results, strict=True):
            if asker.done():
                continue
            if isinstance(value, BaseException):
                asker.set_exception(value)
            else:
                asker.set_result(value)
        for own in gathered.chunks:
            self._wake(own)

    def _lose(self, error: SpoolError, appenders: list[asyncio.Future[None]]) -> None:
        """A commit of appends failed: those waiting, and those counted upon them since, are refused."""
        for appender in [*appenders, *self._gathering.void_appends()]:
            if not appender.done():
                appender.set_exception(type(error)(*error.args))
        self.lost_appends += 1
        if self.on_lost_append is None:
            self._writer.refuses_appends = False
        else:
            self.refuse_appends(error)

    def refuse_appends(self, error: SpoolError) -> None:
        """Take no appends, with *error*, until `trust_again`; whoever keeps the ledger is told."""
        self._lost = error
        if self.on_lost_append is not None:
            self.on_lost_append()

    def trust_again(self) -> None:
        """The ledger was rebuilt from the file: take appends again."""
        self._lost = None
        self._writer.refuses_appends = False

    # ---- settling

    def settle(
        self,
        lane: Lane,
        through_seq: int,
        changes: Sequence[Change] = (),
        *,
        lost_appends: int | None = None,
        moved: Moved | None = None,
    ) -> Awaitable[None]:
        """Let *lane*'s chunks up to *through_seq* be frozen, less what *changes* drop, in one commit with the figures.

        *moved* goes with changes of fate `MOVED`; its chunk is numbered (`number_chunk`) in the `turn` of this call.

        With *lost_appends*, the number of them when the changes were begun, it raises SpoolError when one was lost since:
        a record may then have been dropped in favour of one that never came to disk.
        """

        def settle(connection: sqlite3.Connection, figures: Figures) -> None:
            if lost_appends not in {None, self._writer.lost_appends}:
                raise SpoolError("what was decided upon did not come to disk")
            rows.settle(connection, figures, lane, through_seq, changes, self._followers)
            if moved is not None:
                rows.insert_moved(connection, lane, moved)

        return self._settled(lane, self._ask(settle))

    async def _settled(self, lane: Lane, asked: Awaitable[None]) -> None:
        await asked
        self._wake(lane)

    async def read(self, lane: Lane, positions: Sequence[Position]) -> list[bytes | None]:
        """The records at *positions*, None for one that is gone or dropped."""

        def read(connection: sqlite3.Connection, _: Figures) -> list[bytes | None]:
            found: list[bytes | None] = []
            for seq, idx in positions:
                records = rows.records_in(connection, lane, Position(seq, idx), Position(seq, idx + 1))
                found.append(next((record for _, record in records), None))
            return found

        return await self._ask(read)

    async def evidence(self, lane: Lane, received_after_ms: int, most_records: int) -> "EvidencePages":
        """What the ledger needs to be rebuilt, page by page, oldest first."""
        first = await self._ask(lambda c, _: rows.first_evidence(c, lane, received_after_ms, most_records))
        return EvidencePages(self, lane, first)

    async def evidence_of(self, lane: Lane, seq: int) -> Evidence | None:
        """The evidence of one chunk; None when it is gone."""
        found = await self._ask(lambda c, _: rows.evidence(c, lane, seq, most=1))
        return found[0] if found and found[0].seq == seq else None

    async def settled_seq(self, lane: Lane) -> int:
        return (await self._ask(lambda c, _: rows.lane_row(c, lane))).settled_seq

    # ---- out

    async def freeze(self, lane: Lane, *, max_records: int, max_bytes: int) -> Batch | None:
        leased = self._leased[lane]
        now_ms = self._now_ms()
        limits = Limits(max_records, max_bytes, self.settings.linger_ms)
        batch_id = uuid7(now_ms, os.urandom(10))

        def freeze(connection: sqlite3.Connection, figures: Figures) -> Batch | Waiting | None:
            again = rows.frozen_before(connection, figures, lane, leased, now_ms)
            return again or rows.freeze(connection, figures, lane, limits, now_ms, batch_id, rfc3339_ms(now_ms))

        async with self._freezing[lane]:  # whoever comes next must see what is leased here
            found = await self._ask(freeze)
            if isinstance(found, Batch):
                leased.add(found.batch_id)
        if isinstance(found, Waiting):
            self._not_before_ms[lane] = found.ready_ms
            return None
        return found

    async def ack(self, batch: Batch, refused: Sequence[Refusal] = ()) -> None:
        now_ms = self._now_ms()
        await self._ask(lambda connection, figures: rows.acked(connection, figures, batch, refused, now_ms))
        self._leased[batch.lane].discard(batch.batch_id)

    async def release(self, batch: Batch, *, answered: bool) -> None:
        await self._ask(lambda connection, _: rows.released(connection, batch, answered=answered))
        self._leased[batch.lane].discard(batch.batch_id)
        self._wakes[batch.lane].set()

    async def split(self, batch: Batch) -> None:
        now_ms = self._now_ms()
        ids = (uuid7(now_ms, os.urandom(10)), uuid7(now_ms, os.urandom(10)))
        await self._ask(lambda connection, _: rows.split(connection, batch, ids))
        self._leased[batch.lane].discard(batch.batch_id)
        self._wakes[batch.lane].set()

    async def bury(self, batch: Batch, code: str, message: str) -> None:
        now_ms = self._now_ms()
        await self._ask(lambda connection, figures: rows.buried(connection, figures, batch, code, message, now_ms))
        self._leased[batch.lane].discard(batch.batch_id)

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
        for lane in self._followers[own]:
            self._wakes[lane].set()

    # ---- what it holds

    def edge(self) -> Mapping[str, int]:
        return self._figures.edge

    def reasons(self) -> Mapping[str, int]:
        """`<fate>.<reason>` -> items."""
        return self._figures.reasons

    def lanes(self) -> Sequence[Lane]:
        return list(self._sources)

    def depth(self, lane: Lane) -> Depth:
        x = self._figures.lanes[lane]
        oldest = self._oldest_ms.get(lane) if x.pending else None
        return Depth(x.kept, x.delivered, x.pending, x.dead_lettered, x.expired, oldest)

    @property
    def used_bytes(self) -> int:
        return self._used_bytes + self._committing_bytes + self._gathering.size

    async def look_after(self) -> None:
        """What is due now and then: expire, delete what is delivered and old, give pages back, note the oldest record."""
        now_ms = self._now_ms()
        settings = self.settings
        keep_ms = max(settings.keep_delivered_ms, settings.window_ms)
        crowded = self._used_bytes > settings.max_bytes * 3 // 4
        before_ms = now_ms if crowded else now_ms - keep_ms
        for lane in self._sources:
            async with self._freezing[lane]:
                await self._ask(self._expire(lane, now_ms - settings.max_age_ms, self._leased[lane]))

        def look_after(connection: sqlite3.Connection, _: Figures) -> tuple[int, dict[Lane, int | None]]:
            deleted = rows.reclaim(connection, before_ms, most=RECLAIM_CHUNKS)
            rows.give_back_pages(connection, most=FULL_VACUUM_PAGES if self._writer.is_disk_full else VACUUM_PAGES)
            return deleted, {lane: rows.oldest_pending_ms(connection, lane) for lane in self._sources}

        deleted, self._oldest_ms = await self._ask(look_after)
        while deleted == RECLAIM_CHUNKS and not (crowded and self._used_bytes < settings.max_bytes // 2):
            deleted = await self._ask(lambda connection, _: rows.reclaim(connection, before_ms, most=RECLAIM_CHUNKS))
        if self._writer.is_disk_full:
            await self._ask(lambda *_: self._writer.make_room())

    @staticmethod
    def _expire(lane: Lane, received_before_ms: int, leased: set[str]) -> Callable[[sqlite3.Connection, Figures], int]:
        return lambda connection, figures: rows.expire(connection, figures, lane, received_before_ms, leased)

    async def recount(self) -> dict[Lane, dict[str, int]]:
        """Pending and dead-lettered records of each lane, counted from the rows."""
        return await self._ask(lambda c, _: {lane: rows.recount(c, lane) for lane in self._sources})

    async def close(self) -> None:
        """Commit what waits and close the file. Frozen batches stay frozen; whoever still asks is refused."""
        await self._ask(lambda *_: None)
        self._is_closed = True
        self._lost = SpoolError("the spool is closed")
        self._gathering.waiting.set()
        await asyncio.to_thread(self._thread.join)
        self._lock.close()


class EvidencePages:
    """Async iterator over the ledger's evidence, `EVIDENCE_CHUNKS` chunks at a time."""

    def __init__(self, spool: SqliteSpool, lane: Lane, from_seq: int) -> None:
        self._spool, self._lane, self._from_seq = spool, lane, from_seq

    def __aiter__(self) -> "EvidencePages":
        return self

    async def __anext__(self) -> list[Evidence]:
        lane, from_seq = self._lane, self._from_seq
        page = await self._spool._ask(lambda c, _: rows.evidence(c, lane, from_seq, most=EVIDENCE_CHUNKS))  # noqa: SLF001 the spool's own iterator
        if not page:
            raise StopAsyncIteration
        self._from_seq = page[-1].seq + 1
        return page
