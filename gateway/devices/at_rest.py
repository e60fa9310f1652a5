"""The devices of a stopped gateway, for its operator's words. The lock of the data directory is held meanwhile."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from gateway.devices.rows import Device
from gateway.devices.tables import migrate
from gateway.errors import NoAnswer
from gateway.keys.database import Database
from spool.sqlite.database import DataLock, mapped_errors

T = TypeVar("T")


class AtRest:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, question: Callable[[sqlite3.Connection], T]) -> T:
        return await self._database.read(question)

    async def change(self, change: Callable[[sqlite3.Connection], T]) -> T:
        return await self._database.write(change)

    async def ask_service(self, device: Device) -> dict[str, Any]:
        """Raises NoAnswer."""
        raise NoAnswer("no gateway runs that could ask the service: start it first")


@asynccontextmanager
async def at_rest(data_dir: Path, control_database: Path) -> AsyncIterator[AtRest]:
    """Raises SpoolLocked, SpoolError, DatabaseUnavailable."""
    with mapped_errors(str(data_dir)):
        lock = DataLock(data_dir)
    try:
        database = await Database.open(control_database)
        try:
            await migrate(database)
            yield AtRest(database)
        finally:
            await database.close()
    finally:
        lock.close()
