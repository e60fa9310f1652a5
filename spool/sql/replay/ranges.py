"""Records that are sent again: dead letters that were requeued, and what was
delivered and is still here.

A *stretch* is a run of such records that no batch holds yet. `freeze` cuts a batch off its front,
within the limits of the lane's pump, so that a resend travels as all else does: frozen, leased,
acked, split, given back after a restart.

- Stretches of origin `dead_letter` lie in chunks of their own (`rows.again_lane`), and are pending.
- Stretches of origin `delivered` name the very chunks that were delivered, which stay on disk until
  they are through. Their records stay counted as delivered; what comes of them is counted beside
  the counters (`side_counts`).
"""

from collections.abc import Iterator, Sequence

from spool.counters import Counters
from spool.record import Batch, Lane
from spool.settling import Position
from spool.sql import rows
from spool.sql.chunks import ChunkRow, insert_chunk
from spool.sql.connection import Connection
from spool.sql.replay import side_counts
from spool.sql.rows import FreezeLimits, Origin

STRETCH_CHUNKS = 64
"""Chunks that one stretch names at most: what a freeze has to look at."""
RECLAIM_CHUNKS = 64


def insert_requeued(connection: Connection, lane: Lane, chunk: ChunkRow) -> None:
    """Keep *chunk*, of `again_lane(lane)`, and send it."""
    insert_chunk(connection, chunk)
    _insert(connection, lane, "dead_letter", Position(chunk.seq, 0), Position(chunk.seq + 1, 0), chunk.n)


def _insert(connection: Connection, lane: Lane, origin: Origin, lo: Position, hi: Position, n: int) -> None:
    connection.execute(
        "INSERT INTO stretch (lane, origin, seq_lo, idx_lo, seq_hi, idx_hi, n) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (lane, origin, *lo, *hi, n),
    )


def freeze(
    connection: Connection,
    counters: Counters,
    lane: Lane,
    limits: FreezeLimits,
    now_ms: int,
    batch_id: str,
    sent_at: str,
) -> Batch | None:
    """Fix the next batch of what *lane* sends again, oldest stretch
    first; None when there is nothing.
    """
    while True:
        found = connection.execute(
            "SELECT id, origin, seq_lo, idx_lo, seq_hi, idx_hi, n FROM stretch WHERE lane=? ORDER BY id LIMIT 1",
            (lane,),
        ).fetchone()
        if found is None:
            return None
        id_, origin, seq_lo, idx_lo, seq_hi, idx_hi, n = found
        lo, hi = Position(seq_lo, idx_lo), Position(seq_hi, idx_hi)
        taken, upto = _take(
            connection, rows.source_of(lane, rows.lane_row(connection, lane).source, origin), lo, hi, limits
        )
        if upto == hi:
            connection.execute("DELETE FROM stretch WHERE id=?", (id_,))
            if len(taken) < n:
                rows.lose(connection, counters, lane, origin, n - len(taken), now_ms)
        else:
            connection.execute("UPDATE stretch SET seq_lo=?, idx_lo=?, n=n-? WHERE id=?", (*upto, len(taken), id_))
        if taken:
            connection.execute(
                "INSERT INTO batch (batch_id, lane, origin, seq_lo, idx_lo, seq_hi, idx_hi, n, generation, attempts, sent_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, ?)",
                (batch_id, lane, origin, *lo, *upto, len(taken), sent_at),
            )
            return Batch(batch_id, lane, 0, 0, sent_at, tuple(taken))


def _take(
    connection: Connection, source: Lane, lo: Position, hi: Position, limits: FreezeLimits
) -> tuple[list[bytes], Position]:
    """The first records from *lo* on, up to the limits, and where the next one
    is; *hi* when none is left.
    """
    taken: list[bytes] = []
    size = 0
    for position, record in rows.records_in(connection, source, lo, hi):
        if taken and (len(taken) == limits.max_records or size + len(record) + 1 > limits.max_bytes):
            return taken, position
        taken.append(record)
        size += len(record) + 1
    return taken, hi


def first_delivered(connection: Connection, lane: Lane, received_from_ms: int) -> Position | None:
    """Where the records that *lane* is done with begin, of those received at that time or later;
    None when there are none.
    """
    row = rows.lane_row(connection, lane)
    (seq,) = connection.execute(
        "SELECT min(seq) FROM chunk WHERE lane=? AND seq<=? AND received_ms>=?",
        (row.source, row.next.seq, received_from_ms),
    ).fetchone()
    return None if seq is None or Position(seq, 0) >= row.next else Position(seq, 0)


def send_delivered(connection: Connection, lane: Lane, lo: Position, upto: Position) -> tuple[int, Position | None]:
    """Send again what *lane* is done with from *lo* up to *upto*, a page at a time: how many
    records, and where the next page begins.
    """
    found, after = delivered(connection, lane, lo, upto)
    for a, b, n in found:
        _insert(connection, lane, "delivered", a, b, n)
    return sum(n for _, _, n in found), after


def count_delivered(connection: Connection, lane: Lane, lo: Position, upto: Position) -> tuple[int, Position | None]:
    """As `send_delivered`, and nothing is sent."""
    found, after = delivered(connection, lane, lo, upto)
    return sum(n for _, _, n in found), after


def delivered(
    connection: Connection, lane: Lane, lo: Position, upto: Position
) -> tuple[list[tuple[Position, Position, int]], Position | None]:
    """A page of what *lane* is done with from *lo* up to *upto*, and where the next page begins:
    from, up to, and how many records.

    What a batch or stretch holds is left out: it is on its way, or will be.
    """
    row = rows.lane_row(connection, lane)
    upto = min(upto, row.next)
    seqs = [
        seq
        for (seq,) in connection.execute(
            "SELECT seq FROM chunk WHERE lane=? AND seq BETWEEN ? AND ? ORDER BY seq LIMIT ?",
            (row.source, lo.seq, upto.seq, STRETCH_CHUNKS),
        )
    ]
    if not seqs or lo >= upto:
        return [], None
    hi = min(Position(seqs[-1] + 1, 0), upto)
    gaps = _gaps(lo, hi, _held(connection, lane))
    counted = [(a, b, _records_between(connection, row.source, a, b)) for a, b in gaps]
    return [found for found in counted if found[2]], hi if hi < upto else None


def _held(connection: Connection, lane: Lane) -> list[tuple[Position, Position]]:
    """What batches and stretches of *lane* hold of its source's chunks, in order."""
    return [
        (Position(*found[:2]), Position(*found[2:]))
        for found in connection.execute(
            "SELECT seq_lo, idx_lo, seq_hi, idx_hi FROM batch WHERE lane=? AND origin!='dead_letter' UNION ALL"
            " SELECT seq_lo, idx_lo, seq_hi, idx_hi FROM stretch WHERE lane=? AND origin='delivered' ORDER BY 1, 2",
            (lane, lane),
        )
    ]


def _gaps(lo: Position, hi: Position, held: Sequence[tuple[Position, Position]]) -> Iterator[tuple[Position, Position]]:
    """What of *lo* to *hi* none of the *held*, which are in order, covers."""
    for begin, end in held:
        if begin > lo:
            yield lo, min(begin, hi)
        lo = max(lo, end)
        if lo >= hi:
            return
    yield lo, hi


def _records_between(connection: Connection, source: Lane, lo: Position, hi: Position) -> int:
    """Records from *lo* up to *hi*, less what settling dropped; without reading them.

    Rows that are damaged count as they state.
    """
    changes = rows.changes_between(connection, lo.seq, hi.seq)
    records = 0
    for seq, n in connection.execute(
        "SELECT seq, n FROM chunk WHERE lane=? AND seq BETWEEN ? AND ?", (source, lo.seq, hi.seq)
    ):
        first = lo.idx if seq == lo.seq else 0
        after = min(n, hi.idx) if seq == hi.seq else n
        dropped = sum(first <= idx < after for idx in rows.dropped_in(changes.get(seq, {})))
        records += max(0, after - first - dropped)
    return records


def expire(connection: Connection, counters: Counters, lane: Lane, received_before_ms: int, leased: set[str]) -> None:
    """Give up what waits to be sent again for too long: dead letters by when they were requeued,
    delivered records by when they came.
    """
    for table, key in (("batch", "batch_id"), ("stretch", "id")):
        for id_, origin, n in connection.execute(
            f"SELECT {key}, origin, n FROM {table} WHERE lane=? AND origin!='' AND (SELECT max(received_ms) FROM chunk"  # noqa: S608 - own SQL
            f" WHERE chunk.lane=CASE origin WHEN 'dead_letter' THEN ? ELSE ? END AND seq BETWEEN seq_lo AND seq_hi"
            f" AND (seq<seq_hi OR idx_hi>0)) < ?",
            (lane, rows.replay_lane(lane), rows.lane_row(connection, lane).source, received_before_ms),
        ).fetchall():
            if id_ in leased:
                continue
            connection.execute(f"DELETE FROM {table} WHERE {key}=?", (id_,))  # noqa: S608 - own SQL
            if origin == "dead_letter":
                counters.lane(lane).pending -= n
                counters.lane(lane).expired += n
            else:
                side_counts.add(connection, lane, "sent_again.given_up", n)


def lanes(connection: Connection) -> list[Lane]:
    """Those that have anything to send again."""
    found = connection.execute("SELECT lane FROM stretch UNION SELECT lane FROM batch WHERE origin!=''")
    return [lane for (lane,) in found]


def send_uncovered(connection: Connection, lane: Lane) -> None:
    """After damage: send every put-back dead letter of *lane* whose batch or stretch may be
    lost, at the risk of a repeat.
    """
    of = rows.replay_lane(lane)
    held = [
        (Position(*found[:2]), Position(*found[2:]))
        for found in connection.execute(
            "SELECT seq_lo, idx_lo, seq_hi, idx_hi FROM batch WHERE lane=? AND origin='dead_letter' UNION ALL"
            " SELECT seq_lo, idx_lo, seq_hi, idx_hi FROM stretch WHERE lane=? AND origin='dead_letter' ORDER BY 1, 2",
            (lane, lane),
        )
    ]
    for (seq,) in connection.execute("SELECT seq FROM chunk WHERE lane=? ORDER BY seq", (of,)).fetchall():
        for lo, hi in _gaps(Position(seq, 0), Position(seq + 1, 0), held):
            n = _records_between(connection, of, lo, hi)
            if n:
                _insert(connection, lane, "dead_letter", lo, hi, n)


def give_up_delivered(connection: Connection) -> int:
    """Send no more of what was delivered, but for the batches under way: its room is needed for
    what was not. How many records.
    """
    found = connection.execute("SELECT lane, sum(n) FROM stretch WHERE origin='delivered' GROUP BY lane").fetchall()
    connection.execute("DELETE FROM stretch WHERE origin='delivered'")
    for lane, n in found:
        side_counts.add(connection, lane, "sent_again.given_up", n)
    return sum(n for _, n in found)


def reclaim(connection: Connection) -> int:
    """Delete chunks of dead letters that were requeued and have come to an end; how many."""
    deleted = 0
    for of in _replay_lanes(connection):
        floor = rows.replay_floor(connection, of.removeprefix("again:"))
        deleted += connection.execute(
            "DELETE FROM chunk WHERE seq IN (SELECT seq FROM chunk WHERE lane=? AND seq<? ORDER BY seq LIMIT ?)",
            (of, floor, RECLAIM_CHUNKS),
        ).rowcount
    return deleted


def _replay_lanes(connection: Connection) -> list[Lane]:
    """Found by steps through the index, whatever is in the table;
    also those of exporters that are gone.
    """
    lanes: list[Lane] = []
    after = "again:"
    while True:
        (found,) = connection.execute("SELECT min(lane) FROM chunk WHERE lane>? AND lane<'again;'", (after,)).fetchone()
        if found is None:
            return lanes
        lanes.append(found)
        after = found


def waiting(connection: Connection) -> dict[Lane, int]:
    """Lane -> delivered records that are still to be sent again."""
    found = connection.execute(
        "SELECT lane, sum(n) FROM (SELECT lane, n FROM stretch WHERE origin='delivered'"
        " UNION ALL SELECT lane, n FROM batch WHERE origin='delivered') AS waiting GROUP BY lane"
    )
    return dict(found.fetchall())
