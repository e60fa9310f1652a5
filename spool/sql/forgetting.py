"""Removes a user from the records in spool.db.

A chunk is written again, with its ends and checksum, where nothing depends on its bytes: it is
settled, and no frozen batch holds a part of it. Ids and positions stay. What else names the user is
counted as waiting: pending aggregates, chunks that settle, batches on their way.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import orjson

from spool.forgetting import Forgotten
from spool.record import AI_TELEMETRY
from spool.sql import chunks, rows
from spool.sql.connection import Connection

PAGE_BYTES = 4 << 20
PAGE_CHUNKS = 64
"""Looked through in one commit."""
PAGE_RECORDS = 500
"""Of dead letters and aggregates, read at a time."""

_CHUNKS = "SELECT seq, lane, n, ends, body, packed FROM chunk WHERE seq > ? AND (lane = ? OR lane LIKE 'again:%') ORDER BY seq LIMIT ?"
_IS_FROZEN = (
    "SELECT 1 FROM batch JOIN lane ON lane.name = batch.lane WHERE seq_lo <= ? AND (seq_hi > ? OR (seq_hi = ? AND idx_hi > 0))"
    " AND CASE batch.origin WHEN 'dead_letter' THEN 'again:' || batch.lane ELSE lane.source END = ? LIMIT 1"
)


class Page(NamedTuple):
    found: Forgotten
    through_seq: int | None
    """The last chunk that was looked through; None when it was the last of all."""


def forget_in_chunks(connection: Connection, users: Collection[str], after_seq: int, *, dry_run: bool) -> Page:
    """Look through the next `PAGE_BYTES` of chunks."""
    needles = [orjson.dumps(user)[1:-1] for user in users]
    settled_seq = rows.lane_row(connection, AI_TELEMETRY).settled_seq
    found, size, seq, n_chunks = Forgotten(), 0, after_seq, 0
    for seq, lane, said, ends, stored, packed in connection.execute(_CHUNKS, (after_seq, AI_TELEMETRY, PAGE_CHUNKS)):
        n_chunks += 1
        body = chunks.read_body(chunks.record_count(said, ends), ends, stored, packed)
        if body is None:  # its records become dead letters when they are due
            continue
        if holds_any(body.content, needles) or _has_change(connection, seq):
            may_change = (lane != AI_TELEMETRY or seq <= settled_seq) and not _is_frozen(connection, seq, lane)
            n = _forget_in_chunk(connection, users, seq, body, writes=may_change and not dry_run)
            found += Forgotten(records=n) if may_change else Forgotten(waiting=n)
        size += len(body.content)
        if size >= PAGE_BYTES:
            return Page(found, seq)
    return Page(found, seq if n_chunks == PAGE_CHUNKS else None)


def forget_in_dead_letters(connection: Connection, users: Collection[str], *, dry_run: bool) -> Forgotten:
    """All of them, and pending aggregates, which wait."""
    n = 0
    for row_id, record in _records(connection, _LETTERS, users):
        n += 1
        if not dry_run:
            without = without_user(record, users)
            connection.execute("UPDATE dead_letter SET record=?, bytes=? WHERE id=?", (without, len(without), row_id))
    return Forgotten(dead_letters=n, waiting=sum(1 for _ in _records(connection, _HELD, users)))


_LETTERS = (
    "SELECT id, record FROM dead_letter WHERE id>? AND lane NOT IN ('devices', 'unit_cost', 'usage_events')"
    " ORDER BY id LIMIT ?"
)
_HELD = "SELECT id, record FROM held WHERE id>? ORDER BY id LIMIT ?"


def _records(connection: Connection, select: str, users: Collection[str]) -> Iterator[tuple[int, bytes]]:
    """(id, record) of those that name one of *users*."""
    last_id = -1
    while found := connection.execute(select, (last_id, PAGE_RECORDS)).fetchall():
        last_id = found[-1][0]
        yield from ((row_id, record) for row_id, record in found if names_user(record, users))


def without_user(record: bytes, users: Collection[str]) -> bytes:
    """*record* without its user, where that is one of *users*; else unchanged."""
    if not names_user(record, users):
        return record
    changed = orjson.loads(record)
    changed["attribution"]["user"] = None
    return orjson.dumps(changed)


def names_user(record: bytes, users: Collection[str]) -> bool:
    """Whether its attribution does."""
    if not holds_any(record, [orjson.dumps(user)[1:-1] for user in users]):
        return False
    try:
        attribution = orjson.loads(record).get("attribution")
    except (orjson.JSONDecodeError, AttributeError):
        return False
    return isinstance(attribution, dict) and attribution.get("user") in users


def holds_any(body: bytes, needles: Iterable[bytes]) -> bool:
    return any(needle in body for needle in needles)


def _forget_in_chunk(
    connection: Connection, users: Collection[str], seq: int, body: chunks.Body, *, writes: bool
) -> int:
    """How many of its records name one of *users*; each counts once, merged or not."""
    records = [body.content[start:stop] for start, stop in pairwise([0, *body.stops])]
    changed = {idx for idx, record in enumerate(records) if names_user(record, users)}
    merged = {
        idx: record
        for idx, (_, record) in rows.changes_between(connection, seq, seq).get(seq, {}).items()
        if record is not None and names_user(record, users)
    }
    if writes:
        if changed:
            chunks.replace_body(connection, seq, [without_user(record, users) for record in records])
        for idx, record in merged.items():
            connection.execute(
                "UPDATE change SET record=? WHERE seq=? AND idx=?", (without_user(record, users), seq, idx)
            )
    return len(changed | merged.keys())


def _has_change(connection: Connection, seq: int) -> bool:
    found = connection.execute("SELECT 1 FROM change WHERE seq=? AND record IS NOT NULL LIMIT 1", (seq,))
    return found.fetchone() is not None


def _is_frozen(connection: Connection, seq: int, lane: str) -> bool:
    return connection.execute(_IS_FROZEN, (seq, seq, seq, lane)).fetchone() is not None
