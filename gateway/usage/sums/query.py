"""Questions about usage: totals, over time, by dimension.

Sums are of billed calls whose outcome is final, by the start of the call, UTC. `UsageQueries` is
the interface; the functions below it run on one snapshot of control.db.
"""

import asyncio
import sqlite3
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from copy import copy
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from gateway.common.contract.errors import Overloaded
from gateway.common.storage.database import Database
from gateway.usage.sums.figures import Adder, Breakdown, Bucket, Cells, Group, UsageSums, less
from gateway.usage.sums.following import UsageFollower
from gateway.usage.sums.grains import OTHER_ID, Dimension
from gateway.usage.sums.names import Name, ids_asked, names_of
from gateway.usage.sums.request import OrderBy
from gateway.usage.sums.rollups import hours_from
from gateway.usage.sums.rows import Filters, Rows, marks
from gateway.usage.sums.tally import HOUR_MS
from gateway.usage.sums.timespan import SPANS, Interval, Segment, TimeRange, segments
from spool.errors import SpoolError

T = TypeVar("T")
NO_FILTERS: Final[Filters] = {}
REFRESH_S: Final = 5.0
"""Each refresh may cost a sync of the disk."""
MAX_GROUPS: Final = 500
"""Of one page."""
MAX_VERSIONS: Final = 50
"""Of one model."""
MAX_ASKERS: Final = 8
"""Of the interface at once; one is answered at a time."""

_REST: Final = -1
"""Id of the groups that are not on the page."""
_ORDERS: Final[dict[OrderBy, str]] = {
    "cost": "sum(cost_micro / 1000000) FILTER (WHERE currency = ?) * 1e6 + sum(cost_micro % 1000000) FILTER (WHERE currency = ?)"
    " + sum(cost_rest) FILTER (WHERE currency = ?) / 1e12",
    "calls": "sum(calls)",
    "input_tokens": "sum(input_tokens)",
    "output_tokens": "sum(output_tokens)",
}


class AsOf(NamedTuple):
    """The state of the sums."""

    counted_through_ms: int | None
    """Calls whose outcome was final by then are in the sums; None before the first count."""
    hours_from_ms: int
    """Hours are kept since then; before it only days."""


class UsageQueries:
    """Questions on *database*. Every method raises DatabaseUnavailable; those with a range raise
    BadRange for hours that are no longer kept.
    """

    def __init__(self, database: Database, *, now_ms: Callable[[], int], follower: UsageFollower | None = None) -> None:
        """*follower* counts in a running gateway; None asks what a stopped one has counted."""
        self.database = database
        self._read = database.read
        self._turn = asyncio.Lock()
        self._askers = 0
        self.now_ms = now_ms
        self._follower = follower
        self._refreshed_s = float("-inf")

    async def refresh(self, *, at_once: bool = False) -> None:
        """Bring the sums up to date, unless *at_once* at most once in `REFRESH_S`: for a reader,
        before the questions. One that is *at_once* puts off no other.
        """
        now_s = time.monotonic()
        if self._follower is not None and (at_once or now_s - self._refreshed_s >= REFRESH_S):
            self._refreshed_s = self._refreshed_s if at_once else now_s
            with suppress(SpoolError):  # then without the records that are not counted yet
                await self._follower.catch_up()
            await self._follower.write()

    @asynccontextmanager
    async def apart(self) -> AsyncIterator["UsageQueries"]:
        """The same questions on a connection of their own, for one asker at a time: they may take
        seconds, and the page waits for none. Raises Overloaded beyond `MAX_ASKERS`.
        """
        if self._askers >= MAX_ASKERS:
            raise Overloaded("too many questions about usage are asked at once: ask again later")
        self._askers += 1
        try:
            async with self._turn:
                apart = copy(self)
                apart._read = self.database.read_apart  # noqa: SLF001 - its own
                yield apart
        finally:
            self._askers -= 1

    async def totals(self, within: TimeRange, *, where: Filters = NO_FILTERS) -> UsageSums:
        """Everything that *where* keeps."""
        return await self._ask(totals, within, where=where)

    async def over_time(
        self, within: TimeRange, *, interval: Interval = "day", where: Filters = NO_FILTERS
    ) -> list[Bucket]:
        """Hours or UTC days in order; those without any call are left out."""
        return await self._ask(over_time, within, interval=interval, where=where)

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
        """Groups *offset* to *offset* + *limit* (at most `MAX_GROUPS`) in that order, by default
        the largest first; unknown sorts below known. Costs are compared in *currency*; None takes
        that of most calls. Dated names of a model are in the model's group.
        """
        order = {"order_by": order_by, "currency": currency, "ascending": ascending}
        page = {"offset": offset, "limit": limit}
        return await self._ask(
            breakdown, within, group_by=group_by, where=where, folds_versions="model" in group_by, **order, **page
        )

    async def as_of(self) -> AsOf:
        """Through when the sums are complete, and since when hours are kept."""
        stored = await self._read(partial(as_of, now_hour=self.now_ms() // HOUR_MS))
        if self._follower is None or self._follower.as_of_ms is None:
            return stored
        return stored._replace(counted_through_ms=self._follower.as_of_ms)

    async def _ask(self, question: Callable[..., T], within: TimeRange, **options: Any) -> T:
        now_hour = self.now_ms() // HOUR_MS
        return await self._read(partial(question, within=within, now_hour=now_hour, **options))


def totals(
    connection: sqlite3.Connection, *, within: TimeRange, now_hour: int, where: Filters = NO_FILTERS
) -> UsageSums:
    rows = Rows(connection, _parts(connection, within, now_hour), where)
    return _added(cells for _, cells in rows.summed())


def over_time(
    connection: sqlite3.Connection,
    *,
    within: TimeRange,
    now_hour: int,
    interval: Interval = "day",
    where: Filters = NO_FILTERS,
) -> list[Bucket]:
    span = SPANS[interval]
    rows = Rows(connection, _parts(connection, within, now_hour, interval), where)
    buckets: dict[int, Adder] = defaultdict(Adder)
    for (hour,), cells in rows.summed(f"hour / {span} * {span}"):
        buckets[hour].add(cells)
    return [Bucket(hour * HOUR_MS, adder.sums()) for hour, adder in sorted(buckets.items())]


def breakdown(
    connection: sqlite3.Connection,
    *,
    within: TimeRange,
    now_hour: int,
    group_by: Sequence[Dimension],
    where: Filters = NO_FILTERS,
    order_by: OrderBy = "cost",
    currency: str | None = None,
    ascending: bool = False,
    offset: int = 0,
    limit: int = 20,
    folds_versions: bool = False,
) -> Breakdown:
    parts = _parts(connection, within, now_hour)
    rows = Rows(connection, parts, where, group_by, folds_versions=folds_versions)
    order = _order(connection, parts, group_by, order_by, currency, ascending=ascending)
    page, count = _ranked(rows, group_by, order, offset, min(limit, MAX_GROUPS))
    groups = _sums_of(connection, rows, group_by, page, folds_versions=folds_versions)
    total = _added(cells for _, cells in Rows(connection, parts, where).summed())
    return Breakdown(groups, count, less(total, [group.sums for group in groups]), total)


def as_of(connection: sqlite3.Connection, *, now_hour: int) -> AsOf:
    (as_of_ms,) = connection.execute("SELECT as_of_ms FROM usage_rollup_state").fetchone()
    return AsOf(as_of_ms, hours_from(connection, now_hour) * HOUR_MS)


class _Order(NamedTuple):
    sql: str
    parameters: tuple[int, ...] = ()


Ids = tuple[int, ...]


def _parts(
    connection: sqlite3.Connection, within: TimeRange, now_hour: int, interval: Interval = "day"
) -> list[Segment]:
    return segments(within, now_hour=now_hour, hours_from=hours_from(connection, now_hour), interval=interval)


def _order(
    connection: sqlite3.Connection,
    parts: Sequence[Segment],
    group_by: Sequence[Dimension],
    order_by: OrderBy,
    currency: str | None,
    *,
    ascending: bool,
) -> _Order:
    """The order of groups; those of equal rank stand by their names' ids."""
    direction = "ASC" if ascending else "DESC"
    columns = ", ".join(group_by)
    if order_by == "name":
        name = "(SELECT name FROM usage_names WHERE id = {})"
        names = ", ".join(f"{name.format(each)} {direction}" for each in group_by)
        return _Order(f"{names}, {columns}")
    if order_by != "cost":
        return _Order(f"{_ORDERS[order_by]} {direction}, {columns}")
    asked = _main_currency(connection, parts) if currency is None else ids_asked(connection, [currency])[0]
    return _Order(f"{_ORDERS[order_by]} {direction}, sum(calls) {direction}, {columns}", (asked,) * 3)


def _main_currency(connection: sqlite3.Connection, parts: Sequence[Segment]) -> int:
    """The id of the currency of most calls."""
    found = Rows(connection, parts, NO_FILTERS).select(
        "currency", "WHERE currency > 1 GROUP BY currency ORDER BY sum(calls) DESC, currency LIMIT 1"
    )
    (currency,) = found.fetchone() or (_REST,)
    return int(currency)


def _ranked(rows: Rows, group_by: Sequence[Dimension], order: _Order, offset: int, limit: int) -> tuple[list[Ids], int]:
    """The groups of the page, and how many there are. A group is no one's where every name is
    "other".
    """
    columns = ", ".join(group_by)
    named = f"WHERE NOT ({' AND '.join(f'{name} = {OTHER_ID}' for name in group_by)}) GROUP BY {columns}"
    found = rows.select(
        f"{columns}, count(*) OVER ()",
        f"{named} ORDER BY {order.sql} LIMIT ? OFFSET ?",
        (*order.parameters, limit, offset),
    ).fetchall()
    if found or not offset:
        return [row[:-1] for row in found], found[0][-1] if found else 0
    return [], len(rows.select(columns, named).fetchall())


def _sums_of(
    connection: sqlite3.Connection,
    rows: Rows,
    group_by: Sequence[Dimension],
    page: Sequence[Ids],
    *,
    folds_versions: bool,
) -> tuple[Group, ...]:
    """The sums of the groups of *page*, in its order."""
    adders = {ids: Adder() for ids in page}
    versions: dict[Ids, dict[int, Adder]] = {ids: defaultdict(Adder) for ids in page}
    values = ", ".join(f"({marks(len(group_by))})" for _ in page)
    is_on_page = f"WHERE ({', '.join(group_by)}) IN (VALUES {values})" if page else "WHERE 0"
    columns = (*group_by, "version") if folds_versions else group_by
    for found, cells in rows.summed(*columns, where=is_on_page, parameters=[each for ids in page for each in ids]):
        group = found[: len(group_by)]
        adders[group].add(cells)
        if folds_versions:
            versions[group][found[-1]].add(cells)
    ids_shown = {each for ids in page for each in ids} | {each for of_group in versions.values() for each in of_group}
    names = names_of(connection, ids_shown)
    at = group_by.index("model") if folds_versions else 0
    return tuple(
        Group(tuple(names[each] for each in ids), adder.sums(), _versions_of(versions[ids], names, ids[at]))
        for ids, adder in adders.items()
    )


def _versions_of(versions: Mapping[int, Adder], names: Mapping[int, Name], model: int) -> tuple[Group, ...]:
    """At most `MAX_VERSIONS`, none where they are only the name of *model* itself."""
    if versions.keys() <= {model}:
        return ()
    groups = [Group((names[version],), adder.sums()) for version, adder in versions.items()]
    return tuple(sorted(groups, key=lambda group: (-group.sums.calls, str(group.names[0])))[:MAX_VERSIONS])


def _added(rows: Iterable[Cells]) -> UsageSums:
    adder = Adder()
    for cells in rows:
        adder.add(cells)
    return adder.sums()
