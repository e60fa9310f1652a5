"""`RelayHome` in a database."""

from collections.abc import Sequence
from typing import Any, Final

from gateway.common.lists.conventions import ListRequest, Page
from gateway.common.lists.table import ListTable, fetch_page
from gateway.common.storage.sql import SqlDatabase
from gateway.stores.sql.database import SqlHome, make_tables
from gateway.usage.billing.relay_home import (
    KNOWN_MS,
    MAX_REFUSED_BYTES,
    MAX_WAITING_BYTES,
    RELAYED_LIST,
    Kept,
    NewDrop,
    Queue,
    RelayedDrop,
    RelayedRow,
    RelayHome,
    Waiting,
    relayed_item,
)
from spool.sql.connection import Connection


def _item(row: tuple[Any, ...]) -> RelayedDrop:
    return relayed_item(RelayedRow(*row))


_TABLE: Final = ListTable(
    shape=RELAYED_LIST,
    source="billing_relayed",
    row_id="drop_no",
    expressions={"accepted_at": "accepted_at_ms", "connection": "connection", "state": "state"},
    select=", ".join(RelayedRow._fields),
    item_of=_item,
    numbers=("accepted_at",),
)


async def open_relayed(database: SqlDatabase[Connection]) -> RelayHome:
    """The relayed drops in *database*; missing tables are created. Raises DatabaseUnavailable."""
    await make_tables(database, "billing")
    return SqlHome(database, SqlRelayRows)


class SqlRelayRows:
    """`RelayRows` in the caller's transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def keep(self, new: NewDrop, now_ms: int) -> Kept:
        self._connection.execute(
            "DELETE FROM billing_relayed WHERE state IN ('delivered', 'expired') AND ended_at_ms < ?",
            (now_ms - KNOWN_MS,),
        )
        known = self._connection.execute(
            "SELECT drop_id, content FROM billing_relayed WHERE repeat_key = ?", (new.repeat_key,)
        ).fetchone()
        if known is not None:
            return Kept("duplicate", known[0]) if known[1] == new.content else Kept("reused")
        (used_bytes,) = self._connection.execute(
            "SELECT coalesce(CAST(sum(n_bytes) AS BIGINT), 0) FROM billing_relayed WHERE state IN ('waiting', 'sent')"
        ).fetchone()
        if used_bytes + len(new.body) > MAX_WAITING_BYTES:
            return Kept("full")
        if new.source_day is not None:
            self._end_other_divisions(new, now_ms)
        self._connection.execute(
            "INSERT INTO billing_relayed (drop_id, connection, body, content, repeat_key, month, row_count, operation,"
            " source_day, division, key_name, n_bytes, accepted_at_ms, state, generation, attempts)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'waiting', 0, 0)",
            (*new, len(new.body), now_ms),
        )
        return Kept("kept", new.drop_id)

    def connections(self) -> list[str]:
        rows = self._connection.execute(
            "SELECT DISTINCT connection FROM billing_relayed WHERE state IN ('waiting', 'sent')"
        )
        return [name for (name,) in rows]

    def next_waiting(self, to: str) -> Waiting | None:
        row = self._connection.execute(
            "SELECT drop_id, body, operation, accepted_at_ms, generation, attempts FROM billing_relayed"
            " WHERE connection = ? AND state = 'waiting' ORDER BY drop_no LIMIT 1",
            (to,),
        ).fetchone()
        return None if row is None else Waiting._make(row)

    def has_other_parts(self, drop_id: str) -> bool:
        row = self._connection.execute(
            "SELECT source_day, division, (SELECT count(*) FROM billing_relayed part WHERE part.connection = own.connection"
            " AND part.source_day = own.source_day AND part.division = own.division AND part.state = 'sent')"
            " FROM billing_relayed own WHERE drop_id = ?",
            (drop_id,),
        ).fetchone()
        if row is None or row[0] is None:  # removed meanwhile, or no part at all
            return False
        return bool(row[2] + 1 >= int(row[1].rpartition("/")[2]))

    def delivered(self, drop_id: str, *, is_partial: bool, now_ms: int) -> None:
        if is_partial:
            self._connection.execute("UPDATE billing_relayed SET state = 'sent' WHERE drop_id = ?", (drop_id,))
            return
        self._connection.execute(
            "UPDATE billing_relayed SET state = 'delivered', body = NULL, ended_at_ms = ? WHERE drop_id = ?"
            " OR (state = 'sent' AND (connection, source_day, division)"
            " = (SELECT connection, source_day, division FROM billing_relayed WHERE drop_id = ?))",
            (now_ms, drop_id, drop_id),
        )

    def give_back(self, drop_id: str, *, answered: bool, all_parts: bool) -> None:
        self._connection.execute(
            "UPDATE billing_relayed SET attempts = attempts + 1, generation = generation + ? WHERE drop_id = ?",
            (int(answered), drop_id),
        )
        if all_parts:
            self._connection.execute(
                "UPDATE billing_relayed SET state = 'waiting', generation = generation + 1 WHERE state = 'sent'"
                " AND (connection, source_day, division)"
                " = (SELECT connection, source_day, division FROM billing_relayed WHERE drop_id = ?)",
                (drop_id,),
            )

    def refuse(self, drop_id: str, why: str, now_ms: int) -> int:
        self._connection.execute(
            "UPDATE billing_relayed SET state = 'refused', refused = ?, ended_at_ms = ? WHERE drop_id = ?",
            (why, now_ms, drop_id),
        )
        return self._connection.execute(
            "UPDATE billing_relayed SET state = 'expired', body = NULL, ended_at_ms = ? WHERE drop_no IN (SELECT drop_no FROM"
            " (SELECT drop_no, sum(n_bytes) OVER (ORDER BY ended_at_ms DESC, drop_no DESC) AS held FROM billing_relayed"
            " WHERE state = 'refused') AS refused WHERE held > ?)",
            (now_ms, MAX_REFUSED_BYTES),
        ).rowcount

    def retry(self, drop_id: str) -> str | None:
        row = self._connection.execute(
            "UPDATE billing_relayed SET state = 'waiting', refused = NULL, ended_at_ms = NULL, generation = generation + 1"
            " WHERE drop_id = ? AND state = 'refused' RETURNING connection",
            (drop_id,),
        ).fetchone()
        return None if row is None else str(row[0])

    def remove(self, drop_id: str) -> bool:
        return bool(
            self._connection.execute(
                "DELETE FROM billing_relayed WHERE drop_id = ? AND state IN ('waiting', 'sent', 'refused')", (drop_id,)
            ).rowcount
        )

    def queues(self) -> Sequence[Queue]:
        rows = self._connection.execute(
            "SELECT connection, count(*) FILTER (WHERE state <> 'refused'),"
            " coalesce(CAST(sum(n_bytes) FILTER (WHERE state <> 'refused') AS BIGINT), 0), count(*) FILTER (WHERE state = 'refused')"
            " FROM billing_relayed WHERE state IN ('waiting', 'sent', 'refused') GROUP BY connection ORDER BY connection"
        )
        return [Queue._make(row) for row in rows]

    def page(self, request: ListRequest) -> Page:
        return fetch_page(self._connection, _TABLE, request)

    def _end_other_divisions(self, new: NewDrop, now_ms: int) -> None:
        """The upstream lets go of parts of another revision of the day when *new* comes."""
        self._connection.execute(
            "UPDATE billing_relayed SET state = 'delivered', body = NULL, ended_at_ms = ? WHERE connection = ?"
            " AND source_day = ? AND division <> ? AND state = 'sent'",
            (now_ms, new.connection, new.source_day, new.division),
        )
