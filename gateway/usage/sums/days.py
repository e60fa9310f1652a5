"""Days of a time zone, made of the UTC hours that are kept."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple

from gateway.usage.sums.figures import Bucket, UsageSums, together
from gateway.usage.sums.grains import Dimension
from gateway.usage.sums.names import Filters, Name
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.ranges import midnight, ms_of
from gateway.usage.sums.tally import HOUR_MS
from gateway.usage.sums.timespan import Interval, TimeRange


class Days(NamedTuple):
    """Days of a zone, from the one that *from_ms* is in."""

    zone: tzinfo
    from_ms: int

    def start_of(self, hour_ms: int) -> int:
        """Of the day in which an hour begins. The first hour may begin on the day before, in zones
        with half an hour.
        """
        return ms_of(midnight(datetime.fromtimestamp(max(hour_ms, self.from_ms) / 1000, self.zone)))

    def starts(self, within: TimeRange, interval: Interval, now_ms: int) -> list[int]:
        """Of every hour or day of *within* that has begun."""
        end_ms = min(within.end_hour * HOUR_MS, now_ms + 1)
        if interval == "hour":
            return [*range(within.first_hour * HOUR_MS, end_ms, HOUR_MS)]
        day = midnight(datetime.fromtimestamp(self.from_ms / 1000, self.zone))
        found = []
        while (start_ms := ms_of(day)) < end_ms:
            found.append(start_ms)
            day += timedelta(days=1)
        return found

    def are_made_of(self, interval: Interval) -> Interval:
        return interval if interval == "hour" or self.zone is UTC else "hour"

    def same_day(self, start_ms: int, other: "Days") -> int:
        """The start of the day that is as far from the first as *start_ms* is in *other*."""
        first, theirs, day = (
            midnight(datetime.fromtimestamp(ms / 1000, self.zone)) for ms in (self.from_ms, other.from_ms, start_ms)
        )
        return ms_of(first + timedelta(days=(day.date() - theirs.date()).days))


async def buckets_of(
    queries: UsageQueries, within: TimeRange, interval: Interval, where: Filters, days: Days
) -> list[Bucket]:
    """Hours, or days of the zone, in order; those without any call are left out. Raises BadRange.
    Days of another zone than UTC are made of hours.
    """
    if days.are_made_of(interval) == interval:
        return await queries.over_time(within, interval=interval, where=where)
    by_day: dict[int, list[UsageSums]] = defaultdict(list)
    for hour in await queries.over_time(within, interval="hour", where=where):
        by_day[days.start_of(hour.start_ms)].append(hour.sums)
    return [Bucket(start_ms, together(sums)) for start_ms, sums in by_day.items()]


async def sums_by_group(
    queries: UsageQueries,
    asked: Sequence[Dimension],
    groups: Collection[tuple[Name, ...]],
    within: TimeRange,
    interval: Interval,
    where: Filters,
    days: Days,
) -> dict[tuple[tuple[Name, ...], int], UsageSums]:
    """The same of several groups by *asked*: names of a group and start -> its sums."""
    made_of = days.are_made_of(interval)
    found: dict[tuple[tuple[Name, ...], int], list[UsageSums]] = defaultdict(list)
    for cell in await queries.over_time_by(*asked, groups=groups, within=within, interval=made_of, where=where):
        start_ms = cell.start_ms if made_of == interval else days.start_of(cell.start_ms)
        found[cell.names, start_ms].append(cell.sums)
    return {place: together(sums) for place, sums in found.items()}
