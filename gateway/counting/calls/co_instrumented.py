"""Finding reports that may be co-instrumented spans: of one source, from different scopes, by
usage and then by start time. Pure.

A source that one scope reports from has no co-instrumented spans, so all it costs is one
reference a report. From its second scope on, each report stands in a bucket of its usage and
its scope, ordered by start; candidates are the nearest in the other scopes' buckets, so a burst
of equal calls (embeddings of equal chunks, health checks) is paired as well as a lone one. A report
that states no usage is compared with the nearest of the others, whatever they used.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple

from gateway.counting.calls.agreement import DEVIATION_SHARE, MAX_OUTPUT_DEVIATION, NESTED_SLACK_MS, OUTPUT_DEVIATIONS
from gateway.counting.calls.digest import CallDigest, call_ref

MAX_NEAR = 64
"""Reports compared with one, over all buckets."""
MAX_NEAR_SILENT = 8
"""Reports of each scope compared with one that states no usage, or almost the same."""
MAX_BUCKETS = 16
"""Looked into for one report; an application is instrumented once or twice."""
MAX_FORGOTTEN = 10_000
"""Starts whose next number is remembered; beyond it equal calls may be paired in another order."""


class Entry(NamedTuple):
    start_ms: int
    number: int
    """Of those in its bucket that start at one time, from 0 and for good: also when the ones before
    it are forgotten."""
    ref: int
    end_ms: int


Bucket = tuple[int, int, bool]
"""Usage, scope, and whether a response id is stated."""
_NONE: Mapping[tuple[int, bool], list[Entry]] = MappingProxyType({})
_REF = attrgetter("ref")
SILENT = ~-1
"""The `usage_key` of a report that states no usage."""
ANY = -1 << 62
"""Where all reports that state usage stand, once one that states none is known."""


class CoInstrumentedIndex:
    """Reports of one source by usage, scope and whether they state a response id, in order of their
    start.
    """

    __slots__ = ("_buckets", "_deviates", "_forgotten", "_knows_any")

    def __init__(self) -> None:
        self._buckets: dict[int, dict[tuple[int, bool], list[Entry]]] = {}
        """Usage -> (scope, states a response id) -> entries in order."""
        self._deviates = False
        """Whether some scope is known to overcount its output."""
        self._knows_any = False
        """Whether a report that states no usage was seen."""
        self._forgotten: dict[tuple[Bucket, int], int] = {}
        """Start -> the next number, where a bucket has forgotten all that start then
        and another has not."""

    def add(self, fact: CallDigest, ref: int) -> None:
        """*ref* comes after those that were added before."""
        self._deviates = self._deviates or fact.scope in OUTPUT_DEVIATIONS
        is_silent = usage_key(fact) == SILENT
        if is_silent:
            self._know_any()
        for key in usage_keys(fact):
            self._add(key, fact, ref)
        if self._knows_any and not is_silent:
            self._add(ANY, fact, ref)

    def _know_any(self) -> None:
        """Place what is known of each scope under `ANY` too, in order; once."""
        if self._knows_any:
            return
        self._knows_any = True
        known: dict[tuple[int, bool], dict[int, Entry]] = {}
        for buckets in self._buckets.values():
            for own, entries in buckets.items():
                known.setdefault(own, {}).update((entry.ref, entry) for entry in entries)
        if known:
            self._buckets[ANY] = {own: _numbered(entries.values()) for own, entries in known.items()}

    def _add(self, key: int, fact: CallDigest, ref: int) -> None:
        own = fact.scope, fact.response != 0
        bucket = self._buckets.setdefault(key, {}).setdefault(own, [])
        at = bisect_left(bucket, (fact.start_ms + 1,))
        if at and bucket[at - 1].start_ms == fact.start_ms:
            number = bucket[at - 1].number + 1
        else:
            number = self._forgotten.pop(((key, *own), fact.start_ms), 0) if self._forgotten else 0
        bucket.insert(at, Entry(fact.start_ms, number, ref, fact.end_ms))

    def remove(self, fact: CallDigest, ref: int) -> None:
        """*ref* is the last one that was added, less those that were removed."""
        own = fact.scope, fact.response != 0
        for key in {*usage_keys(fact), ANY}:
            buckets = self._buckets.get(key, {})
            bucket = buckets.get(own, [])
            at = bisect_left(bucket, (fact.start_ms + 1,)) - 1
            while at >= 0 and bucket[at].start_ms == fact.start_ms and bucket[at].ref != ref:
                at -= 1
            if at >= 0 and bucket[at].ref == ref:
                self._remember_number((key, *own), bucket.pop(at), bucket)
            if own in buckets and not bucket:
                del buckets[own]
            if key in self._buckets and not buckets:
                del self._buckets[key]

    def _remember_number(self, own: Bucket, entry: Entry, left: Sequence[Entry]) -> None:
        """*entry* is no longer in its bucket, which may have forgotten others that start when it
        does.
        """
        if entry.number and not any(other.start_ms == entry.start_ms for other in left):
            self._forgotten[own, entry.start_ms] = entry.number

    def refs(self) -> list[int]:
        """Of all reports, in the order in which they came."""
        every = (entry.ref for buckets in self._buckets.values() for bucket in buckets.values() for entry in bucket)
        return sorted({*every})

    def near(self, fact: CallDigest, ref: int) -> list[int]:
        """References of reports from other scopes whose usage and times may agree, of at most
        `MAX_NEAR` that are nearest in time. Two that both state a response id are no pair.

        Of a scope's reports that start at one time with the one at *ref*, those about the number
        that it has among its own scope's are the nearest.
        """
        key = usage_key(fact)
        keys: Sequence[int] = usage_keys(fact)
        if key == SILENT:
            self._know_any()
            keys = (SILENT, ANY)
        elif self._knows_any:
            keys = (*keys, SILENT)
        buckets = list(islice(self._fitting(keys, fact, MAX_NEAR), MAX_BUCKETS))
        share = MAX_NEAR // (2 * len(buckets) or 1)
        if key > 0:
            reach = MAX_OUTPUT_DEVIATION if self._deviates else min(MAX_OUTPUT_DEVIATION, key // DEVIATION_SHARE + 1)
            beside = (at for at in range(max(1, key - reach), key + reach + 1) if at not in keys)
            buckets += islice(self._fitting(beside, fact, MAX_NEAR_SILENT), MAX_BUCKETS - len(buckets))
        found: list[int] = []
        if buckets:
            start, end, slack = fact.start_ms, fact.end_ms, NESTED_SLACK_MS
            number = self._number(fact, key, ref)
            for bucket, limit in buckets:
                most = min(share, limit // 2)
                at = bisect_left(bucket, (start, number))
                found += [
                    entry.ref
                    for entry in bucket[max(0, at - most) : at + most]
                    if (start <= entry.start_ms + slack and entry.end_ms <= end + slack)
                    or (entry.start_ms <= start + slack and end <= entry.end_ms + slack)
                ]
        return list(dict.fromkeys(found)) if len(buckets) > 1 else found

    def _fitting(self, keys: Iterable[int], fact: CallDigest, limit: int) -> Iterator[tuple[list[Entry], int]]:
        """Buckets of other scopes whose reports may pair with *fact*, and how many of each are
        compared with it.
        """
        for usage in keys:
            for (scope, has_response), bucket in self._buckets.get(usage, _NONE).items():
                if scope != fact.scope and not (has_response and fact.response):
                    yield bucket, MAX_NEAR_SILENT if usage == ANY else limit

    def _number(self, fact: CallDigest, key: int, ref: int) -> int:
        """Of the report at *ref* among those of its bucket that start when it does."""
        own = self._buckets.get(key, _NONE).get((fact.scope, fact.response != 0), ())
        first, end = bisect_left(own, (fact.start_ms,)), bisect_left(own, (fact.start_ms + 1,))
        if first == end:
            return 0
        at = bisect_left(own, ref, first, end, key=_REF)
        return own[at].number if at < end else own[at - 1].number + 1

    def prune(self, bound: int) -> bool:
        """Forget references before *bound*; whether any are left."""
        starting: dict[int, set[int]] = {}
        forgotten: dict[tuple[Bucket, int], int] = {}
        for usage, buckets in list(self._buckets.items()):
            refs = [entry[2] for bucket in buckets.values() for entry in bucket]
            if max(refs) < bound:
                del self._buckets[usage]
            elif min(refs) < bound or self._forgotten:
                starting[usage] = self._prune(usage, buckets, bound, forgotten)
        before = self._forgotten.items()
        self._forgotten = {at: number for at, number in before if at[1] in starting.get(at[0][0], ())} | forgotten
        if len(self._forgotten) > MAX_FORGOTTEN:
            self._forgotten.clear()
        return bool(self._buckets)

    @staticmethod
    def _prune(
        usage: int, buckets: dict[tuple[int, bool], list[Entry]], bound: int, forgotten: dict[tuple[Bucket, int], int]
    ) -> set[int]:
        """Prune the buckets of one usage, of which some entry stays; the starts of those that
        do.
        """
        starts = {entry.start_ms for bucket in buckets.values() for entry in bucket if entry.ref >= bound}
        for (scope, has_response), bucket in list(buckets.items()):
            kept = [entry for entry in bucket if entry.ref >= bound]
            gone = starts.difference(entry.start_ms for entry in kept)
            own = usage, scope, has_response
            forgotten.update({(own, x.start_ms): x.number + 1 for x in bucket if x.start_ms in gone})
            bucket[:] = kept
            if not bucket:
                del buckets[scope, has_response]
        return starts


def _numbered(entries: Iterable[Entry]) -> list[Entry]:
    """*entries* in order of their start, numbered anew."""
    found: list[Entry] = []
    for entry in sorted(entries):
        before = found[-1] if found else None
        number = before.number + 1 if before is not None and before.start_ms == entry.start_ms else 0
        found.append(entry._replace(number=number))
    return found


def usage_key(fact: CallDigest) -> int:
    """Where a report stands: by its output, else by its input as embeddings do, whose output
    some leave out and others call 0.
    """
    return fact.output_tokens if fact.output_tokens > 0 else ~fact.input_tokens


def usage_keys(fact: CallDigest) -> tuple[int, ...]:
    """Where a report stands and is looked for: its own place first, then those of one that counts
    the stated reasoning the other way.
    """
    output, reasoning = fact.output_tokens, fact.reasoning
    if reasoning <= 0 or output <= 0:
        return (usage_key(fact),)
    return (output, output + reasoning, output - reasoning) if output > reasoning else (output, output + reasoning)


class SettlingReports:
    """One sender's reports that still settle, kept only to find
    co-instrumented spans among them.
    """

    __slots__ = ("index", "prune_at", "refs", "scope")

    def __init__(self, scope: int) -> None:
        self.scope = scope
        """The scope that reported first; co-instrumented spans need a second one."""
        self.refs = array("Q")
        self.index: CoInstrumentedIndex | None = None
        """None while only one scope reports."""
        self.prune_at = 4096

    def remember(self, refs: Sequence[int], oldest_seq: Callable[[], int]) -> None:
        self.refs.extend(refs)
        if len(self.refs) >= self.prune_at:
            self.prune(oldest_seq())
            self.prune_at = 2 * len(self.refs) + 4096

    def take_back(self, fact: CallDigest, ref: int) -> None:
        """Forget *ref*, the last one."""
        if self.index is not None:
            self.index.remove(fact, ref)
        elif self.refs and self.refs[-1] == ref:
            self.refs.pop()

    def forget_index(self) -> None:
        """No second scope is known any more."""
        if self.index is not None:
            self.refs, self.index = array("Q", self.index.refs()), None

    def prune(self, oldest_seq: int) -> bool:
        """Forget references into chunks before *oldest_seq*; whether any are left."""
        bound = call_ref(oldest_seq, 0)
        del self.refs[: bisect_left(self.refs, bound)]
        return bool(self.refs) | (self.index is not None and self.index.prune(bound))
