"""`Home` in a database of either engine, and its tables."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from gateway.common.storage.database import scripts_of
from gateway.common.storage.sql import SqlDatabase

T = TypeVar("T")
Rows = TypeVar("Rows")
C = TypeVar("C")


class SqlHome(Generic[C, Rows]):
    """`gateway.common.storage.home.Home` in a database."""

    def __init__(self, database: SqlDatabase[C], rows_of: Callable[[C], Rows]) -> None:
        """*rows_of*: what is kept, inside the transaction of a connection."""
        self._database = database
        self._rows_of = rows_of

    async def commit(self, change: Callable[[Rows], T]) -> T:
        return await self._database.write(lambda connection: change(self._rows_of(connection)))

    async def read(self, question: Callable[[Rows], T]) -> T:
        return await self._database.read(lambda connection: question(self._rows_of(connection)))


async def make_tables(database: SqlDatabase[Any], part: str) -> None:
    """Make what is missing of *part*'s tables. Raises DatabaseUnavailable."""
    await database.migrate(part, scripts_of(f"gateway.stores.{database.engine}.migrations.{part}"))
