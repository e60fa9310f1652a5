"""Gathering a cluster: all remembered reports that are related with one of them. Pure.

From a report the way goes to all with its response id or its request id, to its co-instrumented
spans, and to the calls below it (through spans that are no calls, as far as their links are
remembered). What stands above it is decided when its own turn comes.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from gateway.counting.calls.agreement import is_same_response
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
from gateway.normalise.call import LOG, REPEAT

MAX_CLUSTER = 4_000
"""Reports looked at to decide one cluster: more than this are decided in parts."""
MAX_BELOW = 20_000
"""Reports that are looked at below the calls of one cluster, each
as often as calls stand above it."""
MAX_NEAREST = 32
"""The same below one call after that."""
MAX_ALIKE = 64
"""Different reports of one response that another is compared with."""
MAX_LATE_CHUNKS = 64
"""Settled chunks read back from the spool for one cluster."""

OPEN, KEPT, DROPPED, MOVED_ON = 0, 1, 2, 3


def span_key(identity: bytes) -> int:
    """The tables' key of a report's identity or of a span (trace id + span id); of this
    process, so no one can aim at it.
    """
    return hash(identity) & MASK or 1


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
    """Calls that share a response id with another report, or have a co-instrumented span."""
    marked: set[int] = field(default_factory=set)
    """Calls of a kind that may repeat others: by the span that they were emitted in, or as one
    of a product's ways to report."""


@dataclass(frozen=True, slots=True)
class LateChunk:
    """Rows of a settled chunk, read back from the spool."""

    facts: bytes
    links: bytes
    dropped: frozenset[int]
    moved: frozenset[int] = frozenset()
    """Reports that stand in a later chunk."""


@dataclass(slots=True)
class Cluster:
    """Reports that are related."""

    members: dict[int, Member] = field(default_factory=dict)
    parents: dict[int, list[int]] = field(default_factory=dict)
    """Call -> calls above it."""
    cut: set[int] = field(default_factory=set)
    """Calls below which more stands than was looked at."""
    inside: dict[int, int] = field(default_factory=dict)
    """Log, or span that repeats its parent -> the call whose span it was emitted in."""
    inside_dropped: dict[int, CallDigest] = field(default_factory=dict)
    """The same, where that call was dropped before: another report stands for it."""
    reported_by_dropped: set[int] = field(default_factory=set)
    """Those calls: what else was emitted in their spans may be what stands for them."""
    answered: set[int] = field(default_factory=set)
    """Reports of a response that was reported before by one that was dropped: another stands
    for it, under another id or none."""
    gone: set[int] = field(default_factory=set)
    """Reports of a span whose first report was dropped before: they go its way."""
    shadows: dict[int, CallDigest] = field(default_factory=dict)
    """Reports that were dropped before: what they knew completed another one."""


class Tables(NamedTuple):
    """What the ledger remembers: key -> reference of the last report with it
    (of a span: of the first).
    """

    spans: Table
    children: Table
    responses: Table
    requests: Table


class Rows:
    """Rows by reference, from chunks that settle or from *late* ones; what is not at
    hand is noted as `missing`.
    """

    def __init__(self, chunks: Mapping[int, Settling], late: Mapping[int, LateChunk | None]) -> None:
        self._chunks, self._late = chunks, late
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
        """Whether the report stands in a later chunk: what is at *ref* states nothing any more."""
        where = split_ref(ref)
        chunk = self._chunks.get(where.seq)
        if chunk is not None:
            return chunk.outcomes[where.idx] == MOVED_ON
        late = self._late.get(where.seq)
        return late is not None and where.idx in late.moved

    def _chunk(self, seq: int) -> Settling | LateChunk | None:
        chunk = self._chunks.get(seq)
        if chunk is not None:
            return chunk
        if seq in self._late:
            return self._late[seq]
        if len(self._late) + len(self.missing) < MAX_LATE_CHUNKS:
            self.missing.add(seq)
        return None


def gather(
    ref: int,
    rows: Rows,
    tables: Tables,
    twins: Callable[[int, CallDigest], list[int]],
    versions: Callable[[int], list[int]],
) -> Cluster:
    """The cluster around *ref*. While `rows.missing` is not empty it is not whole."""
    spans, children, responses, requests = tables
    cluster = Cluster()
    walked: set[int] = set()
    answers = ResponseIndex(rows, responses)
    asked: set[int] = set()
    look = DescendantWalk(rows, children)
    todo = [ref]
    while todo and len(cluster.members) < MAX_CLUSTER:
        at = todo.pop()
        if at in cluster.members:
            continue
        member = rows.member(at)
        if member is None:
            todo += _dropped(at, rows, answers, look, cluster, walked)
            continue
        cluster.members[at] = member
        others = versions(at)
        todo += others
        if others and others[0] < at and member.fixed is Fixed.OPEN and rows.is_dropped(others[0]):
            cluster.gone.add(at)
        todo += answers.refs(member.fact)
        if member.fixed is Fixed.OPEN and answers.is_answered(member.fact):
            cluster.answered.add(at)
        todo += _same_request(member.fact, rows, requests, asked)
        todo += twins(at, member.fact)
        if member.fact.marks & (LOG | REPEAT):
            todo += _around(at, member.fact, rows, spans, cluster)
        elif member.fixed is Fixed.OPEN and any(member.fact.parent_span_id):
            parent = spans.find(span_key(member.fact.trace_id + member.fact.parent_span_id))
            todo += [parent] if parent and rows.is_late(parent) else []
        below, whole = look.below(member.fact)
        if not whole:
            cluster.cut.add(at)
        for child in below:
            cluster.parents.setdefault(child, []).append(at)
        todo += below
    return cluster


def _dropped(
    at: int, rows: Rows, answers: "ResponseIndex", look: "DescendantWalk", cluster: Cluster, walked: set[int]
) -> list[int]:
    """Note the dropped report at *at*; references of what may stand for it: what has its
    response id, and what was emitted in it.
    """
    fact = rows.fact(at)
    if fact is None or at in walked or rows.is_moved(at):
        return []
    found = answers.refs(fact)
    cluster.shadows[at] = fact
    if at in cluster.reported_by_dropped:
        walked.add(at)
        found += look.below(fact)[0]
    return found


def _around(at: int, fact: CallDigest, rows: Rows, spans: Table, cluster: Cluster) -> list[int]:
    """Reference of the call whose span the report was emitted in, noted in *cluster*; none
    where that span is no call.
    """
    ref = spans.find(span_key(fact.trace_id + fact.parent_span_id)) if any(fact.parent_span_id) else 0
    around = rows.fact(ref) if ref else None
    if around is None:
        return []
    if rows.member(ref) is None:
        cluster.inside_dropped[at] = around
        cluster.reported_by_dropped.add(ref)
        return [ref]
    cluster.inside[at] = ref
    return [ref]


def _chain(ref: int, rows: Rows, before: Callable[[CallDigest], int]) -> list[int]:
    """*ref* and the references *before* it, as far as rows are at hand."""
    found: list[int] = []
    while ref and len(found) < MAX_CLUSTER:
        found.append(ref)
        other = rows.fact(ref)
        ref = before(other) if other is not None else 0
    return found


def _same_response(fact: CallDigest, rows: Rows, responses: Table) -> list[int]:
    """References of all reports with the fact's response id."""
    return _chain(responses.find(fact.response) if fact.response else 0, rows, attrgetter("prev_response"))


def _same_request(fact: CallDigest, rows: Rows, requests: Table, asked: set[int]) -> list[int]:
    """References of all reports with the fact's request id, unless it was *asked* for before."""
    if not fact.request or fact.request in asked:
        return []
    asked.add(fact.request)
    return _chain(requests.find(fact.request), rows, attrgetter("prev_request"))


class ResponseIndex:
    """Who reports a response, walked once for each id."""

    def __init__(self, rows: Rows, responses: Table) -> None:
        self._rows, self._responses = rows, responses
        self._dropped: dict[int, dict[CallDigest, None]] = {}
        """Response -> reports of it that were dropped, each once of those that state the same;
        none where one is known to stand."""

    def refs(self, fact: CallDigest) -> list[int]:
        """References of all reports with the fact's response id, when it is
        asked for the first time.
        """
        response = fact.response
        if not response or response in self._dropped:
            return []
        found = _same_response(fact, self._rows, self._responses)
        dropped: dict[CallDigest, None] = {}
        stands = False
        for ref in found:
            member = self._rows.member(ref)
            stands = stands or (member is not None and member.fixed is Fixed.KEPT)
            other = self._rows.fact(ref) if self._rows.is_dropped(ref) else None
            if other is not None:
                dropped[_as_said(other)] = None
        self._dropped[response] = {} if stands else dropped
        return found

    def is_answered(self, fact: CallDigest) -> bool:
        """Whether a dropped report of its response agrees, and none is known to stand."""
        said = self._dropped.get(fact.response, ())
        return any(is_same_response(fact, other) for other in islice(said, MAX_ALIKE))


def _as_said(fact: CallDigest) -> CallDigest:
    """*fact* without what distinguishes it from another report
    that states the same of a response.
    """
    return fact._replace(
        trace_id=b"", span_id=b"", parent_span_id=b"", group=0, session=0, prev_child=0, prev_response=0, prev_request=0
    )


class DescendantWalk:
    """What stands below calls.

    Each call's whole tree as long as that is within bounds; after that only the nearest of it.
    """

    def __init__(self, rows: Rows, children: Table) -> None:
        self._rows, self._children = rows, children
        self._left = MAX_BELOW

    def below(self, fact: CallDigest) -> tuple[list[int], bool]:
        """References of the calls below a span, at any distance that links reach; and whether
        all of them were looked at.
        """
        found: list[int] = []
        if not any(fact.span_id):
            return found, True
        rows, whole, steps = self._rows, True, 0
        most = min(MAX_CLUSTER, max(MAX_NEAREST, self._left))
        seen: set[bytes] = set()
        todo = deque((fact.trace_id + fact.span_id,))
        while todo and steps < most:
            span = todo.popleft()
            if span in seen:
                continue
            seen.add(span)
            ref = self._children.find(span_key(span))
            while ref and steps < most:
                steps += 1
                is_link = split_ref(ref).is_link
                child = rows.link(ref) if is_link else rows.fact(ref)
                if child is None:
                    whole = False
                    break
                if not is_link:
                    found.append(ref)
                todo.append(child.trace_id + child.span_id)
                ref = child.prev_child
            whole = whole and not ref
        self._left -= steps
        return found, whole and not todo
