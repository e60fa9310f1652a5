"""A cluster of more than `MAX_CLUSTER` reports, decided in parts. Pure.

1. `closure` finds the reports that share an id with the root, are co-instrumented with it, or
   were emitted in its span, transitively: each once. It stops at reports that were decided
   before; these are *standing*.
2. `Closure.parts` cuts both, in order of start time, into parts of up to
   `PART`, at the widest gap.
3. `gather_part` makes a cluster of one part, with the reports that stand from the part before.
   Calls below its calls join it as far as `MAX_BELOW_PART` spans show all of them; a call with
   more below is taken to be covered.

So each report is decided once, at a cost that does not depend on the size of the cluster.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.counting.calls.cluster import (
    PREV_REQUEST,
    Cluster,
    CoInstrumented,
    ResponseIndex,
    Versions,
    around_of,
    chain,
    other_versions,
    settled_parent,
)
from gateway.counting.calls.resolve import Fixed, Member
from gateway.counting.calls.rows import Rows, Tables
from gateway.counting.calls.walk import DescendantWalk
from gateway.rules.call import LOG, REPEAT

PART = 256
"""Reports of one part."""
MAX_STANDING = 64
"""Reports decided before that a part, or the walk along one id, looks at."""
MAX_BELOW_PART = 128
"""Spans looked at below one call of a part."""


class Entry(NamedTuple):
    """One report of a closure; they sort by start time and receipt."""

    start_ms: int
    ref: int
    stands: bool
    """Whether it was decided before."""
    scope: int


@dataclass(slots=True)
class Closure:
    """The reports of a large cluster."""

    entries: list[Entry] = field(default_factory=list)
    standing: int = 0
    """How many of them stand."""

    def _in_order(self) -> list[Entry]:
        """The entries in order of start; of those that start at one time the first of each scope,
        then the second of each: co-instrumented spans of equal calls stay side by side. What stands
        counts apart: of a pair that was decided one may be forgotten before the other.
        """
        before: Counter[tuple[int, int, bool]] = Counter()
        placed: list[tuple[int, int, Entry]] = []
        for entry in sorted(self.entries):
            group = entry.start_ms, entry.scope, entry.stands
            placed.append((entry.start_ms, before[group], entry))
            before[group] += 1
        return [entry for _, _, entry in sorted(placed)]

    def parts(self) -> list[list[Entry]]:
        """The entries in order of time, in parts of `PART // 2` to `PART`, each
        ending at its widest gap.
        """
        entries = self._in_order()
        found: list[list[Entry]] = []
        first = 0
        while len(entries) - first > PART:
            ends = range(first + PART // 2, first + PART + 1)
            end = max(ends, key=lambda i: (entries[i].start_ms - entries[i - 1].start_ms, i))
            found.append(entries[first:end])
            first = end
        found.append(entries[first:])
        return found


def closure(
    ref: int,
    rows: Rows,
    tables: Tables,
    co_instrumented: CoInstrumented,
    versions: Versions,
    found: Closure,
    end: int,
) -> Iterator[None]:
    """Fill *found* with the reports around *ref*, in steps of one report,
    so that the caller may yield.

    Along an id it ends after `MAX_STANDING` reports in a row that stand. Reports from the reference
    *end* on are left to a later pass: the rest of their payload may not be counted yet.
    """
    todo = deque(((ref, 0),))
    seen = {ref}
    heads: set[int] = set()
    while todo:
        at, passed = todo.popleft()
        yield
        fact = rows.fact(at)
        if fact is None:
            continue
        member = rows.member(at) if at < end else None
        stands = rows.is_late(at) or rows.is_parted(at)
        passed = passed + 1 if stands else 0
        related: list[int] = []
        for key, before, table in (
            (fact.response, fact.prev_response, tables.responses),
            (fact.request, fact.prev_request, tables.requests),
        ):
            if key and key not in heads:
                heads.add(key)
                related.append(table.find(key))
            if key and passed < MAX_STANDING:
                related.append(before)
        if member is not None and not stands:
            found.entries.append(Entry(fact.start_ms, at, stands=False, scope=fact.scope))
            related += versions(at)
            related += co_instrumented(at, fact, seen)
        elif member is not None and found.standing <= len(found.entries) + MAX_STANDING:
            found.entries.append(Entry(fact.start_ms, at, stands=True, scope=fact.scope))
            found.standing += 1
        for other in related:
            if other and other not in seen:
                seen.add(other)
                todo.append((other, passed))


def gather_part(
    refs: Sequence[int], standing: Sequence[int], rows: Rows, tables: Tables, versions: Versions
) -> Cluster:
    """The cluster of one part. While `rows.missing` is not empty it is not whole."""
    cluster = Cluster()
    for at in (*standing, *refs):
        _add(at, cluster, rows)
    oldest = [fact for at in sorted(refs, reverse=True) if (fact := rows.fact(at)) is not None]
    answered_before = {fact.response: fact.prev_response for fact in oldest if fact.response}
    asked_before = {fact.request: fact.prev_request for fact in oldest if fact.request}
    answers = ResponseIndex(rows, tables.responses, most=MAX_STANDING, before=answered_before)
    for fact in oldest:
        _add_standing(answers.refs(fact), cluster, rows)
    for last in asked_before.values():
        _add_standing(chain(last, rows, PREV_REQUEST, most=MAX_STANDING), cluster, rows)
    cluster.paired.update(at for at, member in cluster.members.items() if member.fixed is Fixed.KEPT)
    walk = DescendantWalk(rows, tables.children, budget=0, nearest=MAX_BELOW_PART)
    for at in refs:
        member = cluster.members.get(at)
        if member is not None:
            _add_related(member, cluster, answers, rows, tables, versions)
            _add_below(member, cluster, walk, rows)
    return cluster


def _add(at: int, cluster: Cluster, rows: Rows) -> Member | None:
    member = cluster.members.get(at) or rows.member(at)
    if member is not None:
        cluster.members[at] = member
    return member


def _add_standing(refs: Iterable[int], cluster: Cluster, rows: Rows) -> None:
    """Add those of *refs* that were decided before."""
    for ref in refs:
        if rows.is_late(ref) or rows.is_parted(ref):
            _add(ref, cluster, rows)


def _add_related(
    member: Member, cluster: Cluster, answers: ResponseIndex, rows: Rows, tables: Tables, versions: Versions
) -> None:
    """Add what names the call of *member* directly: reports of its span, the span it was
    emitted in, the call above it.
    """
    at, fact = member.ref, member.fact
    for other in other_versions(at, member, rows, cluster, versions):
        _add(other, cluster, rows)
    if member.fixed is Fixed.OPEN and answers.is_answered(fact):
        cluster.answered.add(at)
    if fact.marks & (LOG | REPEAT):
        for around in around_of(at, fact, rows, tables, cluster):
            _add(around, cluster, rows)
    else:
        for above in settled_parent(member, rows, tables.spans):
            if _add(above, cluster, rows) is not None:
                cluster.parents.setdefault(at, []).append(above)


def _add_below(member: Member, cluster: Cluster, walk: DescendantWalk, rows: Rows) -> None:
    """Add the calls below *member*, or note that there are some; a span that
    repeats its parent is none.
    """
    below, whole = walk.below(member.fact)
    if not whole or len(cluster.members) + len(below) > 4 * PART:
        is_above_calls = any((fact := rows.fact(ref)) is None or not fact.marks & REPEAT for ref in below)
        (cluster.beyond if is_above_calls else cluster.cut).add(member.ref)
        return
    for child in below:
        if _add(child, cluster, rows) is not None:
            cluster.parents.setdefault(child, []).append(member.ref)
