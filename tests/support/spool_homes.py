"""The homes of the spool: a folder on the disk, a schema of Postgres, and one in memory. What is
promised of a spool is tested on each: a test opens it here, kills it, and makes its commits fail.
"""

import copy
import os
import shutil
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from spool.counters import Counters
from spool.dead_letters import Chosen
from spool.errors import SpoolError
from spool.postgres.spool import PostgresSpool, no_fence, open_writer
from spool.postgres.writer import Fence
from spool.record import AI_TELEMETRY, Lane
from spool.settings import SpoolSettings
from spool.sql import unit_doubts as of_backup
from spool.sql.connection import Connection
from spool.sql.opening import lanes_of
from spool.sql.spool import SqlSpool
from spool.sqlite.spool import SqliteSpool
from spool.store import Spool
from tests.support.postgres import needs_postgres, shared_server
from tests.support.spool_in_memory import unit_doubts
from tests.support.spool_in_memory.home import MemoryHome, check
from tests.support.spool_in_memory.spool import SpoolInMemory
from tests.support.spool_rig import SETTINGS, Clock, assert_balanced

HOMES: Final = ("sqlite", "memory")
EVERY_HOME: Final = (*HOMES, pytest.param("postgres", marks=needs_postgres))
ALL: Final = 1 << 30
CHOSEN: Final = os.environ.get("SPOOL_HOME")
"""The home on which the whole corpus is counted; None: the usual ones, and a sample on Postgres."""


class SpoolHome(Protocol):
    """What stays while a spool is closed, and what a kill leaves."""

    def open(
        self,
        *,
        settings: SpoolSettings = SETTINGS,
        exporters: Sequence[Lane] = (),
        settling: Sequence[Lane] = (),
    ) -> Spool:
        """Lanes do not settle unless *settling* names them."""

    def kill(self) -> None:
        """The next one that is opened finds what a kill now would leave."""

    async def kill_at_commit(self, begin: Callable[[], Awaitable[object]], *, after: bool) -> None:
        """The next one that is opened finds what a kill before, or *after*, the commit of what is
        begun would leave.
        """

    async def break_appends(self) -> None:
        """From now on every commit with records in it fails; all others go on."""

    async def mend_appends(self) -> None: ...

    async def put_back(self) -> None:
        """What is kept is that of a backup, which may be older than the upstream."""

    async def check(self) -> None:
        """The identities hold, and the figures state what is kept."""

    async def close(self) -> None:
        """Close the spool that is open."""


def spool_home_of(name: str, folder: Path, clock: Clock | None = None) -> SpoolHome:
    clock = clock or Clock()
    if name == "postgres":
        return InPostgres(clock)
    return InMemory(clock) if name == "memory" else InFolder(folder, clock)


async def chunk_count(spool: Spool) -> int:
    """How many chunks of AI records are kept."""
    return sum([len(page) async for page in await spool.evidence(AI_TELEMETRY, 0, ALL)])


async def letters_of(spool: Spool, lane: Lane) -> list[tuple[str, str, bytes]]:
    """Code, message and record of the dead letters of *lane*, oldest first."""
    found = await spool.operator().find(Chosen(lanes=(lane,)), most=ALL)
    return [(x.reason, x.message, x.record) for x in found]


class InFolder:
    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder, self._clock = folder, clock
        self._lives = 0
        self._spool: SqliteSpool

    @property
    def _data_dir(self) -> Path:
        return self._folder.with_name(f"{self._folder.name}-{self._lives}") if self._lives else self._folder

    def open(
        self,
        *,
        settings: SpoolSettings = SETTINGS,
        exporters: Sequence[Lane] = (),
        settling: Sequence[Lane] = (),
    ) -> SqliteSpool:
        clock = self._clock
        self._spool = SqliteSpool(
            self._data_dir,
            settings,
            now_ms=clock,
            monotonic_ms=clock.monotonic_ms,
            exporters=exporters,
            settling=settling,
        )
        return self._spool

    def kill(self) -> None:
        self._leave()

    def _leave(self) -> None:
        before = self._data_dir
        self._lives += 1
        shutil.copytree(before, self._data_dir)

    async def kill_at_commit(self, begin: Callable[[], Awaitable[object]], *, after: bool) -> None:
        die_at_commit(self._spool.writer, self._leave, after=after)
        await begin()

    async def break_appends(self) -> None:
        await self._run("CREATE TRIGGER broken BEFORE INSERT ON chunk BEGIN SELECT RAISE(ABORT, 'broken'); END")

    async def mend_appends(self) -> None:
        await self._run("DROP TRIGGER broken")

    async def _run(self, sql: str) -> None:
        await self._spool.ask(lambda connection, _: connection.execute(sql))

    async def put_back(self) -> None:
        await doubt(self._spool, self._clock)

    async def check(self) -> None:
        await assert_balanced(self._spool)

    async def close(self) -> None:
        await self._spool.close()


async def doubt(spool: SqlSpool[Any], clock: Clock) -> None:
    """As a start with the rows of a backup does."""

    def doubt(connection: Connection, counters: Counters) -> None:
        of_backup.distrust(connection, clock())
        of_backup.give_up(connection, counters, clock())

    await spool.ask(doubt)


def die_at_commit(writer: Any, die: Callable[[], None], *, after: bool) -> None:
    """Call *die* at the next commit of *writer*: before it, or *after* it."""
    commit = writer.transaction

    def dying(*arguments: Any) -> Any:
        writer.transaction = commit
        if not after:
            die()
        result = commit(*arguments)
        if after:
            die()
        return result

    writer.transaction = dying


class InPostgres:
    """A schema of its own, which every spool that is opened here is in."""

    def __init__(self, clock: Clock, dsn: str | None = None) -> None:
        self.dsn = dsn or shared_server().new_schema()
        self._clock = clock
        self._spool: PostgresSpool

    def open(
        self,
        *,
        settings: SpoolSettings = SETTINGS,
        exporters: Sequence[Lane] = (),
        settling: Sequence[Lane] = (),
        fence: Fence = no_fence,
        on_fenced: Callable[[], object] = lambda: None,
    ) -> PostgresSpool:
        clock, lanes = self._clock, lanes_of(exporters, settling)
        writer, opened = open_writer(self.dsn, settings, lanes, durability="storage", now_ms=clock, fence=fence)
        self._spool = PostgresSpool(
            settings,
            writer=writer,
            lanes=lanes,
            opened=opened,
            now_ms=clock,
            monotonic_ms=clock.monotonic_ms,
            on_fenced=on_fenced,
        )
        return self._spool

    def kill(self) -> None:
        self._spool.writer.is_closing = True
        self._spool.writer.break_off()

    async def kill_at_commit(self, begin: Callable[[], Awaitable[object]], *, after: bool) -> None:
        die_at_commit(self._spool.writer, self.kill, after=after)
        with suppress(SpoolError):
            await begin()

    async def break_appends(self) -> None:
        await self._run(
            "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'broken'; END $$;"
            " CREATE TRIGGER broken BEFORE INSERT ON chunk FOR EACH ROW EXECUTE FUNCTION broken()"
        )

    async def mend_appends(self) -> None:
        await self._run("DROP TRIGGER broken ON chunk; DROP FUNCTION broken()")

    async def _run(self, sql: str) -> None:
        await self._spool.ask(lambda connection, _: connection.execute(sql))

    async def put_back(self) -> None:
        await doubt(self._spool, self._clock)

    async def check(self) -> None:
        await assert_balanced(self._spool)

    async def close(self) -> None:
        await self._spool.close()

    def drop(self) -> None:
        """Nothing of it stays; whatever is open fails."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            row = connection.execute("SELECT current_schema()").fetchone()
            assert row is not None
            connection.execute(SQL("DROP SCHEMA {} CASCADE").format(Identifier(row[0])))


class InMemory:
    def __init__(self, clock: Clock) -> None:
        self._clock, self._home = clock, MemoryHome()
        self._spool: SpoolInMemory

    def open(
        self,
        *,
        settings: SpoolSettings = SETTINGS,
        exporters: Sequence[Lane] = (),
        settling: Sequence[Lane] = (),
    ) -> SpoolInMemory:
        self._opened = self._home
        self._spool = SpoolInMemory(
            self._home,
            settings,
            now_ms=self._clock,
            monotonic_ms=self._clock.monotonic_ms,
            exporters=exporters,
            settling=settling,
        )
        return self._spool

    def kill(self) -> None:
        self._home = MemoryHome(copy.deepcopy(self._opened.disk))

    async def kill_at_commit(self, begin: Callable[[], Awaitable[object]], *, after: bool) -> None:
        left = [MemoryHome(), MemoryHome()]

        def note() -> None:
            self._home = left.pop()
            self._home.disk = copy.deepcopy(self._opened.disk)
            if not left or not after:
                self._opened.on_commit = lambda: None

        self._opened.on_commit = note
        await begin()

    async def break_appends(self) -> None:
        self._opened.disk.refuses_chunks = True

    async def mend_appends(self) -> None:
        self._opened.disk.refuses_chunks = False

    async def put_back(self) -> None:
        ids = iter(self._spool.batch_id, "")
        await self._spool.ask(lambda disk: unit_doubts.put_back(disk, ids, self._clock()))

    async def check(self) -> None:
        check(self._opened.disk)

    async def close(self) -> None:
        await self._spool.close()
