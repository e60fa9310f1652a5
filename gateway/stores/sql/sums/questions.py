"""Totals, usage over time and by dimension. Functions run on the caller's snapshot."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from gateway.common.contract.tags import is_tag
from gateway.stores.sql.sums.columns import quoted
from gateway.stores.sql.sums.kept_hours import kept_hours
from gateway.stores.sql.sums.latencies import latencies_of
from gateway.stores.sql.sums.names import ids_asked, names_of
from gateway.stores.sql.sums.rows import Rows, in_steps, marks, start_column
from gateway.stores.sql.sums.tables import MAX_COUNT
from gateway.usage.sums import bounds
from gateway.usage.sums.allocation import Cell
from gateway.usage.sums.buckets import Buckets
from gateway.usage.sums.figures import Adder, Breakdown, Bucket, Cells, Group, UsageSums, less
from gateway.usage.sums.grains import DAY, FAILED_COSTS, OTHER_ID, Dimension, Ids
from gateway.usage.sums.home import AskedGroups, AsOf, FailedCosts
from gateway.usage.sums.latency import AskedLatency, LatencyGroup
from gateway.usage.sums.names import NO_FILTERS, Filters, Name
from gateway.usage.sums.request import OrderBy
from gateway.usage.sums.tally import FAILED_COSTS_BY, HOUR_MS
from gateway.usage.sums.timespan import SPANS, Interval, Segment, TimeRange, segments
from spool.sql.connection import Connection

_REST: Final = -1
"""Id of the groups that are not on the page."""
_ORDERS: Final[dict[OrderBy, str]] = {
    "cost": "CAST(sum(cost_micro / 1000000) FILTER (WHERE currency = ?) AS DOUBLE PRECISION) * 1e6"
    " + CAST(sum(cost_micro % 1000000) FILTER (WHERE currency = ?) AS DOUBLE PRECISION)"
    " + CAST(sum(cost_rest) FILTER (WHERE currency = ?) AS DOUBLE PRECISION) / 1e12",
    "calls": "sum(calls)",
    "input_tokens": "sum(input_tokens)",
    "output_tokens": "sum(output_tokens)",
}


_LAST_UNKNOWN: Final = (
    "SELECT max(hour) FROM usage_days WHERE hour >= ? AND hour < ?"
    " AND (failed_costs_revision IS NULL OR failed_costs_revision <> revision)"
)
"""The last day of which not all failed costs are kept."""


class SqlSumRows:
    """`SumRows` on the caller's snapshot."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def totals(self, within: TimeRange, *, now_hour: int, where: Filters = NO_FILTERS) -> UsageSums:
        rows = Rows(self._connection, self._parts(within, now_hour), where)
        return _added(cells for _, cells in rows.summed())

    def over_time(
        self, within: TimeRange, *, now_hour: int, interval: Interval = "day", where: Filters = NO_FILTERS
    ) -> list[Bucket]:
        span = SPANS[interval]
        rows = Rows(self._connection, self._parts(within, now_hour, interval), where)
        buckets: dict[int, Adder] = defaultdict(Adder)
        for (hour,), cells in rows.summed(start_column(span)):
            buckets[hour].add(cells)
        return [Bucket(hour * HOUR_MS, adder.sums()) for hour, adder in sorted(buckets.items())]

    def breakdown(self, within: TimeRange, asked: AskedGroups, *, now_hour: int) -> Breakdown:
        connection, parts = self._connection, self._parts(within, now_hour)
        rows = Rows(connection, parts, asked.where, asked.by, folds_versions=asked.folds_versions)
        page, count = _ranked(rows, asked, _order(connection, parts, asked))
        groups = _sums_of(connection, rows, asked, page)
        total = _added(cells for _, cells in Rows(connection, parts, asked.where).summed())
        return Breakdown(groups, count, less(total, [group.sums for group in groups]), total)

    def names(
        self, within: TimeRange, dimension: Dimension, *, now_hour: int, most: int, where: Filters = NO_FILTERS
    ) -> list[tuple[Name, ...]]:
        connection, parts, is_model = self._connection, self._parts(within, now_hour), dimension == "model"
        asked = AskedGroups((dimension,), where, folds_versions=is_model)
        rows = Rows(connection, parts, where, asked.by, folds_versions=is_model)
        ids = {group: set[int]() for (group,) in _ordered(rows, asked, _order(connection, parts, asked), most)}
        for group, version in rows.select("DISTINCT model, version", "").fetchall() if is_model else ():
            if group in ids and group != version:
                ids[group].add(version)
        names = names_of(connection, {*ids, *chain.from_iterable(ids.values())})
        return [(names[group], *(names[each] for each in versions)) for group, versions in ids.items()]

    def latencies(self, within: TimeRange, asked: AskedLatency, *, now_hour: int) -> dict[LatencyGroup, Buckets]:
        parts = self._parts(within, now_hour, asked.interval or "day")
        return latencies_of(self._connection, parts, asked)

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
        parts = in_steps(self._parts(within, now_hour, interval or "day"))
        rows = Rows(self._connection, parts, where, by, folds_versions="model" in by)
        starts = [] if interval is None else [start_column(SPANS[interval])]
        found = [*rows.summed_by_part(*starts, *rows.columns(by), most=most + 1)]
        if len(found) > most:
            return None
        return self._cells(found, starts=len(starts))

    def failed_costs(self, within: TimeRange) -> FailedCosts:
        (unknown,) = self._connection.execute(_LAST_UNKNOWN, within).fetchone()
        since = within.first_hour if unknown is None else unknown + DAY
        parts = [Segment(DAY, since, within.end_hour)]
        rows = Rows(self._connection, parts, NO_FILTERS, folds_versions=True, only=FAILED_COSTS)
        return FailedCosts(since, self._cells(rows.summed(*rows.columns(FAILED_COSTS_BY))))

    def _cells(self, found: Iterable[tuple[Ids, Cells]], *, starts: int = 0) -> list[Cell]:
        """*found*: the first hour, where *starts* is 1, then names; and their sums in one
        currency.
        """
        adders: dict[Ids, Adder] = defaultdict(Adder)
        for ids, cells in found:
            adders[ids].add(cells)
        names = names_of(self._connection, {each for ids in adders for each in ids[starts:]})
        return [
            Cell(tuple(names[each] for each in ids[starts:]), adder.sums(), sum(ids[:starts]) * HOUR_MS)
            for ids, adder in adders.items()
        ]

    def as_of(self, *, now_hour: int) -> AsOf:
        (as_of_ms,) = self._connection.execute("SELECT as_of_ms FROM usage_rollup_state").fetchone()
        return AsOf(as_of_ms, kept_hours(self._connection, now_hour).first_hour * HOUR_MS)

    def revision(self, day: int) -> int:
        found = self._connection.execute("SELECT revision FROM usage_days WHERE hour = ?", (day,)).fetchone()
        return 0 if found is None else int(found[0])

    def _parts(self, within: TimeRange, now_hour: int, interval: Interval = "day") -> list[Segment]:
        return segments(within, now_hour=now_hour, hours=kept_hours(self._connection, now_hour), interval=interval)


class _Order(NamedTuple):
    sql: str
    parameters: tuple[int, ...] = ()


def _order(connection: Connection, parts: Sequence[Segment], asked: AskedGroups) -> _Order:
    """The order of groups; those of equal rank stand by their names' ids."""
    direction = "ASC NULLS FIRST" if asked.ascending else "DESC NULLS LAST"
    columns = ", ".join(quoted(asked.by))
    if asked.order_by == "name":
        name = "(SELECT name FROM usage_names WHERE id = {})"
        names = ", ".join(f"{name.format(each)} {direction}" for each in quoted(asked.by))
        return _Order(f"{names}, {columns}")
    if asked.order_by != "cost":
        return _Order(f"{_ORDERS[asked.order_by]} {direction}, {columns}")
    known = asked.currency
    currency = _main_currency(connection, parts) if known is None else ids_asked(connection, [known])[0]
    return _Order(f"{_ORDERS['cost']} {direction}, sum(calls) {direction}, {columns}", (currency,) * 3)


def _main_currency(connection: Connection, parts: Sequence[Segment]) -> int:
    """The id of the currency of most calls."""
    found = Rows(connection, parts, NO_FILTERS).select(
        "currency", "WHERE currency > 1 GROUP BY currency ORDER BY sum(calls) DESC, currency LIMIT 1"
    )
    (currency,) = found.fetchone() or (_REST,)
    return int(currency)


def _ranked(rows: Rows, asked: AskedGroups, order: _Order) -> tuple[list[Ids], int]:
    """The groups of the page, and how many there are. A group is no one's where every name is
    "other".
    """
    found = _ordered(rows, asked, order, min(asked.limit, bounds.MAX_GROUPS), "count(*) OVER ()")
    if found or not asked.offset:
        return [row[:-1] for row in found], found[0][-1] if found else 0
    return [], len(_ordered(rows, asked._replace(offset=0), order, MAX_COUNT))


def _ordered(rows: Rows, asked: AskedGroups, order: _Order, limit: int, *more: str) -> list[Ids]:
    """The ids of each group, then what *more* selects."""
    columns = ", ".join(quoted(asked.by))
    is_other = " AND ".join(f"{name} = {OTHER_ID}" for name in quoted(asked.by))
    return rows.select(
        ", ".join((columns, *more)),
        f"WHERE NOT ({is_other}) GROUP BY {columns} ORDER BY {order.sql} LIMIT ? OFFSET ?",
        (*order.parameters, limit, asked.offset),
    ).fetchall()


def _sums_of(connection: Connection, rows: Rows, asked: AskedGroups, page: Sequence[Ids]) -> tuple[Group, ...]:
    """The sums of the groups of *page*, in its order."""
    adders = {ids: Adder() for ids in page}
    versions: dict[Ids, dict[int, Adder]] = {ids: defaultdict(Adder) for ids in page}
    is_on_page, parameters = _is_among(asked.by, page)
    columns = rows.columns((*asked.by, "version") if asked.folds_versions else asked.by)
    for found, cells in rows.summed(*columns, where=is_on_page, parameters=parameters):
        group = found[: len(asked.by)]
        adders[group].add(cells)
        if asked.folds_versions:
            versions[group][found[-1]].add(cells)
    ids_shown = {each for ids in page for each in ids} | {each for of_group in versions.values() for each in of_group}
    names = names_of(connection, ids_shown)
    at = asked.by.index("model") if asked.folds_versions else 0
    return tuple(
        Group(tuple(names[each] for each in ids), adder.sums(), _versions_of(versions[ids], names, ids[at]))
        for ids, adder in adders.items()
    )


def _is_among(by: Sequence[Dimension], page: Sequence[Ids]) -> tuple[str, list[int]]:
    """The groups of *page* as SQL, and its parameters. What a row has itself is compared first: the
    value of a tag is looked up.
    """
    if not page:
        return "WHERE FALSE", []
    own = [(name, [*{ids[at] for ids in page}]) for at, name in enumerate(by) if not is_tag(name)]
    first = "".join(f"{quoted([name])[0]} IN ({marks(len(ids))}) AND " for name, ids in own)
    values = ", ".join(f"({marks(len(by))})" for _ in page)
    sql = f"WHERE {first}({', '.join(quoted(by))}) IN (VALUES {values})"
    return sql, [each for _, ids in own for each in ids] + [each for ids in page for each in ids]


def _versions_of(versions: Mapping[int, Adder], names: Mapping[int, Name], model: int) -> tuple[Group, ...]:
    """At most `bounds.MAX_VERSIONS`, none where they are only the name of *model* itself."""
    if versions.keys() <= {model}:
        return ()
    groups = [Group((names[version],), adder.sums()) for version, adder in versions.items()]
    return tuple(sorted(groups, key=lambda group: (-group.sums.calls, str(group.names[0])))[: bounds.MAX_VERSIONS])


def _added(rows: Iterable[Cells]) -> UsageSums:
    adder = Adder()
    for cells in rows:
        adder.add(cells)
    return adder.sums()
