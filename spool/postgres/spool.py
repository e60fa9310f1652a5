"""A spool in a schema of the user's Postgres: `spool.sql.spool.SqlSpool`, fenced."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Self

import psycopg

from spool.age import monotonic_ms
from spool.counters import Counters
from spool.errors import Fenced, SpoolError
from spool.postgres.connection import PostgresConnection
from spool.postgres.durability import Durability
from spool.postgres.session import connect, mapped_errors
from spool.postgres.writer import Fence, PostgresWriter
from spool.record import AI_TELEMETRY, Lane
from spool.settings import SpoolSettings
from spool.sql.gathering import Gathered
from spool.sql.groups import GroupResult
from spool.sql.opening import Lanes, Opened, lanes_of, open_lanes, read_opened
from spool.sql.pending import pending_bodies
from spool.sql.spool import SqlSpool

MAX_WAITING_BYTES: Final = 64 << 20
"""Of records in memory that wait for a commit: while the standbys are gone, none ends."""
STOP_S: Final = 5.0
"""How long a commit is waited for when the spool is closed."""


def no_fence(_: PostgresConnection) -> None:
    """Of a spool that no other process opens."""


class PostgresSpool(SqlSpool[PostgresConnection]):
    """See `spool.store.Spool`. Open with `PostgresSpool.open` on the event loop's thread; use on
    that thread only.

    Once the fence fails, appends and operations raise Fenced for good, and `on_fenced` is called
    once. What was frozen may have been sent by then, and is sent again by who owns the spool now,
    under the same ids.
    """

    writer: PostgresWriter

    @classmethod
    async def open(
        cls,
        dsn: str,
        settings: SpoolSettings,
        *,
        durability: Durability,
        now_ms: Callable[[], int],
        monotonic_ms: Callable[[], int] = monotonic_ms,
        exporters: Sequence[Lane] = (),
        settling: Sequence[Lane] = (AI_TELEMETRY,),
        fence: Fence = no_fence,
        on_fenced: Callable[[], object] = lambda: None,
    ) -> Self:
        """In the schema that *dsn*'s role sees first; its tables are made where they are missing.
        The rest is as for `SqliteSpool`. Raises Fenced, SpoolError.
        """
        lanes = lanes_of(exporters, settling)
        opened = partial(open_writer, dsn, settings, lanes, durability=durability, now_ms=now_ms, fence=fence)
        writer, prepared = await asyncio.to_thread(opened)
        return cls(
            settings,
            writer=writer,
            lanes=lanes,
            opened=prepared,
            now_ms=now_ms,
            monotonic_ms=monotonic_ms,
            on_fenced=on_fenced,
        )

    def __init__(
        self,
        settings: SpoolSettings,
        *,
        writer: PostgresWriter,
        lanes: Lanes,
        opened: Opened,
        now_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
        on_fenced: Callable[[], object] = lambda: None,
    ) -> None:
        """*writer* and *opened*: of `open_writer`."""
        self._on_fenced = on_fenced
        self._is_fenced = False
        super().__init__(settings, writer=writer, lanes=lanes, opened=opened, now_ms=now_ms, monotonic_ms=monotonic_ms)

    def admit(self, size: int) -> None:
        """Raise SpoolFull when *size* more bytes may not be kept, SpoolError while nothing may."""
        self._refuse_if_lost()
        if self._gathering.waiting_bytes + size > MAX_WAITING_BYTES:
            raise self._full("too much waits for a commit of Postgres", size)
        self._refuse_over_limit(size)

    def _done(self, result: GroupResult, gathered: Gathered) -> None:
        super()._done(result, gathered)
        if self.writer.fenced is not None and not self._is_fenced:
            self._is_fenced = True
            self._lose(self.writer.fenced, [])
            self._on_fenced()

    def _lose(self, error: SpoolError, appenders: list[asyncio.Future[None]]) -> None:
        if not isinstance(error, Fenced):
            super()._lose(error, appenders)
            return
        self._lost = error  # for good: there is nothing to rebuild
        for appender in [*appenders, *self._gathering.void_appends()]:
            if not appender.done():
                appender.set_exception(error.copied())

    def _refuse(self, error: SpoolError, *, is_distrusted: bool) -> None:
        if self.writer.fenced is None:
            super()._refuse(error, is_distrusted=is_distrusted)

    def accept_appends(self) -> None:
        if self.writer.fenced is None:
            super().accept_appends()

    async def pending_bodies(self, lane: Lane) -> AsyncIterator[bytes]:
        with mapped_errors():
            connection = await asyncio.to_thread(self.writer.connect)
            try:
                from_seq = None
                while True:
                    bodies, from_seq = await asyncio.to_thread(_pending_bodies, connection, lane, from_seq)
                    for body in bodies:
                        yield body
                    if from_seq is None:
                        return
            finally:
                connection.close()

    def freed(self, size_bytes: int) -> None:
        self._room = self._room._replace(used_bytes=max(0, self._room.used_bytes - size_bytes))

    async def _tend_home(self) -> None:
        await self.ask_behind(lambda *_: self.writer.measure_soon())

    async def close(self) -> None:
        """Commit what waits and close the connection; after `STOP_S` the outcome of a commit that
        still waits for standbys is left to the server.
        """
        with suppress(SpoolError, TimeoutError):
            async with asyncio.timeout(STOP_S):
                await self._note_time()
        self.writer.is_closing = True
        await self._stop()

    async def give_up(self) -> None:
        """What is under way, and what comes before it is closed, fails: the database hangs."""
        self.writer.is_closing = True
        self.writer.break_off()

    async def _join(self) -> None:
        await asyncio.to_thread(self._thread.join, STOP_S)
        if self._thread.is_alive():
            self.writer.break_off()
            await asyncio.to_thread(self._thread.join)


def open_writer(
    dsn: str,
    settings: SpoolSettings,
    lanes: Lanes,
    *,
    durability: Durability,
    now_ms: Callable[[], int],
    fence: Fence,
) -> tuple[PostgresWriter, Opened]:
    """Waits for the server. Raises Fenced, SpoolError."""

    def prepare(connection: PostgresConnection, counters: Counters) -> Opened:
        open_lanes(connection, counters, lanes)
        return read_opened(connection, counters, settings.dead_letter_bytes, now_ms())

    writer = PostgresWriter(
        partial(connect, dsn, durability), followers=lanes.followers, max_bytes=settings.max_bytes, fence=fence
    )
    return writer, writer.open(prepare)


def _pending_bodies(connection: psycopg.Connection, lane: Lane, from_seq: int | None) -> tuple[list[bytes], int | None]:
    return pending_bodies(PostgresConnection(connection, is_binary=True), lane, from_seq)
