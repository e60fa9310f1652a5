"""Where sums of usage are kept, as this room uses it. `gateway.stores` has the homes.

Each call of a home raises DatabaseUnavailable where the sums cannot be read or written now.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol, TypeVar

from gateway.usage.sums.allocation import Cell
from gateway.usage.sums.buckets import Buckets
from gateway.usage.sums.figures import Breakdown, Bucket, UsageSums
from gateway.usage.sums.grains import Dimension
from gateway.usage.sums.history import History
from gateway.usage.sums.latency import AskedLatency, LatencyGroup
from gateway.usage.sums.names import NO_FILTERS, Filters, Name
from gateway.usage.sums.request import OrderBy
from gateway.usage.sums.tally import Tally
from gateway.usage.sums.timespan import Interval, TimeRange

T = TypeVar("T")


class AsOf(NamedTuple):
    """The state of the sums."""

    counted_through_ms: int | None
    """Calls whose outcome was final by then are in the sums; None before the first count."""
    hours_from_ms: int
    """Hours are kept since then; before it only days."""


class Counted(NamedTuple):
    """What is stored in one commit."""

    tally: Tally
    source: str
    """The spool that was counted; `through_no` is a number of its chunks."""
    through_no: int
    as_of_ms: int | None
    """All calls whose outcome was final by then are counted; None where that is not known."""
    now_ms: int
    age_ms: int
    """The spool's clock. Nothing is too old by *now_ms*, the wall clock, alone: by this it has to
    be too.
    """


class FailedCosts(NamedTuple):
    """What failed calls cost."""

    since_hour: int
    """On earlier days an earlier release counted, which did not keep it: what it was is unknown."""
    cells: list[Cell]
    """By `FAILED_COSTS_BY`: the failed calls that cost something, and their cost."""


class AskedGroups(NamedTuple):
    """Groups *offset* to *offset* + *limit* (at most `bounds.MAX_GROUPS`) in that order; unknown
    sorts below known, and groups of equal rank by when their names were seen first.
    """

    by: Sequence[Dimension]
    where: Filters = NO_FILTERS
    order_by: OrderBy = "cost"
    currency: str | None = None
    """In which costs are compared; None takes that of most calls."""
    ascending: bool = False
    offset: int = 0
    limit: int = 20
    folds_versions: bool = False
    """Dated names of a model are in the model's group."""


class SumHome(Protocol):
    async def begin(self, now_ms: int, tags: Collection[str] = ()) -> None:
        """Counting begins, unless it did before: a day that is under way or older may be known in
        part only. *tags* are dimensions from now on; calls that were counted before have none of
        those that are new.
        """

    async def counted_through(self, source: str) -> int:
        """The last counted number of *source*; 0 when none was. A `store` whose outcome is unknown
        is over when this is answered.
        """

    async def store(self, counted: Counted) -> None:
        """Add a tally with the position that it reaches through, and delete what is too old."""

    async def history(self, now_ms: int) -> History:
        """The hourly usage that is kept, and the models of the last 30 days."""

    async def read(self, question: Callable[["SumRows"], T]) -> T:
        """Run *question* on one snapshot."""

    async def read_apart(self, question: Callable[["SumRows"], T]) -> T:
        """As `read`: it may take seconds, and no other question waits for it."""

    async def forget_users(self, users: Collection[str], *, dry_run: bool) -> int:
        """How many rows *users* have; without *dry_run* these are folded into those of "forgotten",
        and nothing that is stored has their names any more.
        """

    async def drop_unused_names(self) -> None:
        """Delete the names that no row has, where many are held. The caller stores nothing until
        this returns.
        """


class SumRows(Protocol):
    """The sums on one snapshot. *now_hour*: hours since 1970, UTC. Methods with a range raise
    BadRange for hours that are no longer kept.
    """

    def totals(self, within: TimeRange, *, now_hour: int, where: Filters = NO_FILTERS) -> UsageSums:
        """Everything that *where* keeps."""

    def over_time(
        self, within: TimeRange, *, now_hour: int, interval: Interval = "day", where: Filters = NO_FILTERS
    ) -> list[Bucket]:
        """Hours or UTC days in order; those without any call are left out."""

    def breakdown(self, within: TimeRange, asked: AskedGroups, *, now_hour: int) -> Breakdown: ...

    def names(
        self, within: TimeRange, dimension: Dimension, *, now_hour: int, most: int, where: Filters = NO_FILTERS
    ) -> list[tuple[Name, ...]]:
        """Of the *most* groups of *dimension* with the highest cost in the currency of most calls:
        the name, and the dated names of a model that have calls.
        """

    def latencies(self, within: TimeRange, asked: AskedLatency, *, now_hour: int) -> dict[LatencyGroup, Buckets]:
        """How long the calls of each group took."""

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
        """Everything that *where* keeps by all of *by*, and by hour or day with an *interval*. None
        where that is more than *most* rows of the sums. Dated names of a model are in the model's.
        """

    def failed_costs(self, within: TimeRange) -> FailedCosts:
        """Of *within*, which is of whole UTC days. Dated names of a model are in the model's."""

    def as_of(self, *, now_hour: int) -> AsOf: ...

    def revision(self, day: int) -> int:
        """How often usage was added to the UTC day that begins with that hour."""
