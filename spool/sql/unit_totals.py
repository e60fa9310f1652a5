"""Streams and running totals in spool.db. See `spool.unit_cost` for what they mean,
`unit_batches` for how they are sent.

Every function runs inside the writer's transaction, and changes the counters
that are committed with it. An item of the lane is a *record* of a sender: it is
kept and pending once it changed a total.
"""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Final

import orjson

from spool.counters import Counters
from spool.record import UNIT_COST
from spool.sql.connection import INDEXED_CHARS, Connection
from spool.unit_cost import (
    ALWAYS_WHOLE_MS,
    EXACT,
    NEVER_WHOLE_MS,
    ZERO,
    Change,
    Metered,
    Mismatch,
    Operation,
    Rules,
    Shape,
    Ships,
    Stream,
    Total,
    TotalKey,
    changed,
    decimal_text,
    mismatch,
    next_bucket_ms,
    place_in,
)

PRUNE_AT_ONCE = 1_000
UNKNOWN: Final = ""
"""`held` of a total while it is not known what the upstream holds at its place."""

INSERT = (
    "INSERT INTO unit_total (stream, bucket_ms, element, filter, value, held, whole, wide, records, since_ms, touched_ms)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_UPDATE = (  # a total waits since the first of the records that no batch holds
    "UPDATE unit_total SET value=?, whole=?, since_ms=CASE WHEN records=0 THEN ? ELSE since_ms END, records=?, touched_ms=?"
    " WHERE id=?"
)


def stream_named(connection: Connection, name: str) -> Stream | None:
    found = connection.execute(f"{_STREAMS} WHERE name=?", (name,)).fetchone()
    return None if found is None else _stream(found)


def stream_in_use(connection: Connection, name: str) -> Stream | None:
    """None also for one that was deleted."""
    stream = stream_named(connection, name)
    return None if stream is None or stream.is_gone else stream


def stream_with(connection: Connection, stream_id: int) -> Stream:
    return _stream(connection.execute(f"{_STREAMS} WHERE id=?", (stream_id,)).fetchone())


def streams(connection: Connection) -> list[Stream]:
    return [_stream(found) for found in connection.execute(f"{_STREAMS} ORDER BY name")]


_STREAMS = "SELECT id, name, kind, granularity, dimensions, ships, whole_from_ms, gone FROM unit_stream"


def _stream(found: tuple[object, ...]) -> Stream:
    stream_id, name, kind, granularity, dimensions, ships, whole_from_ms, gone = found
    shape = Shape(kind, granularity, tuple(orjson.loads(str(dimensions))))  # type: ignore[arg-type]  # as `make` wrote them
    return Stream(stream_id, name, shape, ships, whole_from_ms, bool(gone))  # type: ignore[arg-type]  # as above


def fitting(connection: Connection, metered: Metered, rules: Rules) -> Stream | Mismatch:
    """The stream of a record, made if it is new; or why it does not belong there.

    A delete makes no stream.
    """
    found = why_not(connection, [metered]) or why_no_room(connection, [metered.stream], rules)
    return found or stream_for(connection, metered, rules)


def why_not(connection: Connection, records: Sequence[Metered]) -> Mismatch | None:
    """Why *records* of one stream do not belong to it; those of a new one need one shape."""
    first = records[0]
    stream = stream_in_use(connection, first.stream)
    if stream is None and first.change.operation == "delete":
        return Mismatch("stream_unknown", "")
    shape = first.shape if stream is None else stream.shape
    for number, record in enumerate(records):
        found = None if record.shape == shape else mismatch(shape, record.shape, is_wide=_is_wide_delete(record))
        if found is not None:
            return found._replace(number=number, is_new=stream is None)
    return None


def why_no_room(connection: Connection, names: Iterable[str], rules: Rules) -> Mismatch | None:
    """None where there is room for those of *names* that are no stream in use."""
    new = sum(stream_in_use(connection, name) is None for name in names)
    if not new:
        return None
    (count,) = connection.execute("SELECT count(*) FROM unit_stream WHERE NOT gone").fetchone()
    return Mismatch("too_many_streams", str(rules.max_streams)) if count + new > rules.max_streams else None


def stream_for(connection: Connection, metered: Metered, rules: Rules) -> Stream:
    """The record's stream; made with the record's shape if it is new."""
    return stream_in_use(connection, metered.stream) or make(connection, metered.stream, metered.shape, rules.ships)


def _is_wide_delete(metered: Metered) -> bool:
    return metered.change.operation == "delete" and metered.change.place.is_wide(metered.shape.kind)


def make(connection: Connection, name: str, shape: Shape, ships: Ships) -> Stream:
    """A new stream, in the row of a deleted one of that name where there is one.

    A deletion leaves nothing at the upstream, so the totals that follow it are whole. To read there
    what it holds could bring back what was deleted, for such a read may lag by hours.
    """
    whole_from_ms = NEVER_WHOLE_MS if ships == "sum" else None
    gone = stream_named(connection, name)
    if gone is not None and ships == "replace":
        whole_from_ms = ALWAYS_WHOLE_MS if gone.whole_from_ms == NEVER_WHOLE_MS else gone.whole_from_ms
    connection.execute(
        "INSERT INTO unit_stream (name, kind, granularity, dimensions, ships, whole_from_ms) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (name) DO UPDATE SET kind=excluded.kind, granularity=excluded.granularity, dimensions=excluded.dimensions,"
        " ships=excluded.ships, whole_from_ms=excluded.whole_from_ms, gone=FALSE",
        (name, shape.kind, shape.granularity, orjson.dumps(shape.dimensions).decode(), ships, whole_from_ms),
    )
    made = stream_named(connection, name)
    assert made is not None  # noqa: S101 - it was just written
    return made


def apply(
    connection: Connection,
    counters: Counters,
    stream: Stream,
    changes: Iterable[Change],
    now_ms: int,
) -> None:
    """Change the totals of *stream* in that order, and count each change as a kept record."""
    ledger = _Ledger(connection, stream)
    count = 0
    for change in changes:
        ledger.take(change)
        count += 1
    ledger.write(now_ms)
    counters.keep(UNIT_COST, count)


class _Ledger:
    """The totals that one request changes, each read once and written once."""

    def __init__(self, connection: Connection, stream: Stream) -> None:
        self._connection = connection
        self._stream = stream
        self._totals: dict[TotalKey, Total] = {}
        self._ids: dict[TotalKey, int] = {}
        """Of those that have a row."""
        self._changed: set[TotalKey] = set()
        self._wide = _wide_places(connection, stream)

    def take(self, change: Change) -> None:
        place = change.place
        if place.is_wide(self._stream.shape.kind):
            self._delete_below(place)
        self._put(place, changed(self._total(place), change, starts_whole=self._starts_whole(place)))

    def _delete_below(self, wide: TotalKey) -> None:
        """Delete every total that *wide* covers; at the upstream the wide delete itself does so.

        Where others send to the stream as well, nothing is whole for longer
        than it takes to freeze it.
        """
        is_whole = self._stream.ships == "replace"
        for place in [*_places_in(self._connection, self._stream, wide.bucket_ms), *self._totals]:
            if wide.covers(place) and place != wide:
                total = self._total(place)
                assert total is not None  # noqa: S101 - it was just listed
                self._put(place, total._replace(value=ZERO, is_whole=is_whole))
        self._wide.append(wide)

    def _put(self, place: TotalKey, total: Total) -> None:
        self._totals[place] = total
        self._changed.add(place)

    def _total(self, place: TotalKey) -> Total | None:
        if place not in self._totals:
            found = _read(self._connection, self._stream, place)
            if found is None:
                return None
            self._ids[place], self._totals[place] = found
        return self._totals[place]

    def _starts_whole(self, place: TotalKey) -> bool:
        if self._is_known_empty(place):
            return True
        return self._stream.ships == "replace" and any(wide.covers(place) for wide in self._wide)

    def _is_known_empty(self, place: TotalKey) -> bool:
        whole_from_ms = self._stream.whole_from_ms
        return whole_from_ms is not None and place.bucket_ms >= whole_from_ms

    def _held_at_first(self, place: TotalKey) -> str:
        return "0" if self._is_known_empty(place) else UNKNOWN

    def write(self, now_ms: int) -> None:
        new = [
            new_row(self._stream, place, self._totals[place], now_ms, self._held_at_first(place))
            for place in self._changed
            if place not in self._ids
        ]
        self._connection.executemany(INSERT, new)
        changed = [
            _changed_row(id_, self._totals[place], now_ms) for place, id_ in self._ids.items() if place in self._changed
        ]
        self._connection.executemany(_UPDATE, changed)


def new_row(stream: Stream, place: TotalKey, total: Total, now_ms: int, held: str) -> tuple[object, ...]:
    """For `INSERT`; *held*: what the upstream holds, or `UNKNOWN`."""
    value, is_wide = decimal_text(total.value), place.is_wide(stream.shape.kind)
    return (stream.stream_id, *place, value, held, total.is_whole, is_wide, total.records, now_ms, now_ms)


def _changed_row(id_: int, total: Total, now_ms: int) -> tuple[object, ...]:
    """For `_UPDATE`."""
    return decimal_text(total.value), total.is_whole, now_ms, total.records, now_ms, id_


def _read(connection: Connection, stream: Stream, place: TotalKey) -> tuple[int, Total] | None:
    """The total of *place*, and its row's id."""
    found = connection.execute(
        "SELECT id, value, whole, records FROM unit_total WHERE stream=? AND bucket_ms=? AND element=? AND filter=?"  # noqa: S608 - own SQL
        f" AND substr(filter, 1, {INDEXED_CHARS})=?",
        (stream.stream_id, *place, place.filter[:INDEXED_CHARS]),
    ).fetchone()
    return None if found is None else (found[0], Total(Decimal(found[1]), bool(found[2]), found[3]))


def _places_in(connection: Connection, stream: Stream, bucket_ms: int) -> list[TotalKey]:
    return [
        TotalKey(*found)
        for found in connection.execute(
            "SELECT bucket_ms, element, filter FROM unit_total WHERE stream=? AND bucket_ms=?",
            (stream.stream_id, bucket_ms),
        )
    ]


def _wide_places(connection: Connection, stream: Stream) -> list[TotalKey]:
    """What was deleted widely, for as long as totals are kept."""
    found = connection.execute(
        "SELECT bucket_ms, element, filter FROM unit_total WHERE stream=? AND wide", (stream.stream_id,)
    )
    return [TotalKey(*row) for row in found]


def requeue(connection: Connection, body: bytes, records: int, buried_ms: int, now_ms: int) -> bool:
    """Make a dead letter's *records* pending again, at the total as it stands now;
    whether that could be done.

    An old total is never sent again. What a `sum` carried is added to what waits, unless the
    place was replaced since. What would wipe sums or totals that were sent since it was
    dead-lettered stays a dead letter.
    """
    try:
        item = orjson.loads(body)
        stream = stream_named(connection, item["stream"])
        if stream is None or stream.is_gone or _was_deleted_since(connection, stream, buried_ms):
            return False
        place = place_in(stream.shape, item["record"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
    operation: Operation = item["operation"]
    if _wipes_later(connection, stream, place, operation, buried_ms):
        return False
    found = _read(connection, stream, place)
    waiting = 0 if found is None else found[1].records
    total = _with_dead_letter(found and found[1], operation, _value_of(item["record"]))
    total = total._replace(records=waiting + records)
    if found is None:
        connection.execute(INSERT, new_row(stream, place, total, now_ms, UNKNOWN))
    else:
        connection.execute(_UPDATE, _changed_row(found[0], total, now_ms))
    return True


def _was_deleted_since(connection: Connection, stream: Stream, buried_ms: int) -> bool:
    """Whether the stream's deletion took what became a dead letter before it."""
    (deleted_ms,) = connection.execute("SELECT deleted_ms FROM unit_stream WHERE id=?", (stream.stream_id,)).fetchone()
    return deleted_ms is not None and buried_ms <= deleted_ms


def _wipes_later(connection: Connection, stream: Stream, place: TotalKey, operation: Operation, buried_ms: int) -> bool:
    """Whether the upstream may hold what came since: below a delete of several places, or, where
    totals travel by `sum`, at the place.
    """
    is_wide = place.is_wide(stream.shape.kind)
    if not is_wide and (operation == "sum" or stream.ships == "replace"):
        return False
    came = connection.execute(
        "SELECT bucket_ms, element, filter FROM unit_total WHERE stream=? AND bucket_ms=? AND touched_ms>=?",
        (stream.stream_id, place.bucket_ms, buried_ms),
    )
    return any(place.covers(other) and not (is_wide and other == place) for other in (TotalKey(*row) for row in came))


def _value_of(record: dict[str, str]) -> Decimal:
    return Decimal(record.get("value", "0"))


def _with_dead_letter(total: Total | None, operation: Operation, carried: Decimal) -> Total:
    """The total with what a dead letter *carried*: a sum is added to what waits; a total that is
    still whole stands as it is.
    """
    if total is None:
        return Total(carried, operation != "sum", 0)
    if total.is_whole:
        return total
    return total._replace(value=EXACT.add(total.value, carried), is_whole=operation != "sum")


def prune(connection: Connection, touched_before_ms: int) -> int:
    """Forget some totals that nothing came to for long; how many.

    What comes later to such a bucket goes by `sum`.
    """
    found = connection.execute(
        "SELECT unit_total.id, stream, bucket_ms, granularity FROM unit_total JOIN unit_stream ON unit_stream.id=stream"
        " WHERE touched_ms<? AND records=0 AND NOT EXISTS (SELECT 1 FROM unit_item WHERE total=unit_total.id) LIMIT ?",
        (touched_before_ms, PRUNE_AT_ONCE),
    ).fetchall()
    for total_id, stream_id, bucket_ms, granularity in found:
        connection.execute("DELETE FROM unit_total WHERE id=?", (total_id,))
        connection.execute(
            "UPDATE unit_stream SET whole_from_ms=? WHERE id=? AND whole_from_ms<?",
            (next_bucket_ms(bucket_ms, granularity), stream_id, next_bucket_ms(bucket_ms, granularity)),
        )
    return len(found)
