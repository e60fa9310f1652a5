"""Finding reports that may be co-instrumented spans: of one source, from different scopes, by
usage and then by start time. Pure.

A source that one scope reports from has no co-instrumented spans, so all it costs is one
reference a report. From its second scope on, each report stands in a bucket of its usage and
its scope, ordered by start; candidates are the nearest in the other scopes' buckets, so a burst
of equal calls (embeddings of equal chunks, health checks) is paired as well as a lone one.
"""

from array import array
from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import islice

from gateway.counting.calls.agreement import MAX_OUTPUT_DEVIATION, OUTPUT_DEVIATIONS
from gateway.counting.calls.digest import CallDigest, call_ref

MAX_TWIN_CANDIDATES = 32
"""Looked at on either side in time, in each bucket."""
MAX_TWIN_SCOPES = 16
"""Of one usage; an application is instrumented once or twice."""


class TwinIndex:
    """Reports of one source by scope, usage and start."""

    __slots__ = ("_buckets", "_deviates")

    def __init__(self) -> None:
        self._buckets: dict[int, dict[int, list[tuple[int, int]]]] = {}
        """Usage -> scope -> (start in ms, reference), in order."""
        self._deviates = False
        """Whether some scope is known to overcount its output."""

    def add(self, fact: CallDigest, ref: int) -> None:
        self._deviates = self._deviates or fact.scope in OUTPUT_DEVIATIONS
        insort(self._buckets.setdefault(usage_key(fact), {}).setdefault(fact.scope, []), (fact.start_ms, ref))

    def near(self, fact: CallDigest, ref: int = 0) -> list[int]:
        """References of reports from other scopes whose usage may agree, nearest in time.

        Of those that start at one time the first ones, or with *ref* the
        nearest to it in order of receipt.
        """
        key = usage_key(fact)
        keys: Sequence[int] = (key,)
        if self._deviates and key > 0:
            keys = range(max(1, key - MAX_OUTPUT_DEVIATION), key + MAX_OUTPUT_DEVIATION + 1)
        found: list[int] = []
        for usage in keys:
            for scope, bucket in islice(self._buckets.get(usage, {}).items(), MAX_TWIN_SCOPES):
                if scope != fact.scope:
                    at = bisect_left(bucket, (fact.start_ms, ref))
                    nearest = bucket[max(0, at - MAX_TWIN_CANDIDATES) : at + MAX_TWIN_CANDIDATES]
                    found += [ref for _, ref in nearest]
        return found

    def prune(self, bound: int) -> bool:
        """Forget references before *bound*; whether any are left."""
        for usage, buckets in list(self._buckets.items()):
            for scope, bucket in list(buckets.items()):
                bucket[:] = [entry for entry in bucket if entry[1] >= bound]
                if not bucket:
                    del buckets[scope]
            if not buckets:
                del self._buckets[usage]
        return bool(self._buckets)


def usage_key(fact: CallDigest) -> int:
    """Where a report stands: by its output, else by its input as embeddings do, whose output
    some leave out and others call 0.
    """
    return fact.output_tokens if fact.output_tokens > 0 else ~fact.input_tokens


class Source:
    """One sender's reports that still settle, kept only to find
    co-instrumented spans among them.
    """

    __slots__ = ("index", "prune_at", "refs", "scope")

    def __init__(self, scope: int) -> None:
        self.scope = scope
        """The scope that reported first; co-instrumented spans need a second one."""
        self.refs = array("Q")
        self.index: TwinIndex | None = None
        """None while only one scope reports."""
        self.prune_at = 4096

    def remember(self, refs: Sequence[int], oldest_seq: int) -> None:
        self.refs.extend(refs)
        if len(self.refs) >= self.prune_at:
            self.prune(oldest_seq)
            self.prune_at = 2 * len(self.refs) + 4096

    def prune(self, oldest_seq: int) -> bool:
        """Forget references into chunks before *oldest_seq*; whether any are left."""
        bound = call_ref(oldest_seq, 0)
        del self.refs[: bisect_left(self.refs, bound)]
        return bool(self.refs) | (self.index is not None and self.index.prune(bound))
