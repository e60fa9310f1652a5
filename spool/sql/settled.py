"""Settled records for readers that count them and are not a lane that sends them.

A settled chunk never changes (`rows.settle`), so one that was read needs no second
look. How far a reader has come is its own to remember; chunks that every lane is done
with go whether it came that far or not.
"""

from collections.abc import Iterator, Mapping

from spool.record import Lane
from spool.settling import MOVED, Outcomes, Settled
from spool.sql import chunks, rows
from spool.sql.connection import Connection


def settled_records(connection: Connection, lane: Lane, after_seq: int, *, max_bytes: int) -> Settled:
    """The records of the settled chunks of *lane* after *after_seq*: whole chunks,
    until they hold *max_bytes*.

    A chunk whose row does not hold together is passed over. `through_seq` is less than *after_seq*
    when the spool never came that far: then it is another file than the reader knew.
    """
    settled_seq = rows.lane_row(connection, lane).settled_seq
    through_seq = min(after_seq, settled_seq)
    records: list[bytes] = []
    size = 0
    for seq, said, ends, stored, packed in chunks.chunks_between(
        connection, chunks.BODY, lane, after_seq + 1, settled_seq
    ):
        n = chunks.record_count(said, ends)
        body = chunks.read_body(n, ends, stored, packed)
        if body is not None:
            changes = rows.changes_between(connection, seq, seq).get(seq, {})
            records += [record for _, record in chunks.chunk_records(body, 0, n, changes)]
            size += len(body.content)
        through_seq = seq
        if size >= max_bytes:
            return Settled(records, through_seq, is_more=True)
    return Settled(records, through_seq, is_more=False)


def settled_outcomes(
    connection: Connection, lane: Lane, after_seq: int, *, max_bytes: int, max_behind: int
) -> Outcomes:
    """What became of each record of *lane*'s settled chunks after *after_seq*; whole chunks, until
    they hold *max_bytes*. A reader that is more than *max_behind* chunks behind skips to there.
    """
    settled_seq = rows.lane_row(connection, lane).settled_seq
    from_seq = max(min(after_seq, settled_seq), settled_seq - max_behind)
    skipped = _records_between(connection, lane, after_seq, from_seq)
    items: list[tuple[str, bytes]] = []
    size, through_seq = 0, from_seq
    for seq, said, ends, stored, packed in chunks.chunks_between(
        connection, chunks.BODY, lane, from_seq + 1, settled_seq
    ):
        body = chunks.read_body(chunks.record_count(said, ends), ends, stored, packed)
        if body is not None:
            items += _outcomes(body, rows.changes_between(connection, seq, seq).get(seq, {}))
            size += len(body.content)
        through_seq = seq
        if size >= max_bytes:
            return Outcomes(items, through_seq, is_more=True, skipped=skipped)
    return Outcomes(items, through_seq, is_more=False, skipped=skipped)


def outcomes_before(connection: Connection, lane: Lane, before_seq: int, *, max_bytes: int) -> Outcomes:
    """What became of each record of *lane*'s settled chunks before *before_seq*, the newest first;
    whole chunks, until they hold *max_bytes*. `through_seq` is the oldest chunk that was read.
    """
    items: list[tuple[str, bytes]] = []
    size, through_seq = 0, before_seq
    last_seq = min(before_seq - 1, rows.lane_row(connection, lane).settled_seq)
    for seq, said, ends, stored, packed in chunks.chunks_between(
        connection, chunks.BODY, lane, 0, last_seq, descending=True
    ):
        body = chunks.read_body(chunks.record_count(said, ends), ends, stored, packed)
        if body is not None:
            items += reversed([*_outcomes(body, rows.changes_between(connection, seq, seq).get(seq, {}))])
            size += len(body.content)
        through_seq = seq
        if size >= max_bytes:
            return Outcomes(items, through_seq, is_more=True, skipped=0)
    return Outcomes(items, through_seq, is_more=False, skipped=0)


def _outcomes(body: chunks.Body, changes: Mapping[int, tuple[str, bytes | None]]) -> Iterator[tuple[str, bytes]]:
    start = 0
    for idx, stop in enumerate(body.stops):
        record = body.content[start:stop]
        start = stop
        outcome, changed = changes.get(idx, ("kept", None))
        if outcome != MOVED:
            yield outcome, record if changed is None else changed


def _records_between(connection: Connection, lane: Lane, after_seq: int, through_seq: int) -> int:
    if through_seq <= after_seq:
        return 0
    (found,) = connection.execute(
        "SELECT coalesce(sum(n), 0) FROM chunk WHERE lane=? AND seq>? AND seq<=?", (lane, after_seq, through_seq)
    ).fetchone()
    return int(found)
