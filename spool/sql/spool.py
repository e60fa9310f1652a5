"""The spool in SQL, without what each home does in its own way.

The event loop's thread gathers appends and operations (`gathering`); the writer's thread takes
all that waits whenever it is free, and commits it, so under load many requests share one commit.
While appends keep coming a commit waits a moment for them (`commit_delay`).
"""

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Final, Generic, TypeVar

import structlog

from spool.age import AgeClock, Seen
from spool.clock import rfc3339_ms, uuid7
from spool.commit_delay import CommitDelay
from spool.counters import Counters
from spool.dead_letters import DeadLetterSummary
from spool.drain import Drain
from spool.errors import SpoolError, SpoolFull
from spool.histogram import Histogram
from spool.record import USAGE_EVENTS, Batch, Lane
from spool.settings import SpoolSettings
from spool.settling import Change, Evidence, Moved, Outcomes, Position, Settled
from spool.sql import dead_letter_rows, rows
from spool.sql.aggregates import SqlSeries
from spool.sql.chunks import insert_moved
from spool.sql.connection import Connection
from spool.sql.gathering import Gathered, Gathering
from spool.sql.groups import GroupResult, GroupWriter, Look
from spool.sql.metered import SqlEvents
from spool.sql.opening import Lanes, Opened
from spool.sql.replay import dead_letter_bound, dead_letters, ranges, side_counts
from spool.sql.replay.operator import SqlDeadLetters
from spool.sql.rows import FreezeLimits, Waiting
from spool.sql.settled import outcomes_before, settled_outcomes, settled_records
from spool.sql.unit_lane import SqlUnitCostLane
from spool.store import Depth, ItemCounts, LostAppend, Refusal
from spool.unit_cost import Rules

log = structlog.get_logger()

T = TypeVar("T")
C = TypeVar("C", bound=Connection)

RECLAIM_CHUNKS = 64
RECLAIM_BYTES = 1 << 20
"""Chunks deleted in one commit, and their bytes (or one chunk): keeps the wait
of an append behind it short."""
RECLAIM_SHARE_S = 0.25
CROWDED_SHARE_S = 1.0
"""Of the writer's time that one round of upkeep may take for it. While senders are refused, or soon
will be, room comes before latency."""
NOTE_TIME_MS = 60_000
"""How often an idle spool writes down what time it is."""
REPLAY_EVERY = 4
"""One batch in so many may be one that is sent again while fresh records wait: neither keeps
the other waiting for good."""
UNREPEATABLE: Final = frozenset({USAGE_EVENTS})
"""Lanes whose upstream may count a batch twice that comes under another key: a batch that may have
gone out unheard states it by its attempts."""
EVIDENCE_CHUNKS = 64
"""Chunks read at a time when the ledger is rebuilt: bounds the memory of a start."""


class SqlSpool(Generic[C]):
    """`spool.store.Spool` without what each home does in its own way: `admit`, `pending_bodies`.

    Made on the event loop's thread, by a home; use on that thread only.
    """

    _distrusted = 0
    """That `on_lost_append` was notified of."""
    _may_have_gone_out = UNREPEATABLE
    """Lanes whose frozen batches an earlier pump may have sent, with an outcome that nobody
    knows."""

    def __init__(
        self,
        settings: SpoolSettings,
        *,
        writer: GroupWriter,
        lanes: Lanes,
        opened: Opened,
        now_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
    ) -> None:
        """*writer* is what *opened* the *lanes*; this thread leaves it to another one here.
        *now_ms* is the wall clock, for stamps; ages follow *monotonic_ms* (`spool.age`).
        """
        self.settings = settings
        self.writer = writer
        self._wall_ms = now_ms
        self._lanes = lanes
        self._gateway_id, self._counters, self._dead_letter_bound = (
            opened.gateway_id,
            opened.counters,
            opened.dead_letter_bound,
        )
        self._now_ms = AgeClock(opened.start_ms, monotonic_ms)
        self._noted_ms = opened.start_ms - NOTE_TIME_MS
        self._kept_after: dict[Lane, int] = {}
        self._gathering = Gathering(opened.next_seq, self._now_ms, asyncio.get_running_loop().call_soon)
        self._room = self.writer.room
        self._drain = Drain(time.monotonic)
        self._leased: dict[Lane, set[str]] = {lane: set() for lane in lanes.sources}
        self._wakes: dict[Lane, asyncio.Event] = {lane: asyncio.Event() for lane in lanes.sources}
        self._not_before_ms: dict[Lane, int] = {}
        self._oldest_ms: dict[Lane, int | None] = {}
        self._mean_bytes: dict[Lane, float | None] = {}
        self._lost: SpoolError | None = None
        self.lost_appends = 0
        """Commits of appends that failed, as far as their senders were
        reported; goes with `settle`."""
        self._freezing = {lane: asyncio.Lock() for lane in lanes.sources}
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

    def age_ms(self) -> int:
        """The clock of all ages: every time in the spool is one of its."""
        return self._now_ms()

    def wall_ms(self) -> int:
        return self._wall_ms()

    @property
    def gateway_id(self) -> str:
        return self._gateway_id

    # ---- in

    def _refuse_over_limit(self, size: int, log_grows_bytes: int = 0) -> None:
        """Raise SpoolFull when *size* more bytes would be more than `max_bytes`."""
        held_bytes = self._room.used_bytes + self._gathering.size + log_grows_bytes
        over_bytes = held_bytes + size - self.settings.max_bytes
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
        return self.used_bytes > self.settings.max_bytes * 3 // 4

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

    def ask(self, operation: Callable[[C, Counters], T]) -> Awaitable[T]:
        """Run *operation* in the next commit, whole or not at all."""
        if self._is_closed:
            raise SpoolError("the spool is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._gathering.ask(operation, future)
        return future

    def ask_behind(self, operation: Callable[[C, Counters], T]) -> Awaitable[T]:
        """As `ask`, of what no append depends on: those that wait now are committed before."""
        if self._is_closed:
            raise SpoolError("the spool is closed")
        future: asyncio.Future[T] = self._loop.create_future()
        self._gathering.ask_behind(operation, future)
        return future

    def look(self, read: Callable[[C], T]) -> Awaitable[T]:
        """What *read* finds; it writes nothing. Behind what waits now, as `ask_behind`."""
        return self.ask_behind(Look(read))

    def ask_with_appends(self, operation: Callable[[C, Counters], T]) -> Awaitable[T]:
        """Run *operation* in the commit of what was appended in the same `reserve`, with all of it
        or not at all. Raises SpoolError, as `append`.
        """
        self._refuse_if_lost()
        appender: asyncio.Future[None] = self._loop.create_future()
        found: list[T] = []
        self._gathering.join(lambda connection, counters: found.append(operation(connection, counters)), appender)
        return _last_of(found, appender)

    def followers(self, own: Lane) -> list[Lane]:
        """The lanes that read the chunks of *own*."""
        return self._lanes.followers[own]

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
            self._rest()
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

    def _rest(self) -> None:
        """What is due behind a commit, on the writer's thread."""

    def _end_soon(self, result: GroupResult, gathered: Gathered) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._done, result, gathered)

    def _done(self, result: GroupResult, gathered: Gathered) -> None:
        """Resolve the futures of all who wait for the commit."""
        self._counters, self.lost_appends = result.counters, result.lost_appends
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
        if self.writer.distrusted != self._distrusted:
            self._lose(SpoolError("what the spool held may be gone"), [])
        for own in gathered.chunks:
            if own not in self._lanes.settling:  # of what settles nothing is ready before `settle`
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
        if self.on_lost_append is None:
            self.writer.refuses_appends = False
            self._distrusted = self.writer.distrusted
        else:
            self._refuse(error, is_distrusted=self.writer.distrusted != self._distrusted)

    def refuse_appends(self, error: SpoolError) -> None:
        """Take no appends, with *error*, until `accept_appends`;
        the owner of the ledger is notified.
        """
        self._refuse(error, is_distrusted=True)

    def _refuse(self, error: SpoolError, *, is_distrusted: bool) -> None:
        self._lost = error
        self._distrusted = self.writer.distrusted
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

        def settle(connection: Connection, counters: Counters) -> None:
            if lost_appends not in {None, self.writer.lost_appends}:
                raise SpoolError("what was decided upon did not come to disk")
            rows.settle(connection, counters, lane, through_seq, changes, self._lanes.followers)
            if moved is not None:
                insert_moved(connection, lane, moved)

        return self._settled(lane, self.ask(settle))

    async def _settled(self, lane: Lane, asked: Awaitable[None]) -> None:
        await asked
        self.wake(lane)

    async def read(self, lane: Lane, positions: Sequence[Position]) -> list[bytes | None]:
        """The records at *positions*, None for one that is gone or dropped."""

        return await self.look(lambda connection: rows.records_at(connection, lane, positions))

    async def evidence(self, lane: Lane, received_after_ms: int, most_records: int) -> "EvidencePages":
        """What the ledger needs to be rebuilt, page by page, oldest first."""
        first = await self.look(lambda c: rows.first_evidence(c, lane, received_after_ms, most_records))
        return EvidencePages(self, lane, first)

    async def evidence_of(self, lane: Lane, seq: int) -> Evidence | None:
        """The evidence of one chunk; None when it is gone."""
        found = await self.look(lambda c: rows.evidence(c, lane, seq, most=1))
        return found[0] if found and found[0].seq == seq else None

    async def settled_seq(self, lane: Lane) -> int:
        return (await self.look(lambda c: rows.lane_row(c, lane))).settled_seq

    async def kept_chunks(self, lane: Lane, first_seq: int) -> list[int]:
        """With the chunks of the operations that were asked before: what is asked behind may
        overtake them.
        """
        return await self.ask(lambda c, _: rows.chunk_seqs(c, lane, first_seq))

    # ---- out

    async def freeze(self, lane: Lane, *, max_records: int, max_bytes: int) -> Batch | None:
        leased = self._leased[lane]
        now_ms = self._now_ms()
        limits = FreezeLimits(max_records, max_bytes, self.settings.linger_ms)
        wall_ms = self._wall_ms()
        batch_id = uuid7(wall_ms, os.urandom(10))

        def freeze(connection: Connection, counters: Counters) -> Batch | Waiting | None:
            sent_at = rfc3339_ms(wall_ms)
            if lane in may_have_gone_out:
                rows.note_silence(connection, lane)
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
            may_have_gone_out = self._may_have_gone_out
            found = await self.ask_behind(freeze)
            self._may_have_gone_out -= {lane}
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
        return await self.look(lambda connection: rows.brake_reason(connection, lane))

    async def note_brake(self, lane: Lane, reason: str | None) -> None:
        await self.ask_behind(lambda connection, _: rows.note_brake(connection, lane, reason))

    async def is_ready(self, lane: Lane, *, max_records: int, max_bytes: int) -> bool:
        """Whether the lane has anything to send now, leased or not; for a watchdog."""
        limits = FreezeLimits(max_records, max_bytes, self.settings.linger_ms)
        now_ms = self._now_ms()
        return await self.look(lambda connection: rows.is_ready(connection, lane, limits, now_ms))

    def forget_leases(self, lane: Lane) -> None:
        """The pump that held batches of *lane* is gone: they go out again as they are, under the
        same ids.
        """
        self._leased[lane].clear()
        self._may_have_gone_out |= UNREPEATABLE & {lane}
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
        for lane in self._lanes.followers[own]:
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
        return list(self._lanes.sources)

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

    async def run_maintenance(self) -> None:
        """What is due now and then: expire, delete what is delivered and old, give pages
        back, note the oldest record.
        """
        now_ms = self._now_ms()
        settings = self.settings
        for lane in self._lanes.sources:
            async with self._freezing[lane]:
                await self.ask_behind(self._expire(lane, now_ms - settings.max_age_ms, self._leased[lane]))

        if now_ms - self._noted_ms >= NOTE_TIME_MS:
            await self._note_time()
        self._oldest_ms = await self.look(
            lambda connection: {lane: rows.oldest_pending_ms(connection, lane) for lane in self._lanes.sources}
        )
        self._mean_bytes = await self.look(
            lambda connection: {lane: rows.mean_pending_bytes(connection, lane) for lane in self._lanes.sources}
        )
        await self._reclaim(now_ms)
        await self._tend_home()
        await self._maintain_dead_letters()

    async def _note_time(self) -> None:
        """For the next start; not on a full disk, where the last acceptance gives the time."""
        seen = Seen(self._now_ms(), self._wall_ms())
        with suppress(SpoolFull):
            await self.ask_behind(lambda connection, _: rows.note_time(connection, seen))
            self._noted_ms = seen.age_ms

    def freed(self, size_bytes: int) -> None:
        """Of rows that were deleted, about; for a home that does not measure behind each commit."""

    async def _tend_home(self) -> None:
        """What is due now and then of the home itself."""

    async def _reclaim(self, now_ms: int) -> None:
        """Delete what is delivered and old; all that is delivered while the spool is crowded,
        down to half of its limit.
        """
        settings = self.settings
        crowded = self.is_crowded
        before_ms = now_ms if crowded else now_ms - max(settings.keep_delivered_ms, settings.window_ms)
        kept_after = {} if crowded else self._kept_after

        def reclaim(connection: Connection, _: Counters) -> rows.Reclaimed:
            return rows.reclaim(
                connection, before_ms, now_ms, most=RECLAIM_CHUNKS, max_bytes=RECLAIM_BYTES, kept_after=kept_after
            )

        share = Share(CROWDED_SHARE_S if crowded else RECLAIM_SHARE_S)
        while not share.is_spent:
            found = await share.spend(self.ask_behind(reclaim))
            self._drain.left(found.size_bytes)
            self.freed(found.size_bytes)
            if not found.is_more or (crowded and self.used_bytes < settings.max_bytes // 2):
                return

    @staticmethod
    def _expire(lane: Lane, received_before_ms: int, leased: set[str]) -> Callable[[Connection, Counters], int]:
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

    async def settled_records(self, lane: Lane, after_seq: int, *, max_bytes: int) -> Settled:
        return await self.look(lambda c: settled_records(c, lane, after_seq, max_bytes=max_bytes))

    def keep_after(self, lane: Lane, seq: int) -> None:
        self._kept_after[lane] = seq

    async def settled_outcomes(self, lane: Lane, after_seq: int, *, max_bytes: int, max_behind: int) -> Outcomes:
        return await self.look(
            lambda c: settled_outcomes(c, lane, after_seq, max_bytes=max_bytes, max_behind=max_behind)
        )

    async def outcomes_before(self, lane: Lane, before_seq: int, *, max_bytes: int) -> Outcomes:
        return await self.look(lambda c: outcomes_before(c, lane, before_seq, max_bytes=max_bytes))

    def operator(self) -> SqlDeadLetters:
        """What an operator may ask of dead letters and delivered records."""

        def wake(lane: Lane) -> None:
            if lane in self._wakes:
                self._wakes[lane].set()

        return SqlDeadLetters(
            self.ask, number_chunk=lambda _: self.number_chunk(), now_ms=self._now_ms, wake=wake, erase=self._erase
        )

    def _erase(self, connection: C) -> None:
        """From here on *connection* overwrites what it deletes."""

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
        for lane in self._lanes.sources.keys() & await self.look(ranges.lanes):
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

    async def _in_pages(self, delete: Callable[[Connection], int]) -> None:
        while n := await self.ask_behind(lambda connection, _: delete(connection)):
            log.warning("dead letters expired", records=n, limit="spool.keep_dead_letters")
            if n < dead_letters.PAGE_RECORDS:
                break

    @staticmethod
    def _expire_replays(
        lane: Lane, received_before_ms: int, leased: set[str]
    ) -> Callable[[Connection, Counters], None]:
        return lambda connection, counters: ranges.expire(connection, counters, lane, received_before_ms, leased)

    def _read_dead_letters(self, connection: Connection, counters: Counters) -> DeadLetterSummary:
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
        return await self.look(lambda c: {lane: rows.recount(c, lane) for lane in self._lanes.sources})

    async def close(self) -> None:
        """Commit what waits and close the connection.

        Frozen batches stay frozen; later requests are refused.
        """
        await self._note_time()
        await self._stop()

    async def _stop(self) -> None:
        self._is_closed = True
        self._lost = SpoolError("the spool is closed")
        self._gathering.urgent.set()
        self._gathering.waiting.set()
        await self._join()

    async def _join(self) -> None:
        """Return when the writer's thread has ended."""
        await asyncio.to_thread(self._thread.join)


async def _last_of(found: list[T], appender: Awaitable[None]) -> T:
    await appender
    return found[-1]


class Share:
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

    def __init__(self, spool: SqlSpool[Any], lane: Lane, from_seq: int) -> None:
        self._spool, self._lane, self._from_seq = spool, lane, from_seq

    def __aiter__(self) -> "EvidencePages":
        return self

    async def __anext__(self) -> list[Evidence]:
        lane, from_seq = self._lane, self._from_seq
        page = await self._spool.look(lambda c: rows.evidence(c, lane, from_seq, most=EVIDENCE_CHUNKS))
        if not page:
            raise StopAsyncIteration
        self._from_seq = page[-1].seq + 1
        return page
