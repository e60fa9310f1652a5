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

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from types import ModuleType
from typing import Final, NamedTuple, Protocol

from gateway.common.native import NATIVE
from gateway.counting.calls.agreement import is_co_instrumented
from gateway.counting.calls.cluster import Cluster, gather
from gateway.counting.calls.co_instrumented import CoInstrumentedIndex, SettlingReports
from gateway.counting.calls.digest import (
    CHAINS_BYTES,
    DIGEST_BYTES,
    IDENTITY_BYTES,
    LINK_ROW_BYTES,
    MAX_IDX,
    NO_SPAN,
    REF_STEP,
    SEQ_SHIFT,
    TRACE_ID_BYTES,
    CallDigest,
    basis_of,
    call_ref,
    chained,
    digest_rows,
    iter_links,
    keys_of,
    link_ref,
    links_of,
    rank,
    remembered_of,
    spans_of,
    split_ref,
    unchained,
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
    SPAN_KEYS,
    LateChunk,
    Rows,
    Settling,
    Tables,
    span_hash,
    span_key,
)
from gateway.counting.calls.stream_parts import StreamParts, is_end
from gateway.counting.calls.table import MASK, Table, new_table
from gateway.counting.calls.versions import MAX_VERSIONS, SAME_SPAN, Versions, fold
from gateway.rules.call import (
    BASIS_MASK,
    BASIS_SHIFT,
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
from gateway.rules.extract import PEOPLE
from gateway.rules.fingerprint import FORWARDED_AGGREGATE
from gateway.rules.usage import ASSUMED, SHOWN_EXCLUSIVE

BASES = BASIS_MASK << BASIS_SHIFT
REPEATS_OTHERS = LOG | REPEAT | UNFINISHED | STREAM_PART | RANK_MASK << RANK_SHIFT
"""Marks of reports that other reports may stand for."""
NOTED = REPEATS_OTHERS | BASES
"""Marks of the rare reports that are looked at one by one."""
MOVED = "kept.moved"
"""What the spool states of a report that stands in a later chunk (`Ledger.move`)."""
_STATES_ALL = (1 << len(PEOPLE)) - 1
EMPTY_SHARE: Final = 8
"""Of the keys of a table's generation, that may refer to nothing."""
BEYOND_CHUNKS = 1 << 41
"""A number that no chunk has."""


class Proving(NamedTuple):
    """A call that shows what its input holds, which no table knows."""

    ref: int
    scope: int
    """Fingerprint of its instrumentation scope."""
    excludes: bool
    """Whether the input excludes the cached tokens."""
    calls: int
    """Calls that it is looked at for, with itself."""


class ForwardedAggregate(NamedTuple):
    """An aggregate that another gateway forwarded."""

    ref: int
    gateway: int
    source: int
    """Fingerprint of the key under which it came."""
    since_ms: int
    """Since when it waits: since it came, or since the ledger was read from disk again."""


class Assumed(NamedTuple):
    """A call of which nothing shows what its input holds."""

    ref: int
    source: int
    scope: int
    model: int
    """Fingerprints of its sender, its instrumentation scope and its model."""
    input_tokens: int
    """As stated."""


PROOFS_AT_ONCE: Final = 4
Group = tuple[int, int, Sequence[int]]
"""Source, scope, and references of their rows."""


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

    def __init__(self, max_keys: int, *, native: ModuleType | None = NATIVE) -> None:
        self._spans, self._children, self._responses, self._requests = self._tables = Tables(
            *(new_table(max_keys, with_values=True, native=native) for _ in Tables._fields)
        )
        self._native: NativeLoops | None = None
        if native is not None:
            self._native = native.CallTables(SPAN_KEYS, *self._tables)
        """The same tables, with the hot loops of this module over them."""
        self._chunks: dict[int, Settling] = {}
        self._sources: dict[int, SettlingReports] = {}
        self._order = SignalPrecedence(max_keys)
        self._versions = Versions()
        self._stream_parts = StreamParts()
        self.inheritance = Inheritance(max_keys)
        self._begun: dict[int, set[int]] = {}
        """Chunk that settles -> indexes of the calls of which only the beginning was
        reported; most chunks have none."""
        self._emptied: set[int] = set()
        """Keys that `take_back` left in the tables, where they take the place of others."""
        self._counted_chunk: Settling | None = None
        """Into which reports are being counted."""
        self._taken: list[int] = []
        """Keys of the order that `roots` fixed since something was written down."""
        self._looks: list[tuple[int, int]] = []
        """What was added to `Settling.looks` since then: reference and how often."""

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
        self._counted_chunk = chunk
        if rows:
            counted.facts, groups = self._count(_Payload(self, rows, chunk, first, counted.duplicates))
            self._take(chunk, counted.facts, groups)
        if links:
            counted.links = self._count_links(links, chunk)
        return counted

    def _count(self, payload: "_Payload") -> tuple[bytes, list[Group]]:
        """The rows of the calls that are kept, and their groups."""
        return self._count_calls(payload) if self._native is None else self._count_natively(self._native, payload)

    def _count_calls(self, payload: "_Payload") -> tuple[bytes, list[Group]]:
        """`_count` without the extension.

        The hot loop: what it calls is inlined where that was measured to matter.
        """
        add_span, swap_child, swap_response = self._spans.add, self._children.swap, self._responses.swap
        swap_request, key = self._requests.swap, span_hash
        chains: list[tuple[int, int, int, int]] = []
        sources: dict[tuple[int, int], list[int]] = {}
        ref = payload.first
        for i, (own, parent, source, scope, response, marks, request) in enumerate(keys_of(payload.rows)):
            if not add_span(key(own) & MASK or 1, ref) and not payload.is_news(i, ref):
                continue
            prev_child = swap_child(key(own[:16] + parent) & MASK or 1, ref) if parent != NO_SPAN else 0
            prev_response = swap_response(response, ref) if response else 0
            prev_request = swap_request(request, ref) if request else 0
            if prev_child or prev_response or prev_request:
                chains.append((i, prev_child, prev_response, prev_request))
            if prev_response or prev_request or marks & NOTED:
                payload.note(i, ref, prev_response, prev_request)
            try:
                sources[source, scope].append(ref)
            except KeyError:
                sources[source, scope] = [ref]
            ref += REF_STEP
        facts = chained(payload.rows, chains, payload.duplicates)
        return facts, [(*key, refs) for key, refs in sources.items()]

    def _count_natively(self, native: "NativeLoops", payload: "_Payload") -> tuple[bytes, list[Group]]:
        """`_count_calls` by the extension, which hands back the rows that are rare, in order."""
        facts, groups = native.count(payload.rows, payload.first, NOTED, payload)
        return facts, [(source, scope, array("Q", refs)) for source, scope, refs in groups]

    def _take(self, chunk: Settling, facts: bytes, groups: Iterable[Group]) -> None:
        """The kept rows stand in *chunk*."""
        chunk.facts += facts
        chunk.outcomes += bytes(len(facts) // DIGEST_BYTES)
        for source, scope, refs in groups:
            if scope == FORWARDED_AGGREGATE:
                chunk.aggregates |= {split_ref(ref).idx: chunk.received_ms for ref in refs}
            else:
                self._watch_co_instrumented(source, scope, refs)

    def _note(self, rows: bytes, i: int, ref: int, chunk: Settling, first: int) -> None:
        """Row *i*, which stands at *ref*, has marks of `NOTED`; *first*: the reference at which
        what came with it under one key begins.
        """
        fact = unpack_fact(rows, i)
        self._note_marks(fact, ref, chunk, split_ref(ref).idx, first)
        if fact.group:
            self._order.see(fact.group, fact.session, rank(fact), chunk.received_ms, place=fact.place, seq=chunk.seq)

    def _is_news(self, rows: bytes, i: int, ref: int, places: Sequence[int], first: int) -> bool:
        """Whether row *i* reports its span, which is known, again: the span's first report is open,
        and none of its reports said the same.

        *places*: row of each report of this payload that is kept, from the reference *first* on.
        What is news is remembered as a version, to be decided with the first report.
        """
        own = rows[i * DIGEST_BYTES : i * DIGEST_BYTES + IDENTITY_BYTES]
        known = self._versions.of(self._spans.find(span_key(own)))
        said = [self._said(x, rows, first, places) for x in known]
        if len(known) >= MAX_VERSIONS or None in said or _without_chains(rows, i) in said:
            return False
        self._add_version(known[0], ref)
        return True

    def _add_version(self, first: int, ref: int) -> None:
        """The report at *ref* is another one of the span reported at *first*."""
        self._versions.add(first, ref)
        self._relate(ref)
        self._relate(first)

    def _said(self, ref: int, rows: bytes, first: int, places: Sequence[int]) -> bytes | None:
        """The row of the report at *ref*; None where it was decided about, or forgotten."""
        where, began = split_ref(ref), split_ref(first)
        if where.seq == began.seq and where.idx >= began.idx:
            return _without_chains(rows, places[where.idx - began.idx])
        return _without_chains(self._chunks[where.seq].facts, where.idx) if self.is_open(ref) else None

    def _count_links(self, links: bytes, chunk: Settling) -> bytes:
        """The rows of the links that lead upwards; a root's leads nowhere."""
        first = link_ref(chunk.seq, len(chunk.links) // LINK_ROW_BYTES)
        ways_up = self.inheritance.above if self.inheritance else None
        rows = (self._native.count_links if self._native else self._link_rows)(links, first, ways_up)
        chunk.links += rows
        return rows

    def _link_rows(self, links: bytes, ref: int, ways_up: Table | None) -> bytes:
        swap_child = self._children.swap
        rows: list[bytes] = []
        for trace_id, span_id, parent_span_id in iter_links(links):
            if parent_span_id != NO_SPAN:
                above = span_key(trace_id + parent_span_id)
                prev = swap_child(above, ref)
                if ways_up is not None:
                    ways_up.add(span_key(trace_id + span_id), above)
                rows.append(trace_id + span_id + parent_span_id + prev.to_bytes(8, "little"))
                ref += REF_STEP
        return b"".join(rows)

    def open_chunks(self) -> list[int]:
        """The chunks that settle, in order."""
        return [*self._chunks]

    def take_back(self, lost: Collection[int]) -> bool:
        """Know nothing of the chunks *lost*, the latest ones, which did not come to disk: what
        refers to their reports refers to what came before. False, and nothing changed, where too
        much came since, or the tables hold too many keys of what was taken back.

        What they stated of spans above calls stays known.
        """
        if len(self._emptied) > self._spans.limit // EMPTY_SHARE or not self._order.can_take_back(lost):
            return False
        before = _Before({}, {}, {}, {})
        for seq in sorted(lost, reverse=True):
            chunk = self._chunks.pop(seq)
            self._begun.pop(seq, None)
            for ref in chunk.relates:
                self._unrelate(ref)
            for idx in range(len(chunk.links) // LINK_ROW_BYTES):
                link = unpack_link(chunk.links, idx)
                above = span_key(link.trace_id + link.parent_span_id)
                before.children[link_ref(seq, idx)] = above, link.prev_child
            for idx in reversed(range(len(chunk.outcomes))):
                self._take_back_report(unpack_fact(chunk.facts, idx), call_ref(seq, idx), before)
            for source in chunk.indexed:
                if source in self._sources:
                    self._sources[source].forget_index()
            for source in chunk.first_of:
                self._sources.pop(source, None)
        for table, of_table in zip(self._tables, before, strict=True):
            self._emptied |= _take_back_keys(table, of_table)
        self._order.take_back(lost)
        self._versions.take_back(lost)
        self._stream_parts.prune(self.settles)
        return True

    def _take_back_report(self, fact: CallDigest, ref: int, before: "_Before") -> None:
        before.spans[ref] = span_key(fact.trace_id + fact.span_id), 0
        if fact.parent_span_id != NO_SPAN:
            before.children[ref] = span_key(fact.trace_id + fact.parent_span_id), fact.prev_child
        if fact.response:
            before.responses[ref] = fact.response, fact.prev_response
        if fact.request:
            before.requests[ref] = fact.request, fact.prev_request
        if (seen := self._sources.get(fact.source)) is not None:
            seen.take_back(fact, ref)

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
        chunk = self._counted_chunk = Settling(seq, received_ms)
        if not settled:
            self._chunks[seq] = chunk
        n = len(facts) // DIGEST_BYTES
        moved = [idx for idx in sorted(dropped) if idx < n and dropped[idx] == MOVED]
        for begin, end in zip([0, *(idx + 1 for idx in moved)], [*moved, n], strict=True):
            rows = facts[begin * DIGEST_BYTES : end * DIGEST_BYTES]
            if settled:
                self._restore_settled(chunk, begin, rows, dropped)
            else:
                self._restore_settling(chunk, begin, rows)
                chunk.facts += facts[end * DIGEST_BYTES : (end + 1) * DIGEST_BYTES] if end < n else b""
                chunk.outcomes += bytes([MOVED_ON]) if end < n else b""
        if not settled:
            _restore_outcomes(chunk, dropped, merged)
        link_rows = self._native.count_links if self._native else self._link_rows
        chunk.links += link_rows(
            links_of(links[: len(links) // LINK_ROW_BYTES * LINK_ROW_BYTES]), link_ref(seq, 0), None
        )

    def _restore_settled(self, chunk: Settling, begin: int, rows: bytes, dropped: Mapping[int, str]) -> None:
        """The tables know the calls of *rows*, which stand in *chunk*, a settled one, from index
        *begin* on.
        """
        remember = self._native.remember if self._native else self._remember
        for i in remember(rows, call_ref(chunk.seq, begin)):
            fact, outcome = unpack_fact(rows, i), dropped.get(begin + i)
            self._order.see(fact.group, fact.session, rank(fact), chunk.received_ms, place=fact.place)
            if outcome is None or outcome.startswith("duplicate."):
                self._order.fix_again(fact.group, fact.session, rank(fact), place=fact.place)

    def _remember(self, rows: bytes, ref: int) -> list[int]:
        """The tables know *rows*, the first of which stands at *ref*; indexes of those that are one
        of a product's ways to report.
        """
        add_span, swap_child, swap_response = self._spans.add, self._children.swap, self._responses.swap
        swap_request, key = self._requests.swap, span_hash
        grouped: list[int] = []
        for i, (own, parent, response, group, request) in enumerate(remembered_of(rows)):
            add_span(key(own) & MASK or 1, ref)
            if parent != NO_SPAN:
                swap_child(key(own[:TRACE_ID_BYTES] + parent) & MASK or 1, ref)
            if response:
                swap_response(response, ref)
            if request:
                swap_request(request, ref)
            if group:
                grouped.append(i)
            ref += REF_STEP
        return grouped

    def _restore_settling(self, chunk: Settling, begin: int, rows: bytes) -> None:
        """Take back *rows*, which stand in *chunk* from index *begin* on: all of them are kept."""
        restored = _Restored(self, unchained(rows), chunk, begin, set())
        facts, _ = self._count(restored)
        self._take(chunk, facts, _groups_in_order(rows, restored.first))

    def _note_marks(self, fact: CallDigest, ref: int, chunk: Settling, idx: int, first: int) -> None:
        if fact.marks & REPEATS_OTHERS:
            chunk.marked.add(idx)
        if fact.marks & UNFINISHED:
            self._begun.setdefault(chunk.seq, set()).add(idx)
        if fact.marks & STREAM_PART:
            self._add_stream_part(fact, ref, chunk, idx)
        if fact.marks & BASES:
            _note_basis(fact, chunk, idx, first)

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
        """The call at *ref* needs a verdict too, if it still settles: the first that comes due
        decides for both.
        """
        where = split_ref(ref)
        chunk = self._chunks.get(where.seq)
        if chunk is None or where.idx in chunk.related:
            return
        chunk.related.add(where.idx)
        if self._counted_chunk is not None and chunk is not self._counted_chunk:
            self._counted_chunk.relates.append(ref)

    def _unrelate(self, ref: int) -> None:
        """What the call at *ref* was related to is not known any more."""
        where = split_ref(ref)
        if where.seq in self._chunks:
            self._chunks[where.seq].related.discard(where.idx)

    def _flag(self, ref: int) -> bool:
        """The call at *ref* contradicts another: if it comes due later, it is flagged in its turn.
        False where that was known.
        """
        where = split_ref(ref)
        chunk = self._chunks.get(where.seq)
        if chunk is None or where.idx in chunk.flagged:
            return False
        chunk.flagged.add(where.idx)
        return True

    def _watch_co_instrumented(self, source: int, scope: int, refs: Sequence[int]) -> None:
        """Look for co-instrumented spans of new reports, only in sources that
        more than one scope reports from.
        """
        seen, chunk = self._sources.get(source), self._counted_chunk
        if seen is None:
            seen = self._sources[source] = SettlingReports(scope)
            if chunk is not None:
                chunk.first_of.append(source)
        if seen.index is None:
            if seen.scope == scope:
                seen.remember(refs, self._oldest)
                return
            seen.index = self._indexed(seen.refs)
            del seen.refs[:]
            if chunk is not None:
                chunk.indexed.append(source)
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

    def due(self, received_through_ms: int, seq_through: int, *, max_reports: int) -> list[int]:
        """The chunks received up to *received_through_ms* and numbered up to *seq_through*,
        oldest first; they end with *max_reports*.
        """
        found: list[int] = []
        reports = 0
        for seq, chunk in self._chunks.items():
            if chunk.received_ms > received_through_ms or seq > seq_through or reports >= max_reports:
                break
            found.append(seq)
            reports += len(chunk.outcomes)
        return found

    def turn_back(self, now_ms: int) -> None:
        """The clock was set back to *now_ms*: a chunk received later than that waits no longer than
        one received now.
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
        near_others = self._native.near_others if self._native else self._near_others
        near = near_others(chunk.facts, chunk.outcomes)
        maybe = {*near, *chunk.related, *chunk.flagged, *chunk.marked}
        return [
            call_ref(seq, idx)
            for idx in sorted(maybe)
            if chunk.outcomes[idx] == OPEN and self._needs_verdict(chunk, idx)
        ]

    def _near_others(self, facts: bytearray, outcomes: bytearray) -> list[int]:
        """Indexes of the open calls below which a report stands, or above which a call."""
        find, find_span, key = self._children.find, self._spans.find, span_hash
        return [
            idx
            for idx, (own, parent) in enumerate(spans_of(facts))
            if outcomes[idx] == OPEN
            and (find(key(own) & MASK or 1) or (parent != NO_SPAN and find_span(key(own[:16] + parent) & MASK or 1)))
        ]

    def _needs_verdict(self, chunk: Settling, idx: int) -> bool:
        if idx in chunk.related or idx in chunk.flagged:
            return True
        ((own, parent),) = spans_of(chunk.facts[idx * DIGEST_BYTES : (idx + 1) * DIGEST_BYTES])
        return (
            self._children.find(span_key(own)) != 0
            or self._is_below_settled(own[:16], parent)
            or (idx in chunk.marked and self._is_reported_elsewhere(unpack_fact(chunk.facts, idx)))
        )

    def _is_below_settled(self, trace_id: bytes, parent_span_id: bytes) -> bool:
        """Whether the span above is a call that may have been forwarded."""
        parent = self._spans.find(span_key(trace_id + parent_span_id)) if parent_span_id != NO_SPAN else 0
        return bool(parent) and split_ref(parent).seq not in self._chunks

    def _is_reported_elsewhere(self, fact: CallDigest) -> bool:
        """Whether a call may stand around the report, or beside it under its parent, or another of
        its product's ways to report counts. Else it is taken.
        """
        has_parent = any(fact.parent_span_id)
        if has_parent and fact.marks & REPEAT:
            return True
        if has_parent and fact.marks & LOG and self._spans.find(span_key(fact.trace_id + fact.parent_span_id)):
            return True
        if not fact.group:
            return False
        if self._order.counted(fact.group, fact.session, place=fact.place) != rank(fact):
            return True
        self._taken += self._order.fix(fact.group, fact.session, rank(fact), place=fact.place)
        return False

    def cluster(self, ref: int, late: Mapping[int, LateChunk | None]) -> tuple[Cluster, set[int]]:
        """The cluster around *ref*, and the settled chunks whose rows are needed
        first and are not in *late*.

        Of a cluster that `is_large` only the beginning is returned:
        `closure` and `part` decide it.
        """
        rows = Rows(self._chunks, late, self._looks)
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
        verdict.decided = [ref for ref in (*verdict.dropped, *verdict.merged) if self.is_open(ref)]
        for ref in verdict.dropped:
            self._fix(ref, DROPPED)
        for ref in verdict.merged:
            self._fix(ref, KEPT)
        verdict.flagged = [ref for ref in verdict.conflicts if self._flag(ref)]
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

    def assumed(self, seq: int) -> list[Assumed]:
        """The calls of chunk *seq* of which nothing shows what their input holds."""
        chunk = self._chunks[seq]
        facts = ((idx, unpack_fact(chunk.facts, idx)) for idx in chunk.assumed)
        return [
            Assumed(call_ref(seq, idx), x.source, x.scope, x.response_model or x.request_model, max(0, x.input_tokens))
            for idx, x in facts
        ]

    def proving(self, through_seq: int) -> list[Proving]:
        """Calls in chunks through *through_seq* that show what their input holds, until `proved`:
        the first `PROOFS_AT_ONCE` of a payload's source, scope and model, for a payload has one
        key.
        """
        found: dict[tuple[int, ...], list[Proving]] = {}
        calls: Counter[tuple[int, ...]] = Counter()
        for chunk in self._chunks.values():
            if chunk.seq > through_seq:
                continue
            for first, idx in chunk.proving:
                fact = unpack_fact(chunk.facts, idx)
                model = fact.response_model or fact.request_model
                kind = (first, fact.source, fact.scope, model, fact.marks & BASES)
                calls[kind] += 1
                alike = found.setdefault(kind, [])
                if len(alike) < PROOFS_AT_ONCE:
                    excludes = basis_of(fact) == SHOWN_EXCLUSIVE
                    alike.append(Proving(call_ref(chunk.seq, idx), fact.scope, excludes, 1))
        for alike_kind, (looked_at, *rest) in found.items():
            found[alike_kind] = [looked_at._replace(calls=calls[alike_kind] - len(rest)), *rest]
        return [each for alike in found.values() for each in alike]

    def proved(self, through_seq: int) -> None:
        """What `proving` gave for chunks through *through_seq* is noted."""
        for chunk in self._chunks.values():
            if chunk.seq <= through_seq:
                chunk.proving.clear()

    def aggregates(self, seq: int) -> list[ForwardedAggregate]:
        """The open aggregates of chunk *seq* that other gateways forwarded."""
        chunk = self._chunks[seq]
        found = [(idx, since_ms) for idx, since_ms in chunk.aggregates.items() if chunk.outcomes[idx] == OPEN]
        facts = [unpack_fact(chunk.facts, idx) for idx, _ in found]
        return [
            ForwardedAggregate(call_ref(seq, idx), fact.place, fact.source, since_ms)
            for (idx, since_ms), fact in zip(found, facts, strict=True)
        ]

    def n_aggregates(self) -> int:
        """How many aggregates of other gateways settle."""
        return sum(len(chunk.aggregates) for chunk in self._chunks.values())

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
        for ref in verdict.decided:
            self._fix(ref, OPEN)
        for ref in verdict.flagged:
            where = split_ref(ref)
            if where.seq in self._chunks:
                self._chunks[where.seq].flagged.discard(where.idx)
        for ref in verdict.parted:
            where = split_ref(ref)
            if where.seq in self._chunks:
                self._chunks[where.seq].parted.pop(where.idx, None)
        self._order.unfix(verdict.fixed)

    def written(self) -> None:
        """What was decided so far is written down: the calls that `roots` took stand."""
        self._taken.clear()
        self._looks.clear()

    def unwritten(self) -> None:
        """What was decided could not be written down: no call stands that `roots` took, and no
        cluster was looked at in vain.
        """
        self._order.unfix(self._taken)
        for ref, n in self._looks:
            where = split_ref(ref)
            if where.seq in self._chunks:
                self._chunks[where.seq].looks[where.idx] -= n
        self.written()

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
        chunk = self._chunks[seq] = self._counted_chunk = Settling(seq, received_ms)
        for reports in calls:
            first = call_ref(seq, len(chunk.outcomes))
            reported_since = [ref for ref in self._versions.others(reports[0]) if ref not in reports]
            for ref in reports:
                self._move(ref, first, chunk)
            for ref in reported_since:
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
        if fact.scope == FORWARDED_AGGREGATE:
            chunk.aggregates[idx] = old.aggregates[where.idx]
            return
        chunk.marked.add(idx)
        self._begun.setdefault(chunk.seq, set()).add(idx)
        if new != first or prev_response or prev_request:
            chunk.related.add(idx)
        if fact.marks & STREAM_PART:
            self._add_stream_part(fact, new, chunk, idx)
        if fact.marks & BASES:
            _note_basis(fact, chunk, idx, new)
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


class NativeLoops(Protocol):
    """The hot loops of `Ledger` over its tables, as the extension has them."""

    def count(
        self, rows: bytes, first: int, special: int, payload: "_Payload", /
    ) -> tuple[bytes, list[tuple[int, int, bytes]]]:
        """The kept rows of *payload*; source, scope and references of each group of them.

        *special*: marks of rows that are noted.
        """

    def count_links(self, links: bytes, ref: int, ways_up: Table | None, /) -> bytes:
        """`Ledger._link_rows`."""

    def remember(self, rows: bytes, ref: int, /) -> list[int]:
        """`Ledger._remember`."""

    def near_others(self, facts: bytearray, outcomes: bytearray, /) -> list[int]:
        """`Ledger._near_others`."""


class _Payload:
    """Rows that are being counted, and what is rare of them."""

    __slots__ = ("_kept", "_ledger", "_through", "chunk", "duplicates", "first", "rows")
    is_of_one_key = True
    """Whether all rows came under one inbound key."""

    def __init__(self, ledger: Ledger, rows: bytes, chunk: Settling, first: int, duplicates: set[int]) -> None:
        """*first*: index in *chunk* of the first row that is kept."""
        self._ledger = ledger
        self.rows = rows
        self.chunk = chunk
        self.first = call_ref(chunk.seq, first)
        self.duplicates = duplicates
        self._kept: list[int] = []
        self._through = 0

    def is_news(self, i: int, ref: int) -> bool:
        """Row *i* is of a known span: whether it is kept, at *ref*. Asked in the order of rows."""
        self._kept += [k for k in range(self._through, i) if k not in self.duplicates]
        self._through = i
        if self._ledger._is_news(self.rows, i, ref, self._kept, self.first):  # noqa: SLF001 - a part of it
            return True
        self.duplicates.add(i)
        return False

    def note(self, i: int, ref: int, prev_response: int, prev_request: int) -> None:
        """Row *i*, which stands at *ref*, names a response or request that others named before, or
        has marks of `NOTED`.
        """
        if prev_response or prev_request:
            for related in (ref, prev_response, prev_request):
                self._ledger._relate(related)  # noqa: SLF001
        first = self.first if self.is_of_one_key else ref
        self._ledger._note(self.rows, i, ref, self.chunk, first)  # noqa: SLF001


class _Restored(_Payload):
    """Rows that the spool has, each of which was kept."""

    __slots__ = ()
    is_of_one_key = False

    def is_news(self, i: int, ref: int) -> bool:
        """Row *i*, which stands at *ref*, is a version of the span's first report."""
        own = self.rows[i * DIGEST_BYTES : i * DIGEST_BYTES + IDENTITY_BYTES]
        self._ledger._add_version(self._ledger._spans.find(span_key(own)), ref)  # noqa: SLF001 - a part of it
        return True


class _Before(NamedTuple):
    """Of each table: reference of a report -> its key, and what the key referred to before."""

    spans: dict[int, tuple[int, int]]
    children: dict[int, tuple[int, int]]
    responses: dict[int, tuple[int, int]]
    requests: dict[int, tuple[int, int]]


def _take_back_keys(table: Table, before: Mapping[int, tuple[int, int]]) -> set[int]:
    """The keys that are left and refer to nothing."""
    emptied: set[int] = set()
    for key in {key for key, _ in before.values()}:
        known = table.find(key)
        while known in before:
            known = before[known][1]
        table.swap(key, known)
        if not known:
            emptied.add(key)
    return emptied


def _groups_in_order(rows: bytes, ref: int) -> Iterator[Group]:
    """The groups of *rows*, the first of which stands at *ref*; each is of rows in a row:
    co-instrumented spans are looked for in the order in which they came.
    """
    for (source, scope), of_group in groupby(keys_of(rows), key=itemgetter(2, 3)):
        end = ref + REF_STEP * sum(1 for _ in of_group)
        yield source, scope, range(ref, end, REF_STEP)
        ref = end


def _note_basis(fact: CallDigest, chunk: Settling, idx: int, first: int) -> None:
    """Call *idx* of *chunk* shows what its input holds, or does not; *first* as in `_note`."""
    if basis_of(fact) == ASSUMED:
        chunk.assumed.append(idx)
    else:
        chunk.proving.append((first, idx))


def _restore_outcomes(chunk: Settling, dropped: Mapping[int, str], merged: AbstractSet[int]) -> None:
    """What the spool states of the calls of *chunk*; none is stated of the others."""
    n = len(chunk.outcomes)
    for idx in dropped:
        if idx < n and chunk.outcomes[idx] == OPEN:
            chunk.outcomes[idx] = DROPPED
    for idx in merged:
        if idx < n:
            chunk.outcomes[idx] = KEPT


def _without_chains(rows: bytes | bytearray, idx: int) -> bytes:
    """What row *idx* states of its report: not where it stands among the others."""
    return bytes(rows[idx * DIGEST_BYTES : (idx + 1) * DIGEST_BYTES - CHAINS_BYTES])
