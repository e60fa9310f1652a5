"""How long calls took: counts of durations by buckets, which can be added up. Pure.

Bucket *n* holds whole milliseconds above 2^((n-1)/8) and up to 2^(n/8), as the exponential
histogram of OpenTelemetry does at scale 3. A percentile is the middle of its bucket: at most 4.5 %
from the true one, and half a millisecond.
"""

from bisect import bisect_left
from collections.abc import Mapping
from typing import Final, NamedTuple

_PER_DOUBLING: Final = 8
_DOUBLINGS: Final = 27
"""Up to 37 hours; longer ones are in the last bucket."""
BOUNDS: Final = tuple(
    int((1 << n // _PER_DOUBLING) * 2 ** (n % _PER_DOUBLING / _PER_DOUBLING))
    for n in range(_PER_DOUBLING * _DOUBLINGS + 1)
)
"""The last whole millisecond of each bucket; it is none where two are equal."""
FIRST_TOKEN: Final = 256
"""Added to the number of a bucket for the time to the first token."""
PERCENTILES: Final = (50, 90, 99)

Buckets = dict[int, int]
"""Number of a bucket, plus `FIRST_TOKEN` for that time -> calls."""


class Percentiles(NamedTuple):
    calls: int
    """Those that state it."""
    ms: tuple[int, ...]
    """As `PERCENTILES` has them."""


class Latency(NamedTuple):
    """Of calls that did not fail."""

    duration: Percentiles | None
    """None where no call states it."""
    time_to_first_token: Percentiles | None


NO_LATENCY: Final = Latency(None, None)


def bucket_of(ms: int) -> int:
    return min(bisect_left(BOUNDS, ms), len(BOUNDS) - 1)


def add_buckets(into: Buckets, more: Mapping[int, int]) -> None:
    for bucket, calls in more.items():
        into[bucket] = into.get(bucket, 0) + calls


def latency_of(buckets: Mapping[int, int]) -> Latency:
    durations = {bucket: calls for bucket, calls in buckets.items() if bucket < FIRST_TOKEN}
    first_tokens = {bucket - FIRST_TOKEN: calls for bucket, calls in buckets.items() if bucket >= FIRST_TOKEN}
    return Latency(_percentiles(durations), _percentiles(first_tokens))


def _percentiles(buckets: Mapping[int, int]) -> Percentiles | None:
    total = sum(buckets.values())
    if not total:
        return None
    ordered = sorted(buckets.items())
    found: list[int] = []
    reached = 0
    wanted = [-(-total * percent // 100) for percent in PERCENTILES]
    for bucket, calls in ordered:
        reached += calls
        while len(found) < len(wanted) and wanted[len(found)] <= reached:
            found.append(_middle(bucket))
    return Percentiles(total, tuple(found))


def _middle(bucket: int) -> int:
    return round(2 ** ((bucket - 0.5) / _PER_DOUBLING)) if bucket else 1
