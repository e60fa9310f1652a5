"""Relayed billing drops in control.db: those that senders gave to this gateway. Functions run in
the caller's transaction.

Drops of one connection go out in the order in which they were accepted. A part of a FOCUS day stays
here as `sent` until the upstream has the whole day: where it lost a part, all of them go out again.
"""

import sqlite3
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypedDict, cast

from gateway.common.contract.json_types import Count, Month, Time
from gateway.common.lists.conventions import Filterable, ListShape, Sort
from gateway.common.lists.table import ListTable
from spool.clock import rfc3339_ms

DAY_MS: Final = 86_400_000
KNOWN_MS: Final = 7 * DAY_MS
"""For so long a delivered drop is listed, and a repeat of its request known."""
MAX_WAITING_BYTES: Final = 128 << 20
"""Of drops that wait for the upstream."""
MAX_REFUSED_BYTES: Final = 64 << 20
"""Of drops that the upstream refused; the oldest are given up first."""

State = Literal["waiting", "sent", "delivered", "refused", "expired"]
STATES: Final[tuple[State, ...]] = ("waiting", "sent", "delivered", "refused", "expired")


class NewDrop(NamedTuple):
    drop_id: str
    connection: str
    body: bytes
    content: bytes
    """sha256 of the body."""
    repeat_key: bytes | None
    month: str
    row_count: int
    operation: str
    source_day: str | None
    """None for what is no part of a FOCUS day; as the next."""
    division: str | None
    key_name: str | None


class Kept(NamedTuple):
    """What became of a drop, or of the one that it repeats."""

    outcome: Literal["kept", "duplicate", "reused", "full"]
    """`reused`: its repeat key was another drop's. `full`: there is no room."""
    drop_id: str = ""


class Waiting(NamedTuple):
    """The next drop of a connection."""

    drop_id: str
    body: bytes
    operation: str
    accepted_at_ms: int
    generation: int
    attempts: int


class Queue(NamedTuple):
    """The drops of one connection."""

    connection: str
    waiting: int
    """With those of which the upstream lacks other parts."""
    waiting_bytes: int
    refused: int


class RelayedDrop(TypedDict):
    id: str
    connection: str
    month: Month
    operation: str
    row_count: Count
    bytes: Count
    key: str | None
    """Name of the key under which it came; null on open intake."""
    state: State
    """`sent`: the upstream has it, and lacks other parts of its day. `expired`: given up for
    room."""
    refused: str | None
    """Why the upstream refused it."""
    accepted_at: Time
    ended_at: Time | None


def _item(row: tuple[object, ...]) -> RelayedDrop:
    drop_id, connection, month, operation, row_count, n_bytes, key, state, refused, accepted_ms, ended_ms = cast(
        "tuple[str, str, str, str, int, int, str | None, State, str | None, int, int | None]", row
    )
    return {
        "id": drop_id, "connection": connection, "month": month, "operation": operation, "row_count": row_count,
        "bytes": n_bytes, "key": key, "state": state, "refused": refused, "accepted_at": rfc3339_ms(accepted_ms),
        "ended_at": None if ended_ms is None else rfc3339_ms(ended_ms),
    }  # fmt: skip


RELAYED: Final = ListTable(
    shape=ListShape(
        root="relayed",
        sort_keys=("accepted_at", "connection"),
        default_sort=Sort("accepted_at", "desc"),
        filters=(Filterable("state", STATES),),
    ),
    source="billing_relayed",
    row_id="drop_no",
    expressions={"accepted_at": "accepted_at_ms", "connection": "connection", "state": "state"},
    select="drop_id, connection, month, operation, row_count, n_bytes, key_name, state, refused, accepted_at_ms,"
    " ended_at_ms",
    item_of=_item,
)


def keep(connection: sqlite3.Connection, new: NewDrop, now_ms: int) -> Kept:
    """Keep *new* behind all others, unless it is a repeat or there is no room."""
    connection.execute(
        "DELETE FROM billing_relayed WHERE state IN ('delivered', 'expired') AND ended_at_ms < ?", (now_ms - KNOWN_MS,)
    )
    known = connection.execute(
        "SELECT drop_id, content FROM billing_relayed WHERE repeat_key = ?", (new.repeat_key,)
    ).fetchone()
    if known is not None:
        return Kept("duplicate", known[0]) if known[1] == new.content else Kept("reused")
    (used_bytes,) = connection.execute(
        "SELECT ifnull(sum(n_bytes), 0) FROM billing_relayed WHERE state IN ('waiting', 'sent')"
    ).fetchone()
    if used_bytes + len(new.body) > MAX_WAITING_BYTES:
        return Kept("full")
    if new.source_day is not None:
        _end_other_divisions(connection, new, now_ms)
    connection.execute(
        "INSERT INTO billing_relayed (drop_id, connection, body, content, repeat_key, month, row_count, operation,"
        " source_day, division, key_name, n_bytes, accepted_at_ms, state, generation, attempts)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'waiting', 0, 0)",
        (*new, len(new.body), now_ms),
    )
    return Kept("kept", new.drop_id)


def _end_other_divisions(connection: sqlite3.Connection, new: NewDrop, now_ms: int) -> None:
    """The upstream lets go of parts of another revision of the day when *new* comes."""
    connection.execute(
        "UPDATE billing_relayed SET state = 'delivered', body = NULL, ended_at_ms = ? WHERE connection = ?"
        " AND source_day = ? AND division <> ? AND state = 'sent'",
        (now_ms, new.connection, new.source_day, new.division),
    )


def connections(connection: sqlite3.Connection) -> list[str]:
    """Those for which drops wait."""
    rows = connection.execute("SELECT DISTINCT connection FROM billing_relayed WHERE state IN ('waiting', 'sent')")
    return [name for (name,) in rows]


def next_waiting(connection: sqlite3.Connection, to: str) -> Waiting | None:
    row = connection.execute(
        "SELECT drop_id, body, operation, accepted_at_ms, generation, attempts FROM billing_relayed"
        " WHERE connection = ? AND state = 'waiting' ORDER BY drop_no LIMIT 1",
        (to,),
    ).fetchone()
    return None if row is None else Waiting._make(row)


def has_other_parts(connection: sqlite3.Connection, drop_id: str) -> bool:
    """Whether the upstream was sent every other part of the day of this one."""
    row = connection.execute(
        "SELECT source_day, division, (SELECT count(*) FROM billing_relayed part WHERE part.connection = own.connection"
        " AND part.source_day = own.source_day AND part.division = own.division AND part.state = 'sent')"
        " FROM billing_relayed own WHERE drop_id = ?",
        (drop_id,),
    ).fetchone()
    if row is None or row[0] is None:  # removed meanwhile, or no part at all
        return False
    return bool(row[2] + 1 >= int(row[1].rpartition("/")[2]))


def delivered(connection: sqlite3.Connection, drop_id: str, *, is_partial: bool, now_ms: int) -> None:
    """The upstream has the drop. *is_partial*: it lacks other parts of the day; without, the day is
    in force, and its parts are not needed any more.
    """
    if is_partial:
        connection.execute("UPDATE billing_relayed SET state = 'sent' WHERE drop_id = ?", (drop_id,))
        return
    connection.execute(
        "UPDATE billing_relayed SET state = 'delivered', body = NULL, ended_at_ms = ?2 WHERE drop_id = ?1"
        " OR (state = 'sent' AND (connection, source_day, division)"
        " = (SELECT connection, source_day, division FROM billing_relayed WHERE drop_id = ?1))",
        (drop_id, now_ms),
    )


def give_back(connection: sqlite3.Connection, drop_id: str, *, answered: bool, all_parts: bool) -> None:
    """The drop goes out again, under another idempotency key where the upstream *answered*;
    *all_parts*: so do the parts of its day that were sent.
    """
    connection.execute(
        "UPDATE billing_relayed SET attempts = attempts + 1, generation = generation + ? WHERE drop_id = ?",
        (int(answered), drop_id),
    )
    if all_parts:
        connection.execute(
            "UPDATE billing_relayed SET state = 'waiting', generation = generation + 1 WHERE state = 'sent'"
            " AND (connection, source_day, division)"
            " = (SELECT connection, source_day, division FROM billing_relayed WHERE drop_id = ?)",
            (drop_id,),
        )


def refuse(connection: sqlite3.Connection, drop_id: str, why: str, now_ms: int) -> int:
    """The upstream refuses the drop. How many older refused ones were given up for its room."""
    connection.execute(
        "UPDATE billing_relayed SET state = 'refused', refused = ?, ended_at_ms = ? WHERE drop_id = ?",
        (why, now_ms, drop_id),
    )
    return connection.execute(
        "UPDATE billing_relayed SET state = 'expired', body = NULL, ended_at_ms = ? WHERE drop_no IN (SELECT drop_no FROM"
        " (SELECT drop_no, sum(n_bytes) OVER (ORDER BY ended_at_ms DESC, drop_no DESC) AS held FROM billing_relayed"
        " WHERE state = 'refused') WHERE held > ?)",
        (now_ms, MAX_REFUSED_BYTES),
    ).rowcount


def retry(connection: sqlite3.Connection, drop_id: str) -> str | None:
    """Send a refused drop again, in its old place; its connection, None where it is not refused."""
    row = connection.execute(
        "UPDATE billing_relayed SET state = 'waiting', refused = NULL, ended_at_ms = NULL, generation = generation + 1"
        " WHERE drop_id = ? AND state = 'refused' RETURNING connection",
        (drop_id,),
    ).fetchone()
    return None if row is None else str(row[0])


def remove(connection: sqlite3.Connection, drop_id: str) -> bool:
    """Give up a drop that waits or was refused; False where there is none."""
    return bool(
        connection.execute(
            "DELETE FROM billing_relayed WHERE drop_id = ? AND state IN ('waiting', 'sent', 'refused')", (drop_id,)
        ).rowcount
    )


def queues(connection: sqlite3.Connection) -> Sequence[Queue]:
    """By connection, of those with drops that wait or were refused."""
    rows = connection.execute(
        "SELECT connection, sum(state <> 'refused'), sum(iif(state <> 'refused', n_bytes, 0)), sum(state = 'refused')"
        " FROM billing_relayed WHERE state IN ('waiting', 'sent', 'refused') GROUP BY connection ORDER BY connection"
    )
    return [Queue._make(row) for row in rows]
