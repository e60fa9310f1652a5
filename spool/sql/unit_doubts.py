"""Totals of unit cost in doubt: the rows are of an earlier moment than the upstream, or not all are
there. So the upstream is read before anything is replaced or added.

What waited when the doubt began becomes *links* of the stream's next read: items of that batch,
one for each value that a total had, or was to have, after what the upstream held. They stay pending
until the read states how many of them were delivered (`spool.unit_cost.judged`). What comes
meanwhile is kept in the total itself, and is added to what is found.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

from spool.clock import rfc3339_ms, uuid7
from spool.counters import Counters
from spool.record import UNIT_COST
from spool.sql import dead_letter_rows, unit_streams
from spool.sql.connection import Connection
from spool.sql.dead_letter_rows import DeadLetterRow
from spool.sql.unit_streams import RESTORED
from spool.sql.unit_totals import UNKNOWN, streams
from spool.unit_cost import (
    EXACT,
    Stream,
    Total,
    TotalKey,
    decimal_text,
    item_body,
    operation_of,
)


class Link(NamedTuple):
    """A value that a total came to, and what it adds to the value before it."""

    value: Decimal
    records: int
    since_ms: int
    body: bytes = b""
    """As a dead letter has it: the `sum` by which the value before it changed."""
    item_id: int = 0
    """Of the read that holds it; 0 before."""


class Chain(NamedTuple):
    """A total in doubt."""

    total_id: int
    held: Decimal | None
    """What the upstream held before the links; None where that is not known."""
    links: Sequence[Link]


def distrust(connection: Connection, now_ms: int) -> None:
    """Find out again what the upstream holds, before anything of a stream is replaced.

    Frozen totals are taken back; a `sum` stays frozen, for the upstream may know it by its key.
    May be repeated.
    """
    for statement in _WITHOUT_ROWS_LOST:
        connection.execute(statement)
    for stream in streams(connection):
        if stream.ships == "replace":
            _doubt(connection, stream, now_ms)


_WITHOUT_ROWS_LOST = (
    "DELETE FROM unit_total WHERE stream NOT IN (SELECT id FROM unit_stream)",
    "DELETE FROM unit_batch WHERE stream NOT IN (SELECT id FROM unit_stream)",
    "DELETE FROM unit_item WHERE batch_id NOT IN (SELECT batch_id FROM unit_batch)",
    "DELETE FROM unit_batch WHERE operation!='read' AND batch_id NOT IN (SELECT batch_id FROM unit_item)",
)
"""Rows that are of no use without others, which are gone: what they stood for is counted as lost.
"""


def _doubt(connection: Connection, stream: Stream, now_ms: int) -> None:
    before = links_of(connection, stream)
    frozen = _taken_back(connection, stream)
    made: list[tuple[int, Link]] = []
    doubted = []
    for total_id, *at, text, held, is_whole, records, since_ms in connection.execute(
        "SELECT id, bucket_ms, element, filter, value, held, whole, records, since_ms FROM unit_total"
        " WHERE stream=? AND NOT wide ORDER BY id",
        (stream.stream_id,),
    ).fetchall():
        is_known = is_whole or stream.whole_from_ms is None  # of a place that goes by `sum` nothing is
        kept = held if is_known else UNKNOWN
        start = before[total_id][-1].value if total_id in before else Decimal(kept or 0)
        value = Decimal(text) if is_whole else EXACT.add(start, Decimal(text))
        links = [*frozen.get(total_id, []), Link(value, records, since_ms)]
        made += [(total_id, link) for link in _worded(stream, TotalKey(*at), start, links)]
        doubted.append((kept, total_id))
    connection.executemany("UPDATE unit_total SET value='0', held=?, whole=FALSE, records=0 WHERE id=?", doubted)
    connection.execute(  # what was sent below a delete since is not known
        "DELETE FROM unit_total WHERE stream=? AND wide AND records=0", (stream.stream_id,)
    )
    connection.execute("UPDATE unit_stream SET whole_from_ms=NULL WHERE id=?", (stream.stream_id,))
    if made:
        _wait_for_read(connection, stream, made, now_ms)


def _worded(stream: Stream, place: TotalKey, start: Decimal, links: Iterable[Link]) -> Iterator[Link]:
    """Those that change something or stand for a record, each with its body."""
    before = start
    for link in links:
        if link.records or link.value != before:
            change = EXACT.subtract(link.value, before)
            yield link._replace(body=item_body(stream, "sum", place, change))
        before = link.value


def links_of(connection: Connection, stream: Stream) -> dict[int, list[Link]]:
    """Total -> what waits in it for the stream's next read, in order."""
    return _links(connection, stream, ("read",))


def _links(connection: Connection, stream: Stream, operations: Sequence[str]) -> dict[int, list[Link]]:
    found: dict[int, list[Link]] = {}
    for total_id, value, *rest in connection.execute(
        "SELECT total, value, records, since_ms, body, id FROM unit_item WHERE batch_id IN"  # noqa: S608 - own SQL
        f" (SELECT batch_id FROM unit_batch WHERE stream=? AND operation IN ({', '.join('?' * len(operations))}))"
        " AND total!=0 ORDER BY id",
        (stream.stream_id, *operations),
    ):
        found.setdefault(total_id, []).append(Link(Decimal(value), *rest))
    return found


def _taken_back(connection: Connection, stream: Stream) -> dict[int, list[Link]]:
    """What frozen totals stood for, which are frozen no more. Deletes of several totals wait
    again.
    """
    found = _links(connection, stream, ("replace", "delete"))
    connection.executemany(
        "UPDATE unit_total SET since_ms=CASE WHEN records=0 OR since_ms>? THEN ? ELSE since_ms END, records=records+?"
        " WHERE id=? AND wide",
        [(link.since_ms, link.since_ms, link.records, total_id) for total_id, links in found.items() for link in links],
    )
    _drop_frozen(connection, stream)
    return found


_FROZEN = "SELECT batch_id FROM unit_batch WHERE stream=? AND operation IN ('replace', 'delete')"


def _drop_frozen(connection: Connection, stream: Stream) -> None:
    connection.execute(f"DELETE FROM unit_item WHERE batch_id IN ({_FROZEN})", (stream.stream_id,))  # noqa: S608 - own SQL
    connection.execute(
        "DELETE FROM unit_batch WHERE stream=? AND operation IN ('replace', 'delete')", (stream.stream_id,)
    )


def _wait_for_read(connection: Connection, stream: Stream, links: Iterable[tuple[int, Link]], now_ms: int) -> None:
    """Let the stream's read hold them, behind a `sum` that is frozen."""
    batch_id = _read_of(connection, stream)
    if batch_id is None:
        batch_id = uuid7(now_ms, os.urandom(10))
        (last_ms,) = connection.execute(
            "SELECT coalesce(max(frozen_ms), 0) FROM unit_batch WHERE stream=?", (stream.stream_id,)
        ).fetchone()
        connection.execute(
            "INSERT INTO unit_batch (batch_id, stream, operation, frozen_ms, generation, attempts, sent_at)"
            " VALUES (?, ?, 'read', ?, 0, 0, ?)",
            (batch_id, stream.stream_id, last_ms + 1, rfc3339_ms(now_ms)),
        )
    connection.executemany(
        "INSERT INTO unit_item (batch_id, total, value, records, since_ms, body) VALUES (?, ?, ?, ?, ?, ?)",
        [
            (batch_id, total_id, decimal_text(link.value), link.records, link.since_ms, link.body)
            for total_id, link in links
        ],
    )


def _read_of(connection: Connection, stream: Stream) -> str | None:
    found = connection.execute(
        "SELECT batch_id FROM unit_batch WHERE stream=? AND operation='read'", (stream.stream_id,)
    ).fetchone()
    return None if found is None else str(found[0])


def forget(connection: Connection, links: Iterable[Link]) -> None:
    """They wait for a read no more, and end otherwise."""
    connection.executemany("DELETE FROM unit_item WHERE id=?", [(link.item_id,) for link in links])


# ---- what nobody can know


_WHY = "the upstream may hold it already, so compare before a replay"


def give_up(connection: Connection, counters: Counters, now_ms: int) -> None:
    """The rows are those of a backup, whose totals are in doubt: what else waits may have been
    delivered since, and no read states whether it was. An operator is to decide. Such are totals of
    streams that go by `sum`, deletes of several totals, and deletions of streams.
    """
    unit_streams.give_up_deletions(connection, counters, now_ms)
    for stream in streams(connection):
        letters = [*_frozen_letters(connection, stream), *_waiting_letters(connection, stream)]
        _drop_frozen(connection, stream)
        connection.execute("DELETE FROM unit_total WHERE stream=? AND records>0", (stream.stream_id,))
        _bury(connection, counters, letters, now_ms)


def _frozen_letters(connection: Connection, stream: Stream) -> list[DeadLetterRow]:
    found = connection.execute(
        f"SELECT body, records FROM unit_item WHERE batch_id IN ({_FROZEN}) ORDER BY id",  # noqa: S608 - own SQL
        (stream.stream_id,),
    )
    return [_letter(body, records) for body, records in found]


def _waiting_letters(connection: Connection, stream: Stream) -> list[DeadLetterRow]:
    letters = []
    for *place, text, is_whole, records in connection.execute(
        "SELECT bucket_ms, element, filter, value, whole, records FROM unit_total"
        " WHERE stream=? AND records>0 ORDER BY id",
        (stream.stream_id,),
    ):
        operation = operation_of(Total(Decimal(text), bool(is_whole), records))
        letters.append(_letter(item_body(stream, operation, TotalKey(*place), Decimal(text)), records))
    return letters


def set_aside(connection: Connection, counters: Counters, chains: Iterable[Chain], now_ms: int) -> int:
    """Make what waited in them dead letters, whose replay adds it; how many records."""
    links = [link for chain in chains for link in chain.links]
    _bury(connection, counters, [_letter(link.body, link.records) for link in links], now_ms)
    forget(connection, links)
    return sum(link.records for link in links)


def _letter(body: bytes, records: int) -> DeadLetterRow:
    return DeadLetterRow(UNIT_COST, RESTORED, _WHY, body, records)


def _bury(connection: Connection, counters: Counters, letters: Sequence[DeadLetterRow], now_ms: int) -> None:
    letters = [letter for letter in letters if letter.records]  # else its stream was deleted, or it had ended
    dead_letter_rows.insert(connection, letters, now_ms)
    lane, records = counters.lane(UNIT_COST), sum(letter.records for letter in letters)
    lane.pending -= records
    lane.dead_lettered += records
