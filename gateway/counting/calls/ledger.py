"""What the gateway remembers of reports, so that a call is billed once. Pure: no clock, no I/O.

Four compact tables (`table.Table`) answer, for about half a microsecond each: was this span
reported before; which report named this parent last; which report had this response id, or this
request id, last. Reports of one parent and of one id are chained through their rows
(`facts.prev_*`), so a cluster is found from any of its members. Rows stay in memory while their
chunk settles; of a settled chunk only the tables' keys remain, and its rows are read back from
the spool when a late report refers to it.

Per report this costs: the row (`DIGEST_BYTES`) while it settles, 22 bytes for its span, 22 for
its parent, 22 for its response id, each table within `max_keys`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from gateway.counting.calls.agreement import is_co_instrumented
from gateway.counting.calls.cluster import Cluster, gather
from gateway.counting.calls.co_instrumented import CoInstrumentedIndex, Source
from gateway.counting.calls.digest import (
    CHAINS_BYTES,
    DIGEST_BYTES,
    LINK_ROW_BYTES,
    MAX_IDX,
    NO_SPAN,
    REF_STEP,
    SEQ_SHIFT,
    CallDigest,
    call_ref,
    chained,
    digest_rows,
    iter_links,
    keys_of,
    link_ref,
    link_row,
    rank,
    split_ref,
    unpack_fact,
    unpack_link,
    with_chains,
)
from gateway.counting.calls.inheritance import Inheritance
from gateway.counting.calls.order import SignalPrecedence
from gateway.counting.calls.parts import Closure, closure, gather_part
from gateway.counting.calls.resolve import Member, Verdict, resolve
from gateway.counting.calls.rows import (
    DROPPED,
    KEPT,
    MOVED_ON,
    OPEN,
    LateChunk,
    Rows,
    Settling,
    Tables,
    span_key,
)
from gateway.counting.calls.stream_parts import StreamParts, is_end
from gateway.counting.calls.table import MASK, Table
from gateway.counting.calls.versions import MAX_VERSIONS, SAME_SPAN, Versions, fold
from gateway.normalise.call import (
    LOG,
    RANK_MASK,
    RANK_SHIFT,
    REPEAT,
    STAMPED,
    STATES_SHIFT,
    STREAM_PART,
    UNFINISHED,
    Call,
)
from gateway.normalise.extract import PEOPLE

REPEATS_OTHERS = LOG | REPEAT | UNFINISHED | STREAM_PART | RANK_MASK << RANK_SHIFT
"""Marks of reports that other reports may stand for."""
MOVED = "kept.moved"
"""What the spool states of a report that stands in a later chunk (`Ledger.move`)."""
_STATES_ALL = (1 << len(PEOPLE)) - 1
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


class Ledger:
    """See the module's docstring. *max_keys* bounds the tables."""

    def __init__(self, max_keys: int) -> None:
        self._spans = Table(max_keys, with_values=True)
        self._children = Table(max_keys, with_values=True)
        self._responses = Table(max_keys, with_values=True)
        self._requests = Table(max_keys, with_values=True)
        self._tables = Tables(self._spans, self._children, self._responses, self._requests)
        self._chunks: dict[int, Settling] = {}
        self._sources: dict[int, Source] = {}
        self._order = SignalPrecedence(max_keys)
        self._versions = Versions()
        self._stream_parts = StreamParts()
        self.inheritance = Inheritance(max_keys)
        self._begun: dict[int, set[int]] = {}
        """Chunk that settles -> indexes of the calls of which only the beginning was
        reported; most chunks have none."""

    # ---- in

    def count(self, calls: Sequence[Call], links: Iterable[bytes], seq: int, first: int, received_ms: int) -> Counted:
        """`count_rows` of calls as the normaliser gives them."""
        return self.count_rows(digest_rows(calls), b"".join(links), seq, first, received_ms)

    def count_rows(self, rows: bytes, links: bytes, seq: int, first: int, received_ms: int) -> Counted:
        """Take one payload's rows and links, of which the kept ones will stand in chunk
        *seq* from index *first* on.
        """
        counted = Counted()
        chunk = self._chunks.get(seq)
        if chunk is None:
            chunk = self._chunks[seq] = Settling(seq, received_ms)
        if rows:
            counted.facts = self._count_calls(rows, chunk, first, counted.duplicates)
        if links:
            counted.links = self._count_links(links, chunk)
        return counted

    def _count_calls(self, rows: bytes, chunk: Settling, first: int, duplicates: set[int]) -> bytes:  # noqa: C901, PLR0912 - the hot loop
        """The rows of the calls that are kept.

        The hot loop: what it calls is inlined where that was measured to matter.
        """
        add_span, swap_child, swap_response = self._spans.add, self._children.swap, self._responses.swap
        swap_request = self._requests.swap
        chains: list[tuple[int, int, int, int]] = []
        sources: dict[tuple[int, int], list[int]] = {}
        ref = call_ref(chunk.seq, first)
        places: list[int] | None = None
        for i, (own, parent, source, scope, response, marks, group, session, request) in enumerate(keys_of(rows)):
            if not add_span(hash(own) & MASK or 1, ref):
                if places is None:
                    places = [k for k in range(i) if k not in duplicates]
                if not self._is_news(own, ref, rows, i, first, places):
                    duplicates.add(i)
                    continue
            if places is not None:
                places.append(i)
            prev_child = swap_child(hash(own[:16] + parent) & MASK or 1, ref) if parent != NO_SPAN else 0
            prev_response = swap_response(response, ref) if response else 0
            prev_request = swap_request(request, ref) if request else 0
            if prev_child or prev_response or prev_request:
                chains.append((i, prev_child, prev_response, prev_request))
            if prev_response or prev_request or marks & REPEATS_OTHERS:
                idx = first + i - len(duplicates)
                if prev_response or prev_request:
                    self._relate(prev_response)
                    self._relate(prev_request)
                    chunk.related.add(idx)
                if marks & REPEATS_OTHERS:
                    chunk.marked.add(idx)
                    if marks & UNFINISHED:
                        self._begun.setdefault(chunk.seq, set()).add(idx)
                    if marks & STREAM_PART:
                        self._add_stream_part(unpack_fact(rows, i), ref, chunk, idx)
                    if group:
                        place = unpack_fact(rows, i).place
                        self._order.see(group, session, marks >> RANK_SHIFT & RANK_MASK, chunk.received_ms, place=place)
            try:
                sources[source, scope].append(ref)
            except KeyError:
                sources[source, scope] = [ref]
            ref += REF_STEP
        facts = chained(rows, chains, duplicates)
        chunk.facts += facts
        chunk.outcomes += bytes(len(facts) // DIGEST_BYTES)
        for (source, scope), refs in sources.items():
            self._watch_co_instrumented(source, scope, refs)
        return facts

    def _is_news(self, own: bytes, ref: int, rows: bytes, i: int, first: int, places: Sequence[int]) -> bool:
        """Whether the known span *own* is reported anew by row *i*: its first report is open,
        and none of its reports said the same.

        *places*: row of each report of this payload that is kept, from index *first* of the
        chunk on. What is news is remembered as a version, to be decided with the first report.
        """
        known = self._versions.of(self._spans.find(hash(own) & MASK or 1))
        seq = split_ref(ref).seq
        said = [self._said(x, rows, seq, first, places) for x in known]
        if len(known) >= MAX_VERSIONS or None in said or _without_chains(rows, i) in said:
            return False
        self._versions.add(known[0], ref)
        self._chunks[seq].related.add(split_ref(ref).idx)
        self._relate(known[0])
        return True

    def _said(self, ref: int, rows: bytes, seq: int, first: int, places: Sequence[int]) -> bytes | None:
        """What the report at *ref* said; None where it was decided about, or let go."""
        where = split_ref(ref)
        if where.seq == seq and where.idx >= first:
            return _without_chains(rows, places[where.idx - first])
        return _without_chains(self._chunks[where.seq].facts, where.idx) if self.is_open(ref) else None

    def _count_links(self, links: bytes, chunk: Settling) -> bytes:
        """The rows of the links that lead upwards; a root's leads nowhere."""
        swap_child = self._children.swap
        add_above = self.inheritance.above.add if self.inheritance else None
        rows: list[bytes] = []
        ref = link_ref(chunk.seq, len(chunk.links) // LINK_ROW_BYTES)
        for trace_id, span_id, parent_span_id in iter_links(links):
            if parent_span_id != NO_SPAN:
                above = hash(trace_id + parent_span_id) & MASK or 1
                prev = swap_child(above, ref)
                if add_above is not None:
                    add_above(hash(trace_id + span_id) & MASK or 1, above)
                rows.append(trace_id + span_id + parent_span_id + prev.to_bytes(8, "little"))
                ref += REF_STEP
        joined = b"".join(rows)
        chunk.links += joined
        return joined

    def restore(
        self,
        seq: int,
        received_ms: int,
        facts: bytes,
        links: bytes,
        dropped: Mapping[int, str],
        *,
        settled: bool,
        merged: AbstractSet[int] = frozenset(),
    ) -> None:
        """Take back one chunk from the spool, oldest first, as `count` and `decide` left it.

        *dropped*: index -> outcome; *merged*: indexes of what stands for several reports, from
        before its own chunk settles.
        """
        chunk = Settling(seq, received_ms)
        if not settled:
            self._chunks[seq] = chunk
        for idx in range(len(facts) // DIGEST_BYTES):
            row = facts[idx * DIGEST_BYTES : (idx + 1) * DIGEST_BYTES]
            if dropped.get(idx) != MOVED:
                self._restore_call(chunk, idx, row, dropped.get(idx), settled=settled)
            elif not settled:
                chunk.facts += row
                chunk.outcomes.append(MOVED_ON)
        if not settled:
            for idx in merged:
                if idx < len(chunk.outcomes):
                    chunk.outcomes[idx] = KEPT
        for n in range(len(links) // LINK_ROW_BYTES):
            link = unpack_link(links, n)
            prev = self._children.swap(span_key(link.trace_id + link.parent_span_id), link_ref(seq, n))
            if not settled:
                chunk.links += link_row(link.trace_id + link.span_id + link.parent_span_id, prev)

    def _restore_call(self, chunk: Settling, idx: int, row: bytes, dropped: str | None, *, settled: bool) -> None:
        """Take back one call, or one that was dropped with that outcome; of a settled chunk
        only what the tables hold.
        """
        fact = unpack_fact(row, 0)
        ref = call_ref(chunk.seq, idx)
        key = span_key(fact.trace_id + fact.span_id)
        is_version = not self._spans.add(key, ref) and not settled
        if is_version:
            self._versions.add(self._spans.find(key), ref)
        if fact.group:
            self._order.see(fact.group, fact.session, rank(fact), chunk.received_ms, place=fact.place)
            if settled and (dropped is None or dropped.startswith("duplicate.")):
                self._order.fix_again(fact.group, fact.session, rank(fact), place=fact.place)
        prev_child = 0
        if any(fact.parent_span_id):
            prev_child = self._children.swap(span_key(fact.trace_id + fact.parent_span_id), ref)
        prev_response = self._responses.swap(fact.response, ref) if fact.response else 0
        prev_request = self._requests.swap(fact.request, ref) if fact.request else 0
        if settled:
            return
        chunk.facts += with_chains(row, prev_child, prev_response, prev_request)
        chunk.outcomes.append(OPEN if dropped is None else DROPPED)
        self._relate(prev_response)
        self._relate(prev_request)
        if is_version:
            self._relate(self._spans.find(key))
        if prev_response or prev_request or is_version:
            chunk.related.add(idx)
        self._note_marks(fact, ref, chunk, idx)
        self._watch_co_instrumented(fact.source, fact.scope, (ref,))

    def _note_marks(self, fact: CallDigest, ref: int, chunk: Settling, idx: int) -> None:
        if fact.marks & REPEATS_OTHERS:
            chunk.marked.add(idx)
        if fact.marks & UNFINISHED:
            self._begun.setdefault(chunk.seq, set()).add(idx)
        if fact.marks & STREAM_PART:
            self._add_stream_part(fact, ref, chunk, idx)

    def _add_stream_part(self, fact: CallDigest, ref: int, chunk: Settling, idx: int) -> None:
        """It needs a verdict in any case: what comes later may change whose counterpart it is."""
        chunk.related.add(idx)
        if self._spans.find(span_key(fact.trace_id + fact.span_id)) == ref:
            self._stream_parts.add(fact, ref)

    def _counterpart(self, ref: int, fact: CallDigest) -> int:
        """Reference of the other part of a streamed call; 0 where none is known."""
        return self._stream_parts.counterpart(fact, ref, self.is_open) if fact.marks & STREAM_PART else 0

    def _stream_ends(self, members: Mapping[int, Member]) -> dict[int, int]:
        """Beginning -> end of the streamed calls of which both are in *members*."""
        found: dict[int, int] = {}
        for ref, member in members.items():
            if member.fact.marks & STREAM_PART and is_end(member.fact):
                begun = self._counterpart(ref, member.fact)
                if begun in members:
                    found[begun] = ref
        return found

    def _relate(self, ref: int) -> None:
        """The call at *ref* needs a verdict too, if it still settles: whoever
        comes due first decides for both.
        """
        where = split_ref(ref)
        chunk = self._chunks.get(where.seq)
        if chunk is not None:
            chunk.related.add(where.idx)

    def _watch_co_instrumented(self, source: int, scope: int, refs: Sequence[int]) -> None:
        """Look for co-instrumented spans of new reports, only in sources that
        more than one scope reports from.
        """
        seen = self._sources.get(source)
        if seen is None:
            seen = self._sources[source] = Source(scope)
        if seen.index is None:
            if seen.scope == scope:
                seen.remember(refs, self._oldest())
                return
            seen.index = self._indexed(seen.refs)
            del seen.refs[:]
        for ref in refs:
            fact = self._row(ref)
            if fact is None:
                continue
            self._relate_co_instrumented(ref, fact, seen.index)
            seen.index.add(fact, ref)

    def _relate_co_instrumented(self, ref: int, fact: CallDigest, index: CoInstrumentedIndex) -> None:
        """Note that the report at *ref* and those co-instrumented with it need a verdict; pairs
        that need one anyway are not compared.
        """
        for candidate in index.near(fact, ref):
            if not (self._is_related(ref) and self._is_related(candidate)):
                other = self._row(candidate)
                if other is not None and is_co_instrumented(fact, other):
                    self._relate(ref)
                    self._relate(candidate)

    def _is_related(self, ref: int) -> bool:
        chunk = self._chunks.get(ref >> SEQ_SHIFT)
        return chunk is not None and (ref >> 1 & MAX_IDX) in chunk.related

    def _indexed(self, refs: Iterable[int]) -> CoInstrumentedIndex:
        """A second scope showed up: what the first one reported, while it can still be joined."""
        index = CoInstrumentedIndex()
        for ref in refs:
            fact = self._row(ref)
            if fact is not None:
                index.add(fact, ref)
        return index

    def _co_instrumented_in(self, near: Sequence[int], fact: CallDigest, known: Collection[int]) -> list[int]:
        found: list[int] = []
        for candidate in near:
            other = self._row(candidate) if candidate not in known else None
            if other is not None and is_co_instrumented(fact, other):
                found.append(candidate)
        return found

    def _oldest(self) -> int:
        """The oldest chunk that settles; beyond all chunks when none does."""
        return next(iter(self._chunks), BEYOND_CHUNKS)

    def _row(self, ref: int) -> CallDigest | None:
        """The row of a call that still settles."""
        where = split_ref(ref)
        chunk = self._chunks.get(where.seq)
        if chunk is None or where.is_link or where.idx >= len(chunk.outcomes):
            return None
        return unpack_fact(chunk.facts, where.idx)

    # ---- settling

    def due(self, received_through_ms: int, seq_through: int, *, most_reports: int) -> list[int]:
        """The chunks received up to *received_through_ms* and numbered up to *seq_through*,
        oldest first; they end with *most_reports*.
        """
        found: list[int] = []
        reports = 0
        for seq, chunk in self._chunks.items():
            if chunk.received_ms > received_through_ms or seq > seq_through or reports >= most_reports:
                break
            found.append(seq)
            reports += len(chunk.outcomes)
        return found

    def turn_back(self, now_ms: int) -> None:
        """The clock states *now_ms*: a chunk received later than that waits no
        longer than one received now.
        """
        for chunk in self._chunks.values():
            chunk.received_ms = min(chunk.received_ms, now_ms)

    def oldest_ms(self) -> int | None:
        """When the oldest chunk that settles was received; None when none does."""
        return next((chunk.received_ms for chunk in self._chunks.values()), None)

    def is_open(self, ref: int) -> bool:
        """Whether the call at *ref* still settles and nothing was decided about it."""
        where = split_ref(ref)
        chunk = self._chunks.get(where.seq)
        return chunk is not None and chunk.outcomes[where.idx] == OPEN

    def settles(self, ref: int) -> bool:
        """Whether the call at *ref* can still be changed."""
        return split_ref(ref).seq in self._chunks

    def roots(self, seq: int) -> list[int]:
        """References of the open calls of chunk *seq* that are related to
        others: they need a verdict.

        The others stand from now on, so a product's way to report that one of them came
        in is the one that counts.
        """
        chunk = self._chunks[seq]
        find = self._children.find
        found: list[int] = []
        facts, outcomes, related, marked = chunk.facts, chunk.outcomes, chunk.related, chunk.marked
        for idx in range(len(outcomes)):
            if outcomes[idx] == OPEN:
                at = idx * DIGEST_BYTES
                if (
                    idx in related
                    or find(span_key(bytes(facts[at : at + 24])))
                    or self._is_below_settled(bytes(facts[at : at + 16]), bytes(facts[at + 24 : at + 32]))
                    or (idx in marked and self._is_told_elsewhere(unpack_fact(facts, idx)))
                ):
                    found.append(call_ref(seq, idx))
        return found

    def _is_below_settled(self, trace_id: bytes, parent_span_id: bytes) -> bool:
        """Whether the span above is a call that may have been forwarded."""
        parent = self._spans.find(span_key(trace_id + parent_span_id)) if parent_span_id != NO_SPAN else 0
        return bool(parent) and split_ref(parent).seq not in self._chunks

    def _is_told_elsewhere(self, fact: CallDigest) -> bool:
        """Whether a call stands around the report, or another of its product's ways to report
        counts. Else it is taken.
        """
        has_parent = fact.marks & (LOG | REPEAT) and any(fact.parent_span_id)
        if has_parent and self._spans.find(span_key(fact.trace_id + fact.parent_span_id)):
            return True
        if not fact.group:
            return False
        if self._order.counted(fact.group, fact.session, place=fact.place) != rank(fact):
            return True
        self._order.fix(fact.group, fact.session, rank(fact), place=fact.place)
        return False

    def cluster(self, ref: int, late: Mapping[int, LateChunk | None]) -> tuple[Cluster, set[int]]:
        """The cluster around *ref*, and the settled chunks whose rows are needed
        first and are not in *late*.

        Of a cluster that `is_large` only the beginning is returned:
        `closure` and `part` decide it.
        """
        rows = Rows(self._chunks, late)
        return gather(ref, rows, self._tables, self._co_instrumented, self._versions.others), rows.missing

    def closure(self, ref: int, late: Mapping[int, LateChunk | None], found: Closure, end: int) -> Iterator[None]:
        """Fill *found* with the large cluster around *ref*, one report a step,
        without the reports from the reference *end* on.
        """
        rows = Rows(self._chunks, late)
        return closure(ref, rows, self._tables, self._co_instrumented, self._versions.others, found, end)

    def part(
        self, refs: Sequence[int], standing: Sequence[int], late: Mapping[int, LateChunk | None]
    ) -> tuple[Cluster, set[int]]:
        """The cluster of the part *refs*, as `cluster` returns it.

        *standing*: what stands from the part before.
        """
        rows = Rows(self._chunks, late)
        cluster = gather_part(refs, standing, rows, self._tables, self._versions.others)
        for ref in refs:
            fact = self._row(ref)
            at = self._counterpart(ref, fact) if fact is not None else 0
            if at and (other := rows.member(at)) is not None:
                cluster.members.setdefault(at, other)
        return cluster, rows.missing

    def decide_part(self, cluster: Cluster, refs: Sequence[int], *, flagged: bool) -> Verdict:
        """`decide` the cluster of the part *refs*, for good; *flagged*: what stands unmerged
        gets the flag `conflict`.
        """
        verdict = self.decide(cluster)
        if flagged:
            verdict.conflicts.update(ref for ref in refs if self.is_open(ref))
        for ref in refs:
            where = split_ref(ref)
            chunk = self._chunks.get(where.seq)
            if chunk is not None:
                chunk.parted[where.idx] = self._last_child(ref)
                verdict.parted.append(ref)
        return verdict

    def _last_child(self, ref: int) -> int:
        where = split_ref(ref)
        at = where.idx * DIGEST_BYTES
        return self._children.find(span_key(bytes(self._chunks[where.seq].facts[at : at + 24])))

    def is_parted(self, ref: int) -> bool:
        """Whether the call at *ref* was decided in a part of a large cluster."""
        where = split_ref(ref)
        chunk = self._chunks.get(where.seq)
        return chunk is not None and where.idx in chunk.parted

    def is_due(self, ref: int) -> bool:
        """Whether the call at *ref* needs a verdict: it is open, and no part decided it with
        all that stands below it.
        """
        if not self.is_open(ref):
            return False
        where = split_ref(ref)
        parted = self._chunks[where.seq].parted
        return where.idx not in parted or parted[where.idx] != self._last_child(ref)

    def _co_instrumented(self, ref: int, fact: CallDigest, known: Collection[int]) -> list[int]:
        """References of reports that still settle and may be co-instrumented spans of
        the call at *ref*, or the other part of its stream, less those *known*.
        """
        other = self._counterpart(ref, fact)
        found = [other] if other and other not in known else []
        seen = self._sources.get(fact.source)
        if seen is not None and seen.index is not None:
            found += self._co_instrumented_in(seen.index.near(fact, ref), fact, known)
        return found

    def decide(self, cluster: Cluster) -> Verdict:
        """The rules' verdict, noted: what it drops is dropped from now on,
        what it merges upon is fixed.
        """
        members = [member for ref, member in cluster.members.items() if ref not in cluster.gone]
        folded = fold(members, cluster.shadows)
        verdict = resolve(
            folded.members,
            folded.parents(cluster.parents),
            folded.refs(cluster.cut),
            inside=folded.inside(cluster.inside),
            stream_ends=folded.inside(self._stream_ends(cluster.members)),
            inside_dropped=folded.inside_dropped(cluster.inside_dropped),
            answered=folded.refs(cluster.answered),
            beyond=folded.refs(cluster.beyond),
            paired=folded.refs(cluster.paired),
            counted_rank=self._counted_rank,
        )
        folded.unfold(verdict)
        verdict.dropped.update(dict.fromkeys(cluster.gone, SAME_SPAN))
        if verdict.merged:
            verdict.stamped = {ref for ref, member in cluster.members.items() if member.fact.marks & STAMPED}
        for group, session, taken, place in verdict.taken:
            verdict.fixed += self._order.fix(group, session, taken, place=place)
        for ref in verdict.dropped:
            self._fix(ref, DROPPED)
        for ref in verdict.merged:
            self._fix(ref, KEPT)
        for ref in verdict.conflicts:
            self._relate(ref)  # what comes due later is flagged in its turn
        return verdict

    def bear(self, bearers: Iterable[tuple[bytes, Mapping[str, str]]]) -> None:
        """Spans that state whose calls are below them: trace and span id, and what they state."""
        was_empty = not self.inheritance
        self.inheritance.bear((span_key(span), stated) for span, stated in bearers)
        if was_empty:
            self._find_ways_up()

    def take_over(self, other: "Ledger") -> None:
        """Know what *other*, of this process, knows of spans that state whose calls are below."""
        self.inheritance.bearers = other.inheritance.bearers
        if self.inheritance:
            self._find_ways_up()

    def _find_ways_up(self) -> None:
        """The spans above those that came before there was anything to inherit."""
        for chunk in self._chunks.values():
            for n in range(len(chunk.links) // LINK_ROW_BYTES):
                link = unpack_link(chunk.links, n)
                above = span_key(link.trace_id + link.parent_span_id)
                self.inheritance.above.add(span_key(link.trace_id + link.span_id), above)

    def heirs(self, seq: int) -> Iterator[int]:
        """References of the calls of chunk *seq* that stand and may inherit attribution."""
        chunk = self._chunks[seq]
        for idx, outcome in enumerate(chunk.outcomes):
            if outcome in {OPEN, KEPT}:
                yield call_ref(seq, idx)

    def inherited(self, ref: int) -> dict[str, str]:
        """What the call at *ref* inherits of user, session, team and project."""
        fact = self._row(ref)
        if fact is None or not any(fact.parent_span_id) or fact.marks >> STATES_SHIFT == _STATES_ALL:
            return {}
        stated = self.inheritance.stated_above(span_key(fact.trace_id + fact.parent_span_id), self._above_call)
        return {
            field: stated[field]
            for i, field in enumerate(PEOPLE)
            if field in stated and not fact.marks >> STATES_SHIFT + i & 1
        }

    def _above_call(self, key: int) -> int:
        fact = self._row(self._spans.find(key))
        return span_key(fact.trace_id + fact.parent_span_id) if fact is not None and any(fact.parent_span_id) else 0

    def _counted_rank(self, fact: CallDigest) -> int:
        return self._order.counted(fact.group, fact.session, place=fact.place)

    def _fix(self, ref: int, outcome: int) -> None:
        where = split_ref(ref)
        chunk = self._chunks.get(where.seq)
        if chunk is not None:
            chunk.outcomes[where.idx] = outcome

    def undecide(self, verdict: Verdict) -> None:
        """The *verdict* could not be written down: what it fixed is open again."""
        for ref in (*verdict.dropped, *verdict.merged):
            self._fix(ref, OPEN)
        for ref in verdict.parted:
            where = split_ref(ref)
            if where.seq in self._chunks:
                self._chunks[where.seq].parted.pop(where.idx, None)
        self._order.unfix(verdict.fixed)

    def unfinished(self, seq: int) -> list[list[int]]:
        """References of the calls of chunk *seq* of which no one stated an end: each with all
        its reports, the first one first.
        """
        chunk = self._chunks[seq]
        found: dict[int, list[int]] = {}
        for idx in sorted(self._begun.get(seq, ())):
            if chunk.outcomes[idx] == OPEN:
                reports = sorted((call_ref(seq, idx), *self._versions.others(call_ref(seq, idx))))
                if all(self._is_unfinished(ref) for ref in reports):
                    found[reports[0]] = reports
        return list(found.values())

    def _is_unfinished(self, ref: int) -> bool:
        fact = self._row(ref)
        return fact is not None and self.is_open(ref) and fact.marks & UNFINISHED != 0

    def move(self, calls: Sequence[Sequence[int]], seq: int, received_ms: int) -> bytes:
        """The reports of each of *calls* stand in chunk *seq* from now on, one after
        the other; their rows there.
        """
        chunk = self._chunks[seq] = Settling(seq, received_ms)
        for reports in calls:
            first = call_ref(seq, len(chunk.outcomes))
            told_since = [ref for ref in self._versions.others(reports[0]) if ref not in reports]
            for ref in reports:
                self._move(ref, first, chunk)
            for ref in told_since:
                self._versions.add(first, ref)
        return bytes(chunk.facts)

    def _move(self, ref: int, first: int, chunk: Settling) -> None:
        where = split_ref(ref)
        old, new, idx = self._chunks[where.seq], call_ref(chunk.seq, len(chunk.outcomes)), len(chunk.outcomes)
        row = bytes(old.facts[where.idx * DIGEST_BYTES : (where.idx + 1) * DIGEST_BYTES])
        fact = unpack_fact(row, 0)
        old.outcomes[where.idx] = MOVED_ON
        prev_child = 0
        if any(fact.parent_span_id):
            prev_child = self._children.swap(span_key(fact.trace_id + fact.parent_span_id), new)
        prev_response = self._responses.swap(fact.response, new) if fact.response else 0
        prev_request = self._requests.swap(fact.request, new) if fact.request else 0
        if new == first:
            self._spans.swap(span_key(fact.trace_id + fact.span_id), new)
        else:
            self._versions.add(first, new)
        chunk.facts += with_chains(row, prev_child, prev_response, prev_request)
        chunk.outcomes.append(OPEN)
        chunk.marked.add(idx)
        self._begun.setdefault(chunk.seq, set()).add(idx)
        if new != first or prev_response or prev_request:
            chunk.related.add(idx)
        if fact.marks & STREAM_PART:
            self._add_stream_part(fact, new, chunk, idx)
        self._watch_co_instrumented(fact.source, fact.scope, (new,))

    def received_ms(self, seq: int) -> int:
        """When chunk *seq*, which settles, was received."""
        return self._chunks[seq].received_ms

    def settled(self, seq: int) -> None:
        """Chunk *seq* may be forwarded: forget its rows."""
        self._chunks.pop(seq, None)
        self._begun.pop(seq, None)

    def prune(self) -> None:
        """Now and then: forget what settled in the index of co-instrumented spans, and
        sources that fell silent.
        """
        oldest = self._oldest()
        for source, seen in list(self._sources.items()):
            if not seen.prune(oldest):
                del self._sources[source]
        self._versions.prune(oldest)
        self._stream_parts.prune(self.settles)

    # ---- what it holds

    def sizes(self) -> dict[str, int]:
        """Remembered keys and rows, and keys that were evicted."""
        return {
            "spans": len(self._spans),
            "parents": len(self._children),
            "responses": len(self._responses),
            "requests": len(self._requests),
            "versions": len(self._versions),
            "stream_parts": len(self._stream_parts),
            "bearers": len(self.inheritance),
            "settling": sum(len(chunk.outcomes) for chunk in self._chunks.values()),
            "evicted": self._spans.evicted,
        }


def _without_chains(rows: bytes | bytearray, idx: int) -> bytes:
    """What row *idx* states of its report: not where it stands among the others."""
    return bytes(rows[idx * DIGEST_BYTES : (idx + 1) * DIGEST_BYTES - CHAINS_BYTES])
