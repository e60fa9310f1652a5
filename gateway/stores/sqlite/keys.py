"""Keys in control.db (`KeyHome`), and the key stores of a data directory: opened by the gateway, or
by a command while no gateway runs.

The check of a request uses sqlite3 itself: it reads `data_version` over a read-only connection, and
reads the table of keys again only when a key has changed. So a key that was disabled or deleted,
here or in another process, is refused from the next request on.
"""

import secrets
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

from gateway.access.home import KeyRows, KeysNow
from gateway.access.key_files import INBOUND, KeyFiles
from gateway.access.pepper import load_pepper
from gateway.access.store import KeyStore
from gateway.common.storage.database import Database, read_only
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.common.storage.integrity_check import refuse_damaged
from gateway.stores.sql.database import make_tables
from gateway.stores.sql.keys import PART, SqlKeyRows, keys_now, note_access
from spool.data_dir import make_data_dir
from spool.data_lock import DataLock

T = TypeVar("T")


class SqliteKeys:
    """Open with `SqliteKeys.open`; close before the database is closed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._watch: sqlite3.Connection | None = read_only(database.path)
        self._data_version = -1
        self._seen = KeysNow(-1, 0, None, None)

    @classmethod
    async def open(cls, database: Database) -> Self:
        """The keys in *database*; missing tables are created."""
        await make_tables(database, PART)
        return cls(database)

    async def commit(self, change: Callable[[KeyRows], T]) -> T:
        """Its result is in the file itself afterwards, not in the write-ahead log alone.

        A file that was copied or left without that log must not bring a revoked key back, nor open
        the intake as if no key was ever made.
        """
        result = await self._database.write(lambda connection: change(SqlKeyRows(connection)))
        with suppress(DatabaseUnavailable):  # the change is on disk; the next one, or the end, makes up for this
            await self._database.checkpoint()
        return result

    async def read(self, question: Callable[[KeyRows], T]) -> T:
        return await self._database.read(lambda connection: question(SqlKeyRows(connection)))

    async def note_access(self, noted: Mapping[str, int]) -> None:
        await self._database.write(partial(note_access, noted=noted))

    def now(self, known_generation: int) -> KeysNow:
        """Any commit moves `data_version`, so `generation` is compared next."""
        if self._watch is None:
            raise DatabaseUnavailable("the key store is closed")
        try:
            (data_version,) = self._watch.execute("PRAGMA data_version").fetchone()
            if data_version != self._data_version or known_generation != self._seen.generation:
                self._watch.execute("BEGIN")
                try:
                    found = keys_now(self._watch, known_generation)
                finally:
                    self._watch.execute("ROLLBACK")
                self._data_version, self._seen = data_version, found._replace(keys=None, viewers=None)
                return found
        except (sqlite3.Error, ValueError) as error:  # ValueError: a row that holds no JSON
            raise DatabaseUnavailable(f"{self._database.path.name}: {error}") from error
        return self._seen

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None


async def open_control(data_dir: Path, files: KeyFiles = INBOUND) -> Database:
    """Raises DatabaseUnavailable, also for a file that is damaged or missing."""
    refuse_damaged(data_dir / files.database, data_dir / files.pepper)
    return await Database.open(data_dir / files.database)


async def open_keys(
    database: Database, data_dir: Path, now_ms: Callable[[], int], files: KeyFiles = INBOUND
) -> KeyStore:
    """Raises PepperMismatch, DatabaseUnavailable."""
    await make_tables(database, PART)  # before the pepper is made: a file without them beside a pepper has lost them
    pepper = load_pepper(data_dir / files.pepper, secrets.token_bytes)
    return await KeyStore.open(
        await SqliteKeys.open(database),
        prefix=files.prefix,
        pepper=pepper,
        now_ms=now_ms,
        random_bytes=secrets.token_bytes,
    )


@asynccontextmanager
async def keys_in(data_dir: Path, files: KeyFiles, now_ms: Callable[[], int]) -> AsyncIterator[KeyStore]:
    """The keys of *data_dir*; the caller holds its lock. Raises PepperMismatch,
    DatabaseUnavailable.
    """
    database = await open_control(data_dir, files)
    try:
        keys = await open_keys(database, data_dir, now_ms, files)
        try:
            yield keys
        finally:
            await keys.close()
    finally:
        await database.close()


@asynccontextmanager
async def offline_keys(data_dir: Path, files: KeyFiles, now_ms: Callable[[], int]) -> AsyncIterator[KeyStore]:
    """The keys of a stopped gateway, or of one that never ran; the lock is held meanwhile.

    Raises SpoolLocked while a gateway runs, SpoolError, PepperMismatch, DatabaseUnavailable.
    """
    make_data_dir(data_dir)
    with DataLock(data_dir):
        async with keys_in(data_dir, files, now_ms) as keys:
            yield keys
