"""The journal of a cell: what edges keep of their senders' payloads until the owner has counted it.

`gateway.stores.postgres.journal` is its home.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

Transaction = Any
"""What an operation of the owner's spool is given: the home's own connection."""


class Row(NamedTuple):
    """What one edge kept in one commit."""

    place: tuple[int, int]
    """In the order of the journal, about that of commits."""
    form: int
    body: bytes | None
    """As `gateway.pipeline.journal.form` reads it; None where what is stored does not hold
    together.
    """
    size_bytes: int
    """As `waiting_bytes` counts it."""


class JournalStore(Protocol):
    """Every method raises DatabaseUnavailable."""

    async def keep(self, form: int, body: bytes, payloads: int) -> None:
        """Keep a row: durable when this returns. Where it raises, the row may be kept or not: who
        sends it again sends a duplicate.
        """

    async def waiting_bytes(self) -> int:
        """About how many bytes wait in it."""

    async def read(self, after: tuple[int, int], *, max_rows: int, max_bytes: int) -> Sequence[Row]:
        """The next rows behind *after*, whole and in order, at least one where one is there. What
        commits late may have its place before what was read.
        """

    def dropping(self, places: Sequence[tuple[int, int]]) -> Callable[[Transaction], None]:
        """Drops these rows inside a transaction of the owner's spool: in the commit that has what
        came of them.
        """

    def setting_aside(self, places: Sequence[tuple[int, int]]) -> Callable[[Transaction], None]:
        """Keeps a copy of these rows, which do not hold together, inside such a transaction."""
