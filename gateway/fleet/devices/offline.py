"""The devices of a stopped gateway. The lock of the data directory is held meanwhile."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from gateway.common.contract.errors import NoAnswer
from gateway.common.storage.database import Database
from gateway.fleet.devices.clocks import Now, now_by
from gateway.fleet.devices.operated import OperatedDevices
from gateway.fleet.devices.rows import Device
from gateway.fleet.devices.tables import migrate
from spool.data_lock import DataLock

T = TypeVar("T")


class OfflineDevices(OperatedDevices):
    def __init__(self, database: Database, now: Now) -> None:
        self._database = database
        self._now = now

    def now(self) -> Now:
        return self._now

    async def read(self, question: Callable[[sqlite3.Connection], T]) -> T:
        return await self._database.read(question)

    async def change(self, change: Callable[[sqlite3.Connection], T]) -> T:
        return await self._database.write(change)

    async def ask_service(self, device: Device) -> dict[str, Any]:
        """Raises NoAnswer."""
        raise NoAnswer("no gateway runs to ask the upstream: start it first")


@asynccontextmanager
async def offline_devices(
    data_dir: Path, control_database: Path, age_ms: Callable[[], int], wall_ms: Callable[[], int]
) -> AsyncIterator[OfflineDevices]:
    """*age_ms* reads the suspend-aware clock while the lock is held.

    Raises SpoolLocked, SpoolError, DatabaseUnavailable.
    """
    with DataLock(data_dir):
        database = await Database.open(control_database)
        try:
            await migrate(database)
            yield OfflineDevices(database, now_by(age_ms(), wall_ms()))
        finally:
            await database.close()
