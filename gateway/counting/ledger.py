"""What the gateway remembers of reports, so that a call is billed once. Pure: no clock, no I/O.

Three compact tables (`table.Table`) answer, for about half a microsecond each: was this span reported before; which
report named this parent last; which report had this response id last. Reports of one parent and of one response id are
chained through their rows (`facts.prev_*`), so a cluster is found from any of its members. Rows stay in memory while
their chunk settles; of a settled chunk only the tables' keys remain, and its rows are read back from the spool when a
late report refers to it.

Per report this costs: the row (`FACT_BYTES`) while it settles, 11 bytes for its span, 22 for its parent, 22 for its
response id, each table within `max_keys`.
"""

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gateway.counting.agreement import MAX_OUTPUT_DEVIATION, is_twin
from gateway.counting.cluster import DROPPED, KEPT, OPEN, Cluster, LateChunk, Rows, Settling, gather, span_key
from gateway.counting.facts import (
    FACT_BYTES,
    LINK_ROW_BYTES,
    Fact,
    call_ref,
    fact_row,
    identity,
    link_ref,
    link_row,
    response_fingerprint,
    split_ref,
    unpack_fact,
    unpack_link,
    with_chains,
)
from gateway.counting.resolve import Verdict, resolve
from gateway.counting.table import Table
from gateway.normalise.call import Call

MAX_TWIN_CANDIDATES = 64


@dataclass(slots=True)
class Counted:
    """What `count` made of one payload's calls."""

    facts: bytearray = field(default_factory=bytearray)
    """Rows of the calls that are kept, in their order."""
    links: bytearray = field(default_factory=bytearray)
    duplicates: set[int] = field(default_factory=set)
    """Indexes of the calls that were reported before."""


class _Source:
    """One sender's reports that still settle, kept only to find twins among them."""

    __slots__ = ("by_output", "prune_at", "refs", "scope")

    def __init__(self, scope: int) -> None:
        self.scope = scope
        """The scope that reported first; twins need a second one."""
        self.refs = array("Q")
        self.by_output: dict[int, deque[int]] | None = None
        """Output count -> references, oldest first; None while only one scope reports."""
        self.prune_at = 4096

    def remember(self, ref: int, oldest_seq: int) -> None:
        self.refs.append(ref)
        if len(self.refs) >= self.prune_at:
            self.prune(oldest_seq)
            self.prune_at = 2 * len(self.refs) + 4096

    def prune(self, oldest_seq: int) -> None:
        """Forget references into chunks before *oldest_seq*."""
        bound = call_ref(oldest_seq, 0)
        del self.refs[: bisect_left(self.refs, bound)]
        if self.by_output is not None:
            for output, refs in list(self.by_output.items()):
                while refs and refs[0] < bound:
                    refs.popleft()
                if not refs:
                    del self.by_output[output]


def _candidates(by_output: Mapping[int, deque[int]], fact: Fact) -> list[int]:
    """References of reports with the same output count, or one that a known deviation explains; newest first."""
    spread = MAX_OUTPUT_DEVIATION if fact.output_tokens >= 0 else 0
    found: list[int] = []
    for output in range(fact.output_tokens - spread, fact.output_tokens + spread + 1):
        refs = by_output.get(output)
        if refs:
            found += [refs[-i] for i in range(1, min(len(refs), MAX_TWIN_CANDIDATES) + 1)]
    return found


class Ledger:
    """See the module's docstring. *max_keys* bounds the tables."""

    def __init__(self, max_keys: int) -> None:
        self._spans = Table(max_keys, with_values=False)
        self._children = Table(max_keys, with_values=True)
        self._responses = Table(max_keys, with_values=True)
        self._chunks: dict[int, Settling] = {}
        self._sources: dict[int, _Source] = {}

    # ---- in

    def count(self, calls: Sequence[Call], links: Iterable[bytes], seq: int, first: int, received_ms: int) -> Counted:
        """Take one payload's calls and links, of which the kept ones will stand in chunk *seq* from index *first* on."""
        counted = Counted()
        chunk = self._chunks.get(seq)
        if chunk is None:
            chunk = self._chunks[seq] = Settling(seq, received_ms)
        add_span = self._spans.add
        idx = first
        for i, call in enumerate(calls):
            own = identity(call)
            if not add_span(span_key(own)):
                counted.duplicates.add(i)
                continue
            ref = call_ref(seq, idx)
            prev_child = 0
            if call.parent_span_id:
                prev_child = self._children.swap(span_key(call.trace_id + call.parent_span_id), ref)
            response = response_fingerprint(call.record)
            prev_response = self._responses.swap(response, ref) if response else 0
            row = fact_row(call, own, prev_child, prev_response, response)
            chunk.facts += row
            chunk.fates.append(OPEN)
            counted.facts += row
            if prev_response:
                chunk.related.add(idx)
            self._watch_twins(call.source, call.scope, ref, chunk, idx)
            idx += 1
        n = len(chunk.links) // LINK_ROW_BYTES
        for link in links:
            if link[24:] != b"\0\0\0\0\0\0\0\0":
                row = link_row(link, self._children.swap(span_key(link[:16] + link[24:]), link_ref(seq, n)))
                chunk.links += row
                counted.links += row
                n += 1
        return counted

    def restore(
        self, seq: int, received_ms: int, facts: bytes, links: bytes, dropped: Mapping[int, str], *, settled: bool
    ) -> None:
        """Take back one chunk from the spool, oldest first, as `count` left it."""
        chunk = Settling(seq, received_ms)
        if not settled:
            self._chunks[seq] = chunk
        for idx in range(len(facts) // FACT_BYTES):
            fact = unpack_fact(facts, idx)
            ref = call_ref(seq, idx)
            self._spans.add(span_key(fact.trace_id + fact.span_id))
            prev_child = 0
            if any(fact.parent_span_id):
                prev_child = self._children.swap(span_key(fact.trace_id + fact.parent_span_id), ref)
            prev_response = self._responses.swap(fact.response, ref) if fact.response else 0
            if not settled:
                chunk.facts += with_chains(facts[idx * FACT_BYTES : (idx + 1) * FACT_BYTES], prev_child, prev_response)
                chunk.fates.append(DROPPED if idx in dropped else OPEN)
                if prev_response:
                    chunk.related.add(idx)
                self._watch_twins(fact.source, fact.scope, ref, chunk, idx)
        for n in range(len(links) // LINK_ROW_BYTES):
            link = unpack_link(links, n)
            prev = self._children.swap(span_key(link.trace_id + link.parent_span_id), link_ref(seq, n))
            if not settled:
                chunk.links += link_row(link.trace_id + link.span_id + link.parent_span_id, prev)

    def _watch_twins(self, source: int, scope: int, ref: int, chunk: Settling, idx: int) -> None:
        """Look for twins, only in sources that more than one scope reports from."""
        seen = self._sources.get(source)
        if seen is None:
            seen = self._sources[source] = _Source(scope)
        if seen.by_output is None:
            if seen.scope == scope:
                seen.remember(ref, self._oldest())
                return
            self._index_source(seen)
        by_output = seen.by_output
        assert by_output is not None  # noqa: S101 made just above
        fact = unpack_fact(chunk.facts, idx)
        for candidate in _candidates(by_output, fact):
            other = self._row(candidate)
            if other is not None and is_twin(fact, other):
                chunk.related.add(idx)
                where = split_ref(candidate)
                self._chunks[where.seq].related.add(where.idx)
        by_output.setdefault(fact.output_tokens, deque()).append(ref)

    def _index_source(self, seen: "_Source") -> None:
        """A second scope showed up: find what the first one reported while it can still be joined."""
        by_output: dict[int, deque[int]] = {}
        for ref in seen.refs:
            fact = self._row(ref)
            if fact is not None:
                by_output.setdefault(fact.output_tokens, deque()).append(ref)
        seen.by_output = by_output
        del seen.refs[:]

    def _oldest(self) -> int:
        """The oldest chunk that settles."""
        return next(iter(self._chunks), 0)

    def _row(self, ref: int) -> Fact | None:
        """The row of a call that still settles."""
        where = split_ref(ref)
        chunk = self._chunks.get(where.seq)
        if chunk is None or where.is_link or where.idx >= len(chunk.fates):
            return None
        return unpack_fact(chunk.facts, where.idx)

    # ---- settling

    def due(self, received_through_ms: int, seq_through: int) -> list[int]:
        """The chunks received up to *received_through_ms* and numbered up to *seq_through*, oldest first."""
        found: list[int] = []
        for seq, chunk in self._chunks.items():
            if chunk.received_ms > received_through_ms or seq > seq_through:
                break
            found.append(seq)
        return found

    def oldest_ms(self) -> int | None:
        """When the oldest chunk that settles was received; None when none does."""
        return next((chunk.received_ms for chunk in self._chunks.values()), None)

    def is_open(self, ref: int) -> bool:
        """Whether the call at *ref* still settles and nothing was decided about it."""
        where = split_ref(ref)
        chunk = self._chunks.get(where.seq)
        return chunk is not None and chunk.fates[where.idx] == OPEN

    def settles(self, ref: int) -> bool:
        """Whether the call at *ref* can still be changed."""
        return split_ref(ref).seq in self._chunks

    def roots(self, seq: int) -> list[int]:
        """References of the open calls of chunk *seq* that are related to others: they need a verdict."""
        chunk = self._chunks[seq]
        find = self._children.find
        found: list[int] = []
        facts, fates, related = chunk.facts, chunk.fates, chunk.related
        for idx in range(len(fates)):
            if fates[idx] == OPEN:
                at = idx * FACT_BYTES
                if idx in related or find(span_key(bytes(facts[at : at + 24]))):
                    found.append(call_ref(seq, idx))
        return found

    def cluster(self, ref: int, late: Mapping[int, LateChunk | None]) -> tuple[Cluster, set[int]]:
        """The cluster around *ref*, and the settled chunks whose rows are needed first and are not in *late*."""
        rows = Rows(self._chunks, late)
        return gather(ref, rows, self._children, self._responses, self._twins), rows.missing

    def _twins(self, ref: int, fact: Fact) -> list[int]:
        """References of reports that still settle and may be twins of the one at *ref*."""
        seen = self._sources.get(fact.source)
        if seen is None or seen.by_output is None:
            return []
        found: list[int] = []
        for candidate in _candidates(seen.by_output, fact):
            other = self._row(candidate)
            if candidate != ref and other is not None and is_twin(fact, other):
                found.append(candidate)
        return found

    def decide(self, cluster: "Cluster") -> Verdict:
        """The rules' verdict, noted: what it drops is dropped from now on, what it merges upon is fixed."""
        verdict = resolve(list(cluster.members.values()), cluster.parents, cluster.cut)
        for ref in verdict.dropped:
            self._fix(ref, DROPPED)
        for ref in verdict.merged:
            self._fix(ref, KEPT)
        return verdict

    def _fix(self, ref: int, fate: int) -> None:
        where = split_ref(ref)
        chunk = self._chunks.get(where.seq)
        if chunk is not None:
            chunk.fates[where.idx] = fate

    def settled(self, seq: int) -> None:
        """Chunk *seq* may be forwarded: forget its rows."""
        self._chunks.pop(seq, None)

    def turn(self) -> None:
        """Now and then: forget what settled in the twins' index, and sources that fell silent."""
        oldest = self._oldest()
        for source, seen in list(self._sources.items()):
            seen.prune(oldest)
            if not seen.refs and not seen.by_output:
                del self._sources[source]

    # ---- what it holds

    def sizes(self) -> dict[str, int]:
        """Remembered keys and rows, and keys that were evicted."""
        return {
            "spans": len(self._spans),
            "parents": len(self._children),
            "responses": len(self._responses),
            "settling": sum(len(chunk.fates) for chunk in self._chunks.values()),
            "evicted": self._spans.evicted,
        }
