"""One span reported more than once while its first report settles: what each of them knows
becomes one record. Pure.

An exporter may send a span before its usage is known (a stream that goes on, a batch that was cut)
and again when it is. A report that states the same as an earlier one is a duplicate at once; one
that states something else is kept beside it until their time is up. Then they stand in the cluster
as one report under the first one's reference, and the most complete of them is believed. What comes
after the first report was let go changes nothing.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_

from gateway.counting.calls.agreement import is_same_response
from gateway.counting.calls.digest import FAILED, HIT, CallDigest, split_ref
from gateway.counting.calls.resolve import Fixed, Member, Verdict, fullest
from gateway.rules.call import LOG, REPEAT, UNFINISHED

MAX_VERSIONS = 8
"""Reports of one span that are kept while they settle; any more are duplicates at once."""
SAME_SPAN = "duplicate.same_span"


class Versions:
    """First report of a span -> the later ones that differ from it."""

    __slots__ = ("_first", "_later")

    def __init__(self) -> None:
        self._later: dict[int, list[int]] = {}
        self._first: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._first)

    def add(self, first: int, later: int) -> None:
        self._later.setdefault(first, []).append(later)
        self._first[later] = first

    def of(self, first: int) -> tuple[int, ...]:
        """All reports of the span whose first one is *first*."""
        return (first, *self._later.get(first, ()))

    def others(self, ref: int) -> list[int]:
        """The other reports of the span that *ref* reports; mostly none."""
        first = self._first.get(ref, ref)
        return [other for other in self.of(first) if other != ref] if first in self._later else []

    def take_back(self, seqs: Collection[int]) -> None:
        """Forget the reports in the chunks *seqs*."""
        for ref in [ref for ref in self._first if split_ref(ref).seq in seqs]:
            first = self._first.pop(ref)
            self._later[first].remove(ref)
            if not self._later[first]:
                del self._later[first]

    def prune(self, oldest_seq: int) -> None:
        """Forget spans of which nothing stands in chunk *oldest_seq* or later."""
        for first, later in list(self._later.items()):
            if split_ref(max(first, *later)).seq < oldest_seq:
                del self._later[first]
                for ref in later:
                    if self._first[ref] == first:
                        del self._first[ref]


_NO_SHADOWS: Mapping[int, CallDigest] = {}


class _Decided:
    """Reports about which was decided before."""

    def __init__(self) -> None:
        self._by_span: dict[tuple[bytes, bytes], list[tuple[int, CallDigest]]] = {}
        self._by_response: dict[int, list[tuple[int, CallDigest]]] = {}

    def add(self, ref: int, fact: CallDigest) -> None:
        own = fact.parent_span_id if fact.marks & (LOG | REPEAT) else fact.span_id
        self._by_span.setdefault((fact.trace_id, own), []).append((ref, fact))
        if fact.response:
            self._by_response.setdefault(fact.response, []).append((ref, fact))

    def of(self, fact: CallDigest) -> list[tuple[int, CallDigest]]:
        """Those of the call of *fact*: of one span, emitted in it, or of a response
        that it or one of these states.
        """
        found = dict(self._by_span.get((fact.trace_id, fact.span_id), ()))
        for response in dict.fromkeys(x.response for x in (fact, *found.values()) if x.response):
            stated = fact._replace(response=response)
            alike = self._by_response.get(response, ())
            found |= {ref: x for ref, x in alike if ref not in found and is_same_response(x, stated)}
        return list(found.items())

    def completed(self, fact: CallDigest) -> CallDigest:
        """*fact*, a report that was decided about, with what the others of its call knew."""
        own = [x for _, x in self.of(fact) if x is not fact]
        return _together(fact, sorted((fact, *own), key=lambda x: -x.completeness)) if own else fact


@dataclass(frozen=True, slots=True)
class Folded:
    """A cluster in which each span is reported once."""

    members: Sequence[Member]
    versions: Mapping[int, Sequence[Member]] = field(default_factory=dict)
    """Reference of a span's report -> all of its reports, the one to believe first."""
    alias: Mapping[int, int] = field(default_factory=dict)
    """Report that is folded, or was dropped before -> the one that stands for it."""
    decided: _Decided = field(default_factory=_Decided)

    def parents(self, sent: Mapping[int, Sequence[int]]) -> Mapping[int, Sequence[int]]:
        if not self.alias:
            return sent
        made: dict[int, list[int]] = {}
        for child, above in sent.items():
            made.setdefault(self._one(child), []).extend(self._one(ref) for ref in above)
        return made

    def refs(self, sent: AbstractSet[int]) -> AbstractSet[int]:
        return {self._one(ref) for ref in sent} if self.alias else sent

    def inside(self, sent: Mapping[int, int]) -> Mapping[int, int]:
        return {self._one(ref): self._one(around) for ref, around in sent.items()} if self.alias else sent

    def inside_dropped(self, sent: Mapping[int, CallDigest]) -> Mapping[int, CallDigest]:
        """Each call that was dropped, with what the reports knew that were emitted in its
        span and decided with it.
        """
        return {self._one(ref): self.decided.completed(around) for ref, around in sent.items()}

    def _one(self, ref: int) -> int:
        return self.alias.get(ref, ref)

    def unfold(self, verdict: Verdict) -> None:
        """Complete *verdict* with the outcome of every report: of a span that stands, the first one
        stands for all.
        """
        for slot, refs in verdict.merged.items():
            verdict.merged[slot] = [x for ref in refs for x in self._refs(ref)]
        for ref, reports in self.versions.items():
            is_open = all(member.fixed is Fixed.OPEN for member in reports)
            if is_open and ref not in verdict.dropped and ref not in verdict.merged:
                verdict.merged[ref] = self._refs(ref)
            for member in reports:
                if member.ref != ref and member.fixed is Fixed.OPEN:
                    verdict.dropped[member.ref] = SAME_SPAN

    def _refs(self, ref: int) -> list[int]:
        return [member.ref for member in self.versions[ref]] if ref in self.versions else [ref]


def fold(members: Iterable[Member], shadows: Mapping[int, CallDigest] = _NO_SHADOWS) -> Folded:
    """The *members* with one report a span.

    *shadows*: reports that were dropped before. Their record was completed into another one, and so
    is what they knew into the report that stands; what stood above them stands above that one.
    """
    by_span: dict[tuple[bytes, bytes], list[Member]] = {}
    for member in members:
        by_span.setdefault((member.fact.trace_id, member.fact.span_id), []).append(member)
    made: list[Member] = []
    versions: dict[int, list[Member]] = {}
    alias: dict[int, int] = {}
    decided = _Decided()
    for ref, fact in shadows.items():
        decided.add(ref, fact)
    for reports in by_span.values():
        first = min(reports, key=lambda m: (m.fixed is not Fixed.KEPT, m.ref))
        if first.fixed is Fixed.KEPT:
            alias.update((ref, first.ref) for ref, _ in decided.of(first.fact))
            first = replace(first, fact=decided.completed(first.fact))
        elif len(reports) > 1:
            first = replace(first, fact=_together(first.fact, [m.fact for m in fullest(reports)]))
        made.append(first)
        if len(reports) > 1:
            versions[first.ref] = fullest(sorted(reports, key=lambda m: m.ref))
            alias.update((member.ref, first.ref) for member in reports if member.ref != first.ref)
    for member in made:
        if member.fixed is Fixed.KEPT:
            decided.add(member.ref, member.fact)
    return Folded(made, versions, alias, decided)


def _together(fact: CallDigest, ordered: Sequence[CallDigest]) -> CallDigest:
    """*fact* with the wholes and names of the first of *ordered* that states them."""
    of_the_fullest = FAILED | UNFINISHED
    return fact._replace(
        start_ms=ordered[0].start_ms,
        end_ms=ordered[0].end_ms,
        completeness=ordered[0].completeness,
        input_tokens=next((x.input_tokens for x in ordered if x.input_tokens >= 0), -1),
        output_tokens=next((x.output_tokens for x in ordered if x.output_tokens >= 0), -1),
        response=next((x.response for x in ordered if x.response), 0),
        request=next((x.request for x in ordered if x.request), 0),
        request_model=next((x.request_model for x in ordered if x.request_model), 0),
        response_model=next((x.response_model for x in ordered if x.response_model), 0),
        marks=fact.marks & ~of_the_fullest
        | ordered[0].marks & of_the_fullest
        | reduce(or_, (x.marks & HIT for x in ordered)),
    )
