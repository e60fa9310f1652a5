"""The devices of a stopped gateway, for its operator's words. The lock of the data directory is held meanwhile."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from gateway.contract.errors import NoAnswer
from gateway.devices.clocks import Now, now_by
from gateway.devices.rows import Device
from gateway.devices.tables import migrate
from gateway.storage.database import Database
from spool.sqlite.database import DataLock, mapped_errors
from spool.sqlite.reading import age_at_rest

T = TypeVar("T")


class AtRest:
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
        raise NoAnswer("no gateway runs that could ask the service: start it first")


@asynccontextmanager
async def at_rest(data_dir: Path, control_database: Path, wall_ms: Callable[[], int]) -> AsyncIterator[AtRest]:
    """Raises SpoolLocked, SpoolError, DatabaseUnavailable."""
    with mapped_errors(str(data_dir)):
        lock = DataLock(data_dir)
    try:
        database = await Database.open(control_database)
        try:
            await migrate(database)
            yield AtRest(database, now_by(age_at_rest(data_dir, wall_ms()), wall_ms()))
        finally:
            await database.close()
    finally:
        lock.close()
