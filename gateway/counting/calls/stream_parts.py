"""Pairing the beginning of a streamed call with its end, which some libraries report as spans of
their own that share no id. Pure.

1. A beginning and an end may be of one call when they have one source, scope, model and request
   (the fingerprint of its parameters, which stands in `CallDigest.session`).
2. An end belongs to the last beginning before it that no other end belongs to, as brackets pair.
   The reading of a stream begins where the span that opened it ends, so both stand side by side in
   time. Pairs are looked for in one trace first; what has no counterpart in its own trace, among
   those of other traces.
3. A report about which was decided before belongs to nothing.

The pairs follow from the set of reports, whatever their order. Of at most `MAX_PARTS` reports, each
is compared with `MAX_NEAR` beside it; whatever finds no counterpart is a call of its own.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.counting.calls.digest import CallDigest
from gateway.rules.call import UNFINISHED

MAX_PARTS = 100_000
"""Remembered while they settle; about 300 bytes each."""
MAX_NEAR = 256
"""Reports looked at beside one, before it or behind it in time."""
SLACK_MS = 2
"""The end's own measure of its duration is rounded, and by another clock than that of spans."""


class _Part(NamedTuple):
    at_ms: int
    """Of a beginning when the stream was open, of an end when the reading of it began."""
    is_end: bool
    ref: int
    trace_id: bytes


@dataclass(slots=True)
class _Ordered:
    """Reports in the order of their time."""

    parts: list[_Part] = field(default_factory=list)
    kinds: set[bool] = field(default_factory=set)
    """`is_end` of those that were added: of one kind alone no two are of one call."""

    def add(self, part: _Part) -> None:
        insort(self.parts, part)
        self.kinds.add(part.is_end)


@dataclass(slots=True)
class _Bucket:
    """Reports that may be of one call."""

    all: _Ordered = field(default_factory=_Ordered)
    traces: dict[bytes, _Ordered] = field(default_factory=dict)

    def add(self, part: _Part) -> None:
        self.all.add(part)
        self.traces.setdefault(part.trace_id, _Ordered()).add(part)

    def is_alone(self, part: _Part) -> bool:
        """Whether no report of the other kind stands in its trace."""
        return len(self.traces[part.trace_id].kinds) == 1


_Key = tuple[int, int, int, int]
IsOpen = Callable[[int], bool]
"""Whether nothing was decided about the report at a reference."""


class StreamParts:
    """Beginnings and ends that still settle."""

    __slots__ = ("_buckets", "_n")

    def __init__(self) -> None:
        self._buckets: dict[_Key, _Bucket] = {}
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def add(self, fact: CallDigest, ref: int) -> None:
        """Remember the report at *ref*, unless there are too many."""
        if self._n >= MAX_PARTS:
            return
        self._buckets.setdefault(_key(fact), _Bucket()).add(_part(fact, ref))
        self._n += 1

    def counterpart(self, fact: CallDigest, ref: int, is_open: IsOpen) -> int:
        """Reference of the other part of the call that *ref* reports; 0 where none is known."""
        bucket = self._buckets.get(_key(fact))
        if bucket is None or not is_open(ref):
            return 0
        part = _part(fact, ref)
        own = bucket.traces.get(fact.trace_id)
        if own is not None and len(own.kinds) > 1:
            return _matched(own.parts, part, lambda other: is_open(other.ref))
        return _matched(bucket.all.parts, part, lambda other: bucket.is_alone(other) and is_open(other.ref))

    def prune(self, is_settling: IsOpen) -> None:
        """Forget the reports that do not settle any more, or stand elsewhere now."""
        for key, bucket in list(self._buckets.items()):
            kept = [part for part in bucket.all.parts if is_settling(part.ref)]
            gone = len(bucket.all.parts) - len(kept)
            self._n -= gone
            if not kept:
                del self._buckets[key]
            elif gone:
                self._buckets[key] = left = _Bucket()
                for part in kept:
                    left.add(part)


def is_end(fact: CallDigest) -> bool:
    return not fact.marks & UNFINISHED


def _key(fact: CallDigest) -> _Key:
    return fact.source, fact.scope, fact.request_model, fact.session


def _part(fact: CallDigest, ref: int) -> _Part:
    if is_end(fact):
        return _Part(fact.start_ms + SLACK_MS, is_end=True, ref=ref, trace_id=fact.trace_id)
    return _Part(fact.end_ms, is_end=False, ref=ref, trace_id=fact.trace_id)


def _matched(parts: Sequence[_Part], own: _Part, counts: Callable[[_Part], bool]) -> int:
    """Reference of the part that *own* pairs with as brackets do, among those that *counts*."""
    at = bisect_left(parts, own)
    beside = reversed(parts[max(0, at - MAX_NEAR) : at]) if own.is_end else iter(parts[at + 1 : at + 1 + MAX_NEAR])
    depth = 0
    for other in beside:
        if not counts(other):
            continue
        if other.is_end != own.is_end:
            if not depth:
                return other.ref
            depth -= 1
        else:
            depth += 1
    return 0
