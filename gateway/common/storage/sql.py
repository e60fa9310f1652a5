"""What a store that is written once for SQLite and Postgres needs of a database.

Its SQL is what both engines read alike (`spool/sql/connection.py`). Of two values the larger is a
CASE, and no order depends on where NULL is. Postgres compares texts by their bytes, as SQLite does:
its columns of texts have the collation "C".
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Literal, Protocol, TypeVar

T = TypeVar("T")
C_co = TypeVar("C_co", covariant=True)


class SqlDatabase(Protocol[C_co]):
    """An open database. Every method raises DatabaseUnavailable in place of the engine's errors."""

    @property
    def engine(self) -> Literal["sqlite", "postgres"]: ...

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What a statement raises inside a transaction."""

    async def write(self, change: Callable[[C_co], T]) -> T:
        """Run *change* in one transaction, one at a time; durable when this returns, nothing of it
        kept when *change* raises.
        """

    async def write_part(self, part: str, change: Callable[[C_co], T]) -> T:
        """As `write`, but one at a time only among the changes that name the same *part*."""

    async def read(self, question: Callable[[C_co], T]) -> T:
        """Run *question* on one snapshot."""

    async def read_apart(self, question: Callable[[C_co], T]) -> T:
        """As `read`, on a connection of its own: no other question waits for this one."""

    def pieces(self, sql: str, rows: int) -> AsyncGenerator[list[tuple[Any, ...]]]:
        """What *sql* selects, *rows* at a time, on one snapshot and a connection of its own."""

    async def migrate(self, part: str, scripts: Sequence[str]) -> None:
        """Bring *part*'s tables to the last of *scripts*, which are numbered from 1."""
