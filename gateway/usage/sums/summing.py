"""Which hours are summed by one dimension now. Pure.

While an hour lasts its calls are added to the grains of `AT_ONCE` alone. When it is over its other
grains are summed from its series, once; what comes later is added to all of them. Hours that an
earlier release counted follow one by one, from the latest back.
"""

from collections.abc import Mapping
from typing import NamedTuple

from gateway.usage.sums import bounds
from gateway.usage.sums.grains import AT_ONCE, Grain, Ids, by_grain
from gateway.usage.sums.tally import Sums
from gateway.usage.sums.timespan import KeptHours, TimeRange


class ToSum(NamedTuple):
    hours: list[int]
    summed: TimeRange
    """What has rows of every grain once *hours* are summed."""


def to_sum(kept: KeptHours, now_hour: int) -> ToSum:
    """The hours that are over, and one of those before them; for `bounds.SUMMED_HOURS`."""
    first, end = kept.summed
    oldest = max(kept.first_hour, now_hour - bounds.SUMMED_HOURS)
    if end < oldest:
        first = end = now_hour
    before = [first - 1] if first > oldest else []
    summed = TimeRange(max(first - len(before), oldest), max(end, now_hour))
    return ToSum([*range(end, now_hour), *before], summed)


def sums_of_hour(series: Mapping[Ids, Sums]) -> list[tuple[Grain, Mapping[Ids, Sums]]]:
    """The *series* of one hour by the grains that are summed when it is over."""
    return [(grain, sums) for grain, sums in by_grain(series, has_all=True) if grain.id not in AT_ONCE]
