"""The sums that a limited caller sees: every question has the limit as a filter.

A new question of `SumRows` has no answer here until it is written, so none is forgotten.
"""

from collections.abc import Sequence
from typing import cast

from gateway.common.contract.errors import Forbidden
from gateway.common.contract.reach import Reach, narrowed
from gateway.usage.sums.allocation import Cell
from gateway.usage.sums.buckets import Buckets
from gateway.usage.sums.figures import Breakdown, Bucket, UsageSums
from gateway.usage.sums.grains import Dimension
from gateway.usage.sums.home import AskedGroups, AsOf, FailedCosts, SumRows
from gateway.usage.sums.latency import KEPT_BY, AskedLatency, LatencyGroup
from gateway.usage.sums.names import NO_FILTERS, Filters, Name
from gateway.usage.sums.timespan import Interval, TimeRange


class LimitedSumRows:
    """*rows* for a caller who sees *reach*. A filter that names others raises Forbidden."""

    def __init__(self, rows: SumRows, reach: Reach) -> None:
        self._rows = rows
        self._reach = reach

    def totals(self, within: TimeRange, *, now_hour: int, where: Filters = NO_FILTERS) -> UsageSums:
        return self._rows.totals(within, now_hour=now_hour, where=self._inside(where))

    def over_time(
        self, within: TimeRange, *, now_hour: int, interval: Interval = "day", where: Filters = NO_FILTERS
    ) -> list[Bucket]:
        return self._rows.over_time(within, now_hour=now_hour, interval=interval, where=self._inside(where))

    def breakdown(self, within: TimeRange, asked: AskedGroups, *, now_hour: int) -> Breakdown:
        inside = asked._replace(where=self._inside(asked.where))
        if asked.currency is None and asked.order_by == "cost":
            inside = inside._replace(currency=self._own_currency(within, inside.where, now_hour))
        return self._rows.breakdown(within, inside, now_hour=now_hour)

    def _own_currency(self, within: TimeRange, where: Filters, now_hour: int) -> str | None:
        """That of most calls would be of all teams: US dollars, else the first by name."""
        own = self._rows.totals(within, now_hour=now_hour, where=where).costs
        return min(own, key=lambda name: (name != "USD", name), default=None)

    def names(
        self, within: TimeRange, dimension: Dimension, *, now_hour: int, most: int, where: Filters = NO_FILTERS
    ) -> list[tuple[Name, ...]]:
        return self._rows.names(within, dimension, now_hour=now_hour, most=most, where=self._inside(where))

    def latencies(self, within: TimeRange, asked: AskedLatency, *, now_hour: int) -> dict[LatencyGroup, Buckets]:
        """Raises Forbidden, too, for a limit of tags: latency is not kept by these."""
        where = self._inside(asked.where)
        if not where.keys() <= set(KEPT_BY):
            raise Forbidden("latency is not kept by tags, and a tag limits what is seen here", reason="not_divisible")
        return self._rows.latencies(within, asked._replace(where=where), now_hour=now_hour)

    def cells(
        self,
        within: TimeRange,
        by: Sequence[Dimension],
        *,
        now_hour: int,
        most: int,
        where: Filters = NO_FILTERS,
        interval: Interval | None = None,
    ) -> list[Cell] | None:
        return self._rows.cells(within, by, now_hour=now_hour, most=most, where=self._inside(where), interval=interval)

    def failed_costs(self, within: TimeRange) -> FailedCosts:
        """Raises Forbidden: it is kept by service, for all teams."""
        raise Forbidden("what failed calls cost concerns all teams", reason="not_divisible")

    def as_of(self, *, now_hour: int) -> AsOf:
        return self._rows.as_of(now_hour=now_hour)

    def revision(self, day: int) -> int:
        """Raises Forbidden: it counts what was added for all teams."""
        raise Forbidden("how often a day was added to concerns all teams", reason="not_divisible")

    def _inside(self, where: Filters) -> Filters:
        return cast("Filters", narrowed(where, self._reach))
