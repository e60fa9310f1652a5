"""The order in which unit-cost streams have their batches frozen: the one that waits longest first.

The first streams of all are looked up at once, and then one by one: so a batch costs as much
however many streams wait.
"""

from collections import deque
from typing import Final

from spool.sql import unit_streams
from spool.sql.connection import Connection
from spool.sql.unit_streams import May

MAX_AHEAD: Final = 256


class WaitingStreams:
    """Make one for each lane. A stream that may go again, since its batch ended or its name is
    blocked no more, may let up to `MAX_AHEAD` others go first.
    """

    def __init__(self) -> None:
        self._ahead: deque[tuple[int, int]] = deque()
        """As `first` answers."""

    def first(self, connection: Connection, now_ms: int, may: May) -> tuple[int, int] | None:
        """(stream, since when it waits) of the stream that waits longest and has no batch."""
        return self._first_ahead(connection, now_ms, may) or self._first_of_all(connection, now_ms, may)

    def _first_ahead(self, connection: Connection, now_ms: int, may: May) -> tuple[int, int] | None:
        while self._ahead:
            found = _waiting(connection, now_ms, may, "AND {id}=?", self._ahead[0][0])
            if found == [self._ahead[0]]:
                return found[0]
            self._ahead.popleft()  # it has gone, and what waits in it by now came later
        return None

    def _first_of_all(self, connection: Connection, now_ms: int, may: May) -> tuple[int, int] | None:
        found = _waiting(connection, now_ms, may)
        self._ahead.extend(found)
        return found[0] if found else None


def _waiting(connection: Connection, now_ms: int, may: May, which: str = "", *ids: int) -> list[tuple[int, int]]:
    """(stream, since when it waits) of those without a batch, the longest first; at most
    `MAX_AHEAD`. *which*: a condition on `{id}`, a stream's, with its values *ids*.
    """
    asked = "deleting>0" if may.delete else "FALSE"
    asked += " OR creating>0" if may.create else ""
    return connection.execute(
        "SELECT stream, min(since_ms) FROM ("  # noqa: S608 - own SQL, whole numbers
        f"SELECT stream, min(since_ms) AS since_ms FROM unit_total WHERE records>0 {which.format(id='stream')}"
        " GROUP BY stream"
        f" UNION ALL SELECT id, asked_ms FROM unit_stream WHERE (creating>0 OR deleting>0) AND ({asked})"
        f" {which.format(id='id')}) waiting"
        " WHERE stream NOT IN (SELECT stream FROM unit_batch)"
        f" AND NOT EXISTS (SELECT 1 FROM unit_stream WHERE id=waiting.stream AND {unit_streams.kept_back(now_ms, may)})"
        f" GROUP BY stream ORDER BY 2 LIMIT {MAX_AHEAD}",
        ids * 2,
    ).fetchall()
