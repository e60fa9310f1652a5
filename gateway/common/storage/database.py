"""One SQLite file over aiosqlite: a connection that writes, one that reads, and migrations by part.

control.db and the local service's file are opened through this. Statements that depend on each
other are one `transaction`; work of many rows is one function of the plain connection, for `write`
or `read`, which runs in a thread in one piece: an await for each row costs ten times the row. The
reading connection has snapshots of its own, so that a long sum never delays a commit. Only the
writing connection writes or checkpoints: SQLite before 3.51.3 can lose a WAL reset when two do.
`synchronous=FULL`: what returned is on disk.
"""

import asyncio
import os
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeVar

import aiosqlite

from gateway.common.storage.completed import completed
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.common.storage.private_files import OWNER_ONLY, restrict

T = TypeVar("T")
Setup = Callable[[sqlite3.Connection], None]

BUSY_TIMEOUT_S = 5.0
PAGE_CACHE_KIB = 32 * 1024
CHECKPOINT_PAGES = 4000
"""16 MiB of WAL between checkpoints: each one costs two more syncs, which a commit then waits
for.
"""

_PARTS = "CREATE TABLE IF NOT EXISTS parts (part TEXT PRIMARY KEY, version INTEGER NOT NULL) STRICT"
_ITER_ROWS = 64
"""Rows that an iterated cursor of aiosqlite fetches at a time: its own default."""


class _Handle(NamedTuple):
    """One connection, as aiosqlite's and as the plain one below it. Only the holder of *lock* uses
    either.
    """

    lock: asyncio.Lock
    connection: aiosqlite.Connection
    plain: sqlite3.Connection


class Database:
    """An open file. Every method raises DatabaseUnavailable in place of sqlite3's own errors."""

    engine: Final = "sqlite"
    errors: Final = (sqlite3.Error,)

    def __init__(self, path: Path, writer: _Handle, reader: _Handle) -> None:
        self.path = path
        self._writer = writer
        self._reader = reader
        self._is_closed = False

    @classmethod
    async def open(cls, path: Path, *, setup: Setup | None = None) -> Self:
        """Open *path*, made with mode 0600 when missing. *setup* runs on both connections (own SQL
        functions).
        """
        with _unavailable(path):
            _make_file(path)
            writer = await _opened(partial(_writing, path, setup))
            try:
                reader = await _opened(partial(read_only, path, setup))
            except BaseException:
                await writer.connection.close()
                raise
        return cls(path, writer, reader)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[aiosqlite.Connection]:
        """The writing connection inside one transaction; committed at the end of the block, rolled
        back if it raises.
        """
        async with self._held(self._writer) as connection:
            self._refuse_missing()
            try:
                await completed(connection.execute("BEGIN IMMEDIATE"))
                yield connection
                await completed(connection.execute("COMMIT"))
            except BaseException:
                if connection.in_transaction:
                    await completed(connection.execute("ROLLBACK"))
                raise

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[aiosqlite.Connection]:
        """The reading connection, on one snapshot of the file until the end of the block."""
        async with self._held(self._reader) as connection:
            try:
                await completed(connection.execute("BEGIN"))
                yield connection
            finally:
                if connection.in_transaction:
                    await completed(connection.execute("ROLLBACK"))

    async def write(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """Run *change* in one transaction; on disk when this returns, nothing of it kept when
        *change* raises.
        """

        def committed_change() -> T:
            with committed(self._writer.plain):
                return change(self._writer.plain)

        async with self._held(self._writer):
            self._refuse_missing()
            return await completed(asyncio.to_thread(committed_change))

    async def write_part(self, part: str, change: Callable[[sqlite3.Connection], T]) -> T:
        """As `write`: a file has one writer."""
        return await self.write(change)

    async def read(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Run *question* on one snapshot of the file."""

        def snapshot() -> T:
            self._reader.plain.execute("BEGIN")
            try:
                return question(self._reader.plain)
            finally:
                self._reader.plain.execute("ROLLBACK")

        async with self._held(self._reader):
            return await completed(asyncio.to_thread(snapshot))

    async def read_apart(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """As `read`, on a connection of its own: no other question waits for this one."""

        def snapshot() -> T:
            with closing(read_only(self.path)) as connection:
                connection.execute("BEGIN")
                return question(connection)

        with _unavailable(self.path):
            return await completed(asyncio.to_thread(snapshot))

    async def pieces(self, sql: str, rows: int) -> AsyncGenerator[list[tuple[Any, ...]]]:
        """What *sql* selects, *rows* at a time, on one snapshot and a connection of its own: no
        other question waits for it.
        """
        with _unavailable(self.path), closing(read_only(self.path)) as connection:
            cursor = connection.execute(sql)
            while piece := await completed(asyncio.to_thread(cursor.fetchmany, rows)):
                yield piece

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Nothing is committed until the end of the block: keep it short."""
        async with self._held(self._writer):
            yield

    async def checkpoint(self) -> None:
        """Copy what was committed from the WAL into the file itself, as far as no reader is in the
        way.
        """
        async with self._held(self._writer) as connection:
            await completed(connection.execute_fetchall("PRAGMA wal_checkpoint(FULL)"))

    async def migrate(self, part: str, scripts: Sequence[str]) -> None:
        """Bring *part*'s tables to the last of *scripts*, which are numbered from 1 and never
        edited once released.
        """
        async with self.transaction() as connection:
            await connection.execute(_PARTS)
            rows = await connection.execute_fetchall("SELECT version FROM parts WHERE part = ?", (part,))
            done: int = next((row[0] for row in rows), 0)
            if done > len(scripts):
                raise DatabaseUnavailable(
                    f"{self.path.name} was written by a newer release ({part} is at version {done})"
                )
            for script in scripts[done:]:
                for statement in _statements(script):
                    await connection.execute(statement)
            await connection.execute("INSERT OR REPLACE INTO parts (part, version) VALUES (?, ?)", (part, len(scripts)))

    async def close(self) -> None:
        """Close both connections; the reader first, so that the writer's close can fold the WAL
        into the file.
        """
        if not self._is_closed:
            self._is_closed = True
            for handle in (self._reader, self._writer):
                async with handle.lock:
                    await handle.connection.close()

    @asynccontextmanager
    async def _held(self, handle: _Handle) -> AsyncIterator[aiosqlite.Connection]:
        async with handle.lock:
            if self._is_closed:
                raise DatabaseUnavailable("the file is closed")
            with _unavailable(self.path):
                yield handle.connection

    def _refuse_missing(self) -> None:
        if not self.path.exists():  # SQLite would go on writing to what the next start does not find
            raise DatabaseUnavailable(f"{self.path.name} was removed: put it back and start again")


def scripts_of(package: str) -> list[str]:
    """The migrations in *package*, by their numbers, for `Database.migrate`."""
    found = [file for file in files(package).iterdir() if file.name.endswith(".sql")]
    return [file.read_text() for file in sorted(found, key=lambda file: file.name)]


@contextmanager
def committed(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what is done inside; roll it back when it raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def read_only(path: Path, setup: Setup | None = None) -> sqlite3.Connection:
    """A connection that can neither write nor checkpoint; one thread at a time may use it."""
    return _connect(f"{path.absolute().as_uri()}?mode=ro", setup)


def _make_file(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, OWNER_ONLY))  # SQLite gives -wal and -shm the file's own mode
    restrict(path)


def _writing(path: Path, setup: Setup | None) -> sqlite3.Connection:
    connection = _connect(str(path), setup)
    try:
        connection.execute("PRAGMA journal_mode = WAL")  # raises for a file that is no database
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # macOS: past the drive's cache, which fsync leaves it in
        connection.execute("PRAGMA checkpoint_fullfsync = ON")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _connect(target: str, setup: Setup | None) -> sqlite3.Connection:
    connection = sqlite3.connect(
        target,
        uri=target.startswith("file:"),
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute(f"PRAGMA cache_size = -{PAGE_CACHE_KIB}")
    if setup is not None:
        setup(connection)
    return connection


async def _opened(connect: Callable[[], sqlite3.Connection]) -> _Handle:
    plain = await asyncio.to_thread(connect)  # not by aiosqlite, whose thread outlives a connector that raises
    return _Handle(asyncio.Lock(), await aiosqlite.Connection(lambda: plain, iter_chunk_size=_ITER_ROWS), plain)


@contextmanager
def _unavailable(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise DatabaseUnavailable(f"{path.name}: {error}") from error


def _statements(script: str) -> list[str]:
    """The statements of a migration; `executescript` would commit first, and a migration is one
    transaction.
    """
    statements, current = [], ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    return statements
