"""The embedded spool: `spool.sql.spool.SqlSpool` on one SQLite file, and what only a file has."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import structlog

from spool.age import monotonic_ms
from spool.counters import Counters
from spool.data_dir import DATABASE, make_data_dir, refuse_half_restored, refuse_moved
from spool.data_lock import DataLock
from spool.record import AI_TELEMETRY, Lane
from spool.settings import SpoolSettings
from spool.sql.groups import Operation
from spool.sql.opening import Opened, lanes_of, open_lanes, read_opened
from spool.sql.spool import Share, SqlSpool
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

log = structlog.get_logger()

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


class SqliteSpool(SqlSpool[sqlite3.Connection]):
    """See `spool.store.FileSpool`.

    Make with `open_spool` on the event loop's thread; use on that thread only.
    """

    writer: Writer

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
        self._lanes = lanes_of(exporters, settling)
        self._upkept_seq = 0
        with database.mapped_errors(str(data_dir)):
            make_data_dir(data_dir)
        self._lock = DataLock(data_dir)
        remove_unfinished(data_dir)
        try:
            opened = self._open()
            with suppress(OSError):  # as in `_write_summary`
                write_summary(data_dir, self._summary)
        except BaseException:
            self._lock.close()
            raise
        super().__init__(
            settings,
            writer=self.writer,
            lanes=self._lanes,
            opened=opened,
            now_ms=now_ms,
            monotonic_ms=monotonic_ms,
        )

    def _open(self) -> Opened:
        refuse_half_restored(self._data_dir)
        refuse_moved(self._data_dir)
        self.writer = Writer(
            self._data_dir,
            synchronous=self.settings.synchronous,
            followers=self._lanes.followers,
            reserve_bytes=self.settings.reserve_bytes,
            max_bytes=self.settings.max_bytes,
            now_ms=self._wall_ms,
            guards=self._lock.guards,
        )
        self._quarantined: list[Quarantined] = []
        self.writer.on_salvaged = self._prepare()
        opened: Opened = self.writer.run_now(self._prepare())
        return opened

    def _prepare(self) -> Operation:
        def prepare(connection: sqlite3.Connection, counters: Counters) -> Opened:
            now_ms = self._wall_ms()
            summary = self._latest_summary(now_ms)
            reconciling.restore(connection, counters, summary, self._data_dir, now_ms)
            open_lanes(connection, counters, self._lanes)
            salvaged = reconciling.reconcile(connection, counters, list(self._lanes.sources), summary, now_ms)
            if salvaged is not None:
                log.error("spool salvaged with losses", found=reconciling.salvage_text(salvaged))
            self._quarantined = reconciling.entries(connection)
            if summary is not None:  # on disk by now, so their absence from here on is a finding
                connection.execute("INSERT OR IGNORE INTO meta VALUES (?, '2')", (reconciling.HAS_SUMMARIES,))
            opened = read_opened(connection, counters, self.settings.dead_letter_bytes, self._wall_ms())
            self._dead_letter_bound = opened.dead_letter_bound
            self._summary = read_from(connection, counters.copy(), opened.gateway_id, now_ms, self._quarantined)
            return opened

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

    def keep_lock(self) -> bool:
        return self._lock.keep()

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
        self._refuse_over_limit(size, log_grows_bytes)

    @property
    def is_crowded(self) -> bool:
        """Whether what need not be kept should make room, before senders are refused."""
        return super().is_crowded or self._is_short_of_disk

    @property
    def _is_short_of_disk(self) -> bool:
        return self.writer.is_disk_full or self._room.free_bytes < self.writer.floor_bytes

    def _rest(self) -> None:
        room = self.writer.copy_log()
        if room is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._note_room, room)

    def _note_room(self, room: Room) -> None:
        self._room = room

    @property
    def room(self) -> Room:
        """As measured after the last commit."""
        return self._room

    async def _note_time(self) -> None:
        await super()._note_time()
        await self._write_summary(is_final=False)

    async def _tend_home(self) -> None:
        await self._give_back_pages()
        if self.writer.is_disk_full:
            await self.ask_behind(lambda *_: self.writer.make_room())

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

        share = Share(VACUUM_SHARE_S)
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

    def _erase(self, connection: sqlite3.Connection) -> None:
        database.erase(connection)

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
        await self._stop()
        self._lock.close()
