"""`gateway.common.storage.home.Home` in a database file."""

import sqlite3
from collections.abc import Callable
from typing import Generic, TypeVar

from gateway.common.storage.database import Database

T = TypeVar("T")
Rows = TypeVar("Rows")


class SqliteHome(Generic[Rows]):
    def __init__(self, database: Database, rows_of: Callable[[sqlite3.Connection], Rows]) -> None:
        """*rows_of*: what is kept, inside the transaction of a connection."""
        self._database = database
        self._rows_of = rows_of

    async def commit(self, change: Callable[[Rows], T]) -> T:
        return await self._database.write(lambda connection: change(self._rows_of(connection)))

    async def read(self, question: Callable[[Rows], T]) -> T:
        return await self._database.read(lambda connection: question(self._rows_of(connection)))
