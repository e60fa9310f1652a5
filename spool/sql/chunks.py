"""Rows of table `chunk`: records of one lane that were committed together, with their evidence.

A row states where each record ends in its body, and a CRC-32 of the body as it is stored. A row
that does not hold together reads as None, whatever types a damaged column comes back as.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple
from zlib import crc32

from spool.record import Lane
from spool.settling import Moved
from spool.sql.connection import Connection
from spool.sql.packing import Unreadable, pack, unpack

CHECKSUM_BYTES = 4
"""After the ends of the records in a chunk's `ends`."""
PACKED_BODY, PACKED_FACTS, PACKED_LINKS = 1, 2, 4
"""Bits of column `packed`: which column is a zstd frame."""
_ALL_PACKED = PACKED_BODY | PACKED_FACTS | PACKED_LINKS
BODY = "n, ends, body, packed"
"""Columns, for `record_count` and `read_body`."""
BODY_BYTES = "CASE WHEN length(ends)>=8 THEN substr(ends, length(ends)-7, 4) END"
"""SQL: the end of a chunk's last record, for `body_bytes`; no body is read."""


FIRST_PAGE, LONGEST_PAGE = 4, 64
"""Chunks that one answer of the database holds, at first and later."""


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """One chunk before it is stored."""

    seq: int
    lane: Lane
    received_ms: int
    ends: bytes
    """n little-endian uint32: where each record ends in the body."""
    facts: bytes
    links: bytes
    body: bytes
    n: int


class Body(NamedTuple):
    """The records of one chunk."""

    stops: "array[int]"
    """Where each of them ends."""
    content: bytes


def chunk_of(
    seq: int, lane: Lane, received_ms: int, records: Sequence[bytes], *, facts: bytes = b"", links: bytes = b""
) -> ChunkRow:
    """A chunk of *records* with their evidence."""
    return ChunkRow(seq, lane, received_ms, ends_of(records), facts, links, b"".join(records), len(records))


def insert_chunk(connection: Connection, chunk: ChunkRow) -> int:
    """Insert one row of table `chunk`, compressed; the bytes that it takes."""
    facts, links, body = pack(chunk.facts), pack(chunk.links), pack(chunk.body)
    packed = (
        PACKED_BODY * (body is not chunk.body)
        | PACKED_FACTS * (facts is not chunk.facts)
        | PACKED_LINKS * (links is not chunk.links)
    )
    connection.execute(
        "INSERT INTO chunk (seq, lane, received_ms, n, ends, facts, links, body, packed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            chunk.seq,
            chunk.lane,
            chunk.received_ms,
            chunk.n,
            with_checksum(chunk.ends, body),
            facts,
            links,
            body,
            packed,
        ),
    )
    return len(facts) + len(links) + len(body) + len(chunk.ends)


def chunks_between(
    connection: Connection, columns: str, lane: Lane, first_seq: int, last_seq: int, *, descending: bool = False
) -> Iterator[tuple[Any, ...]]:
    """seq and *columns* of *lane*'s chunks *first_seq* to *last_seq*, in order, a page at a time:
    who needs no more stops, and no more than a page was read.
    """
    order, page = "DESC" if descending else "ASC", FIRST_PAGE
    select = f"SELECT seq, {columns} FROM chunk WHERE lane=? AND seq BETWEEN ? AND ? ORDER BY seq {order} LIMIT ?"  # noqa: S608 - own SQL
    while True:
        n = seq = 0
        for row in connection.execute(select, (lane, first_seq, last_seq, page)):
            yield row
            seq = row[0]
            n += 1
        if n < page:
            return
        first_seq, last_seq = (first_seq, seq - 1) if descending else (seq + 1, last_seq)
        page = min(2 * page, LONGEST_PAGE)


def insert_moved(connection: Connection, lane: Lane, moved: Moved) -> None:
    """Write the chunk of *moved*; `settle` took its records out of theirs in the same commit."""
    insert_chunk(connection, chunk_of(moved.seq, lane, moved.received_ms, moved.records, facts=moved.facts))


def replace_body(connection: Connection, seq: int, records: list[bytes]) -> None:
    """Write a chunk's records again; their number, and all else of the chunk, stays."""
    content = b"".join(records)
    body = pack(content)
    connection.execute(
        "UPDATE chunk SET ends=?, body=?, packed=(packed & ?) | ? WHERE seq=?",
        (
            with_checksum(ends_of(records), body),
            body,
            PACKED_FACTS | PACKED_LINKS,
            PACKED_BODY * (body is not content),
            seq,
        ),
    )


def ends_of(records: Iterable[bytes]) -> bytes:
    """As `ChunkRow.ends`."""
    return array("I", accumulate(map(len, records))).tobytes()


def with_checksum(ends: bytes, body: bytes) -> bytes:
    """Column `ends` of a row whose stored body is *body*."""
    return ends + crc32(body).to_bytes(CHECKSUM_BYTES, "little")


def record_count(said: object, ends: object) -> int:
    """How many records a row holds: as many as it states the ends of, which its checksum
    proves; else what it states, if that is a number.
    """
    if isinstance(ends, bytes) and len(ends) >= CHECKSUM_BYTES and not len(ends) % 4:
        return (len(ends) - CHECKSUM_BYTES) // 4
    return max(0, said) if isinstance(said, int) else 0


def body_bytes(end: object) -> int:
    """The length of a body before it was compressed, from `BODY_BYTES`; 0 for a damaged row."""
    return int.from_bytes(end, "little") if isinstance(end, bytes) else 0


def read_body(n: int, ends: object, body: object, packed: object) -> Body | None:
    """The *n* records of a row; None when the row does not hold together."""
    if not (isinstance(ends, bytes) and isinstance(body, bytes)) or len(ends) != 4 * n + CHECKSUM_BYTES:
        return None
    stops = array("I", ends)
    if stops.pop() != crc32(body) or stops != array("I", sorted(stops)):
        return None
    content = _content(body, packed, PACKED_BODY)
    return None if content is None or (n and stops[-1] != len(content)) else Body(stops, content)


def evidence_of(stored: object, packed: object, bit: int) -> bytes:
    """The content of `facts` or `links`, which *bit* stands for; none for a damaged column."""
    return (_content(stored, packed, bit) if isinstance(stored, bytes) else None) or b""


def _content(stored: bytes, packed: object, bit: int) -> bytes | None:
    if not (isinstance(packed, int) and 0 <= packed <= _ALL_PACKED):
        return None
    try:
        return unpack(stored) if packed & bit else stored
    except Unreadable:
        return None


def chunk_records(
    body: Body, first: int, after: int, changes: Mapping[int, tuple[str, bytes | None]]
) -> Iterator[tuple[int, bytes]]:
    """Index and bytes of the records *first* to *after* of one chunk, as settling left them."""
    stops, content = body
    start = stops[first - 1] if first else 0
    for idx, stop in enumerate(stops[first:after], first):
        if idx not in changes:
            yield idx, content[start:stop]
        elif (record := changes[idx][1]) is not None:
            yield idx, record
        start = stop
