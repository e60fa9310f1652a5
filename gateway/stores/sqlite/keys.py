"""Keys in a database file (`KeyHome`), and the key stores of a data directory: opened by the
gateway, or by a command while no gateway runs.

Management uses transactions of the database. The check of a request uses sqlite3 itself: it reads
`data_version` over a read-only connection, and reads the table of keys again only when a key has
changed. So a key that was disabled or deleted, here or in another process, is refused from the next
request on.
"""

import json
import secrets
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

from aiosqlite import Connection

from gateway.access.errors import LegacyKeyExists, NameTaken, NoSuchKey, PepperMismatch
from gateway.access.home import ANOTHER_PEPPER, LEGACY_EXISTS, KeptKey, KeysNow, name_taken, no_such_key
from gateway.access.key_files import INBOUND, KeyFiles
from gateway.access.labels import Labels
from gateway.access.limits import RateLimits
from gateway.access.pepper import load_pepper
from gateway.access.record import KeyId, KeyRecord, Status, Which
from gateway.access.store import KeyStore
from gateway.common.contract.scopes import Fixed, Grant, Managed
from gateway.common.storage.database import Database, read_only, scripts_of
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.common.storage.integrity_check import refuse_damaged
from spool.data_dir import make_data_dir
from spool.data_lock import DataLock

_COLUMNS: Final = (
    "key_id, name, description, mode, grants, status, display, "
    "created_by, created_at_ms, updated_by, modified_at_ms, accessed_at_ms, "
    "labels, requests_per_minute, bytes_per_minute, is_legacy, counted_by_name"
)
Row = tuple[
    str, str, str, str, str, Status, str, str, int, str, int, int | None, str, int | None, int | None, int, str | None
]
_COUNT_CHANGE: Final = "UPDATE key_facts SET generation = generation + 1"


class SqliteKeys:
    """Open with `SqliteKeys.open`; close before the database is closed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._watch: sqlite3.Connection | None = read_only(database.path)
        self._data_version = -1
        self._seen = KeysNow(-1, 0, None)

    @classmethod
    async def open(cls, database: Database) -> Self:
        """The keys in *database*; missing tables are created."""
        await make_tables(database)
        return cls(database)

    @asynccontextmanager
    async def change(self) -> AsyncIterator["SqliteKeyChange"]:
        """Its result is in the file itself afterwards, not in the write-ahead log alone.

        A file that was copied or left without that log must not bring a revoked key back, nor open
        the intake as if no key was ever made.
        """
        async with self._database.transaction() as connection:
            yield SqliteKeyChange(connection)
        with suppress(DatabaseUnavailable):  # the change is on disk; the next one, or the end, makes up for this
            await self._database.checkpoint()

    async def every_key(self) -> list[KeyRecord]:
        async with self._database.snapshot() as connection:
            rows = await connection.execute_fetchall(f"SELECT {_COLUMNS} FROM keys ORDER BY name")  # noqa: S608 - constant
            return [_record(row) for row in rows]  # type: ignore[arg-type]  # a plain tuple, as no row factory is set

    async def find(self, which: Which) -> KeyRecord:
        async with self._database.snapshot() as connection:
            return await SqliteKeyChange(connection).find(which)

    async def note_access(self, noted: Mapping[str, int]) -> None:
        async with self._database.transaction() as connection:
            await connection.executemany(
                "UPDATE keys SET accessed_at_ms = ?1 WHERE key_id = ?2 AND coalesce(accessed_at_ms, 0) < ?1",
                [(time_ms, key_id) for key_id, time_ms in noted.items()],
            )

    def now(self, known_generation: int) -> KeysNow:
        """Any commit moves `data_version`, so `generation` is compared next."""
        if self._watch is None:
            raise DatabaseUnavailable("the key store is closed")
        try:
            (data_version,) = self._watch.execute("PRAGMA data_version").fetchone()
            if data_version != self._data_version or known_generation != self._seen.generation:
                # One snapshot for both, else a change between the two reads would be missed.
                self._watch.execute("BEGIN")
                try:
                    found = _keys_now(self._watch, known_generation)
                finally:
                    self._watch.execute("ROLLBACK")
                self._data_version, self._seen = data_version, found._replace(keys=None)
                return found
        except (sqlite3.Error, ValueError) as error:  # ValueError: a row that holds no JSON
            raise DatabaseUnavailable(f"{self._database.path.name}: {error}") from error
        return self._seen

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None


class SqliteKeyChange:
    """`KeyChange`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def check_pepper(self, check: bytes) -> None:
        ((stored,),) = await self._connection.execute_fetchall("SELECT pepper_check FROM key_facts")
        if stored is None:
            await self._connection.execute("UPDATE key_facts SET pepper_check = ?", (check,))
        elif stored != check:
            raise PepperMismatch(ANOTHER_PEPPER)

    async def find(self, which: Which) -> KeyRecord:
        column, value = ("key_id", which.text) if isinstance(which, KeyId) else ("name", which)
        found = await self._find(f"{column} = ?", value)
        if found is None:
            raise NoSuchKey(no_such_key(which))
        return found.key

    async def find_by_id(self, key_id: str) -> KeptKey | None:
        return await self._find("key_id = ?", key_id)

    async def find_legacy(self) -> KeptKey | None:
        return await self._find("is_legacy")

    async def _find(self, where: str, *values: str) -> KeptKey | None:
        query = f"SELECT secret_hash, {_COLUMNS} FROM keys WHERE {where}"  # noqa: S608 - constants
        for row in await self._connection.execute_fetchall(query, values):
            return KeptKey(_record(row[1:]), row[0])
        return None

    async def insert(self, key: KeyRecord, secret_hash: bytes) -> None:
        row = (*_row(key), secret_hash)
        statement = f"INSERT INTO keys ({_COLUMNS}, secret_hash) VALUES ({', '.join('?' * len(row))})"  # noqa: S608 - constants
        await _unique(key.name, self._connection.execute(statement, row))
        await self._connection.execute(f"{_COUNT_CHANGE}, created = created + 1")

    async def save(self, key: KeyRecord) -> None:
        changes = [
            (column, value)
            for column, value in zip(_COLUMNS.split(", "), _row(key), strict=True)
            if column != "accessed_at_ms"
        ]
        statement = f"UPDATE keys SET {', '.join(f'{column} = ?' for column, _ in changes)} WHERE key_id = ?"  # noqa: S608 - constants
        await _unique(key.name, self._connection.execute(statement, (*(value for _, value in changes), key.key_id)))
        await self._connection.execute(_COUNT_CHANGE)

    async def save_secret(self, key_id: str, secret_hash: bytes) -> None:
        await self._connection.execute("UPDATE keys SET secret_hash = ? WHERE key_id = ?", (secret_hash, key_id))

    async def delete(self, key_id: str) -> None:
        await self._connection.execute("DELETE FROM keys WHERE key_id = ?", (key_id,))
        await self._connection.execute(_COUNT_CHANGE)


async def make_tables(database: Database) -> None:
    """Bring the tables of keys to this release."""
    await database.migrate("keys", scripts_of("gateway.stores.sqlite.migrations.keys"))


def enabled_grant(connection: sqlite3.Connection, key_id: str) -> Grant | None:
    """What the key may do now; None for one that is disabled or deleted."""
    row = connection.execute(
        "SELECT mode, grants FROM keys WHERE key_id = ? AND status = 'Enabled'", (key_id,)
    ).fetchone()
    return None if row is None else _grant(*row)


def _keys_now(connection: sqlite3.Connection, known_generation: int) -> KeysNow:
    generation, created = connection.execute("SELECT generation, created FROM key_facts").fetchone()
    if generation == known_generation:
        return KeysNow(generation, created, None)
    rows = connection.execute(f"SELECT secret_hash, {_COLUMNS} FROM keys")  # noqa: S608 - constant
    return KeysNow(generation, created, [KeptKey(_record(row[1:]), row[0]) for row in rows])


async def _unique(name: str, statement: Awaitable[object]) -> None:
    try:
        await statement
    except sqlite3.IntegrityError as error:
        if "keys.name" in str(error):
            raise NameTaken(name_taken(name)) from error
        if "keys.is_legacy" in str(error):
            raise LegacyKeyExists(LEGACY_EXISTS) from error
        raise


# ---- rows


def _record(row: Row) -> KeyRecord:
    """The record of a row with `_COLUMNS`."""
    key_id, name, description, mode, grants, status, display, *_ = row
    return KeyRecord(
        key_id=key_id,
        name=name,
        description=description,
        grant=_grant(mode, grants),
        status=status,
        display=display,
        created_by=row[7],
        created_at_ms=row[8],
        updated_by=row[9],
        modified_at_ms=row[10],
        accessed_at_ms=row[11],
        labels=_labels(row[12]),
        limits=RateLimits(row[13], row[14]),
        is_legacy=bool(row[15]),
        counted_by_name=row[16],
    )


def _row(key: KeyRecord) -> Row:
    """The values of `_COLUMNS`."""
    return (
        key.key_id,
        key.name,
        key.description,
        *_grant_columns(key.grant),
        key.status,
        key.display,
        key.created_by,
        key.created_at_ms,
        key.updated_by,
        key.modified_at_ms,
        key.accessed_at_ms,
        _labels_column(key.labels),
        key.limits.requests_per_minute,
        key.limits.bytes_per_minute,
        int(key.is_legacy),
        key.counted_by_name,
    )


def _grant_columns(grant: Grant) -> tuple[str, str]:
    """`mode` and `grants` as they are stored: names only, never what a use case amounts to."""
    match grant:
        case Fixed(scopes):
            return "fixed", json.dumps(sorted(scopes))
        case Managed(use_cases):
            return "managed", json.dumps(sorted(use_cases))


def _grant(mode: str, grants: str) -> Grant:
    names: frozenset[str] = frozenset(json.loads(grants))
    return Managed(names) if mode == "managed" else Fixed(names)


def _labels_column(labels: Labels) -> str:
    return json.dumps(dict(labels), ensure_ascii=False)


def _labels(text: str) -> Labels:
    stored: dict[str, str] = json.loads(text)
    return MappingProxyType(stored)


# ---- of a data directory


async def open_control(data_dir: Path, files: KeyFiles = INBOUND) -> Database:
    """Raises DatabaseUnavailable, also for a file that is damaged or missing."""
    refuse_damaged(data_dir / files.database, data_dir / files.pepper)
    return await Database.open(data_dir / files.database)


async def open_keys(
    database: Database, data_dir: Path, now_ms: Callable[[], int], files: KeyFiles = INBOUND
) -> KeyStore:
    """Raises PepperMismatch, DatabaseUnavailable."""
    await make_tables(database)  # before the pepper is made: a file without them beside a pepper has lost them
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
