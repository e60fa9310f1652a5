"""What a store that is written once for SQLite and Postgres needs of a database.

Its SQL is what both engines read alike: `?` for a value, `ON CONFLICT` for an upsert, TRUE for yes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar

from gateway.common.storage.database import scripts_of

T = TypeVar("T")
Rows = TypeVar("Rows")
C = TypeVar("C")
C_co = TypeVar("C_co", covariant=True)


class Cursor(Protocol):
    @property
    def rowcount(self) -> int:
        """Rows that a change changed."""

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection inside a transaction. `sqlite3.Connection` is one."""

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> Cursor: ...

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Cursor: ...


class SqlDatabase(Protocol[C_co]):
    """An open database. Every method raises DatabaseUnavailable in place of the engine's errors."""

    @property
    def engine(self) -> Literal["sqlite", "postgres"]: ...

    async def write(self, change: Callable[[C_co], T]) -> T:
        """Run *change* in one transaction, one at a time; durable when this returns, nothing of it
        kept when *change* raises.
        """

    async def read(self, question: Callable[[C_co], T]) -> T:
        """Run *question* on one snapshot."""

    async def migrate(self, part: str, scripts: Sequence[str]) -> None:
        """Bring *part*'s tables to the last of *scripts*, which are numbered from 1."""


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
