"""Durations counted into buckets, as Prometheus has them: an observation costs a bisection and two
additions, so the hot path may afford one.
"""

from bisect import bisect_left
from typing import Final, NamedTuple

ANSWER_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds in seconds: from a commit on a quiet disk to the longest that a sender waits."""
SEND_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""From an upstream on this machine to the time limit of a request."""
LAG_S: Final = (1.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)
"""From the settling of a test to a call that waited for an enrolment."""


class Observed(NamedTuple):
    """A histogram as of one moment."""

    buckets: list[tuple[float, int]]
    """(upper bound, observations up to it), cumulative; the last bound is infinity."""
    sum: float


class Histogram:
    """Written by one thread; reading it from another may miss the last observation."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        """*bounds* ascend, in the unit of what is observed."""
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count *value* in the first bucket whose bound it does not exceed; *times* for so many
        observations of it.
        """
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += value * times

    def quantile(self, share: float) -> float | None:
        """The least bound that *share* (0 to 1) of the observations do not exceed, infinity beyond
        the last bound; None before the first.
        """
        buckets = self.read().buckets
        whole = buckets[-1][1]
        return next(bound for bound, count in buckets if count >= share * whole) if whole else None

    def read(self) -> Observed:
        """What was observed since it was made."""
        total = 0
        buckets = []
        for bound, count in zip((*self._bounds, float("inf")), list(self._counts), strict=True):
            total += count
            buckets.append((bound, total))
        return Observed(buckets, self._sum)
