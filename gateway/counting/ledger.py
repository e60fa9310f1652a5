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
    NO_SPAN,
    REF_STEP,
    Fact,
    call_ref,
    fact_row,
    identity,
    link_ref,
    link_row,
    split_ref,
    unpack_fact,
    unpack_link,
    with_chains,
)
from gateway.counting.models import fingerprint
from gateway.counting.resolve import Verdict, resolve
from gateway.counting.table import MASK, Table
from gateway.normalise.call import Call

MAX_TWIN_CANDIDATES = 64
BEYOND_CHUNKS = 1 << 41
"""A number that no chunk has."""


@dataclass(slots=True)
class Counted:
    """What `count` made of one payload's calls."""

    facts: bytes = b""
    """Rows of the calls that are kept, in their order."""
    links: bytes = b""
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

    def remember(self, refs: Sequence[int], oldest_seq: int) -> None:
        self.refs.extend(refs)
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


def _output_key(fact: Fact) -> int:
    """Where a report stands in the index: what one library leaves out, as for embeddings, another one states as 0."""
    return max(fact.output_tokens, 0)


def _candidates(by_output: Mapping[int, deque[int]], fact: Fact) -> list[int]:
    """References of reports with the same output count, or one that a known deviation explains; newest first."""
    spread = MAX_OUTPUT_DEVIATION if fact.output_tokens >= 0 else 0
    middle = _output_key(fact)
    found: list[int] = []
    for output in range(middle - spread, middle + spread + 1):
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
        if calls:
            counted.facts = self._count_calls(calls, chunk, first, counted.duplicates)
        if links:
            counted.links = self._count_links(links, chunk)
        return counted

    def _count_calls(self, calls: Sequence[Call], chunk: Settling, first: int, duplicates: set[int]) -> bytes:
        """The rows of the calls that are kept. The hot loop: what it calls is inlined where that was measured to matter."""
        add_span, swap_child, swap_response = self._spans.add, self._children.swap, self._responses.swap
        rows: list[bytes] = []
        sources: dict[tuple[int, int], list[int]] = {}
        ref = call_ref(chunk.seq, first)
        for i, call in enumerate(calls):
            record, trace_id, span_id, parent_span_id, _, _, source, scope, _ = call
            own = trace_id + span_id if span_id else identity(call)
            if not add_span(hash(own) & MASK or 1):
                duplicates.add(i)
                continue
            prev_child = swap_child(hash(trace_id + parent_span_id) & MASK or 1, ref) if parent_span_id else 0
            response_id = record["response_id"]
            if response_id:
                response = fingerprint(response_id)
                prev_response = swap_response(response, ref)
                if prev_response:
                    self._relate(prev_response)
                    chunk.related.add(first + len(rows))
            else:
                response = prev_response = 0
            rows.append(fact_row(call, own, prev_child, prev_response, response))
            try:
                sources[source, scope].append(ref)
            except KeyError:
                sources[source, scope] = [ref]
            ref += REF_STEP
        facts = b"".join(rows)
        chunk.facts += facts
        chunk.fates += bytes(len(rows))
        for (source, scope), refs in sources.items():
            self._watch_twins(source, scope, refs)
        return facts

    def _count_links(self, links: Iterable[bytes], chunk: Settling) -> bytes:
        """The rows of the links that lead upwards; a root's leads nowhere."""
        swap_child = self._children.swap
        rows: list[bytes] = []
        ref = link_ref(chunk.seq, len(chunk.links) // LINK_ROW_BYTES)
        for link in links:
            parent_span_id = link[24:]
            if parent_span_id != NO_SPAN:
                prev = swap_child(hash(link[:16] + parent_span_id) & MASK or 1, ref)
                rows.append(link + prev.to_bytes(8, "little"))
                ref += REF_STEP
        joined = b"".join(rows)
        chunk.links += joined
        return joined

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
                    self._relate(prev_response)
                    chunk.related.add(idx)
                self._watch_twins(fact.source, fact.scope, (ref,))
        for n in range(len(links) // LINK_ROW_BYTES):
            link = unpack_link(links, n)
            prev = self._children.swap(span_key(link.trace_id + link.parent_span_id), link_ref(seq, n))
            if not settled:
                chunk.links += link_row(link.trace_id + link.span_id + link.parent_span_id, prev)

    def _relate(self, ref: int) -> None:
        """The call at *ref* needs a verdict too, if it still settles: whoever comes due first decides for both."""
        where = split_ref(ref)
        chunk = self._chunks.get(where.seq)
        if chunk is not None:
            chunk.related.add(where.idx)

    def _watch_twins(self, source: int, scope: int, refs: Sequence[int]) -> None:
        """Look for twins of new reports, only in sources that more than one scope reports from."""
        seen = self._sources.get(source)
        if seen is None:
            seen = self._sources[source] = _Source(scope)
        if seen.by_output is None:
            if seen.scope == scope:
                seen.remember(refs, self._oldest())
                return
            self._index_source(seen)
        by_output = seen.by_output
        assert by_output is not None  # noqa: S101 made just above
        for ref in refs:
            fact = self._row(ref)
            if fact is None:
                continue
            for candidate in _candidates(by_output, fact):
                other = self._row(candidate)
                if other is not None and is_twin(fact, other):
                    self._relate(ref)
                    self._relate(candidate)
            by_output.setdefault(_output_key(fact), deque()).append(ref)

    def _index_source(self, seen: "_Source") -> None:
        """A second scope showed up: find what the first one reported while it can still be joined."""
        by_output: dict[int, deque[int]] = {}
        for ref in seen.refs:
            fact = self._row(ref)
            if fact is not None:
                by_output.setdefault(_output_key(fact), deque()).append(ref)
        seen.by_output = by_output
        del seen.refs[:]

    def _oldest(self) -> int:
        """The oldest chunk that settles; beyond all chunks when none does."""
        return next(iter(self._chunks), BEYOND_CHUNKS)

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

    def turn_back(self, now_ms: int) -> None:
        """The clock says *now_ms*: a chunk received later than that waits no longer than one received now."""
        for chunk in self._chunks.values():
            chunk.received_ms = min(chunk.received_ms, now_ms)

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
        for ref in verdict.conflicts:
            self._relate(ref)  # what comes due later is flagged in its turn
        return verdict

    def _fix(self, ref: int, fate: int) -> None:
        where = split_ref(ref)
        chunk = self._chunks.get(where.seq)
        if chunk is not None:
            chunk.fates[where.idx] = fate

    def undecide(self, verdict: Verdict) -> None:
        """The *verdict* could not be written down: what it fixed is open again."""
        for ref in (*verdict.dropped, *verdict.merged):
            self._fix(ref, OPEN)

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
