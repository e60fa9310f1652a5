"""The counting rules over one cluster of related reports: which are calls of their own. Pure.

A cluster holds the reports that the ledger found to be related: by response id, as co-instrumented
spans, or below one another. The rules see the set, never the order in which it came, so any
order and any split over requests gives the same calls:

1. Reports with one response id whose time and usage agree are one call (rule 3b); those that do
   not agree stay, flagged `conflict`. So are reports of different scopes with one request id,
   which a gateway and its callbacks share where there is no answer to name.
2. A log that was emitted in a call's span and agrees with it is of that call; so is a
   span that is known to repeat its parent, unless it states another response and other
   usage: that is one more call beside it.
3. The beginning and the end of a stream that are reported apart are one call (`stream_parts.py`).
4. Co-instrumented spans are paired one to one, nearest in time first (rule 3c).
5. Bottom up, a call above others is suppressed as `ancestor` when they cover its
   usage; else both stay, flagged `conflict` (rule 2). Above a single call it is
   that very call, and completes it. A single call that the same scope reports below one
   that used more is a `part` of that.
6. Of a product's ways to report, only the one that counts stays (`order.py`); the others are
   suppressed as `other_report`.
7. What was forwarded already stands: a call that holds such a report keeps that report, and the
   others are duplicates of it.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice

from gateway.counting.calls.agreement import (
    MAX_OUTPUT_DEVIATION,
    NESTED_SLACK_MS,
    OUTPUT_DEVIATIONS,
    cached,
    deviation,
    is_co_instrumented,
    is_repeat,
    is_same_request,
    is_same_response,
    lacks_cache,
    same_model,
    same_usage,
    states_usage,
)
from gateway.counting.calls.digest import FAILED, HIT, CallDigest, rank
from gateway.rules.call import LOG, REPEAT, UNFINISHED

MAX_ALIKE = 64
"""Calls of one id, and reports of one call, that another report is compared with: the
last ones before it in time."""
MAX_SCANNED = 512
"""Reports that begin after one, among which its co-instrumented spans are looked for."""
_NOTHING: Mapping[int, int] = {}
_NO_DIGESTS: Mapping[int, CallDigest] = {}


class Fixed(Enum):
    """What was decided about a report before."""

    OPEN = 0
    KEPT = 1
    """Its record may be forwarded: it stands."""


@dataclass(frozen=True, slots=True)
class Member:
    ref: int
    fact: CallDigest
    fixed: Fixed = Fixed.OPEN


@dataclass(slots=True)
class Verdict:
    """What a cluster's reports become.

    References not named here are calls of their own, unchanged.
    """

    dropped: dict[int, str] = field(default_factory=dict)
    """Reference -> `duplicate.<reason>` or `suppressed.<reason>`."""
    merged: dict[int, list[int]] = field(default_factory=dict)
    """Reference that stands -> all references of its call, fullest first."""
    stamped: set[int] = field(default_factory=set)
    """Of those in `merged`, the ones that came under a key with
    labels: their attribution goes first."""
    conflicts: set[int] = field(default_factory=set)
    """References that stand with the flag `conflict`."""
    parted: list[int] = field(default_factory=list)
    """References that this decided for good, as a part of a large cluster."""
    taken: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(group, session, rank, place) of calls that stand: the way of
    reporting that counts from now on."""
    fixed: list[int] = field(default_factory=list)
    """What the ledger noted of `taken`, to be undone with the verdict."""
    decided: list[int] = field(default_factory=list)
    """Reports that were open before it, to be opened again with it."""
    flagged: list[int] = field(default_factory=list)
    """Of `conflicts`, those that no verdict before it named."""


class _Call:
    """Reports that are one call."""

    __slots__ = ("_fullest", "above", "covered", "is_joined", "members", "reason", "responses", "scopes")

    def __init__(self, member: Member) -> None:
        self.members = [member]
        self.scopes = {member.fact.scope}
        self.responses = {member.fact.response} - {0}
        self.is_joined = False
        """Whether its reports are another call's now."""
        self._fullest: CallDigest | None = None
        self.above: list[Member] = []
        """Suppressed reports above, of this call alone: they complete it."""
        self.reason = "response_id"
        self.covered = False

    def join(self, members: Sequence[Member]) -> None:
        """Add reports of the same call."""
        self.members += members
        self.scopes.update(m.fact.scope for m in members)
        self.responses.update(m.fact.response for m in members if m.fact.response)
        self._fullest = None

    def fullest(self) -> CallDigest:
        """The report to believe first."""
        if self._fullest is None:
            self._fullest = fullest(self.members)[0].fact
        return self._fullest


def resolve(
    members: Sequence[Member],
    parents: Mapping[int, Sequence[int]],
    cut: AbstractSet[int] = frozenset(),
    *,
    inside: Mapping[int, int] = _NOTHING,
    stream_ends: Mapping[int, int] = _NOTHING,
    inside_dropped: Mapping[int, CallDigest] = _NO_DIGESTS,
    answered: AbstractSet[int] = frozenset(),
    beyond: AbstractSet[int] = frozenset(),
    paired: AbstractSet[int] = frozenset(),
    counted_rank: Callable[[CallDigest], int] = lambda fact: 0,
) -> Verdict:
    """Decide a cluster. *parents*: reference of a call -> references of the calls that stand
    above it, at any distance.

    *cut*: calls below which more stands than the cluster shows; what shows is then taken
    to cover them. *inside*: log, or span that repeats its parent -> the call in whose
    span it was emitted; *inside_dropped*: the same, where that call was dropped before.
    *stream_ends*: report of a stream's beginning -> the report of its end.
    *answered*: reports of a response that is counted already, by another id. *beyond*:
    calls above calls of other parts of a large cluster, which are taken to cover them.
    *paired*: reports that stand for a call of another part: they take no other.
    *counted_rank*: the rank that counts for a report of a product, 0 for all.
    """
    verdict = Verdict()
    facts = {m.ref: m.fact for m in members}
    ordered = sorted((_like_parent(m, facts.get(inside.get(m.ref, 0))) for m in members), key=_canonical)
    ordered = [m for m in ordered if not _is_inside_dropped(m, inside_dropped, verdict) and m.ref not in answered]
    verdict.dropped.update(dict.fromkeys(answered, "duplicate.response_id"))
    calls = _same_responses(ordered, verdict)
    calls = _same_requests(calls)
    calls = _join_stream_ends(calls, stream_ends)
    calls = _join_insiders(calls, inside)
    calls = _pair_co_instrumented(calls, paired, parents)
    _suppress_beyond(calls, beyond, verdict)
    _suppress_ancestors(calls, _without_insiders(calls, parents, inside), cut, verdict)
    for call in calls:
        if not call.covered and not _is_superseded(call, counted_rank, verdict):
            _stand(call, verdict)
    return verdict


def _like_parent(member: Member, around: CallDigest | None) -> Member:
    """A span that repeats its parent is a cache's hit where the parent is."""
    if around is None or not member.fact.marks & REPEAT or not around.marks & HIT:
        return member
    return replace(member, fact=member.fact._replace(marks=member.fact.marks | HIT))


def _is_inside_dropped(member: Member, inside_dropped: Mapping[int, CallDigest], verdict: Verdict) -> bool:
    """Whether the call in whose span the report was emitted is counted elsewhere
    already; then it is dropped.
    """
    around = inside_dropped.get(member.ref)
    if around is None or member.fixed is Fixed.KEPT or not _is_of(member.fact, around):
        return False
    verdict.dropped[member.ref] = "duplicate.same_span"
    return True


def _is_of(fact: CallDigest, around: CallDigest) -> bool:
    """Whether a report emitted in the span of *around* is of that call."""
    if fact.marks & REPEAT:
        return is_repeat(fact, around)
    return (
        not (fact.marks ^ around.marks) & FAILED
        and not (fact.response and around.response and fact.response != around.response)
        and same_model(fact, around)
        and same_usage(fact, around)
    )


def _join_insiders(calls: list[_Call], inside: Mapping[int, int]) -> list[_Call]:
    """Join reports with the call in whose span they were emitted, all that may be of it: such a
    span is no sum of its logs.
    """
    if not inside:
        return calls
    call_of = {m.ref: call for call in calls for m in call.members}
    gone: set[int] = set()
    for member in [m for call in calls for m in call.members if m.ref in inside]:
        own, other = call_of[member.ref], call_of.get(inside[member.ref])
        if other is None or other is own:
            continue
        around = next(m.fact for m in other.members if m.ref == inside[member.ref])
        if _is_of(member.fact, around) and (
            _repeats_all(member.fact, other) if member.fact.marks & REPEAT else _may_tell(own, other, inside)
        ):
            other.join(own.members)
            other.reason = "same_span"
            call_of.update({m.ref: other for m in own.members})
            gone.add(id(own))
    return [call for call in calls if id(call) not in gone]


def _join_stream_ends(calls: list[_Call], stream_ends: Mapping[int, int]) -> list[_Call]:
    """Join the two reports of each streamed call, unless their calls state two response ids."""
    if not stream_ends:
        return calls
    call_of = {m.ref: call for call in calls for m in call.members}
    gone: set[int] = set()
    for begin, end in stream_ends.items():
        own, other = call_of.get(begin), call_of.get(end)
        if own is None or other is None or own is other or len(own.responses | other.responses) > 1:
            continue
        other.join(own.members)
        other.reason = "stream_end"
        call_of.update({m.ref: other for m in own.members})
        gone.add(id(own))
    return [call for call in calls if id(call) not in gone]


def _may_tell(own: _Call, other: _Call, inside: Mapping[int, int]) -> bool:
    """Whether logs emitted in a span of *other* may join it: as `_may_join`, beside
    others that were emitted in it.
    """
    spans = {m.ref for m in other.members}
    beside = {m.fact.scope for m in other.members if m.fact.marks & LOG and inside.get(m.ref) in spans}
    theirs = {m.fact.scope for m in other.members} - beside
    responses = {m.fact.response for m in (*own.members, *other.members)} - {0}
    return len(responses) <= 1 and not theirs & {m.fact.scope for m in own.members}


def _repeats_all(fact: CallDigest, call: _Call) -> bool:
    """Whether a span that repeats its parent is of the one call of several that stand below
    it and were joined before.
    """
    return all(is_repeat(fact, m.fact) for m in call.members)


def _is_superseded(call: _Call, counted_rank: Callable[[CallDigest], int], verdict: Verdict) -> bool:
    """Whether another of the product's ways to report counts; then all of the call is dropped,
    unless some of it stands.
    """
    placed = [m.fact for m in call.members if m.fact.group]
    if not placed:
        return False
    ranks: dict[int, set[int]] = {}
    for fact in placed:
        ranks.setdefault(fact.group, set()).add(rank(fact))
    wanted = [(fact, counted_rank(fact)) for fact in placed]
    stands = any(m.fixed is Fixed.KEPT for m in call.members)
    if not stands and any(want and want not in ranks[fact.group] for fact, want in wanted):
        for member in call.members:
            verdict.dropped[member.ref] = "suppressed.other_report"
        return True
    verdict.taken += [(fact.group, fact.session, want or rank(fact), fact.place) for fact, want in wanted]
    return False


def _canonical(member: Member) -> tuple[int, int, bytes, bytes, int]:
    fact = member.fact
    return fact.start_ms, -fact.end_ms, fact.trace_id, fact.span_id, fact.scope


def fullest(members: Sequence[Member]) -> list[Member]:
    """Reports of one call, the one to believe first: with cache and reasoning in its wholes,
    without known deviation, its own, most complete, then canonical order.
    """
    if len(members) <= 1:
        return list(members)
    most = max((m.fact.output_tokens for m in members if m.fact.scope not in OUTPUT_DEVIATIONS), default=-1)
    served = min((m.fact.output_tokens for m in members if m.fact.output_tokens > 0), default=-1)
    greatest = max(members, key=lambda m: m.fact.input_tokens).fact
    reasonings = {m.fact.reasoning for m in members if m.fact.reasoning > 0}
    return sorted(
        members,
        key=lambda m: (
            m.fact.input_tokens >= 0 and lacks_cache(m.fact, greatest),
            m.fact.output_tokens >= 0 and most - m.fact.output_tokens in reasonings,
            m.fact.scope in OUTPUT_DEVIATIONS or 0 < m.fact.output_tokens - served <= MAX_OUTPUT_DEVIATION,
            m.fact.marks & (REPEAT | UNFINISHED),
            -m.fact.completeness,
            _canonical(m),
        ),
    )


def _same_responses(ordered: Sequence[Member], verdict: Verdict) -> list[_Call]:
    calls: list[_Call] = []
    by_response: dict[int, list[_Call]] = {}
    for member in ordered:
        response = member.fact.response
        group = by_response.setdefault(response, []) if response else []
        for call in group[-MAX_ALIKE:]:
            if all(is_same_response(member.fact, other.fact) for other in call.members[-MAX_ALIKE:]):
                call.join((member,))
                break
        else:
            call = _Call(member)
            calls.append(call)
            if response:
                group.append(call)
    for group in by_response.values():
        if len(group) > 1 and not _only_hits_differ(group):
            verdict.conflicts.update(m.ref for call in group for m in call.members)
    return calls


def _same_requests(calls: list[_Call]) -> list[_Call]:
    """Join calls that share a request id, one report of each scope, in canonical order."""
    by_request: dict[int, list[_Call]] = {}
    joined: set[int] = set()
    for call in calls:
        requests = {m.fact.request for m in call.members} - {0}
        for other in [x for request in requests for x in by_request.get(request, ())[-MAX_ALIKE:]]:
            if _may_join(other, call) and _share_request(call, other):
                other.join(call.members)
                other.reason = "request_id"
                joined.add(id(call))
                break
        else:
            for request in requests:
                by_request.setdefault(request, []).append(call)
    return [call for call in calls if id(call) not in joined]


def _share_request(call: _Call, other: _Call) -> bool:
    """Whether a report of *call* and one of the last of *other* are of one request."""
    last = other.members[-MAX_ALIKE:]
    wanted = {m.fact.request for m in last}
    asking = [m.fact for m in call.members if m.fact.request in wanted]
    return any(is_same_request(fact, m.fact) for fact in asking for m in last)


def _only_hits_differ(group: Sequence[_Call]) -> bool:
    """Whether the id is repeated only because a gateway's cache answered with it again."""
    return sum(1 for call in group if not any(m.fact.marks & HIT for m in call.members)) <= 1


def _pair_co_instrumented(
    calls: list[_Call], paired: AbstractSet[int], parents: Mapping[int, Sequence[int]]
) -> list[_Call]:
    """Join co-instrumented spans, nearest first and those that state their usage before those of
    which one states none; a call takes at most one report of each scope, and one response id. A
    report without usage takes none below it: `_suppress_ancestors` does.

    In a part of a large cluster, calls that hold a *paired* report take no other, and those
    that found none among their neighbours look again among each other.
    """
    if not paired:
        return _pair_nearest(calls, calls, parents)
    free = [call for call in calls if paired.isdisjoint(m.ref for m in call.members)]
    calls = _pair_nearest(calls, free, parents)
    return _pair_nearest(calls, [call for call in free if len(call.members) == 1 and not call.is_joined], parents)


def _pair_nearest(calls: list[_Call], free: Sequence[_Call], parents: Mapping[int, Sequence[int]]) -> list[_Call]:
    """*calls* after the co-instrumented spans among those *free* were joined."""
    by_source: dict[int, dict[int, list[Member]]] = {}
    for i, call in enumerate(free):
        for member in call.members:
            by_source.setdefault(member.fact.source, {}).setdefault(i, []).append(member)
    above = {ref for of_call in parents.values() for ref in of_call}
    near = [pair for group in by_source.values() for pair in _near(group, above)]
    joined: dict[int, int] = {}
    for *_, i, j in sorted(near):
        a, b = _root(joined, i), _root(joined, j)
        if a != b and _may_join(free[a], free[b]):
            free[a].join(free[b].members)
            free[a].reason = "twin"
            free[b].is_joined = True
            joined[b] = a
    return [call for call in calls if not call.is_joined]


def _may_join(a: _Call, b: _Call) -> bool:
    return len(a.responses | b.responses) <= 1 and a.scopes.isdisjoint(b.scopes)


def _root(joined: dict[int, int], i: int) -> int:
    while i in joined:
        above = joined[i]
        joined[i] = joined.get(above, above)  # halves the way for the next time
        i = above
    return i


def _near(group: Mapping[int, Sequence[Member]], above: AbstractSet[int]) -> list[tuple[bool, int, int, int]]:
    """(whether one states no usage, distance in ms, call, call) of all co-instrumented spans in one
    source.

    *group*: index of a call -> its reports from that source. *above*: references of the reports
    that stand above others.
    """
    members = sorted(((m, i) for i, of_call in group.items() for m in of_call), key=lambda x: x[0].fact.start_ms)
    if len({m.fact.scope for m, _ in members}) < 2:  # noqa: PLR2004 a co-instrumented span needs another scope
        return []
    found: dict[tuple[int, int], tuple[bool, int]] = {}
    for at, (first, i) in enumerate(members):
        a, compared = first.fact, 0
        for second, j in islice(members, at + 1, at + 1 + MAX_SCANNED):
            b = second.fact
            if b.start_ms > a.end_ms + NESTED_SLACK_MS or compared >= MAX_ALIKE:
                break  # nor does anything that starts later lie within it
            if i == j or a.scope == b.scope or not same_usage(a, b):
                continue
            compared += 1
            if is_co_instrumented(a, b):
                is_silent = states_usage(a) != states_usage(b)
                if is_silent and (second if states_usage(a) else first).ref in above:
                    continue
                pair = (min(i, j), max(i, j))
                distance = is_silent, abs(a.start_ms - b.start_ms) + abs(a.end_ms - b.end_ms)
                found[pair] = min(distance, found.get(pair, distance))
    return [(*distance, i, j) for (i, j), distance in found.items()]


def _without_insiders(
    calls: Sequence[_Call], parents: Mapping[int, Sequence[int]], inside: Mapping[int, int]
) -> Mapping[int, Sequence[int]]:
    """*parents* without those of reports that report another call than the span
    does in which they were emitted.

    A span that repeats its parent is no call below it; nor is a log in a span that another log
    reports: that one is no sum.
    """
    if not inside:
        return parents
    call_of = {m.ref: call for call in calls for m in call.members}
    inside_dropped = {
        around
        for ref, around in inside.items()
        if ref in call_of and call_of[ref] is call_of.get(around)  # joined
    }
    beside = {
        m.ref
        for call in calls
        for m in call.members
        if m.ref in inside and (m.fact.marks & REPEAT or inside[m.ref] in inside_dropped)
    }
    if not beside:
        return parents
    return {ref: [at for at in above if ref not in beside or at != inside[ref]] for ref, above in parents.items()}


def _suppress_beyond(calls: Sequence[_Call], beyond: AbstractSet[int], verdict: Verdict) -> None:
    """Suppress the calls above calls of other parts, unless they were forwarded."""
    if not beyond:
        return
    for call in calls:
        if not beyond.isdisjoint(m.ref for m in call.members) and not any(m.fixed is Fixed.KEPT for m in call.members):
            _suppress(call, "suppressed.ancestor", verdict)


def _suppress_ancestors(
    calls: Sequence[_Call],
    parents: Mapping[int, Sequence[int]],
    cut: AbstractSet[int],
    verdict: Verdict,
) -> None:
    call_of = {m.ref: call for call in calls for m in call.members}
    below: dict[int, dict[int, _Call]] = {}
    for ref, above in parents.items():
        child = call_of.get(ref)
        for parent_ref in above:
            parent = call_of.get(parent_ref)
            if child is not None and parent is not None and child is not parent:
                below.setdefault(id(parent), {})[id(child)] = child
    # Fewest descendants first: a call below another has fewer than that other.
    above_others = [call for call in calls if id(call) in below and not call.covered]
    for call in sorted(above_others, key=lambda c: (len(below[id(c)]), _canonical(c.members[0]))):
        counted = [c for c in below[id(call)].values() if not c.covered and not _is_begun(c)]
        is_cut = any(m.ref in cut for m in call.members)
        if any(m.fixed is Fixed.KEPT for m in call.members):
            _suppress_late(call, counted, verdict)
        elif not counted and not (is_cut and all(c.covered for c in below[id(call)].values())):
            continue
        elif is_cut or is_covered(call.members, [c.fullest() for c in counted]):
            _suppress(call, "suppressed.ancestor", verdict)
            if len(counted) == 1 and _completes(call, counted[0], cut):
                counted[0].above += [*call.members, *call.above]
        elif len(counted) == 1 and _is_part(counted[0], call):
            _suppress(counted[0], "suppressed.part", verdict)
        else:
            verdict.conflicts.update(m.ref for c in (call, *counted) for m in c.members)


def _suppress(call: _Call, reason: str, verdict: Verdict) -> None:
    call.covered = True
    verdict.dropped.update((m.ref, reason) for m in call.members)


def _is_part(below: _Call, call: _Call) -> bool:
    """Whether the only call below another is a part of what that one states as its own use: the
    same scope reports both, of one model, and the upper one states more.
    """
    fact, part = call.fullest(), below.fullest()
    return (
        not any(m.fixed is Fixed.KEPT for m in below.members)
        and not any((m.fact.marks ^ n.fact.marks) & (FAILED | HIT) for m in call.members for n in below.members)
        and below.scopes == call.scopes
        and fact.source == part.source
        and same_model(fact, part)
        and 0 <= part.input_tokens <= fact.input_tokens
        and 0 <= part.output_tokens <= fact.output_tokens
    )


def _is_begun(call: _Call) -> bool:
    """Whether no one inside_dropped its end yet: what it will account for is not known."""
    return all(m.fact.marks & UNFINISHED for m in call.members)


def _suppress_late(forwarded: _Call, counted: Sequence[_Call], verdict: Verdict) -> None:
    """Calls that came after the call above them was forwarded: they go where that one
    accounts for them, else all stay.

    A log in its span is no call below it: that it is another one was decided before.
    """
    counted = [c for c in counted if not all(m.fact.marks & LOG for m in c.members)]
    late = [c for c in counted if not any(m.fixed is Fixed.KEPT or m.fact.marks & LOG for m in c.members)]
    fact = forwarded.fullest()
    below = [call.fullest() for call in counted]
    total_input, total_output = _total(below, 0)
    if not below or (
        all(same_model(fact, x) for x in below)
        and total_input <= fact.input_tokens
        and total_output <= fact.output_tokens + sum(deviation(fact, x) for x in below)
    ):
        for call in late:
            _suppress(call, "suppressed.parent_forwarded", verdict)
    else:
        verdict.conflicts.update(m.ref for call in (forwarded, *counted) for m in call.members)


def _completes(above: _Call, below: _Call, cut: AbstractSet[int]) -> bool:
    """Whether the one call below another is that very call: nothing else stands
    there, and they ended alike.
    """
    if any(m.ref in cut for m in above.members):
        return False
    outcome = FAILED | HIT
    return {m.fact.marks & outcome for m in above.members} == {m.fact.marks & outcome for m in below.members}


def is_covered(members: Sequence[Member], below: Sequence[CallDigest]) -> bool:
    """Whether the calls *below* account for all that the call above them states it used.

    They must be of its model, unless both whole counts are exactly theirs: then the
    model only has another name. So it has where the call above failed and states no usage.
    """
    fact = fullest(members)[0].fact
    if fact.marks & FAILED and not states_usage(fact):
        return True
    if (
        fact.input_tokens >= 0
        and fact.output_tokens > 0
        and _total(below, 0) == (fact.input_tokens, fact.output_tokens)
    ):
        return True
    alike = [x for x in below if same_model(fact, x)]
    if not alike:
        return False
    slack = sum(deviation(fact, x) for x in alike)
    total_input, total_output = _total(alike, slack)
    with_cache = total_input + sum(cached(x) for x in alike)
    holds_input = fact.input_tokens <= total_input or fact.input_tokens == with_cache
    return holds_input and fact.output_tokens <= total_output


def _total(facts: Sequence[CallDigest], slack: int) -> tuple[int, int]:
    return sum(max(0, x.input_tokens) for x in facts), sum(max(0, x.output_tokens) for x in facts) + slack


def _stand(call: _Call, verdict: Verdict) -> None:
    """One report of the call stands; the others are duplicates of
    it, and those above complete it.
    """
    if len(call.members) + len(call.above) == 1:
        return
    kept = [m for m in call.members if m.fixed is Fixed.KEPT]
    slot = min(kept or call.members, key=lambda m: m.ref)
    for member in call.members:
        if member is not slot and member.fixed is Fixed.OPEN:
            verdict.dropped[member.ref] = f"duplicate.{call.reason}"
    if slot.fixed is Fixed.OPEN:
        verdict.merged[slot.ref] = [m.ref for m in (*fullest(call.members), *fullest(call.above))]
