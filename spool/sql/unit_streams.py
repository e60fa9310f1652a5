"""Unit-cost streams as such, in spool.db: made before their first record, and deleted.

Both are items of the lane, in order with the stream's records: `create_stream` goes before them,
`delete_stream` after what is under way and before whatever comes later. A deletion takes what waits
with it: nothing of that is sent, and it is delivered when the deletion is. A later record of the
name begins a new stream in the same row, whose totals wait until the deletion is through and the
name is no longer blocked.

Every function runs inside the writer's transaction, as those of `unit_totals` do.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

import orjson

from spool.counters import Counters
from spool.record import UNIT_COST
from spool.sql import dead_letter_rows, unit_totals
from spool.sql.connection import Connection
from spool.sql.dead_letter_rows import DeadLetterRow
from spool.sql.unit_totals import make, stream_in_use, stream_named, stream_with, why_no_room
from spool.store import ItemCounts
from spool.unit_cost import (
    ALWAYS_WHOLE_MS,
    CREATE_STREAM,
    DELETE_STREAM,
    NAME_BLOCKED_MS,
    NEVER_WHOLE_MS,
    Created,
    Mismatch,
    Rules,
    Shape,
    Stream,
    StreamOperation,
    StreamState,
    mismatch,
)


class May(NamedTuple):
    """What the upstream's keys let the lane do now."""

    create: bool
    delete: bool


def create(
    connection: Connection, counters: Counters, name: str, shape: Shape, rules: Rules, now_ms: int
) -> Created | Mismatch:
    """Make the stream, or state that it is there; a Mismatch where its shape is another."""
    stream = stream_in_use(connection, name)
    found = why_no_room(connection, [name], rules) if stream is None else mismatch(stream.shape, shape, is_wide=False)
    if found is not None:
        counters.add(_rejected(found))
        return found
    if stream is not None:
        counters.add(ItemCounts(received=1, duplicate=1, reasons={"duplicate.stream": 1}))
        return "exists"
    _wait(connection, make(connection, name, shape, rules.ships).stream_id, "creating", 1, now_ms)
    _count_kept(counters)
    return "made"


def delete(connection: Connection, counters: Counters, name: str, now_ms: int, *, forced: bool) -> Mismatch | None:
    """Delete the stream with what waits in it; a Mismatch where there is none, or where it holds
    records and the deletion is not *forced*.
    """
    stream = stream_in_use(connection, name)
    if stream is None or (not forced and holds_records(connection, stream)):
        found = Mismatch("stream_unknown" if stream is None else "stream_holds_records", "")
        counters.add(_rejected(found))
        return found
    _wait(connection, stream.stream_id, "deleting", 1 + _take_all(connection, stream), now_ms)
    connection.execute(
        "UPDATE unit_stream SET gone=TRUE, deleted_ms=?, forced=(forced OR ?), whole_from_ms=? WHERE id=?",
        (now_ms, forced, NEVER_WHOLE_MS if stream.ships == "sum" else ALWAYS_WHOLE_MS, stream.stream_id),
    )
    _count_kept(counters)
    return None


def holds_records(connection: Connection, stream: Stream) -> bool:
    """As far as it is known here: a total that was deleted is none."""
    row = connection.execute(
        "SELECT 1 FROM unit_total WHERE stream=? AND NOT wide AND (NOT whole OR value!='0') LIMIT 1",
        (stream.stream_id,),
    ).fetchone()
    return row is not None


def _take_all(connection: Connection, stream: Stream) -> int:
    """Forget the stream's totals; how many pending items they, its frozen batches and its creation
    stood for.

    A batch that is under way may still end: it stands for nothing any more.
    """
    (waiting,) = connection.execute(
        "SELECT creating + (SELECT coalesce(sum(records), 0) FROM unit_total WHERE stream=?)"  # noqa: S608 - own SQL
        f" + (SELECT coalesce(sum(records), 0) FROM unit_item WHERE {_ITEMS}) FROM unit_stream WHERE id=?",
        (stream.stream_id, stream.stream_id, stream.stream_id),
    ).fetchone()
    connection.execute(f"UPDATE unit_item SET records=0, total=0 WHERE {_ITEMS}", (stream.stream_id,))  # noqa: S608 - own SQL
    connection.execute("DELETE FROM unit_total WHERE stream=?", (stream.stream_id,))
    connection.execute("UPDATE unit_stream SET creating=0 WHERE id=?", (stream.stream_id,))
    return int(waiting)


_ITEMS = "batch_id IN (SELECT batch_id FROM unit_batch WHERE stream=?)"


def _wait(connection: Connection, stream_id: int, column: str, items: int, now_ms: int) -> None:
    connection.execute(
        "UPDATE unit_stream SET asked_ms=CASE WHEN creating+deleting=0 THEN ? ELSE asked_ms END,"  # noqa: S608 - own SQL
        f" {column}={column}+? WHERE id=?",
        (now_ms, items, stream_id),
    )


def _rejected(found: Mismatch) -> ItemCounts:
    return ItemCounts(received=1, rejected=1, reasons={f"rejected.{found.code}": 1})


def _count_kept(counters: Counters) -> None:
    counters.keep(UNIT_COST, 1)
    counters.add(ItemCounts(received=1, kept=1))


def states(connection: Connection) -> list[StreamState]:
    """The streams in use, by name."""
    found = connection.execute(
        "SELECT id, name, kind, granularity, dimensions, creating+deleting"
        " + (SELECT coalesce(sum(records), 0) FROM unit_total WHERE stream=unit_stream.id AND records>0)"
        " + coalesce(batched.records, 0) FROM unit_stream LEFT JOIN (SELECT stream, sum(records) AS records"
        " FROM unit_item JOIN unit_batch USING (batch_id) GROUP BY stream) batched ON batched.stream=unit_stream.id"
        " WHERE NOT gone ORDER BY name"
    )
    return [
        StreamState(id_, name, Shape(kind, granularity, tuple(orjson.loads(dimensions))), pending)
        for id_, name, kind, granularity, dimensions, pending in found
    ]


# ---- on their way to the upstream


def drop_superseded(connection: Connection, leased: Collection[int]) -> None:
    """Batches of a stream whose deletion waits are not sent again; what they stood for goes with
    it.
    """
    due = (
        "SELECT batch_id FROM unit_batch JOIN unit_stream ON unit_stream.id=stream"  # noqa: S608 - whole numbers
        f" WHERE deleting>0 AND stream NOT IN {listed(leased)}"
    )
    connection.execute(f"DELETE FROM unit_item WHERE batch_id IN ({due})")  # noqa: S608 - own SQL, whole numbers
    connection.execute(f"DELETE FROM unit_batch WHERE batch_id IN ({due})")  # noqa: S608 - as above


def listed(streams: Collection[int]) -> str:
    """SQL: the ids of *streams*, and one that no stream has, for a list must not be empty."""
    return f"({', '.join(map(str, [0, *streams]))})"


def kept_back(now_ms: int, may: May) -> str:
    """SQL condition on unit_stream: nothing of it but a deletion that may be sent goes out now."""
    until_deleted = "deleting>0" if may.delete else "FALSE"
    return f"(deleting>0 OR blocked_until_ms>{now_ms:d}) AND NOT ({until_deleted})"


def waits_for_a_key(connection: Connection) -> bool:
    """Whether a deletion waits, frozen or not."""
    row = connection.execute(
        "SELECT 1 FROM unit_stream WHERE deleting>0 UNION ALL SELECT 1 FROM unit_batch WHERE operation=? LIMIT 1",
        (DELETE_STREAM,),
    ).fetchone()
    return row is not None


class Asked(NamedTuple):
    """What is to be done with a stream itself."""

    operation: StreamOperation
    items: int
    since_ms: int
    record: dict[str, Any]


def asked(connection: Connection, stream: Stream, may: May) -> Asked | None:
    """The stream's creation or deletion, where one waits that may be sent."""
    creating, deleting, since_ms, forced = connection.execute(
        "SELECT creating, deleting, asked_ms, forced FROM unit_stream WHERE id=?", (stream.stream_id,)
    ).fetchone()
    if deleting and may.delete:
        return Asked(DELETE_STREAM, deleting, since_ms, {"force": bool(forced)})
    if creating and may.create:
        return Asked(CREATE_STREAM, creating, since_ms, stream.shape._asdict())
    return None


def freeze(connection: Connection, stream: Stream, asked: Asked, batch_id: str) -> None:
    """Make *asked* the one item of the batch."""
    body = {"stream": stream.name, "kind": stream.shape.kind, "operation": asked.operation, "record": asked.record}
    encoded = orjson.dumps(body)
    connection.execute(
        "INSERT INTO unit_item (batch_id, total, value, records, since_ms, body) VALUES (?, 0, '0', ?, ?, ?)",
        (batch_id, asked.items, asked.since_ms, encoded),
    )
    ends = "deleting=0, forced=FALSE" if asked.operation == DELETE_STREAM else "creating=0"
    connection.execute(f"UPDATE unit_stream SET {ends} WHERE id=?", (stream.stream_id,))  # noqa: S608 - own SQL


def travel_with(connection: Connection, stream: Stream, batch_id: str) -> None:
    """A creation that no key may send: the stream's first totals make it."""
    connection.execute(
        "UPDATE unit_item SET records=records+(SELECT creating FROM unit_stream WHERE id=?)"
        " WHERE id=(SELECT min(id) FROM unit_item WHERE batch_id=?)",
        (stream.stream_id, batch_id),
    )
    connection.execute("UPDATE unit_stream SET creating=0 WHERE id=?", (stream.stream_id,))


def block(connection: Connection, name: str, until_ms: int) -> None:
    """Send nothing of the stream before then, but for its deletion."""
    connection.execute(
        "UPDATE unit_stream SET blocked_until_ms=? WHERE name=? AND blocked_until_ms<?", (until_ms, name, until_ms)
    )


def was_deleted(connection: Connection, batch_id: str, now_ms: int) -> None:
    """The upstream deleted the batch's stream, if that is what it asked."""
    row = connection.execute(
        "SELECT stream FROM unit_batch WHERE batch_id=? AND operation=?", (batch_id, DELETE_STREAM)
    ).fetchone()
    if row is not None:
        block(connection, stream_with(connection, row[0]).name, now_ms + NAME_BLOCKED_MS)


def expire_creations(connection: Connection, since_before_ms: int) -> int:
    """Give up creations that wait for longer; how many. Deletions wait for as long as it takes."""
    stale = "creating>0 AND asked_ms<?"
    (expired,) = connection.execute(
        f"SELECT coalesce(sum(creating), 0) FROM unit_stream WHERE {stale}",  # noqa: S608 - own SQL
        (since_before_ms,),
    ).fetchone()
    connection.execute(f"UPDATE unit_stream SET creating=0 WHERE {stale}", (since_before_ms,))  # noqa: S608 - own SQL
    return int(expired)


def requeue(connection: Connection, body: bytes, records: int, buried_ms: int, now_ms: int) -> bool:
    """Make a dead letter of the lane pending again; whether that could be done.

    A deletion stays dead-lettered where records came to the stream since: it would take them too.
    """
    try:
        item = orjson.loads(body)
        name, operation = item["stream"], item["operation"]
    except (ValueError, KeyError, TypeError):
        return False
    if operation not in (CREATE_STREAM, DELETE_STREAM):
        return unit_totals.requeue(connection, body, records, buried_ms, now_ms)
    stream = stream_named(connection, name)
    if stream is None or stream.is_gone is not (operation == DELETE_STREAM):
        return False
    _wait(connection, stream.stream_id, "deleting" if stream.is_gone else "creating", records, now_ms)
    forced = bool(item.get("record", {}).get("force"))
    connection.execute("UPDATE unit_stream SET forced=(forced OR ?) WHERE id=?", (forced, stream.stream_id))
    return True


def prune(connection: Connection, deleted_before_ms: int) -> None:
    """Forget streams that are gone for long."""
    connection.execute(
        "DELETE FROM unit_stream WHERE gone AND deleting=0 AND deleted_ms<?"
        " AND NOT EXISTS (SELECT 1 FROM unit_batch WHERE stream=unit_stream.id)",
        (deleted_before_ms,),
    )


def give_up_deletions(connection: Connection, counters: Counters, now_ms: int) -> None:
    """The rows are those of a backup: a deletion in them would take what was sent since, so an
    operator is to decide. Its records are dead letters.
    """
    for stream_id, items in connection.execute(
        "SELECT id, deleting FROM unit_stream WHERE deleting>0 UNION ALL"
        " SELECT stream, records FROM unit_batch JOIN unit_item USING (batch_id) WHERE operation=?",
        (DELETE_STREAM,),
    ).fetchall():
        stream = stream_with(connection, stream_id)
        body = orjson.dumps(
            {"stream": stream.name, "kind": stream.shape.kind, "operation": DELETE_STREAM, "record": {"force": True}}
        )
        why = "the stream may hold what was sent after the backup"
        dead_letter_rows.insert(connection, [DeadLetterRow(UNIT_COST, RESTORED, why, body, items)], now_ms)
        connection.execute("UPDATE unit_stream SET deleting=0, forced=FALSE WHERE id=?", (stream_id,))
        lane = counters.lane(UNIT_COST)
        lane.pending -= items
        lane.dead_lettered += items
    of_deletions = "SELECT batch_id FROM unit_batch WHERE operation=?"
    connection.execute(f"DELETE FROM unit_item WHERE batch_id IN ({of_deletions})", (DELETE_STREAM,))  # noqa: S608 - own SQL
    connection.execute("DELETE FROM unit_batch WHERE operation=?", (DELETE_STREAM,))


RESTORED = "restored"
"""Code of a deletion that a backup held."""
