"""The key stores of a data directory: opened by the gateway, or by a command while no gateway
runs.
"""

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from gateway.access.key import GATEWAY_PREFIX, SERVICE_PREFIX
from gateway.access.pepper import load_pepper
from gateway.access.store import KeyStore, make_tables
from gateway.common.storage.database import Database
from gateway.common.storage.integrity_check import refuse_damaged
from spool.data_dir import make_data_dir
from spool.data_lock import DataLock


class KeyFiles(NamedTuple):
    """The files of one kind of key in a data directory, and the prefix of its secrets."""

    database: str
    pepper: str
    prefix: str


INBOUND: Final = KeyFiles("control.db", "control.pepper", GATEWAY_PREFIX)
"""Keys of senders."""
OF_SERVICE: Final = KeyFiles("service/service.db", "service/service.pepper", SERVICE_PREFIX)
"""Keys of the local service's clients."""


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
        database, prefix=files.prefix, pepper=pepper, now_ms=now_ms, random_bytes=secrets.token_bytes
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
