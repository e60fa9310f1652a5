"""Gathering a cluster: all remembered reports that are related with one of them. Pure.

From a report the way goes to all with its response id or its request id, to its co-instrumented
spans, and to the calls below it (through spans that are no calls, as far as their links are
remembered). What stands above it is decided when its own turn comes.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter

from gateway.counting.calls.agreement import accounts_for, is_same_response
from gateway.counting.calls.digest import CallDigest, split_ref
from gateway.counting.calls.resolve import Fixed, Member
from gateway.counting.calls.rows import MAX_LOOKS, Rows, Tables, span_key
from gateway.counting.calls.table import Table
from gateway.counting.calls.walk import DescendantWalk
from gateway.rules.call import LOG, REPEAT

MAX_CLUSTER = 512
"""Reports that are decided together; a cluster of more is decided in parts (`parts.py`)."""
SMALL_CLUSTER = 32
"""A larger cluster is gathered at most `MAX_LOOKS` times (`rows.py`), then decided in parts."""
MAX_ALIKE = 64
"""Different reports of one response that another is compared with."""

CoInstrumented = Callable[[int, CallDigest, Collection[int]], list[int]]
"""(reference, its report, references known already) -> references of
reports that may be co-instrumented spans of its call."""
Versions = Callable[[int], list[int]]
"""Reference -> references of the other reports of its span."""

_NOTHING_BEFORE: Mapping[int, int] = {}


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
    beyond: set[int] = field(default_factory=set)
    """Calls above calls of other parts."""
    paired: set[int] = field(default_factory=set)
    """Reports that stand for a call of another part."""
    is_large: bool = False
    """Whether this is only the beginning of a cluster that is decided in parts."""


def gather(ref: int, rows: Rows, tables: Tables, co_instrumented: CoInstrumented, versions: Versions) -> Cluster:
    """The cluster around *ref*.

    While `rows.missing` is not empty it is not whole, nor where it is large.
    """
    cluster = Cluster()
    _gather(ref, cluster, rows, tables, co_instrumented, versions)
    seen = dict.fromkeys((*cluster.members, *cluster.shadows, *cluster.parents))
    if len(seen) > SMALL_CLUSTER and (cluster.is_large or not rows.missing):
        looks = MAX_LOOKS if len(seen) >= MAX_CLUSTER else 1
        for at in seen:
            rows.note_looks(at, looks)
    return cluster


def _gather(
    ref: int, cluster: Cluster, rows: Rows, tables: Tables, co_instrumented: CoInstrumented, versions: Versions
) -> None:
    spans, children, responses, requests = tables
    walked: set[int] = set()
    answers = ResponseIndex(rows, responses)
    asked: set[int] = set()
    look = DescendantWalk(rows, children)
    todo = [ref]
    while todo:
        at = todo.pop()
        if at in cluster.members:
            continue
        if _is_large(at, cluster, rows, tables):
            cluster.is_large = True
            return
        member = rows.member(at)
        if member is None:
            todo += _dropped(at, rows, answers, look, cluster, walked)
            continue
        cluster.members[at] = member
        todo += other_versions(at, member, rows, cluster, versions)
        todo += answers.refs(member.fact)
        if member.fixed is Fixed.OPEN and answers.is_answered(member.fact):
            cluster.answered.add(at)
        todo += _same_request(member.fact, rows, requests, asked)
        todo += co_instrumented(at, member.fact, cluster.members)
        if member.fact.marks & (LOG | REPEAT):
            todo += around_of(at, member.fact, rows, tables, cluster)
        else:
            todo += settled_parent(member, rows, spans)
        below, whole = look.below(member.fact)
        if not whole:
            cluster.cut.add(at)
        for child in below:
            cluster.parents.setdefault(child, []).append(at)
        todo += below
        if len(below) >= MAX_CLUSTER:
            cluster.is_large = True
            return


def _is_large(at: int, cluster: Cluster, rows: Rows, tables: Tables) -> bool:
    """Whether the cluster is at its limit, or the report at *at* or one beside it of the same id is
    known to be of a large one.
    """
    if rows.is_worn(at) or len(cluster.members) + len(cluster.shadows) >= MAX_CLUSTER:
        return True
    fact = rows.fact(at)
    if fact is None:
        return False
    beside = [fact.prev_response, tables.responses.find(fact.response)] if fact.response else []
    beside += [fact.prev_request, tables.requests.find(fact.request)] if fact.request else []
    return any(map(rows.is_worn, beside))


def other_versions(at: int, member: Member, rows: Rows, cluster: Cluster, versions: Versions) -> list[int]:
    """References of the other reports of the span; noted in *cluster* where
    the first one was dropped.
    """
    others = versions(at)
    if others and others[0] < at and member.fixed is Fixed.OPEN and rows.is_dropped(others[0]):
        cluster.gone.add(at)
    return others


def settled_parent(member: Member, rows: Rows, spans: Table) -> list[int]:
    """Reference of the call directly above that settled before; none where it did not."""
    fact = member.fact
    if member.fixed is not Fixed.OPEN or not any(fact.parent_span_id):
        return []
    parent = spans.find(span_key(fact.trace_id + fact.parent_span_id))
    return [parent] if parent and rows.is_late(parent) else []


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


def around_of(at: int, fact: CallDigest, rows: Rows, tables: Tables, cluster: Cluster) -> list[int]:
    """Reference of the call whose span the report was emitted in, or which it accounts for, noted
    in *cluster*; none where there is no such call.
    """
    if not any(fact.parent_span_id):
        return []
    ref = tables.spans.find(span_key(fact.trace_id + fact.parent_span_id))
    if not ref and fact.marks & REPEAT:
        ref = accounted(at, fact, rows, tables.children)
    around = rows.fact(ref) if ref else None
    if around is None:
        return []
    if rows.member(ref) is None:
        cluster.inside_dropped[at] = around
        cluster.reported_by_dropped.add(ref)
        return [ref]
    cluster.inside[at] = ref
    return [ref]


def accounted(at: int, fact: CallDigest, rows: Rows, children: Table) -> int:
    """Reference of the call under the same parent whose numbers the report states again; 0 where
    none is known. Those that came just before are looked at first.
    """
    last = children.find(span_key(fact.trace_id + fact.parent_span_id))
    for first in (fact.prev_child, last):
        ref = first
        for _ in range(MAX_ALIKE):
            if not ref or ref == at:
                break
            other = rows.link(ref) if split_ref(ref).is_link else rows.fact(ref)
            if isinstance(other, CallDigest) and accounts_for(fact, other):
                return ref
            ref = other.prev_child if other is not None else 0
    return 0


PREV_RESPONSE, PREV_REQUEST = attrgetter("prev_response"), attrgetter("prev_request")


def chain(ref: int, rows: Rows, before: Callable[[CallDigest], int], *, most: int = MAX_CLUSTER) -> list[int]:
    """*ref* and up to *most* references with it *before* it, as far as rows are at hand."""
    found: list[int] = []
    while ref and len(found) <= most:
        found.append(ref)
        other = rows.fact(ref)
        ref = before(other) if other is not None else 0
    return found


def _same_request(fact: CallDigest, rows: Rows, requests: Table, asked: set[int]) -> list[int]:
    """References of all reports with the fact's request id, unless it was *asked* for before."""
    if not fact.request or fact.request in asked:
        return []
    asked.add(fact.request)
    return chain(requests.find(fact.request), rows, PREV_REQUEST)


class ResponseIndex:
    """Who reports a response, walked once for each id."""

    def __init__(
        self, rows: Rows, responses: Table, *, most: int = MAX_CLUSTER, before: Mapping[int, int] = _NOTHING_BEFORE
    ) -> None:
        """*most*: reports of one response that are looked at, the last ones received; those up to
        the reference in *before*, where the response has one there.
        """
        self._rows, self._responses, self._most, self._before = rows, responses, most, before
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
        is_part = response in self._before
        last = self._before[response] if is_part else self._responses.find(response)
        found = chain(last, self._rows, PREV_RESPONSE, most=self._most)
        dropped: dict[CallDigest, None] = {}
        stands = False
        for ref in found:
            member = self._rows.member(ref)
            stands = stands or (member is not None and member.fixed is Fixed.KEPT)
            other = self._rows.fact(ref) if self._rows.is_dropped(ref) else None
            if other is not None:
                dropped[_as_said(other)] = None
        # Of a part, what stands for the dropped ones may be further back than was looked.
        self._dropped[response] = {} if stands and not is_part else dropped
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
