"""The embedded spool: `spool.store.Spool` on one SQLite file.

The event loop's thread gathers appends and operations (`gathering`); the writer's thread takes
all that waits whenever it is free, and commits it, so under load many requests share one fsync.
While appends keep coming a commit waits a moment for them (`commit_delay`).
"""

import asyncio
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TypeVar

import structlog

from spool.age import AgeClock, Seen, monotonic_ms
from spool.clock import rfc3339_ms, uuid7
from spool.commit_delay import CommitDelay
from spool.counters import Counters
from spool.data_dir import DATABASE, make_data_dir, refuse_half_restored
from spool.data_lock import DataLock
from spool.dead_letters import DeadLetterSummary
from spool.drain import Drain
from spool.errors import SpoolError, SpoolFull
from spool.histogram import Histogram
from spool.record import AI_TELEMETRY, OWN_LANES, USAGE_EVENTS, Batch, Lane
from spool.settings import SpoolSettings
from spool.settling import Change, Evidence, Moved, Outcomes, Position, Settled
from spool.sql import dead_letter_rows, rows
from spool.sql.aggregates import SqlSeries
from spool.sql.chunks import insert_moved
from spool.sql.gathering import Gathered, Gathering
from spool.sql.groups import GroupResult, Operation
from spool.sql.metered import SqlEvents
from spool.sql.replay import dead_letter_bound, dead_letters, ranges, side_counts
from spool.sql.replay.operator import SqlDeadLetters
from spool.sql.rows import FreezeLimits, Waiting
from spool.sql.settled import outcomes_before, settled_outcomes, settled_records
from spool.sql.unit_lane import SqlUnitCostLane
from spool.sqlite import database, room
from spool.sqlite.backup import back_up, remove_unfinished
from spool.sqlite.reading import pending_bodies
from spool.sqlite.recovery import reconcile as reconciling
from spool.sqlite.recovery.salvage import kept_bytes
from spool.sqlite.recovery.summary import Summary, read_from, read_summary, write_summary
from spool.sqlite.recovery.verify import verify
from spool.sqlite.snapshots import SqliteSnapshots
from spool.sqlite.writer import Writer
from spool.status import Quarantined, Room, Verified
from spool.store import Depth, ItemCounts, LostAppend, Refusal
from spool.unit_cost import Rules

log = structlog.get_logger()

T = TypeVar("T")

RECLAIM_CHUNKS = 64
RECLAIM_BYTES = 1 << 20
"""Chunks deleted in one commit, and their bytes (or one chunk): keeps the wait
of an append behind it short."""
RECLAIM_SHARE_S = 0.25
CROWDED_SHARE_S = 1.0
"""While senders are refused, or soon will be, room comes before latency."""
VACUUM_PAGES = 16
SHORT_VACUUM_PAGES = 128
"""Pages given back to the system in one commit, and while the disk is short of room: an append
waits for one such commit at most (`benchmarks.reclaim`). It is synced as every commit is: what
looks at a log after a power cut takes no more than the last commit for one that may be torn."""
VACUUM_SHARE_S = 0.25
"""Of the writer's time that one round of upkeep may take for either."""
FILE_EXCESS = 3
SLACK_BYTES = 1 << 20
"""A file larger than so many times what it holds, and this much more, has become
shorter in its write-ahead log only. An idle spool cuts a log that is this much
larger than what the file holds."""
SPARE_PAGES = 64
"""Free pages that are kept, whatever the file holds."""
NOTE_TIME_MS = 60_000
"""How often an idle spool writes down what time it is."""
REPLAY_EVERY = 4
"""One batch in so many may be one that is sent again while fresh records wait: neither keeps
the other waiting for good."""
EVIDENCE_CHUNKS = 64
"""Chunks read at a time when the ledger is rebuilt: bounds the memory of a start."""


class SqliteSpool:
    """See `spool.store.Spool`.

    Make with `open_spool` on the event loop's thread; use on that thread only.
    """

    _salvages = 0
    """That `on_lost_append` was notified of."""

    def __init__(
        self,
        data_dir: Path,
        settings: SpoolSettings,
        *,
        now_ms: Callable[[], int],
        monotonic_ms: Callable[[], int] = monotonic_ms,
        exporters: Sequence[Lane] = (),
        settling: Sequence[Lane] = (AI_TELEMETRY,),
    ) -> None:
        """Open or make the spool in *data_dir*. Raises SpoolLocked, SpoolTooNew,
        SpoolCorrupt, SpoolError.

        *exporters* are further lanes that read the AI records; records of the *settling*
        lanes wait for `settle`. *now_ms* is the wall clock, for stamps; ages follow
        *monotonic_ms* (`spool.age`).
        """
        self.settings = settings
        self._data_dir = data_dir
        self._wall_ms = now_ms
        self._settling = frozenset(settling)
        with database.mapped_errors(str(data_dir)):
            make_data_dir(data_dir)
        self._lock = DataLock(data_dir)
        remove_unfinished(data_dir)
        self._sources: dict[Lane, Lane] = {lane: lane for lane in OWN_LANES} | dict.fromkeys(exporters, AI_TELEMETRY)
        self._followers = {own: [x for x, source in self._sources.items() if source == own] for own in OWN_LANES}
        try:
            refuse_half_restored(data_dir)
            self.writer = Writer(
                data_dir,
                synchronous=settings.synchronous,
                followers=self._followers,
                reserve_bytes=settings.reserve_bytes,
                max_bytes=settings.max_bytes,
                now_ms=now_ms,
                guards=self._lock.guards,
            )
            self._quarantined: list[Quarantined] = []
            self.writer.on_salvaged = self._prepare(settling)
            prepared: tuple[str, int, Counters, int] = self.writer.run_now(self._prepare(settling))
            self._gateway_id, next_seq, self._counters, start_ms = prepared
            with suppress(OSError):  # as in `_write_summary`
                write_summary(data_dir, self._summary)
        except BaseException:
            self._lock.close()
            raise
        self._now_ms = AgeClock(start_ms, monotonic_ms)
        self._noted_ms = start_ms - NOTE_TIME_MS
        self._kept_after: dict[Lane, int] = {}
        self._gathering = Gathering(next_seq, self._now_ms, asyncio.get_running_loop().call_soon)
        self._room = self.writer.room
        self._drain = Drain(time.monotonic)
        self._upkept_seq = 0
        self._leased: dict[Lane, set[str]] = {lane: set() for lane in self._sources}
        self._wakes: dict[Lane, asyncio.Event] = {lane: asyncio.Event() for lane in self._sources}
        self._not_before_ms: dict[Lane, int] = {}
        self._oldest_ms: dict[Lane, int | None] = {}
        self._mean_bytes: dict[Lane, float | None] = {}
        self._lost: SpoolError | None = None
        self.lost_appends = 0
        """Commits of appends that failed, as far as their senders were
        reported; goes with `settle`."""
        self._freezing = {lane: asyncio.Lock() for lane in self._sources}
        self._freezes: dict[Lane, int] = {}
        self._dead_letters = DeadLetterSummary()
        self._counted_state: object = None
        self._is_closed = False
        self.on_lost_append: LostAppend | None = None
        """Called when an append failed after its positions were handed out:
        what was counted since is void."""
        self.series = SqlSeries(self)
        self._loop = asyncio.get_running_loop()
        self.writer.is_awaited = self._gathering.waiting.is_set
        self._thread = threading.Thread(target=self._write, name="spool-writer", daemon=True)
        self._thread.start()

    def _prepare(self, settling: Sequence[Lane]) -> Operation:
        def prepare(connection: sqlite3.Connection, counters: Counters) -> tuple[str, int, Counters, int]:
            now_ms = self._wall_ms()
            summary = self._latest_summary(now_ms)
            reconciling.restore(connection, counters, summary, self._data_dir, now_ms)
            connection.execute(
                "INSERT INTO meta (name, value) VALUES ('gateway_id', ?) ON CONFLICT DO NOTHING",
                (f"gw-{secrets.token_hex(8)}",),
            )
            for lane, source in self._sources.items():
                rows.open_lane(connection, counters, lane, source, settles=source in settling)
            rows.note_silence(connection, USAGE_EVENTS)
            for lane, n in rows.close_lanes(connection, counters, list(self._sources)).items():
                log.warning("exporter no longer configured", lane=lane, expired=n)
            salvaged = reconciling.reconcile(connection, counters, list(self._sources), summary, now_ms)
            if salvaged is not None:
                log.error("spool salvaged with losses", found=reconciling.salvage_text(salvaged))
            self._quarantined = reconciling.entries(connection)
            self._dead_letter_bound = dead_letter_bound.opened(connection, self.settings.dead_letter_bytes)
            (gateway_id,) = connection.execute("SELECT value FROM meta WHERE name='gateway_id'").fetchone()
            if summary is not None:  # on disk by now, so their absence from here on is a finding
                connection.execute("INSERT OR IGNORE INTO meta VALUES (?, '2')", (reconciling.HAS_SUMMARIES,))
            self._summary = read_from(connection, counters.copy(), gateway_id, now_ms, self._quarantined)
            start_ms = rows.age_ms(connection, self._wall_ms())
            return gateway_id, rows.last_seq(connection) + 1, counters, start_ms

        return prepare

    def _latest_summary(self, now_ms: int) -> Summary | None:
        """The one on disk; of a salvage while the spool is open, with the counters of the last
        commit.
        """
        summary = read_summary(self._data_dir)
        counters = self.writer.counters_before_salvage
        if counters is None:
            return summary
        base = self._summary if summary is None else summary
        return base._replace(counters=counters, is_final=True, written_ms=now_ms)

    def age_ms(self) -> int:
        """The clock of all ages: every time in the spool is one of its."""
        return self._now_ms()

    def wall_ms(self) -> int:
        return self._wall_ms()

    @property
    def gateway_id(self) -> str:
        return self._gateway_id

    def keep_lock(self) -> bool:
        return self._lock.keep()

    # ---- in

    def admit(self, size: int) -> None:
        """Raise SpoolFull when *size* more bytes may not be kept, SpoolError
        while the spool cannot be trusted.
        """
        room, gathered_bytes = self._room, self._gathering.size
        lacking_bytes = self.writer.floor_bytes + gathered_bytes + size - room.free_bytes
        if self.writer.is_disk_full or lacking_bytes > 0:
            raise self._full("the disk is full", lacking_bytes)
        self._refuse_if_lost()
        log_grows_bytes = max(0, gathered_bytes - room.log_bytes)  # what gathers may become one commit
        over_bytes = room.used_bytes + gathered_bytes + log_grows_bytes + size - self.settings.max_bytes
        if over_bytes > 0:
            raise self._full("the spool holds as much as spool.max_bytes allows", over_bytes)

    def _full(self, text: str, over_bytes: int) -> SpoolFull:
        error = SpoolFull(text)
        error.retry_after_s = self._drain.wait_s(max(over_bytes, 1))
        return error

    def _refuse_if_lost(self) -> None:
        if self._lost is not None:
            raise self._lost.copied()

    @property
    def is_crowded(self) -> bool:
        """Whether what need not be kept should make room, before senders are refused."""
        return self.used_bytes > self.settings.max_bytes * 3 // 4 or self._is_short_of_disk

    def reserve(self) -> AbstractContextManager[object]:
        """While it is held, a `position` stays true until the `append` that
        takes it; hold it briefly.
        """
        return self._gathering.lock

    @property
    def sealed_seq(self) -> int:
        """Chunks up to here take no more records: they are on disk or on their way."""
        return self._gathering.sealed_seq

    def position(self, lane: Lane) -> tuple[int, int]:
        self._refuse_if_lost()
        with self._gathering.lock:
            chunk = self._gathering.chunk(lane)
            return chunk.seq, len(chunk.records)

    def append(
        self, lane: Lane, records: Sequence[bytes], counts: ItemCounts, *, facts: bytes = b"", links: bytes = b""
    ) -> Awaitable[None]:
        self._refuse_if_lost()
        future = self._loop.create_future()
        self._gathering.add(lane, records, counts, facts, links, future)
        return future

    def ask(self, operation: Callable[[sqlite3.Connection, Counters], T]) -> Awaitable[T]:
        """Run *operation* in the next commit, whole or not at all."""
        if self._is_closed:
            raise SpoolError("the spool is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._gathering.ask(operation, future)
        return future

    def ask_behind(self, operation: Callable[[sqlite3.Connection, Counters], T]) -> Awaitable[T]:
        """As `ask`, of what no append depends on: those that wait now are committed before."""
        if self._is_closed:
            raise SpoolError("the spool is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._gathering.ask_behind(operation, future)
        return future

    def followers(self, own: Lane) -> list[Lane]:
        """The lanes that read the chunks of *own*."""
        return self._followers[own]

    def number_chunk(self) -> int:
        """The number of a chunk that an operation asked in the same
        `reserve` will write itself.
        """
        return self._gathering.number()

    def _write(self) -> None:
        """The writer's thread: commit what was gathered, for as long as the spool is open."""
        gathering, delay = self._gathering, CommitDelay()
        while True:
            gathering.waiting.wait()
            if not gathering.urgent.is_set():
                gathering.urgent.wait(max(0.0, delay.until_s(gathering.since_s) - time.monotonic()))
            gathered = gathering.take()
            if gathered.group.has_work:
                self._end_soon(self.writer.run(gathered.group), gathered)
            if gathered.appenders:
                delay.committed(len(gathered.appenders), time.monotonic())
                gathering.enough = delay.enough
            self._write_behind()
            self._copy_log()
            if self._is_closed and not gathering.waiting.is_set():
                break
        self.writer.close()

    def _write_behind(self) -> None:
        """Commit the operations that no append depends on, while no append waits; at least one."""
        behind = self._gathering.take_behind()
        if not behind.group.operations:
            return
        behind.group.is_divisible = True
        result = self.writer.run(behind.group)
        self._gathering.put_back(behind, len(result.results))
        self._end_soon(result, behind)

    def _copy_log(self) -> None:
        room = self.writer.copy_log()
        if room is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._note_room, room)

    def _note_room(self, room: Room) -> None:
        self._room = room

    def _end_soon(self, result: GroupResult, gathered: Gathered) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._done, result, gathered)

    def _done(self, result: GroupResult, gathered: Gathered) -> None:
        """Resolve the futures of all who wait for the commit."""
        self._counters = result.counters
        self._room = result.room or self._room
        self._gathering.landed(gathered, is_measured=result.room is not None)
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
        if self.writer.salvages != self._salvages:
            self._lose(SpoolError("the spool was damaged and is salvaged"), [])
        for own in gathered.chunks:
            if own not in self._settling:  # of what settles nothing is ready before `settle`
                self.wake(own)

    def _lose(self, error: SpoolError, appenders: list[asyncio.Future[None]]) -> None:
        """A commit of appends failed: those waiting, and those
        counted upon them since, are refused.
        """
        if isinstance(error, SpoolFull):
            error = self._full(str(error), self.writer.floor_bytes)
        for appender in [*appenders, *self._gathering.void_appends()]:
            if not appender.done():
                appender.set_exception(error.copied())
        self.lost_appends += 1
        if self.on_lost_append is None:
            self.writer.refuses_appends = False
        else:
            self._refuse(error, is_distrusted=self.writer.salvages != self._salvages)

    def refuse_appends(self, error: SpoolError) -> None:
        """Take no appends, with *error*, until `accept_appends`;
        the owner of the ledger is notified.
        """
        self._refuse(error, is_distrusted=True)

    def _refuse(self, error: SpoolError, *, is_distrusted: bool) -> None:
        self._lost = error
        self._salvages = self.writer.salvages
        if self.on_lost_append is not None:
            self.on_lost_append(is_distrusted=is_distrusted)

    def accept_appends(self) -> None:
        """The ledger was rebuilt from the file: take appends again."""
        self._lost = None
        self.writer.refuses_appends = False

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
        """Let *lane*'s chunks up to *through_seq* be frozen, less what *changes* drop, in one
        commit with the counters.

        *moved* goes with changes of outcome `MOVED`; its chunk is numbered (`number_chunk`)
        in the `turn` of this call.

        With *lost_appends*, the number of them when the changes were begun, it raises
        SpoolError when one was lost since: a record may then have been dropped in favour of
        one that never came to disk.
        """

        def settle(connection: sqlite3.Connection, counters: Counters) -> None:
            if lost_appends not in {None, self.writer.lost_appends}:
                raise SpoolError("what was decided upon did not come to disk")
            rows.settle(connection, counters, lane, through_seq, changes, self._followers)
            if moved is not None:
                insert_moved(connection, lane, moved)

        return self._settled(lane, self.ask(settle))

    async def _settled(self, lane: Lane, asked: Awaitable[None]) -> None:
        await asked
        self.wake(lane)

    async def read(self, lane: Lane, positions: Sequence[Position]) -> list[bytes | None]:
        """The records at *positions*, None for one that is gone or dropped."""

        return await self.ask_behind(lambda connection, _: rows.records_at(connection, lane, positions))

    async def evidence(self, lane: Lane, received_after_ms: int, most_records: int) -> "EvidencePages":
        """What the ledger needs to be rebuilt, page by page, oldest first."""
        first = await self.ask_behind(lambda c, _: rows.first_evidence(c, lane, received_after_ms, most_records))
        return EvidencePages(self, lane, first)

    async def evidence_of(self, lane: Lane, seq: int) -> Evidence | None:
        """The evidence of one chunk; None when it is gone."""
        found = await self.ask_behind(lambda c, _: rows.evidence(c, lane, seq, most=1))
        return found[0] if found and found[0].seq == seq else None

    async def settled_seq(self, lane: Lane) -> int:
        return (await self.ask_behind(lambda c, _: rows.lane_row(c, lane))).settled_seq

    async def kept_chunks(self, lane: Lane, first_seq: int) -> list[int]:
        return await self.ask_behind(lambda c, _: rows.chunk_seqs(c, lane, first_seq))

    # ---- out

    async def freeze(self, lane: Lane, *, max_records: int, max_bytes: int) -> Batch | None:
        leased = self._leased[lane]
        now_ms = self._now_ms()
        limits = FreezeLimits(max_records, max_bytes, self.settings.linger_ms)
        wall_ms = self._wall_ms()
        batch_id = uuid7(wall_ms, os.urandom(10))

        def freeze(connection: sqlite3.Connection, counters: Counters) -> Batch | Waiting | None:
            sent_at = rfc3339_ms(wall_ms)
            if (frozen := rows.frozen_before(connection, counters, lane, leased, now_ms)) is not None:
                return frozen
            if is_replay_turn and (
                batch := ranges.freeze(connection, counters, lane, limits, now_ms, batch_id, sent_at)
            ):
                return batch
            found = rows.freeze(connection, counters, lane, limits, now_ms, batch_id, sent_at)
            if isinstance(found, Batch):
                return found
            return ranges.freeze(connection, counters, lane, limits, now_ms, batch_id, sent_at) or found

        self._freezes[lane] = self._freezes.get(lane, 0) + 1
        is_replay_turn = self._freezes[lane] % REPLAY_EVERY == 0
        async with self._freezing[lane]:  # the next caller must see what is leased here
            found = await self.ask_behind(freeze)
            if isinstance(found, Batch):
                leased.add(found.batch_id)
        if isinstance(found, Waiting):
            self._not_before_ms[lane] = found.ready_ms
            return None
        return found

    async def ack(self, batch: Batch, refused: Sequence[Refusal] = ()) -> None:
        now_ms = self._now_ms()
        await self.ask_behind(lambda connection, counters: rows.acked(connection, counters, batch, refused, now_ms))
        self._leased[batch.lane].discard(batch.batch_id)

    async def release(self, batch: Batch, *, answered: bool) -> None:
        await self.ask_behind(lambda connection, _: rows.released(connection, batch, answered=answered))
        self._leased[batch.lane].discard(batch.batch_id)
        self._wakes[batch.lane].set()

    async def split(self, batch: Batch) -> None:
        wall_ms = self._wall_ms()
        ids = (uuid7(wall_ms, os.urandom(10)), uuid7(wall_ms, os.urandom(10)))
        await self.ask_behind(lambda connection, _: rows.split(connection, batch, ids))
        self._leased[batch.lane].discard(batch.batch_id)
        self._wakes[batch.lane].set()

    async def bury(self, batch: Batch, code: str, message: str) -> None:
        now_ms = self._now_ms()
        await self.ask_behind(
            lambda connection, counters: rows.buried(connection, counters, batch, code, message, now_ms)
        )
        self._leased[batch.lane].discard(batch.batch_id)

    async def brake_reason(self, lane: Lane) -> str | None:
        return await self.ask_behind(lambda connection, _: rows.brake_reason(connection, lane))

    async def note_brake(self, lane: Lane, reason: str | None) -> None:
        await self.ask_behind(lambda connection, _: rows.note_brake(connection, lane, reason))

    async def is_ready(self, lane: Lane, *, max_records: int, max_bytes: int) -> bool:
        """Whether the lane has anything to send now, leased or not; for a watchdog."""
        limits = FreezeLimits(max_records, max_bytes, self.settings.linger_ms)
        now_ms = self._now_ms()
        return await self.ask_behind(lambda connection, _: rows.is_ready(connection, lane, limits, now_ms))

    def forget_leases(self, lane: Lane) -> None:
        """The pump that held batches of *lane* is gone: they go out again as they are, under the
        same ids.
        """
        self._leased[lane].clear()
        self._freezing[lane] = asyncio.Lock()
        self._wakes[lane].set()

    async def wait_ready(self, lane: Lane, timeout_s: float) -> None:
        """As `LaneStore.wait_ready`."""
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
        for lane in self._followers[own]:
            self._wakes[lane].set()

    # ---- what it holds

    @property
    def counters(self) -> Counters:
        """As committed last."""
        return self._counters

    def edge(self) -> Mapping[str, int]:
        return self._counters.edge

    def reasons(self) -> Mapping[str, int]:
        """`<outcome>.<reason>` -> items."""
        return self._counters.reasons

    def lanes(self) -> Sequence[Lane]:
        return list(self._sources)

    def depth(self, lane: Lane) -> Depth:
        x = self._counters.lanes[lane]
        oldest = self._oldest_ms.get(lane) if x.pending else None
        mean_bytes = self._mean_bytes.get(lane) if x.pending else 0.0
        size_bytes = None if mean_bytes is None else round(mean_bytes * x.pending)
        return Depth(x.kept, x.delivered, x.pending, x.dead_lettered, x.expired, oldest, size_bytes)

    @property
    def commit_seconds(self) -> Histogram:
        """As `StatusStore` has it."""
        return self.writer.commit_seconds

    @property
    def used_bytes(self) -> int:
        """What counts against `max_bytes`, with what is on its way to the disk."""
        return self._room.used_bytes + self._gathering.size

    @property
    def room(self) -> Room:
        """As measured after the last commit."""
        return self._room

    async def run_maintenance(self) -> None:
        """What is due now and then: expire, delete what is delivered and old, give pages
        back, note the oldest record.
        """
        now_ms = self._now_ms()
        settings = self.settings
        for lane in self._sources:
            async with self._freezing[lane]:
                await self.ask_behind(self._expire(lane, now_ms - settings.max_age_ms, self._leased[lane]))

        if now_ms - self._noted_ms >= NOTE_TIME_MS:
            await self._note_time()
        self._oldest_ms = await self.ask_behind(
            lambda connection, _: {lane: rows.oldest_pending_ms(connection, lane) for lane in self._sources}
        )
        self._mean_bytes = await self.ask_behind(
            lambda connection, _: {lane: rows.mean_pending_bytes(connection, lane) for lane in self._sources}
        )
        await self._reclaim(now_ms)
        await self._give_back_pages()
        if self.writer.is_disk_full:
            await self.ask_behind(lambda *_: self.writer.make_room())
        await self._maintain_dead_letters()

    async def _note_time(self) -> None:
        """For the next start; not on a full disk, where the last acceptance gives the time."""
        seen = Seen(self._now_ms(), self._wall_ms())
        with suppress(SpoolFull):
            await self.ask_behind(lambda connection, _: rows.note_time(connection, seen))
            self._noted_ms = seen.age_ms
        await self._write_summary(is_final=False)

    @property
    def _is_short_of_disk(self) -> bool:
        return self.writer.is_disk_full or self._room.free_bytes < self.writer.floor_bytes

    async def _reclaim(self, now_ms: int) -> None:
        """Delete what is delivered and old; all that is delivered while the spool is crowded,
        down to half of its limit.
        """
        settings = self.settings
        crowded = self.is_crowded
        before_ms = now_ms if crowded else now_ms - max(settings.keep_delivered_ms, settings.window_ms)
        kept_after = {} if crowded else self._kept_after

        def reclaim(connection: sqlite3.Connection, _: Counters) -> rows.Reclaimed:
            return rows.reclaim(
                connection, before_ms, now_ms, most=RECLAIM_CHUNKS, most_bytes=RECLAIM_BYTES, kept_after=kept_after
            )

        share = _Share(CROWDED_SHARE_S if crowded else RECLAIM_SHARE_S)
        while not share.is_spent:
            found = await share.spend(self.ask_behind(reclaim))
            self._drain.left(found.size_bytes)
            if not found.is_more or (crowded and self.used_bytes < settings.max_bytes // 2):
                return

    async def _give_back_pages(self) -> None:
        """Give free pages back to the system while the file is more than half empty; all of
        them while the disk is full.
        """

        cuts_log = self._is_log_worth_cutting()

        def give_back(connection: sqlite3.Connection, _: Counters) -> bool:
            left = room.pages(connection)
            is_short = self._is_short_of_disk
            keep = SPARE_PAGES if is_short else max(SPARE_PAGES, left.live)
            wanted = min(SHORT_VACUUM_PAGES if is_short else VACUUM_PAGES, left.free - keep)
            if wanted <= 0:
                self.writer.cuts_log = cuts_log
                return False
            room.give_back_pages(connection, most=wanted)
            return True

        share = _Share(VACUUM_SHARE_S)
        while not share.is_spent and await share.spend(self.ask_behind(give_back)):
            pass

    def _is_log_worth_cutting(self) -> bool:
        """The file becomes shorter only when its log is copied into it.

        That takes a while, so a small log waits for an idle round.
        """
        room, was_idle = self._room, self._upkept_seq == self.sealed_seq
        self._upkept_seq = self.sealed_seq
        live_bytes = room.used_bytes - room.log_bytes
        if self._is_short_of_disk:
            return room.log_bytes > 0
        is_file_too_long = room.file_bytes > FILE_EXCESS * room.used_bytes + SLACK_BYTES
        return is_file_too_long or (was_idle and room.log_bytes > live_bytes + SLACK_BYTES)

    @staticmethod
    def _expire(lane: Lane, received_before_ms: int, leased: set[str]) -> Callable[[sqlite3.Connection, Counters], int]:
        return lambda connection, counters: rows.expire(connection, counters, lane, received_before_ms, leased)

    def events(self, rules: Rules) -> SqlEvents:
        return SqlEvents(self, rules)

    def unit_cost(
        self,
        *,
        can_read: Callable[[], bool] = lambda: False,
        can_create: Callable[[], bool] = lambda: False,
        can_delete: Callable[[], bool] = lambda: True,
    ) -> SqlUnitCostLane:
        return SqlUnitCostLane(self, can_read=can_read, can_create=can_create, can_delete=can_delete)

    async def settled_records(self, lane: Lane, after_seq: int, *, most_bytes: int) -> Settled:
        return await self.ask_behind(lambda c, _: settled_records(c, lane, after_seq, most_bytes=most_bytes))

    def keep_after(self, lane: Lane, seq: int) -> None:
        self._kept_after[lane] = seq

    async def settled_outcomes(self, lane: Lane, after_seq: int, *, most_bytes: int, most_behind: int) -> Outcomes:
        return await self.ask_behind(
            lambda c, _: settled_outcomes(c, lane, after_seq, most_bytes=most_bytes, most_behind=most_behind)
        )

    async def outcomes_before(self, lane: Lane, before_seq: int, *, most_bytes: int) -> Outcomes:
        return await self.ask_behind(lambda c, _: outcomes_before(c, lane, before_seq, most_bytes=most_bytes))

    async def pending_bodies(self, lane: Lane) -> AsyncIterator[bytes]:
        from_seq = None
        while True:
            bodies, from_seq = await asyncio.to_thread(pending_bodies, self._data_dir, lane, from_seq)
            for body in bodies:
                yield body
            if from_seq is None:
                return

    async def verify(self) -> Verified:
        return await asyncio.to_thread(verify, self._data_dir)

    async def back_up(self, to: Path) -> int:
        return await asyncio.to_thread(back_up, self._data_dir, to)

    async def snapshot(self, others: Mapping[str, Path]) -> SqliteSnapshots:
        files = {DATABASE: self._data_dir / DATABASE, **others}
        return await self.ask(lambda *_: SqliteSnapshots(files))

    def quarantined_bytes(self) -> int:
        return kept_bytes(self._data_dir)

    def unacknowledged(self) -> int:
        return reconciling.unacknowledged(self._quarantined, self._data_dir)

    async def acknowledge(self) -> int:
        n = await self.ask(lambda c, _: reconciling.acknowledge(c))
        self._quarantined = await self.ask(lambda c, _: reconciling.entries(c))
        await self._write_summary(is_final=False)
        return n

    def operator(self) -> SqlDeadLetters:
        """What an operator may ask of dead letters and delivered records."""

        def wake(lane: Lane) -> None:
            if lane in self._wakes:
                self._wakes[lane].set()

        return SqlDeadLetters(
            self.ask, number_chunk=lambda _: self.number_chunk(), now_ms=self._now_ms, wake=wake, erase=database.erase
        )

    def dead_letter_summary(self) -> DeadLetterSummary:
        """Dead letters by reason, and the counts beside the counters, as the last
        maintenance counted them.
        """
        return self._dead_letters

    async def _maintain_dead_letters(self) -> None:
        """What is due now and then of dead letters and resends: expire, make room, forget
        what came to its end, count.
        """
        now_ms, settings = self._now_ms(), self.settings
        for lane in self._sources.keys() & await self.ask_behind(lambda c, _: ranges.lanes(c)):
            async with self._freezing[lane]:
                await self.ask_behind(self._expire_replays(lane, now_ms - settings.max_age_ms, self._leased[lane]))
        await self._in_pages(lambda c: dead_letters.expire(c, now_ms - settings.keep_dead_letters_ms))
        await self.ask_behind(lambda c, _: ranges.reclaim(c))
        if self.used_bytes > settings.max_bytes * 3 // 4 and (
            n := await self.ask_behind(lambda c, _: ranges.give_up_delivered(c))
        ):
            log.warning("resends given up", records=n)
        self._dead_letters = await self.ask_behind(self._read_dead_letters)
        while (excess := self._dead_letters.size_bytes - self._dead_letter_bound) > 0:
            n = await self.ask_behind(lambda c, _, excess=excess: dead_letters.make_room(c, excess))  # type: ignore[misc]  # the default binds the loop's page
            log.warning("dead letters expired", records=n, limit="spool.max_dead_letter_bytes")
            self._dead_letters = await self.ask_behind(self._read_dead_letters)
        await self._lower_dead_letter_bound()

    async def _lower_dead_letter_bound(self) -> None:
        """After a limit was lowered: as far as every dead letter that is kept allows."""
        settings, kept_bytes = self.settings, self._dead_letters.size_bytes
        is_over = self.used_bytes > settings.max_bytes
        limit_bytes, before = settings.dead_letter_bytes, self._dead_letter_bound
        bound = dead_letter_bound.lowered(before, kept_bytes, limit_bytes, is_over_max_bytes=is_over)
        if bound == before:
            return
        self._dead_letter_bound = await self.ask_behind(lambda c, _: dead_letter_bound.keep(c, bound))
        if bound > limit_bytes:
            log.warning("dead letters above a lowered limit are kept", size_bytes=kept_bytes, limit_bytes=limit_bytes)

    async def _in_pages(self, delete: Callable[[sqlite3.Connection], int]) -> None:
        while n := await self.ask_behind(lambda connection, _: delete(connection)):
            log.warning("dead letters expired", records=n, limit="spool.keep_dead_letters")
            if n < dead_letters.PAGE_RECORDS:
                break

    @staticmethod
    def _expire_replays(
        lane: Lane, received_before_ms: int, leased: set[str]
    ) -> Callable[[sqlite3.Connection, Counters], None]:
        return lambda connection, counters: ranges.expire(connection, counters, lane, received_before_ms, leased)

    def _read_dead_letters(self, connection: sqlite3.Connection, counters: Counters) -> DeadLetterSummary:
        """Dead letters are counted again only when something became of one."""
        counts = tuple(sorted((lane, name, n) for (lane, name), n in side_counts.read(connection).items()))
        lanes = tuple((lane, x.dead_lettered) for lane, x in counters.lanes.items())
        state = (dead_letter_rows.last_id(connection), lanes, counts)
        reasons = self._dead_letters.reasons
        if state != self._counted_state:
            reasons, self._counted_state = tuple(dead_letters.by_reason(connection)), state
        return DeadLetterSummary(reasons, counts, tuple(sorted(ranges.waiting(connection).items())))

    async def recount(self) -> dict[Lane, dict[str, int]]:
        """Pending and dead-lettered records of each lane, counted from the rows."""
        return await self.ask_behind(lambda c, _: {lane: rows.recount(c, lane) for lane in self._sources})

    async def _write_summary(self, *, is_final: bool) -> None:
        if self._lock.is_lost:
            return
        gateway_id, now_ms = self._gateway_id, self._wall_ms()
        summary = await self.ask_behind(
            lambda c, counters: read_from(c, counters.copy(), gateway_id, now_ms, reconciling.entries(c))
        )
        with suppress(OSError):  # a full disk does without: then an older one is what a salvage has
            await asyncio.to_thread(write_summary, self._data_dir, summary._replace(is_final=is_final))

    @property
    def quarantined(self) -> Sequence[Quarantined]:
        """The salvages of this spool, the last ones; oldest first."""
        return self._quarantined

    async def close(self) -> None:
        """Commit what waits and close the file.

        Frozen batches stay frozen; later requests are refused.
        """
        await self._note_time()
        await self._write_summary(is_final=True)
        self._is_closed = True
        self._lost = SpoolError("the spool is closed")
        self._gathering.urgent.set()
        self._gathering.waiting.set()
        await asyncio.to_thread(self._thread.join)
        self._lock.close()


class _Share:
    """Time of the writer that upkeep may take in one round; after each commit of its
    own, others have as long.
    """

    def __init__(self, most_s: float) -> None:
        self._left_s = most_s

    @property
    def is_spent(self) -> bool:
        return self._left_s <= 0

    async def spend(self, asked: Awaitable[T]) -> T:
        began_s = time.monotonic()
        done = await asked
        took_s = time.monotonic() - began_s
        self._left_s -= took_s
        await asyncio.sleep(took_s)
        return done


class EvidencePages:
    """Async iterator over the ledger's evidence, `EVIDENCE_CHUNKS` chunks at a time."""

    def __init__(self, spool: SqliteSpool, lane: Lane, from_seq: int) -> None:
        self._spool, self._lane, self._from_seq = spool, lane, from_seq

    def __aiter__(self) -> "EvidencePages":
        return self

    async def __anext__(self) -> list[Evidence]:
        lane, from_seq = self._lane, self._from_seq
        page = await self._spool.ask_behind(lambda c, _: rows.evidence(c, lane, from_seq, most=EVIDENCE_CHUNKS))
        if not page:
            raise StopAsyncIteration
        self._from_seq = page[-1].seq + 1
        return page
