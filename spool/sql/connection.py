"""What the spool's SQL needs of an engine.

Its SQL is what both engines read alike: `?` for a value, `ON CONFLICT (…)` for an upsert, TRUE for
yes, `CASE` for a choice. An answer may be in memory as a whole (psycopg) or be read row by row
(sqlite3): what could be long is asked for in pages.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

INDEXED_CHARS: Final = 256
"""Of a text of any length that rows are looked up by: an index of Postgres takes no more than 2,700
bytes. A look-up states the whole text, and its beginning."""


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
