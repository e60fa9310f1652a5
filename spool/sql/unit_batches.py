"""The batches that ship totals, in spool.db: frozen, acked, split,
given back, dead-lettered, expired.

A record is delivered when the upstream accepted a total that it is part of, or one that came after
it: what was replaced or deleted is accounted for by what stands in its place. One stream has its
batches under way one at a time, and a new one is frozen only when none is left: so the upstream
sees a stream's totals in their order, whatever is retried meanwhile.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

import orjson

from spool.counters import Counters
from spool.record import UNIT_COST, Batch
from spool.sql import dead_letter_rows, unit_streams
from spool.sql.connection import Connection
from spool.sql.dead_letter_rows import DeadLetterRow
from spool.sql.rows import FreezeLimits, Waiting
from spool.sql.unit_base import begin_with_sums
from spool.sql.unit_streams import May
from spool.sql.unit_totals import stream_with
from spool.sql.unit_waiting import WaitingStreams
from spool.store import Refusal
from spool.unit_cost import (
    CREATE_STREAM,
    DELETE_STREAM,
    EXACT,
    ZERO,
    Operation,
    Stream,
    Total,
    TotalKey,
    decimal_text,
    item_body,
    operation_of,
    sent_value,
)


class Frozen(NamedTuple):
    """A batch that is to be sent, and its stream."""

    batch: Batch
    stream_id: int


class Moment(NamedTuple):
    """What a new batch is stamped with."""

    now_ms: int
    """Of the suspend-aware monotonic clock."""
    wall_ms: int
    batch_id: str
    sent_at: str


def freeze(
    connection: Connection,
    counters: Counters,
    leased: set[int],
    waiting: WaitingStreams,
    limits: FreezeLimits,
    moment: Moment,
    *,
    can_read: bool,
    may: May,
) -> Frozen | Waiting | None:
    """The next batch: one that was frozen before, else of the stream whose totals wait longest.

    *leased*: streams under way.
    """
    unit_streams.drop_superseded(connection, leased)
    found_frozen = _next_frozen(connection, leased, moment.now_ms, may)
    if found_frozen is not None:
        return frozen(connection, found_frozen)
    while found := waiting.first(connection, moment.now_ms, may):
        if not _settle_nothing(connection, counters, found[0]):
            break
    if found is None:
        return None
    stream_id, since_ms = found
    if since_ms <= moment.now_ms < since_ms + limits.linger_ms:
        return Waiting(since_ms + limits.linger_ms)
    _freeze_stream(connection, stream_id, limits, moment, can_read=can_read, may=may)
    return frozen(connection, moment.batch_id)


def _next_frozen(connection: Connection, leased: set[int], now_ms: int, may: May) -> str | None:
    """A batch that no one has, that the keys let go out, and whose stream's name is not blocked."""
    never = [
        "",
        *([] if may.delete else [DELETE_STREAM]),
        *([] if may.create else [CREATE_STREAM]),
    ]
    row = connection.execute(
        "SELECT batch_id FROM unit_batch JOIN unit_stream ON unit_stream.id=stream"  # noqa: S608 - own SQL, whole numbers
        f" WHERE stream NOT IN {unit_streams.listed(leased)} AND operation NOT IN ({', '.join('?' * len(never))})"
        " AND (blocked_until_ms<=? OR operation=?) ORDER BY frozen_ms, batch_id LIMIT 1",
        (*never, now_ms, DELETE_STREAM),
    ).fetchone()
    return None if row is None else str(row[0])


def is_ready(
    connection: Connection, leased: set[int], waiting: WaitingStreams, since_ms: int, now_ms: int, may: May
) -> bool:
    """Whether there is a batch, or something that waits since then, which may be sent now."""
    if leased or _next_frozen(connection, leased, now_ms, may) is not None:
        return True
    found = waiting.first(connection, now_ms, may)
    return found is not None and found[1] <= since_ms


def _settle_nothing(connection: Connection, counters: Counters, stream_id: int) -> bool:
    """What of the stream came to nothing before any of it was sent needs no sending: a sum of zero
    changes nothing at the upstream. Whether anything did.
    """
    is_nothing = "stream=? AND records>0 AND NOT whole AND value='0'"
    (records,) = connection.execute(
        f"SELECT coalesce(sum(records), 0) FROM unit_total WHERE {is_nothing}",  # noqa: S608 - own SQL
        (stream_id,),
    ).fetchone()
    if records:
        connection.execute(f"UPDATE unit_total SET records=0 WHERE {is_nothing}", (stream_id,))  # noqa: S608 - own SQL
        _ended(counters, delivered=records)
    return bool(records)


def frozen(connection: Connection, batch_id: str) -> Frozen:
    """The frozen batch of that id, with its stream and operation."""
    name, kind, stream_id, operation, generation, attempts, sent_at = connection.execute(
        "SELECT name, kind, stream, operation, generation, attempts, sent_at FROM unit_batch"
        " JOIN unit_stream ON unit_stream.id=stream WHERE batch_id=?",
        (batch_id,),
    ).fetchone()
    bodies = tuple(item.body for item in items_of(connection, batch_id))
    if operation == "read":
        bodies = (orjson.dumps({"stream": name, "kind": kind, "operation": operation}),)
    return Frozen(Batch(batch_id, UNIT_COST, generation, attempts, sent_at, bodies), stream_id)


class Item(NamedTuple):
    item_id: int
    total_id: int
    value: str
    records: int
    body: bytes


def items_of(connection: Connection, batch_id: str) -> list[Item]:
    """In the batch's order; none of a batch that reads."""
    found = connection.execute(
        "SELECT id, total, value, records, body FROM unit_item WHERE batch_id=? ORDER BY id", (batch_id,)
    )
    return [Item(*row) for row in found]


_WAITING = {"sum": "NOT whole", "replace": "whole AND value!='0'", "delete": "whole AND value='0'"}
"""Totals that are sent by an operation; as `spool.unit_cost.operation_of` states."""


def _freeze_stream(
    connection: Connection, stream_id: int, limits: FreezeLimits, moment: Moment, *, can_read: bool, may: May
) -> None:
    """Make the stream's next batch: its deletion or creation, where one waits; else the first one
    of all asks what the upstream holds already, where that can be asked.
    """
    stream = stream_with(connection, stream_id)
    operation: str = "read"
    if asked := unit_streams.asked(connection, stream, may):
        unit_streams.freeze(connection, stream, asked, moment.batch_id)
        operation = asked.operation
    else:
        if stream.whole_from_ms is None and not can_read:
            begin_with_sums(connection, stream, moment.wall_ms)
        if stream.whole_from_ms is not None or not can_read:
            operation = _freeze_totals(connection, stream, limits, moment.batch_id)
            unit_streams.travel_with(connection, stream, moment.batch_id)
    connection.execute(
        "INSERT INTO unit_batch (batch_id, stream, operation, frozen_ms, generation, attempts, sent_at)"
        " VALUES (?, ?, ?, ?, 0, 0, ?)",
        (moment.batch_id, stream_id, operation, moment.now_ms, moment.sent_at),
    )


def _freeze_totals(connection: Connection, stream: Stream, limits: FreezeLimits, batch_id: str) -> Operation:
    """Make the items of one operation, which it returns.

    Wide deletes go first: what stands at a place they cover came after them.
    """
    (is_whole, value) = connection.execute(
        "SELECT whole, value FROM unit_total WHERE stream=? AND records>0 ORDER BY wide DESC, since_ms, id LIMIT 1",
        (stream.stream_id,),
    ).fetchone()
    operation = operation_of(Total(Decimal(value), bool(is_whole), 0))
    size = 0
    for total_id, *place, text, records, since_ms in connection.execute(
        "SELECT id, bucket_ms, element, filter, value, records, since_ms FROM unit_total"  # noqa: S608 - own SQL
        f" WHERE stream=? AND records>0 AND {_WAITING[operation]} ORDER BY wide DESC, since_ms, id LIMIT ?",
        (stream.stream_id, limits.max_records),
    ).fetchall():
        whole = Decimal(text)
        value = None if operation == "delete" else sent_value(whole)
        body = item_body(stream, operation, TotalKey(*place), whole)
        if size and size + len(body) + 1 > limits.max_bytes:
            break
        size += len(body) + 1
        rest = EXACT.subtract(whole, value) if operation == "sum" and value is not None else whole
        stays_whole = operation != "sum" and stream.ships == "replace"
        connection.execute(
            "INSERT INTO unit_item (batch_id, total, value, records, since_ms, body) VALUES (?, ?, ?, ?, ?, ?)",
            (batch_id, total_id, decimal_text(value or ZERO), records, since_ms, body),
        )
        kept = decimal_text(rest) if stays_whole or operation == "sum" else "0"
        connection.execute(
            "UPDATE unit_total SET value=?, whole=?, records=0 WHERE id=?", (kept, stays_whole, total_id)
        )
    return operation


def acked(connection: Connection, counters: Counters, batch: Batch, refused: Sequence[Refusal], now_ms: int) -> None:
    """The upstream has the totals: what they stand for is delivered, but for the
    *refused*, which are dead letters.
    """
    by_index = {refusal.index: refusal for refusal in refused}
    items = items_of(connection, batch.batch_id)
    operation = _operation_of(connection, batch)
    for index, item in enumerate(items):
        if index in by_index:
            _bury(connection, counters, item, by_index[index].code, by_index[index].message, now_ms)
        else:
            _ended(counters, delivered=item.records)
    accepted = [item for index, item in enumerate(items) if index not in by_index]
    if operation in {"replace", "delete"}:
        connection.executemany(
            "UPDATE unit_total SET held=? WHERE id=? AND whole", [(item.value, item.total_id) for item in accepted]
        )
    if operation == "delete":
        _deleted_widely(connection, [item.total_id for item in accepted])
    if 0 not in by_index:
        unit_streams.was_deleted(connection, batch.batch_id, now_ms)
    _forget(connection, batch)


def _operation_of(connection: Connection, batch: Batch) -> str | None:
    """None for one that was dropped."""
    found = connection.execute("SELECT operation FROM unit_batch WHERE batch_id=?", (batch.batch_id,)).fetchone()
    return None if found is None else str(found[0])


def _deleted_widely(connection: Connection, total_ids: Sequence[int]) -> None:
    """The upstream holds nothing below those of these totals that are deletes of several."""
    connection.executemany(
        "UPDATE unit_total SET held='0' WHERE id IN (SELECT below.id FROM unit_total wide JOIN unit_total below"
        " ON below.stream=wide.stream AND below.bucket_ms=wide.bucket_ms AND wide.element IN ('', below.element)"
        " AND wide.filter IN ('', below.filter) WHERE wide.id=? AND wide.wide)",
        [(total_id,) for total_id in total_ids],
    )


def buried(connection: Connection, counters: Counters, batch: Batch, code: str, message: str, now_ms: int) -> None:
    for item in items_of(connection, batch.batch_id):
        _bury(connection, counters, item, code, message, now_ms)
    _forget(connection, batch)


def released(connection: Connection, batch: Batch, *, answered: bool) -> None:
    connection.execute(
        "UPDATE unit_batch SET attempts=attempts+1, generation=generation+? WHERE batch_id=?",
        (int(answered), batch.batch_id),
    )


def note_silence(connection: Connection) -> None:
    """Each frozen `sum` may have gone out unanswered: its idempotency key must stay
    (`exporters.cost_service.doubts`).
    """
    connection.execute("UPDATE unit_batch SET attempts=attempts+1 WHERE operation='sum'")


def split(connection: Connection, batch: Batch, ids: tuple[str, str]) -> None:
    """Replace the batch by its two halves. Needs at least two items."""
    items = items_of(connection, batch.batch_id)
    half = len(items) // 2
    if not half:
        raise ValueError("a batch of one record cannot be split")
    for batch_id, some in ((ids[0], items[:half]), (ids[1], items[half:])):
        connection.execute(
            "INSERT INTO unit_batch (batch_id, stream, operation, frozen_ms, generation, attempts, sent_at)"
            " SELECT CAST(? AS TEXT), stream, operation, frozen_ms, 0, 0, sent_at FROM unit_batch WHERE batch_id=?",
            (batch_id, batch.batch_id),
        )
        connection.executemany(
            "UPDATE unit_item SET batch_id=? WHERE id=?", [(batch_id, item.item_id) for item in some]
        )
    connection.execute("DELETE FROM unit_batch WHERE batch_id=?", (batch.batch_id,))


def _bury(connection: Connection, counters: Counters, item: Item, code: str, message: str, now_ms: int) -> None:
    if not item.records:  # its stream was deleted meanwhile, and with it what this stood for
        return
    dead_letter_rows.insert(connection, [DeadLetterRow(UNIT_COST, code, message, item.body, item.records)], now_ms)
    _ended(counters, dead_lettered=item.records)


def _forget(connection: Connection, batch: Batch) -> None:
    connection.execute("DELETE FROM unit_item WHERE batch_id=?", (batch.batch_id,))
    connection.execute("DELETE FROM unit_batch WHERE batch_id=?", (batch.batch_id,))


def _ended(counters: Counters, *, delivered: int = 0, dead_lettered: int = 0, expired: int = 0) -> None:
    lane = counters.lane(UNIT_COST)
    lane.pending -= delivered + dead_lettered + expired
    lane.delivered += delivered
    lane.dead_lettered += dead_lettered
    lane.expired += expired


def expire(connection: Connection, counters: Counters, since_before_ms: int, leased: set[int]) -> int:
    """Give up records that wait for longer than that; how many.

    A whole total is kept, so a later record ships it again.
    """
    too_old = "records>0 AND since_ms<?"
    expired = 0
    for batch_id, records in connection.execute(
        "SELECT batch_id, sum(records) FROM unit_item JOIN unit_batch USING (batch_id)"  # noqa: S608 - whole numbers
        f" WHERE stream NOT IN {unit_streams.listed(leased)} AND operation!=? GROUP BY batch_id HAVING max(since_ms)<?",
        (DELETE_STREAM, since_before_ms),
    ).fetchall():
        connection.execute("DELETE FROM unit_item WHERE batch_id=?", (batch_id,))
        connection.execute("DELETE FROM unit_batch WHERE batch_id=?", (batch_id,))
        expired += records
    (waiting,) = connection.execute(
        f"SELECT coalesce(sum(records), 0) FROM unit_total WHERE {too_old}",  # noqa: S608 - own SQL
        (since_before_ms,),
    ).fetchone()
    connection.execute(
        f"UPDATE unit_total SET records=0, value=CASE WHEN whole THEN value ELSE '0' END WHERE {too_old}",  # noqa: S608 - own SQL
        (since_before_ms,),
    )
    expired += waiting + unit_streams.expire_creations(connection, since_before_ms)
    _ended(counters, expired=expired)
    return int(expired)
