"""What the upstream holds of a stream, found out before anything is replaced there.

Every function runs inside the writer's transaction, and changes the counters that are committed
with it.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from spool.counters import Counters
from spool.sql import unit_doubts
from spool.sql.connection import Connection
from spool.sql.unit_doubts import Chain, Link
from spool.sql.unit_totals import INSERT, UNKNOWN, new_row, stream_named
from spool.unit_cost import (
    ALWAYS_WHOLE_MS,
    EXACT,
    ZERO,
    BaseRecord,
    Stream,
    Total,
    TotalKey,
    decimal_text,
    judged,
    next_bucket_ms,
)


def learn_base(
    connection: Connection,
    counters: Counters,
    name: str,
    base: Sequence[BaseRecord] | None,
    wall_ms: int,
    now_ms: int,
) -> int:
    """The upstream holds *base* in a stream that nothing was sent of, or whose totals are in
    doubt; None when that cannot be known. Once is enough. How many records became dead letters,
    since they may have been delivered.
    """
    stream = stream_named(connection, name)
    if stream is None or stream.whole_from_ms is not None:
        return 0
    rows = _rows(connection, stream)
    if base is None:
        unclear = _unclear_unread(connection, rows.values())
        begin_with_sums(connection, stream, wall_ms)
    else:
        unclear = _settle(connection, stream, rows, _summed(base), now_ms)
    _go_by_sum(connection, unclear)
    return unit_doubts.set_aside(connection, counters, unclear, now_ms)


class _Row(NamedTuple):
    chain: Chain
    since: Total
    """What came since the doubt began, or since ever."""
    since_ms: int


def _rows(connection: Connection, stream: Stream) -> dict[TotalKey, _Row]:
    links = unit_doubts.links_of(connection, stream)
    rows = {}
    for total_id, *at, text, held, is_whole, records, since_ms in connection.execute(
        "SELECT id, bucket_ms, element, filter, value, held, whole, records, since_ms FROM unit_total"
        " WHERE stream=? AND NOT wide ORDER BY id",
        (stream.stream_id,),
    ):
        known = None if held == UNKNOWN else Decimal(held)
        chain = Chain(total_id, known, links.get(total_id, []))
        rows[TotalKey(*at)] = _Row(chain, Total(Decimal(text), bool(is_whole), records), since_ms)
    return rows


def _summed(base: Sequence[BaseRecord]) -> dict[TotalKey, Decimal]:
    """The upstream may list what it was sent one by one."""
    held: dict[TotalKey, Decimal] = {}
    for place, value in base:
        held[place] = EXACT.add(held.get(place, ZERO), value)
    return held


def _unclear_unread(connection: Connection, rows: Iterable[_Row]) -> list[Chain]:
    """Those of which something waits that may have been delivered."""
    linked = [row for row in rows if row.chain.links]
    _keep_settled(connection, [_replaced(row) for row in linked if row.since.is_whole])
    return [row.chain for row in linked if not row.since.is_whole]


def _settle(
    connection: Connection,
    stream: Stream,
    rows: Mapping[TotalKey, _Row],
    held: Mapping[TotalKey, Decimal],
    now_ms: int,
) -> list[Chain]:
    """Let totals be whole again; return those that the read leaves unclear, which go by `sum`."""
    _keep_new(connection, stream, {at: value for at, value in held.items() if at not in rows}, now_ms)
    settled = {place: _settled(row, held.get(place, ZERO)) for place, row in rows.items()}
    _keep_settled(connection, [each for each in settled.values() if each is not None])
    _whole_from(connection, stream, ALWAYS_WHOLE_MS)
    return [rows[place].chain for place, each in settled.items() if each is None]


def _keep_new(connection: Connection, stream: Stream, held: Mapping[TotalKey, Decimal], now_ms: int) -> None:
    """Totals of places that were never seen here, but for those that a delete goes out for."""
    wide = [
        TotalKey(*place)
        for place in connection.execute(
            "SELECT bucket_ms, element, filter FROM unit_total WHERE stream=? AND wide AND records>0",
            (stream.stream_id,),
        )
    ]
    connection.executemany(
        INSERT,
        [
            new_row(stream, place, Total(value, is_whole=True, records=0), now_ms, decimal_text(value))
            for place, value in held.items()
            if not any(deleted.covers(place) for deleted in wide)
        ],
    )


class _Settled(NamedTuple):
    row: _Row
    value: Decimal
    held: Decimal | None
    waiting: Sequence[Link]
    """What the total contains again."""


def _settled(row: _Row, found: Decimal) -> _Settled | None:
    """The row's total if the upstream holds *found* at its place; None where that is unclear."""
    if row.since.is_whole:
        return _replaced(row)._replace(held=found)
    chain = row.chain
    seen = judged(chain.held, [link.value for link in chain.links], found)
    if seen is None:
        return None
    return _Settled(row, EXACT.add(seen.total, row.since.value), found, chain.links[seen.delivered :])


def _replaced(row: _Row) -> _Settled:
    """It was replaced or deleted since the doubt began, whatever was there."""
    return _Settled(row, row.since.value, row.chain.held, row.chain.links)


def _keep_settled(connection: Connection, settled: Sequence[_Settled]) -> None:
    connection.executemany(
        "UPDATE unit_total SET value=?, held=?, whole=TRUE, records=?, since_ms=? WHERE id=?", map(_columns, settled)
    )
    unit_doubts.forget(connection, [link for each in settled for link in each.waiting])


def _columns(settled: _Settled) -> tuple[object, ...]:
    row, waiting = settled.row, [link for link in settled.waiting if link.records]
    times = [*(link.since_ms for link in waiting), *[row.since_ms] * bool(row.since.records)]
    records = row.since.records + sum(link.records for link in waiting)
    held = UNKNOWN if settled.held is None else decimal_text(settled.held)
    return decimal_text(settled.value), held, records, min(times, default=row.since_ms), row.chain.total_id


def _go_by_sum(connection: Connection, chains: Sequence[Chain]) -> None:
    """It is not known from now on what the upstream holds there."""
    connection.executemany(
        "UPDATE unit_total SET whole=FALSE, held=? WHERE id=?", [(UNKNOWN, chain.total_id) for chain in chains]
    )


def begin_with_sums(connection: Connection, stream: Stream, wall_ms: int) -> None:
    """What the upstream holds is not known: buckets that began already go by `sum`, and so do
    totals that were sent once; the later ones are ours alone.
    """
    whole_from_ms = next_bucket_ms(wall_ms, stream.shape.granularity)
    connection.execute(
        "UPDATE unit_total SET whole=TRUE, held='0' WHERE stream=? AND bucket_ms>=? AND NOT whole AND held=?",
        (stream.stream_id, whole_from_ms, UNKNOWN),
    )
    connection.execute("UPDATE unit_total SET held=? WHERE stream=? AND NOT whole", (UNKNOWN, stream.stream_id))
    _whole_from(connection, stream, whole_from_ms)


def _whole_from(connection: Connection, stream: Stream, whole_from_ms: int) -> None:
    connection.execute("UPDATE unit_stream SET whole_from_ms=? WHERE id=?", (whole_from_ms, stream.stream_id))
