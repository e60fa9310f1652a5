"""What is written in spool.db and read back: chunks, changes, lanes, batches, dead letters.

Every function runs inside the writer's transaction on its connection, and changes the counters
that are committed with it. A *position* is (chunk seq, index of a record in it); a batch is the
records from one position up to, not including, another, less those that settling dropped.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Literal, NamedTuple

from spool.age import Seen, age_at_start
from spool.counters import Counters
from spool.record import AI_TELEMETRY, UNIT_COST, Batch, Lane
from spool.settling import MERGED, MOVED, Change, Evidence, Position
from spool.sql import dead_letter_rows
from spool.sql.chunks import (
    BODY,
    BODY_BYTES,
    PACKED_FACTS,
    PACKED_LINKS,
    body_bytes,
    chunk_records,
    chunks_between,
    evidence_of,
    read_body,
    record_count,
)
from spool.sql.connection import Connection
from spool.sql.dead_letter_rows import DeadLetterRow
from spool.sql.replay import side_counts
from spool.store import Refusal

NEVER_SETTLES = 1 << 62
"""settled_seq of a lane whose records may be frozen as soon as they are committed."""
CHANGES_SEQS = 256
"""Chunk numbers whose changes are read at a time: a freeze must not load
those of a whole backlog."""
UNREADABLE = "unreadable_row"
MEASURED_CHUNKS = 64
"""Whose mean stands for the size of all that is pending."""
"""Code of dead letters that the spool itself set aside: their
chunk's row does not hold together."""


Origin = Literal["", "dead_letter", "delivered"]
"""Why a batch is sent: for the first time; because its dead letters were requeued,
which makes them pending again; or once more what was delivered, which no figure of
the two identities knows of."""


def open_lane(connection: Connection, counters: Counters, name: Lane, source: Lane, *, settles: bool) -> None:
    """Make the lane if it is new: an own lane from the first chunk, a further
    exporter's from the next one.
    """
    counters.lane(name)
    settled = 0 if settles else NEVER_SETTLES
    start = 0 if name == source else last_seq(connection) + 1
    made = connection.execute(
        "INSERT INTO lane (name, source, next_seq, next_idx, settled_seq) VALUES (?, ?, ?, 0, ?) ON CONFLICT DO NOTHING",
        (name, source, start, settled),
    )
    # Damage that no check of pages finds would end each operation of the lane.
    connection.execute(
        "UPDATE lane SET source=? WHERE name=? AND (source!=? OR source IS NULL)", (source, name, source)
    )
    if made.rowcount == 1:  # what is held back comes in a later chunk, so the new lane gets it too
        counters.keep(name, held(connection, source))


def close_lanes(connection: Connection, counters: Counters, open_lanes: Sequence[Lane]) -> dict[Lane, int]:
    """Give up the lanes of exporters that are no longer set up: what waited in each is expired.

    Left alone they would hold every later chunk on disk for good. A
    lane that comes back begins again.
    """
    given_up: dict[Lane, int] = {}
    for (name,) in connection.execute("SELECT name FROM lane").fetchall():
        if name not in open_lanes:
            connection.execute("DELETE FROM batch WHERE lane=?", (name,))
            connection.execute("DELETE FROM stretch WHERE lane=?", (name,))
            connection.execute("DELETE FROM lane WHERE name=?", (name,))
            lane = counters.lane(name)
            given_up[name] = lane.pending
            lane.expired += lane.pending
            lane.pending = 0
    return given_up


_HELD = {
    AI_TELEMETRY: "SELECT count(*) FROM held",
    UNIT_COST: "SELECT (SELECT coalesce(sum(records), 0) FROM unit_total) + (SELECT coalesce(sum(records), 0) FROM unit_item)"
    " + (SELECT coalesce(sum(creating+deleting), 0) FROM unit_stream)",
}
_OLDEST_HELD = {
    AI_TELEMETRY: "SELECT min(received_ms) FROM held",
    UNIT_COST: "SELECT min(since_ms) FROM"
    " (SELECT since_ms FROM unit_total WHERE records>0 UNION ALL SELECT since_ms FROM unit_item WHERE records>0"
    " UNION ALL SELECT asked_ms FROM unit_stream WHERE creating>0 OR deleting>0) AS waiting",
}


def held(connection: Connection, source: Lane) -> int:
    """Records of *source* that wait outside of any chunk: aggregates, which are AI records,
    and what totals stand for.
    """
    if source not in _HELD:
        return 0
    (n,) = connection.execute(_HELD[source]).fetchone()
    return int(n)


def last_seq(connection: Connection) -> int:
    """The last number that a chunk had, or that a lane counts as seen: payloads of nothing but
    duplicates leave no chunk.
    """
    (seq,) = connection.execute(
        "SELECT coalesce(max(seq), 0) FROM (SELECT max(seq) AS seq FROM chunk UNION ALL SELECT max(next_seq) FROM lane"
        " UNION ALL SELECT max(settled_seq) FROM lane WHERE settled_seq<?) AS known",
        (NEVER_SETTLES,),
    ).fetchone()
    return int(seq)


def settle(
    connection: Connection,
    counters: Counters,
    lane: Lane,
    through_seq: int,
    changes: Sequence[Change],
    followers: dict[Lane, list[Lane]],
) -> None:
    """Let chunks of *lane* up to *through_seq* be frozen, with what
    was decided about their records.

    A chunk that could be frozen before stays as it is: a batch's bytes never change.
    """
    settled_seq = lane_row(connection, lane).settled_seq
    connection.execute("UPDATE lane SET settled_seq=? WHERE name=? AND settled_seq<?", (through_seq, lane, through_seq))
    new = [change for change in changes if change.seq > settled_seq]
    if new:
        _count_dropped(connection, counters, new, followers[lane])
        connection.executemany(
            "INSERT INTO change (seq, idx, fate, record) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (seq, idx) DO UPDATE SET fate=excluded.fate, record=excluded.record",
            new,
        )


def _count_dropped(
    connection: Connection, counters: Counters, changes: Sequence[Change], followers: Sequence[Lane]
) -> None:
    """Of records that *changes* drop, and none before them did."""
    starts = {name: lane_row(connection, name).next for name in followers}
    seqs = [change.seq for change in changes]
    dropped = {
        (seq, idx)
        for seq, idx in connection.execute(
            "SELECT seq, idx FROM change WHERE seq BETWEEN ? AND ? AND record IS NULL", (min(seqs), max(seqs))
        )
    }
    for change in changes:
        at = (change.seq, change.idx)
        if change.record is not None:
            dropped.discard(at)
        elif at not in dropped:
            dropped.add(at)
            # A lane that was opened after the chunk came never counted it.
            counted = [name for name, start in starts.items() if start <= at]
            if change.outcome != MOVED:
                counters.drop(counted, change.outcome)
                continue
            for name in starts.keys() - counted:
                counters.keep(name, 1)


def changes_between(connection: Connection, lo: int, hi: int) -> dict[int, dict[int, tuple[str, bytes | None]]]:
    """seq -> index -> (outcome, record) of the chunks *lo* to *hi*."""
    found: dict[int, dict[int, tuple[str, bytes | None]]] = {}
    for seq, idx, outcome, record in connection.execute(
        "SELECT seq, idx, fate, record FROM change WHERE seq BETWEEN ? AND ?", (lo, hi)
    ):
        found.setdefault(seq, {})[idx] = (outcome, record)
    return found


def records_in(connection: Connection, source: Lane, lo: Position, hi: Position) -> Iterator[tuple[Position, bytes]]:
    """Position and bytes of each record from *lo* up to, not
    including, *hi*, less the dropped ones.
    """
    changes = changes_between(connection, lo.seq, hi.seq)
    for seq, said, ends, stored, packed in chunks_between(connection, BODY, source, lo.seq, hi.seq):
        n = record_count(said, ends)
        first = lo.idx if seq == lo.seq else 0
        after = min(n, hi.idx) if seq == hi.seq else n
        body = read_body(n, ends, stored, packed)
        if body is not None:
            for idx, record in chunk_records(body, first, after, changes.get(seq, {})):
                yield Position(seq, idx), record


def records_at(connection: Connection, source: Lane, positions: Sequence[Position]) -> list[bytes | None]:
    """The records at *positions*, None for one that is gone or
    dropped; each chunk is read once.
    """
    wanted: dict[int, set[int]] = {}
    for seq, idx in positions:
        wanted.setdefault(seq, set()).add(idx)
    found: dict[Position, bytes] = {}
    for seq, indexes in wanted.items():
        lo, hi = Position(seq, min(indexes)), Position(seq, max(indexes) + 1)
        found |= {at: record for at, record in records_in(connection, source, lo, hi) if at.idx in indexes}
    return [found.get(Position(*at)) for at in positions]


class LaneRow(NamedTuple):
    source: Lane
    next: Position
    settled_seq: int


def lane_row(connection: Connection, lane: Lane) -> LaneRow:
    source, seq, idx, settled = connection.execute(
        "SELECT a.source, a.next_seq, a.next_idx, b.settled_seq FROM lane a JOIN lane b ON b.name=a.source WHERE a.name=?",
        (lane,),
    ).fetchone()
    return LaneRow(source, Position(seq, idx), settled)


def chunk_seqs(connection: Connection, lane: Lane, first_seq: int) -> list[int]:
    """Of *lane*, from *first_seq* on."""
    found = connection.execute("SELECT seq FROM chunk WHERE lane=? AND seq>=?", (lane, first_seq))
    return [seq for (seq,) in found]


def replay_lane(lane: Lane) -> Lane:
    """The lane of the chunks that hold *lane*'s dead letters once they were requeued;
    it is in no table of lanes.
    """
    return f"again:{lane}"


def source_of(lane: Lane, source: Lane, origin: Origin) -> Lane:
    """The lane of the chunks that a batch of *origin* in *lane*, which
    reads *source*, is made of.
    """
    return replay_lane(lane) if origin == "dead_letter" else source


def frozen_before(
    connection: Connection, counters: Counters, lane: Lane, leased: set[str], now_ms: int
) -> Batch | None:
    """The oldest batch of *lane* that is frozen and not *leased*, read back as it was; less
    what cannot be read any more.
    """
    rows = connection.execute(
        "SELECT batch_id, origin, seq_lo, idx_lo, seq_hi, idx_hi, n, generation, attempts, sent_at FROM batch WHERE lane=?"
        " ORDER BY seq_lo, idx_lo",
        (lane,),
    )
    for batch_id, origin, seq_lo, idx_lo, seq_hi, idx_hi, n, generation, attempts, sent_at in rows:
        if batch_id in leased:
            continue
        source = source_of(lane, lane_row(connection, lane).source, origin)
        found = records_in(connection, source, Position(seq_lo, idx_lo), Position(seq_hi, idx_hi))
        records = tuple(record for _, record in found)
        if len(records) < n:
            connection.execute("UPDATE batch SET n=? WHERE batch_id=?", (len(records), batch_id))
            lose(connection, counters, lane, origin, n - len(records), now_ms)
        if records:
            return Batch(batch_id, lane, generation, attempts, sent_at, records)
        connection.execute("DELETE FROM batch WHERE batch_id=?", (batch_id,))
    return None


def lose(connection: Connection, counters: Counters, lane: Lane, origin: Origin, n: int, now_ms: int) -> None:
    """*n* records that a batch or stretch of *origin* should hold cannot be read any more."""
    if origin == "delivered":
        side_counts.add(connection, lane, "sent_again.given_up", n)
    else:
        set_unreadable_aside(connection, counters, lane, n, b"", now_ms)


def set_unreadable_aside(
    connection: Connection, counters: Counters, lane: Lane, n: int, body: bytes, now_ms: int
) -> None:
    """Count *n* records that were pending in *lane* as dead letters; the first one
    keeps what is left of them.
    """
    n = max(0, min(n, counters.lane(lane).pending))  # a damaged row may state any number
    counters.lane(lane).pending -= n
    counters.lane(lane).dead_lettered += n
    rest = body if isinstance(body, bytes) else b""
    why = "its row in the spool does not hold together"
    dead = (DeadLetterRow(lane, UNREADABLE, why, b"" if i else rest) for i in range(n))
    dead_letter_rows.insert(connection, dead, now_ms)


class Waiting(NamedTuple):
    """Records wait in the lane, too few for a full batch and too young to go:
    look again at *ready_ms*.
    """

    ready_ms: int


class FreezeLimits(NamedTuple):
    max_records: int
    max_bytes: int
    linger_ms: int


def freeze(
    connection: Connection,
    counters: Counters,
    lane: Lane,
    limits: FreezeLimits,
    now_ms: int,
    batch_id: str,
    sent_at: str,
) -> Batch | Waiting | None:
    """Fix the next batch of *lane*: the oldest settled records, up to the limits; at least one."""
    row = lane_row(connection, lane)
    early = too_early(connection, row, limits, now_ms)
    if early is not None:
        return early
    taken, upto = take(connection, counters, lane, row, limits, now_ms)
    if upto != row.next:
        connection.execute("UPDATE lane SET next_seq=?, next_idx=? WHERE name=?", (*upto, lane))
    if not taken:
        return None
    connection.execute(
        "INSERT INTO batch (batch_id, lane, seq_lo, idx_lo, seq_hi, idx_hi, n, generation, attempts, sent_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, ?)",
        (batch_id, lane, *row.next, *upto, len(taken), sent_at),
    )
    return Batch(batch_id, lane, 0, 0, sent_at, tuple(taken))


def take(
    connection: Connection, counters: Counters, lane: Lane, row: LaneRow, limits: FreezeLimits, now_ms: int
) -> tuple[list[bytes], Position]:
    """The next records of *lane*, up to the limits, and the position after them.

    Rows that cannot be read are set aside.
    """
    taken: list[bytes] = []
    size = 0
    upto = row.next
    changes: dict[int, dict[int, tuple[str, bytes | None]]] = {}
    changes_through = row.next.seq - 1
    for seq, said, ends, stored, packed in chunks_between(connection, BODY, row.source, row.next.seq, row.settled_seq):
        if len(taken) >= limits.max_records:
            break
        if seq > changes_through:
            changes_through = seq + CHANGES_SEQS
            changes = changes_between(connection, seq, changes_through)
        first = row.next.idx if seq == row.next.seq else 0
        n = record_count(said, ends)
        body = read_body(n, ends, stored, packed)
        if body is None:
            dropped = sum(idx >= first for idx in dropped_in(changes.get(seq, {})))
            set_unreadable_aside(connection, counters, lane, n - first - dropped, stored, now_ms)
        else:
            for idx, record in chunk_records(body, first, n, changes.get(seq, {})):
                if taken and (len(taken) == limits.max_records or size + len(record) + 1 > limits.max_bytes):
                    return taken, Position(seq, idx)
                taken.append(record)
                size += len(record) + 1
        upto = Position(seq + 1, 0)
    return taken, upto


def too_early(connection: Connection, row: LaneRow, limits: FreezeLimits, now_ms: int) -> Waiting | None:
    """Whether the lane should wait for a fuller batch: fewer records than one holds,
    and none older than the linger.
    """
    records = size = 0
    oldest: int | None = None
    for seq, n, received_ms, end in chunks_between(
        connection, f"n, received_ms, {BODY_BYTES}", row.source, row.next.seq, row.settled_seq
    ):
        oldest = _whole(received_ms) if oldest is None else oldest
        records += _whole(n) - (row.next.idx if seq == row.next.seq else 0)
        size += body_bytes(end)
        # What came at a later time than now came before the clock jumped back: it waits no
        # longer.
        waited = oldest > now_ms or oldest + limits.linger_ms <= now_ms
        if waited or records >= limits.max_records or size >= limits.max_bytes:
            return None
    return None if oldest is None else Waiting(oldest + limits.linger_ms)


def is_ready(connection: Connection, lane: Lane, limits: FreezeLimits, now_ms: int) -> bool:
    """Whether *lane* has anything to send now: a frozen batch, or records that are settled
    and wait no longer for more.
    """
    for table in ("batch", "stretch"):
        if connection.execute(f"SELECT 1 FROM {table} WHERE lane=? LIMIT 1", (lane,)).fetchone() is not None:  # noqa: S608 - own SQL
            return True
    row = lane_row(connection, lane)
    waiting = connection.execute(
        "SELECT 1 FROM chunk WHERE lane=? AND seq BETWEEN ? AND ? LIMIT 1", (row.source, row.next.seq, row.settled_seq)
    ).fetchone()
    return waiting is not None and too_early(connection, row, limits, now_ms) is None


def acked(connection: Connection, counters: Counters, batch: Batch, refused: Sequence[Refusal], now_ms: int) -> None:
    """The upstream has the batch: forget it, and set the refused records aside."""
    origin = forget_batch(connection, batch)
    if origin is None:
        return
    # An answer may name an index twice or beyond the batch; each record has one outcome.
    placed = {x.index: x for x in refused if x.index is not None and 0 <= x.index < len(batch.records)}
    counted = [x for x in refused if x.index is None]
    n_refused = len(placed) + sum(x.records for x in counted)
    if origin == "delivered":
        count_sent_again(connection, batch, refused=n_refused)
        return
    lane = counters.lane(batch.lane)
    lane.pending -= len(batch.records)
    lane.delivered += len(batch.records) - n_refused
    lane.dead_lettered += n_refused
    named = (DeadLetterRow(batch.lane, x.code, x.message, batch.records[i]) for i, x in sorted(placed.items()))
    unnamed = (DeadLetterRow(batch.lane, x.code, x.message, b"", x.records) for x in counted)
    dead_letter_rows.insert(connection, chain(named, unnamed), now_ms)


def buried(connection: Connection, counters: Counters, batch: Batch, code: str, message: str, now_ms: int) -> None:
    """Set every record of the batch aside."""
    origin = forget_batch(connection, batch)
    if origin is None:
        return
    if origin == "delivered":
        count_sent_again(connection, batch, refused=len(batch.records))
        return
    lane = counters.lane(batch.lane)
    lane.pending -= len(batch.records)
    lane.dead_lettered += len(batch.records)
    dead = (DeadLetterRow(batch.lane, code, message, record) for record in batch.records)
    dead_letter_rows.insert(connection, dead, now_ms)


def count_sent_again(connection: Connection, batch: Batch, *, refused: int) -> None:
    """Count records that were delivered before and sent once more: they stay delivered, whatever
    the upstream answers now.
    """
    side_counts.add(connection, batch.lane, "sent_again.delivered", len(batch.records) - refused)
    side_counts.add(connection, batch.lane, "sent_again.refused", refused)


def forget_batch(connection: Connection, batch: Batch) -> Origin | None:
    """The origin of the batch; None when it is gone already: an
    ending that comes twice counts once.
    """
    found = connection.execute("SELECT origin FROM batch WHERE batch_id=?", (batch.batch_id,)).fetchone()
    connection.execute("DELETE FROM batch WHERE batch_id=?", (batch.batch_id,))
    origin: Origin | None = None if found is None else found[0]
    return origin


def released(connection: Connection, batch: Batch, *, answered: bool) -> None:
    """The batch goes again later; after an answer under another idempotency key."""
    connection.execute(
        "UPDATE batch SET attempts=attempts+1, generation=generation+? WHERE batch_id=?",
        (int(answered), batch.batch_id),
    )


def note_silence(connection: Connection, lane: Lane) -> None:
    """Count a try of each frozen batch of *lane*: an earlier pump may have sent it unanswered."""
    connection.execute("UPDATE batch SET attempts=attempts+1 WHERE lane=?", (lane,))


def split(connection: Connection, batch: Batch, ids: tuple[str, str]) -> None:
    """Replace the batch by its two halves."""
    origin, seq_lo, idx_lo, seq_hi, idx_hi = connection.execute(
        "SELECT origin, seq_lo, idx_lo, seq_hi, idx_hi FROM batch WHERE batch_id=?", (batch.batch_id,)
    ).fetchone()
    lo, hi = Position(seq_lo, idx_lo), Position(seq_hi, idx_hi)
    source = source_of(batch.lane, lane_row(connection, batch.lane).source, origin)
    positions = [position for position, _ in records_in(connection, source, lo, hi)]
    half = len(positions) // 2
    if not half:
        raise ValueError("a batch of one record cannot be split")
    forget_batch(connection, batch)
    for batch_id, a, b, n in (
        (ids[0], lo, positions[half], half),
        (ids[1], positions[half], hi, len(positions) - half),
    ):
        connection.execute(
            "INSERT INTO batch (batch_id, lane, origin, seq_lo, idx_lo, seq_hi, idx_hi, n, generation, attempts, sent_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, ?)",
            (batch_id, batch.lane, origin, *a, *b, n, batch.sent_at),
        )


def floors(connection: Connection) -> dict[Lane, int]:
    """Own lane -> the first chunk that some lane still needs."""
    return dict(
        connection.execute(
            "SELECT source, min(seq) FROM (SELECT source, next_seq AS seq FROM lane UNION ALL"
            " SELECT source, seq_lo FROM batch JOIN lane ON lane.name=batch.lane WHERE origin!='dead_letter' UNION ALL"
            " SELECT source, seq_lo FROM stretch JOIN lane ON lane.name=stretch.lane WHERE origin='delivered') AS needed"
            " GROUP BY source"
        )
    )


def replay_floor(connection: Connection, lane: Lane) -> int:
    """The first chunk of `again_lane(lane)` that is still needed;
    beyond all chunks when none is.
    """
    (floor,) = connection.execute(
        "SELECT min(seq_lo) FROM (SELECT seq_lo FROM batch WHERE lane=? AND origin='dead_letter' UNION ALL"
        " SELECT seq_lo FROM stretch WHERE lane=? AND origin='dead_letter') AS needed",
        (lane, lane),
    ).fetchone()
    return NEVER_SETTLES if floor is None else int(floor)


class Reclaimed(NamedTuple):
    """Chunks that were deleted in one commit."""

    chunks: int
    size_bytes: int
    is_more: bool
    """Whether the limits of one commit ended it."""


def reclaim(
    connection: Connection,
    received_before_ms: int,
    now_ms: int,
    *,
    most: int,
    max_bytes: int,
    kept_after: Mapping[Lane, int],
) -> Reclaimed:
    """Delete up to *most* chunks that every lane is done with and that came before
    *received_before_ms*, oldest first.

    It ends at *max_bytes*, too. A chunk from after *now_ms* was stamped by a clock that no one
    trusts: it is as old as any. Chunks of a lane after its number in *kept_after* stay.
    """
    deleted = size_bytes = 0
    for source, floor in floors(connection).items():
        found = connection.execute(
            "SELECT seq, received_ms, coalesce(length(body) + length(facts) + length(links), 0) FROM chunk"
            " WHERE lane=? AND seq<? ORDER BY seq LIMIT ?",
            (source, min(floor, kept_after.get(source, floor) + 1), most - deleted),
        ).fetchall()
        for seq, received_ms, chunk_bytes in found:
            if received_before_ms <= _whole(received_ms) <= now_ms:
                break
            if deleted and size_bytes + chunk_bytes > max_bytes:
                return Reclaimed(deleted, size_bytes, is_more=True)
            connection.execute("DELETE FROM chunk WHERE seq=?", (seq,))
            connection.execute("DELETE FROM change WHERE seq=?", (seq,))
            deleted += 1
            size_bytes += chunk_bytes
    return Reclaimed(deleted, size_bytes, is_more=deleted >= most)


def note_time(connection: Connection, seen: Seen) -> None:
    """Write down what time it is, for the next start."""
    connection.execute(
        "INSERT INTO meta (name, value) VALUES ('time', ?) ON CONFLICT (name) DO UPDATE SET value=excluded.value",
        (f"{seen.age_ms} {seen.wall_ms}",),
    )


def brake_reason(connection: Connection, lane: Lane) -> str | None:
    """Why *lane* is held by its brake; None where it is not."""
    found = connection.execute("SELECT value FROM meta WHERE name=?", (f"brake:{lane}",)).fetchone()
    return None if found is None else str(found[0])


def note_brake(connection: Connection, lane: Lane, reason: str | None) -> None:
    connection.execute("DELETE FROM meta WHERE name=?", (f"brake:{lane}",))
    if reason is not None:
        connection.execute("INSERT INTO meta (name, value) VALUES (?, ?)", (f"brake:{lane}", reason))


def seen(connection: Connection) -> Seen | None:
    """The time as it was noted last; None in a file of a release that noted
    none, or when it cannot be read.
    """
    found = connection.execute("SELECT value FROM meta WHERE name='time'").fetchone()
    try:
        return None if found is None else Seen(*map(int, found[0].split()))
    except (ValueError, TypeError, AttributeError):
        return None


def age_ms(connection: Connection, wall_ms: int) -> int:
    """What time it is by the suspend-aware monotonic clock
    (`spool.age`), when a file is opened.
    """
    return age_at_start(seen(connection), newest_ms(connection), wall_ms)


def newest_ms(connection: Connection) -> int | None:
    """When the last of all chunks and of what waits outside of any
    came; None when there is neither.
    """
    found = [
        *connection.execute("SELECT received_ms FROM chunk ORDER BY seq DESC LIMIT 1"),
        *connection.execute("SELECT max(received_ms) FROM held"),
    ]
    return max((at for (at,) in found if isinstance(at, int)), default=None)


def expire(connection: Connection, counters: Counters, lane: Lane, received_before_ms: int, leased: set[str]) -> int:
    """Give up records of *lane* that came before *received_before_ms* and that no batch
    in flight holds; how many.
    """
    row = lane_row(connection, lane)
    expired = 0
    upto = row.next
    for seq, n, received_ms in connection.execute(
        "SELECT seq, n, received_ms FROM chunk WHERE lane=? AND seq BETWEEN ? AND ? ORDER BY seq LIMIT 1000",
        (row.source, row.next.seq, row.settled_seq),
    ).fetchall():
        # Chunks are given up in their order, whatever the clock did meanwhile; damage makes
        # none of
        # them old.
        if not isinstance(received_ms, int) or received_ms >= received_before_ms:
            break
        first = row.next.idx if seq == row.next.seq else 0
        (dropped,) = connection.execute(
            "SELECT count(*) FROM change WHERE seq=? AND idx>=? AND record IS NULL", (seq, first)
        ).fetchone()
        expired += max(0, _whole(n) - first - dropped)
        upto = Position(seq + 1, 0)
    if upto != row.next:
        connection.execute("UPDATE lane SET next_seq=?, next_idx=? WHERE name=?", (*upto, lane))
    for batch_id, n in connection.execute(
        "SELECT batch_id, n FROM batch WHERE lane=? AND origin='' AND"
        " (SELECT max(received_ms) FROM chunk WHERE chunk.lane=? AND seq BETWEEN seq_lo AND seq_hi"
        "  AND (seq<seq_hi OR idx_hi>0)) < ?",
        (lane, row.source, received_before_ms),
    ).fetchall():
        if batch_id not in leased:
            connection.execute("DELETE FROM batch WHERE batch_id=?", (batch_id,))
            expired += n
    expired = min(expired, counters.lane(lane).pending)
    counters.lane(lane).pending -= expired
    counters.lane(lane).expired += expired
    return expired


def oldest_pending_ms(connection: Connection, lane: Lane) -> int | None:
    """When the oldest record that *lane* has not delivered was received; in ms of wall clock."""
    row = lane_row(connection, lane)
    first = first_pending_seq(connection, lane, row)
    found = connection.execute(
        "SELECT received_ms FROM chunk WHERE lane=? AND seq>=? AND n>0 ORDER BY seq LIMIT 1", (row.source, first)
    ).fetchone()
    times = [] if found is None else [_whole(found[0])]
    times += [
        _whole(at)
        for (at,) in connection.execute(
            "SELECT received_ms FROM chunk WHERE lane=? AND seq>=? ORDER BY seq LIMIT 1",
            (replay_lane(lane), replay_floor(connection, lane)),
        )
    ]
    if row.source in _OLDEST_HELD:
        times += [at for (at,) in connection.execute(_OLDEST_HELD[row.source]) if at is not None]
    return min(times, default=None)


def first_pending_seq(connection: Connection, lane: Lane, row: LaneRow) -> int:
    """The chunk with the first record that *lane* has not delivered."""
    (frozen,) = connection.execute("SELECT min(seq_lo) FROM batch WHERE lane=? AND origin=''", (lane,)).fetchone()
    return row.next.seq if frozen is None else min(_whole(frozen), row.next.seq)


def mean_pending_bytes(connection: Connection, lane: Lane) -> float | None:
    """The mean size of a record in the oldest chunks that *lane* has not delivered; None for none.

    Only lengths are read.
    """
    row = lane_row(connection, lane)
    found = connection.execute(
        f"SELECT {BODY_BYTES}, n FROM chunk WHERE lane=? AND seq>=? AND n>0 ORDER BY seq LIMIT ?",  # noqa: S608 - own SQL
        (row.source, first_pending_seq(connection, lane, row), MEASURED_CHUNKS),
    ).fetchall()
    records = sum(_whole(n) for _, n in found)
    return sum(body_bytes(end) for end, _ in found) / records if records else None


def evidence(connection: Connection, lane: Lane, from_seq: int, *, most: int) -> list[Evidence]:
    """Up to *most* chunks of *lane* from *from_seq* on, as the ledger needs them."""
    rows = connection.execute(
        "SELECT seq, received_ms, n, facts, links, packed FROM chunk WHERE lane=? AND seq>=? ORDER BY seq LIMIT ?",
        (lane, from_seq, most),
    ).fetchall()
    if not rows:
        return []
    changes = changes_between(connection, rows[0][0], rows[-1][0])
    return [
        Evidence(
            seq,
            _whole(received_ms),
            _whole(n),
            evidence_of(facts, packed, PACKED_FACTS),
            evidence_of(links, packed, PACKED_LINKS),
            dropped_in(of_chunk),
            merged_in(of_chunk),
        )
        for seq, received_ms, n, facts, links, packed in rows
        for of_chunk in (changes.get(seq, {}),)
    ]


def _whole(value: object) -> int:
    """A column's number; 0 for a damaged one, which may come back as any of SQLite's types."""
    return value if isinstance(value, int) else 0


def dropped_in(changes: dict[int, tuple[str, bytes | None]]) -> dict[int, str]:
    return {idx: outcome for idx, (outcome, record) in changes.items() if record is None}


def merged_in(changes: dict[int, tuple[str, bytes | None]]) -> frozenset[int]:
    return frozenset(idx for idx, (outcome, _) in changes.items() if outcome == MERGED)


def first_evidence(connection: Connection, lane: Lane, received_after_ms: int, most_records: int) -> int:
    """The seq from which the ledger should be rebuilt: what is not settled, and
    before it what is young enough.
    """
    settled = lane_row(connection, lane).settled_seq
    first, records = settled + 1, 0
    for seq, n, received_ms in chunks_between(connection, "n, received_ms", lane, 0, NEVER_SETTLES, descending=True):
        records += _whole(n)
        if seq <= settled and (_whole(received_ms) < received_after_ms or records > most_records):
            break
        first = seq
    return first


def recount(connection: Connection, lane: Lane) -> dict[str, int]:
    """Pending and dead-lettered records of *lane*, counted from the
    rows: what the counters should state.
    """
    row = lane_row(connection, lane)
    (waiting,) = connection.execute(
        "SELECT coalesce(sum(n), 0) FROM chunk WHERE lane=? AND seq>=?", (row.source, row.next.seq)
    ).fetchone()
    (dropped,) = connection.execute(
        "SELECT count(*) FROM change JOIN chunk USING (seq) WHERE lane=? AND record IS NULL AND (seq, idx) >= (?, ?)",
        (row.source, *row.next),
    ).fetchone()
    skipped = row.next.idx
    (frozen,) = connection.execute(
        "SELECT coalesce((SELECT sum(n) FROM batch WHERE lane=? AND origin!='delivered'), 0)"
        " + coalesce((SELECT sum(n) FROM stretch WHERE lane=? AND origin='dead_letter'), 0)",
        (lane, lane),
    ).fetchone()
    (dead,) = connection.execute("SELECT coalesce(sum(records), 0) FROM dead_letter WHERE lane=?", (lane,)).fetchone()
    pending = waiting - skipped - dropped + frozen + held(connection, row.source)
    return {"pending": pending, "dead_lettered": dead + side_counts.gone(connection, lane)}
