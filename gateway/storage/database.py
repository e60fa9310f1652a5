"""One SQLite file: one thread that writes, one that reads, and migrations by part.

control.db and the local service's file are opened through this. A change is a function that takes the connection and
runs inside one transaction on the writing thread; a reading function runs on another connection, so that a long sum
never delays a commit. Only the writing connection writes or checkpoints: SQLite before 3.51.3 can lose a WAL reset
when two do. `synchronous=FULL`: when a write returns, it is on disk.
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Self, TypeVar

from gateway.keys.errors import DatabaseUnavailable
from gateway.storage.private_files import OWNER_ONLY, restrict

T = TypeVar("T")
Setup = Callable[[sqlite3.Connection], None]

BUSY_TIMEOUT_S = 5.0
PAGE_CACHE_KIB = 32 * 1024
CHECKPOINT_PAGES = 4000
"""16 MiB of WAL between checkpoints: each one costs two more syncs, which a commit then waits for."""

_PARTS = "CREATE TABLE IF NOT EXISTS parts (part TEXT PRIMARY KEY, version INTEGER NOT NULL) STRICT"


class Database:
    """An open file. `write` and `read` raise DatabaseUnavailable in place of sqlite3's own errors."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer = ThreadPoolExecutor(1, thread_name_prefix=f"{path.stem}-write")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix=f"{path.stem}-read")
        self._write_connection: sqlite3.Connection | None = None
        self._read_connection: sqlite3.Connection | None = None

    @classmethod
    async def open(cls, path: Path, *, setup: Setup | None = None) -> Self:
        """Open *path*, made with mode 0600 when it is not there. *setup* runs on both connections (own SQL functions)."""
        database = cls(path)
        try:
            await database._on(database._writer, lambda: database._open_writer(setup))
            await database._on(database._reader, lambda: database._open_reader(setup))
        except BaseException:
            await database.close()
            raise
        return database

    async def write(self, change: Callable[[sqlite3.Connection], T]) -> T:
        """Run *change* in one transaction; on disk when this returns, nothing of it kept when *change* raises."""

        def transaction() -> T:
            connection = _opened(self._write_connection)
            if not self.path.exists():  # SQLite would go on writing to what the next start does not find
                raise DatabaseUnavailable(f"{self.path.name} was taken away: put it back and start again")
            with committed(connection):
                return change(connection)

        return await self._on(self._writer, transaction)

    async def fold(self) -> None:
        """Bring what was written until now into the file itself, as far as no reader is in the way."""
        await self._on(
            self._writer, lambda: _opened(self._write_connection).execute("PRAGMA wal_checkpoint(FULL)").fetchone()
        )

    async def read(self, question: Callable[[sqlite3.Connection], T]) -> T:
        """Run *question* on one snapshot of the file."""

        def snapshot() -> T:
            connection = _opened(self._read_connection)
            connection.execute("BEGIN")
            try:
                return question(connection)
            finally:
                connection.execute("ROLLBACK")

        return await self._on(self._reader, snapshot)

    async def migrate(self, part: str, scripts: Sequence[str]) -> None:
        """Bring *part*'s tables to the last of *scripts*, which are numbered from 1 and never edited once released."""

        def pending(connection: sqlite3.Connection) -> None:
            connection.execute(_PARTS)
            row = connection.execute("SELECT version FROM parts WHERE part = ?", (part,)).fetchone()
            done: int = row[0] if row else 0
            if done > len(scripts):
                raise DatabaseUnavailable(
                    f"{self.path.name} was written by a newer release ({part} is at version {done})"
                )
            for script in scripts[done:]:
                for statement in _statements(script):
                    connection.execute(statement)
            connection.execute("INSERT OR REPLACE INTO parts (part, version) VALUES (?, ?)", (part, len(scripts)))

        await self.write(pending)

    async def close(self) -> None:
        """Close both connections; the reader first, so that the writer's close can fold the WAL into the file."""
        for executor, connection in ((self._reader, self._read_connection), (self._writer, self._write_connection)):
            if connection is not None:
                await self._on(executor, connection.close)
            executor.shutdown()
        self._read_connection = self._write_connection = None

    def _open_writer(self, setup: Setup | None) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(
            os.open(self.path, os.O_CREAT | os.O_RDWR, OWNER_ONLY)
        )  # SQLite gives -wal and -shm the file's own mode
        restrict(self.path)
        self._write_connection = connection = _connect(str(self.path), setup)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")

    def _open_reader(self, setup: Setup | None) -> None:
        self._read_connection = read_only(self.path, setup)

    async def _on(self, executor: ThreadPoolExecutor, call: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(executor, call)
        except sqlite3.Error as error:
            raise DatabaseUnavailable(f"{self.path.name}: {error}") from error


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
    """A connection of the calling thread that can neither write nor checkpoint."""
    return _connect(f"{path.absolute().as_uri()}?mode=ro", setup)


def _connect(target: str, setup: Setup | None) -> sqlite3.Connection:
    connection = sqlite3.connect(target, uri=target.startswith("file:"), timeout=BUSY_TIMEOUT_S, isolation_level=None)
    connection.execute(f"PRAGMA cache_size = -{PAGE_CACHE_KIB}")
    if setup is not None:
        setup(connection)
    return connection


def _opened(connection: sqlite3.Connection | None) -> sqlite3.Connection:
    if connection is None:
        raise DatabaseUnavailable("the file is closed")
    return connection


def _statements(script: str) -> list[str]:
    """The statements of a migration; `executescript` would commit first, and a migration is one transaction."""
    statements, current = [], ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    return statements
