"""The ledger's rows by reference: of chunks that settle, and of settled chunks read back.

Pure.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.common.native import NATIVE
from gateway.counting.calls.digest import (
    DIGEST_BYTES,
    LINK_ROW_BYTES,
    CallDigest,
    Link,
    split_ref,
    unpack_fact,
    unpack_link,
)
from gateway.counting.calls.resolve import Fixed, Member
from gateway.counting.calls.table import MASK, Table

MAX_LATE_CHUNKS = 64
"""Settled chunks whose rows are looked at for one cluster."""
MAX_LOOKS = 8
"""How often a report may be gathered into a cluster of more than `SMALL_CLUSTER`."""

OPEN, KEPT, DROPPED, MOVED_ON = 0, 1, 2, 3


SPAN_KEYS = None if NATIVE is None else NATIVE.SpanKeys()
span_hash: Callable[[bytes], int] = hash if SPAN_KEYS is None else SPAN_KEYS.key
"""Keyed by a number of this process, so no one can aim at it."""


def span_key(identity: bytes) -> int:
    """The tables' key of a report's identity or of a span (trace id + span id)."""
    return span_hash(identity) & MASK or 1


@dataclass(slots=True)
class Settling:
    """Rows of a chunk that still settles."""

    seq: int
    received_ms: int
    facts: bytearray = field(default_factory=bytearray)
    links: bytearray = field(default_factory=bytearray)
    outcomes: bytearray = field(default_factory=bytearray)
    """OPEN, KEPT, DROPPED or MOVED_ON (into a later chunk) of each call."""
    related: set[int] = field(default_factory=set)
    """Calls that share a response id with another report, or are co-instrumented."""
    flagged: set[int] = field(default_factory=set)
    """Calls that contradict another, by a verdict: they are looked at when they are due."""
    relates: list[int] = field(default_factory=list)
    """Reports of other chunks that are `related` to something in this one, and were not before."""
    first_of: list[int] = field(default_factory=list)
    """Sources of which it has the first report that is remembered."""
    indexed: list[int] = field(default_factory=list)
    """Sources of which it has the first report of a second scope."""
    marked: set[int] = field(default_factory=set)
    """Calls of a kind that may repeat others: by the span that they were emitted in, or as one
    of a product's ways to report."""
    assumed: list[int] = field(default_factory=list)
    """Calls of which nothing shows what their input holds."""
    proving: list[tuple[int, int]] = field(default_factory=list)
    """Calls that show it, which no table knows, with the first reference of their payload; until
    they are noted."""
    aggregates: dict[int, int] = field(default_factory=dict)
    """Aggregates that another gateway forwarded, and since when they wait."""
    looks: dict[int, int] = field(default_factory=dict)
    """Call -> how often it was gathered into a cluster of more than `SMALL_CLUSTER`."""
    parted: dict[int, int] = field(default_factory=dict)
    """Call that was decided in a part of a large cluster -> the last report
    below it then, 0 for none."""


@dataclass(frozen=True, slots=True)
class LateChunk:
    """Rows of a settled chunk, read back from the spool."""

    facts: bytes
    links: bytes
    dropped: frozenset[int]
    moved: frozenset[int] = frozenset()
    """Reports that stand in a later chunk."""


class Tables(NamedTuple):
    """What the ledger remembers: key -> reference of the last report with
    it (of a span: of the first).
    """

    spans: Table
    children: Table
    responses: Table
    requests: Table


class Rows:
    """Rows by reference, from chunks that settle or from *late* ones; what is not
    at hand is noted as `missing`.
    """

    def __init__(
        self,
        chunks: Mapping[int, Settling],
        late: Mapping[int, LateChunk | None],
        looks: list[tuple[int, int]] | None = None,
    ) -> None:
        """*looks* is called as `note_looks` is."""
        self._chunks, self._late = chunks, late
        self._looks = [] if looks is None else looks
        self._looked_into: set[int] = set()
        self.missing: set[int] = set()

    def fact(self, ref: int) -> CallDigest | None:
        """The call at *ref*, dropped or not."""
        where = split_ref(ref)
        chunk = self._chunk(where.seq)
        if chunk is None or (where.idx + 1) * DIGEST_BYTES > len(chunk.facts):
            return None
        return unpack_fact(chunk.facts, where.idx)

    def link(self, ref: int) -> Link | None:
        where = split_ref(ref)
        chunk = self._chunk(where.seq)
        if chunk is None or (where.idx + 1) * LINK_ROW_BYTES > len(chunk.links):
            return None
        return unpack_link(chunk.links, where.idx)

    def is_late(self, ref: int) -> bool:
        """Whether the report at *ref* settled before."""
        return split_ref(ref).seq not in self._chunks

    def member(self, ref: int) -> Member | None:
        """The call at *ref* unless it was dropped."""
        fact = self.fact(ref)
        if fact is None:
            return None
        where = split_ref(ref)
        chunk = self._chunks.get(where.seq)
        if chunk is not None:
            outcome = chunk.outcomes[where.idx]
            return (
                None
                if outcome in {DROPPED, MOVED_ON}
                else Member(ref, fact, Fixed.KEPT if outcome == KEPT else Fixed.OPEN)
            )
        late = self._late[where.seq]
        gone = late is None or where.idx in late.dropped or where.idx in late.moved
        return None if gone else Member(ref, fact, Fixed.KEPT)

    def is_dropped(self, ref: int) -> bool:
        """Whether the report at *ref* is known and was dropped."""
        return self.fact(ref) is not None and self.member(ref) is None and not self.is_moved(ref)

    def is_moved(self, ref: int) -> bool:
        """Whether the report stands in a later chunk: what is at *ref* is no longer valid."""
        where = split_ref(ref)
        chunk = self._chunks.get(where.seq)
        if chunk is not None:
            return chunk.outcomes[where.idx] == MOVED_ON
        late = self._late.get(where.seq)
        return late is not None and where.idx in late.moved

    def is_worn(self, ref: int) -> bool:
        """Whether the report at *ref* was decided in a part, or is gathered too often:
        its cluster is a large one.
        """
        where = split_ref(ref)
        chunk = self._chunks.get(where.seq)
        return chunk is not None and (
            where.idx in chunk.parted or (bool(chunk.looks) and chunk.looks.get(where.idx, 0) >= MAX_LOOKS)
        )

    def is_parted(self, ref: int) -> bool:
        """Whether the report at *ref* was decided in a part of a large cluster."""
        where = split_ref(ref)
        chunk = self._chunks.get(where.seq)
        return chunk is not None and where.idx in chunk.parted

    def note_looks(self, ref: int, n: int) -> None:
        """The report at *ref* was gathered into a cluster of more than
        `SMALL_CLUSTER`, *n* times.
        """
        where = split_ref(ref)
        chunk = self._chunks.get(where.seq)
        if chunk is not None:
            chunk.looks[where.idx] = chunk.looks.get(where.idx, 0) + n
            self._looks.append((ref, n))

    def _chunk(self, seq: int) -> Settling | LateChunk | None:
        chunk = self._chunks.get(seq)
        if chunk is not None:
            return chunk
        if seq not in self._looked_into:
            if len(self._looked_into) >= MAX_LATE_CHUNKS:
                return None
            self._looked_into.add(seq)
            if seq not in self._late:
                self.missing.add(seq)
        return self._late.get(seq)
