"""Questions about usage: totals, over time, by dimension.

Sums are of billed calls whose outcome is final, by the start of the call, UTC.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from copy import copy
from typing import Final, TypeVar

from gateway.common.contract.errors import Overloaded
from gateway.common.contract.reach import EVERYTHING, Reach
from gateway.usage.sums.allocated import AllocatedSumRows, Remembered
from gateway.usage.sums.allocation import Cell, Definition
from gateway.usage.sums.buckets import Buckets
from gateway.usage.sums.figures import Breakdown, Bucket, UsageSums
from gateway.usage.sums.following import UsageFollower
from gateway.usage.sums.grains import Dimension
from gateway.usage.sums.home import AskedGroups, AsOf, FailedCosts, SumHome, SumRows
from gateway.usage.sums.latency import AskedLatency, LatencyGroup
from gateway.usage.sums.limited import LimitedSumRows
from gateway.usage.sums.names import NO_FILTERS, Filters, Name
from gateway.usage.sums.request import OrderBy
from gateway.usage.sums.tally import HOUR_MS
from gateway.usage.sums.timespan import Interval, TimeRange
from spool.errors import SpoolError

T = TypeVar("T")
REFRESH_S: Final = 5.0
"""Each refresh may cost a sync of the disk."""
MAX_ASKERS: Final = 8
"""Of the interface at once; one is answered at a time."""
_MAX_CELLS: Final = 500_000
"""Far more than groups of one chart have."""


class _Shared:
    """What all askers have in common, whatever they see."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.askers = 0
        self.refreshed_s = float("-inf")


class UsageQueries:
    """Questions on *sums*. Every method raises DatabaseUnavailable; those with a range raise
    BadRange for hours that are no longer kept.
    """

    def __init__(
        self,
        sums: SumHome,
        *,
        now_ms: Callable[[], int],
        follower: UsageFollower | None = None,
        tags: Sequence[str] = (),
    ) -> None:
        """*follower* counts in a running gateway; None asks what a stopped one has counted. *tags*:
        names of those that are configured.
        """
        self.sums = sums
        self.tags = tags
        self.allocation: Callable[[], Sequence[Definition]] = tuple
        """The definitions that are applied."""
        self._read = sums.read
        self._shared = _Shared()
        self.now_ms = now_ms
        self._follower = follower
        self._reach = EVERYTHING
        self._remembered: Remembered | None = None

    async def refresh(self, *, at_once: bool = False) -> None:
        """Bring the sums up to date, unless *at_once* at most once in `REFRESH_S`: for a reader,
        before the questions. One that is *at_once* puts off no other.
        """
        now_s = time.monotonic()
        shared = self._shared
        if self._follower is not None and (at_once or now_s - shared.refreshed_s >= REFRESH_S):
            shared.refreshed_s = shared.refreshed_s if at_once else now_s
            with suppress(SpoolError):  # then without the records that are not counted yet
                await self._follower.catch_up()
            await self._follower.write()

    @asynccontextmanager
    async def apart(self) -> AsyncIterator["UsageQueries"]:
        """The same questions for one asker at a time: they may take seconds, and the page waits for
        none. Raises Overloaded beyond `MAX_ASKERS`.
        """
        shared = self._shared
        if shared.askers >= MAX_ASKERS:
            raise Overloaded("too many questions about usage are asked at once: ask again later")
        shared.askers += 1
        try:
            async with shared.turn:
                apart = copy(self)
                apart._read = self.sums.read_apart  # noqa: SLF001 - its own
                apart._remembered = Remembered()  # noqa: SLF001 - the same
                yield apart
        finally:
            shared.askers -= 1

    def limited(self, reach: Reach) -> "UsageQueries":
        """The same questions about the calls inside *reach* alone. A filter that names others
        raises Forbidden.
        """
        part = copy(self)
        part._reach = reach  # noqa: SLF001 - its own
        return part

    def allocated(self, definitions: Sequence[Definition]) -> "UsageQueries":
        """The same questions by *definitions*; by none, what calls bring themselves."""
        other = copy(self)
        other.allocation = lambda: definitions
        return other

    async def given_away(self, definition: Definition, within: TimeRange) -> list[UsageSums]:
        """What each rule of *definition* would give away."""
        return await self._ask(
            lambda kept, now_hour: AllocatedSumRows(kept, ()).given_away(definition, within, now_hour=now_hour)
        )

    def allocations(self) -> Sequence[Definition]:
        """Those by which it answers. A limited caller sees calls that are its own, and no shares of
        others'.
        """
        return () if self._reach else self.allocation()

    def is_limited_by(self, dimension: Dimension) -> bool:
        """Whether every call that is asked about has a name of *dimension*."""
        return dimension in dict(self._reach)

    async def totals(self, within: TimeRange, *, where: Filters = NO_FILTERS) -> UsageSums:
        """Everything that *where* keeps."""
        return await self._ask(lambda kept, now_hour: kept.totals(within, now_hour=now_hour, where=where))

    async def over_time(
        self, within: TimeRange, *, interval: Interval = "day", where: Filters = NO_FILTERS
    ) -> list[Bucket]:
        """Hours or UTC days in order; those without any call are left out."""
        return await self._ask(
            lambda kept, now_hour: kept.over_time(within, now_hour=now_hour, interval=interval, where=where)
        )

    async def by(
        self,
        *group_by: Dimension,
        within: TimeRange,
        where: Filters = NO_FILTERS,
        order_by: OrderBy = "cost",
        currency: str | None = None,
        ascending: bool = False,
        offset: int = 0,
        limit: int = 20,
    ) -> Breakdown:
        """As `AskedGroups` has it. Dated names of a model are in the model's group."""
        folds = "model" in group_by
        asked = AskedGroups(group_by, where, order_by, currency, ascending, offset, limit, folds_versions=folds)
        return await self._ask(lambda kept, now_hour: kept.breakdown(within, asked, now_hour=now_hour))

    async def over_time_by(
        self,
        *group_by: Dimension,
        groups: Collection[tuple[Name, ...]],
        within: TimeRange,
        interval: Interval,
        where: Filters = NO_FILTERS,
    ) -> list[Cell]:
        """Hours or UTC days of *groups*, in no order; those without any call are left out."""
        named = {each: tuple({names[at] for names in groups}) for at, each in enumerate(group_by)}
        found = await self._ask(
            lambda kept, now_hour: kept.cells(
                within, group_by, now_hour=now_hour, most=_MAX_CELLS, where={**where, **named}, interval=interval
            )
        )
        if found is None:
            raise Overloaded("too many combinations of names and hours: ask for a shorter time")
        return [cell for cell in found if cell.names in groups]

    async def names(
        self, dimension: Dimension, *, within: TimeRange, most: int, where: Filters = NO_FILTERS
    ) -> list[tuple[Name, ...]]:
        """Of the *most* groups with the highest cost, each with its dated names."""
        return await self._ask(
            lambda kept, now_hour: kept.names(within, dimension, now_hour=now_hour, most=most, where=where)
        )

    async def latencies(
        self,
        *group_by: Dimension,
        within: TimeRange,
        interval: Interval | None = None,
        where: Filters = NO_FILTERS,
    ) -> dict[LatencyGroup, Buckets]:
        """How long the calls of each group took; of each hour or UTC day with *interval*."""
        asked = AskedLatency(group_by, where, interval)
        return await self._ask(lambda kept, now_hour: kept.latencies(within, asked, now_hour=now_hour))

    async def failed_costs(self, within: TimeRange) -> FailedCosts:
        """What failed calls cost in *within*, which is of whole UTC days."""
        return await self._ask(lambda kept, _: kept.failed_costs(within))

    async def as_of(self) -> AsOf:
        """Through when the sums are complete, and since when hours are kept."""
        stored = await self._ask(lambda kept, now_hour: kept.as_of(now_hour=now_hour))
        if self._follower is None or self._follower.as_of_ms is None:
            return stored
        return stored._replace(counted_through_ms=self._follower.as_of_ms)

    async def _ask(self, question: Callable[[SumRows, int], T]) -> T:
        now_hour, reach = self.now_ms() // HOUR_MS, self._reach
        definitions = self.allocations()

        def ask(kept: SumRows) -> T:
            rows: SumRows = LimitedSumRows(kept, reach) if reach else kept
            return question(AllocatedSumRows(rows, definitions, self._remembered) if definitions else rows, now_hour)

        return await self._read(ask)
