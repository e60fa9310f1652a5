"""What a store that is written once for SQLite and Postgres needs of a database.

Its SQL is what both engines read alike: `?` for a value, `ON CONFLICT (columns)` for an upsert,
TRUE for yes, CASE in place of `max(a, b)`. No order depends on where NULL sorts. Postgres compares
texts by their bytes, as SQLite does: its columns of texts have the collation "C".
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, Protocol, TypeVar

T = TypeVar("T")
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
