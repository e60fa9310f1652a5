"""Usage by hour and day, for questions about cost. Functions run in the caller's transaction. At
worst some 200 MiB.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from gateway.stores.sql.sums import names, tags
from gateway.stores.sql.sums.kept_hours import kept_hours
from gateway.stores.sql.sums.model_versions import relate
from gateway.stores.sql.sums.tables import MAX_COUNT, MAX_MICRO, REST, ROLLUPS, TABLES, TAGGED_ROLLUPS, SumTable
from gateway.usage.sums import bounds, grains
from gateway.usage.sums.grains import (
    DAY,
    FAILED_COSTS,
    FINE,
    HOUR,
    OTHER_ID,
    TAGGED,
    Grain,
    Ids,
    add_up,
    by_grain,
    folded,
    tag_grain,
    with_value,
    within_bounds,
    without_tags,
)
from gateway.usage.sums.tally import COST, OTHER, Key, Sums
from spool.sql.connection import Connection

_NOTE_FOLDED = (
    "INSERT INTO usage_folded (hour, level) VALUES (?, ?) ON CONFLICT (hour) DO UPDATE SET level = excluded.level"
)
_NOTE_DAY = (
    "INSERT INTO usage_days (hour, revision, failed_costs_revision) VALUES (?, 1, ?)"
    " ON CONFLICT (hour) DO UPDATE SET revision = usage_days.revision + 1,"
    " failed_costs_revision = usage_days.failed_costs_revision + excluded.failed_costs_revision"
)
"""Unknown once is unknown of the whole day."""
_MAX_FOLDS_AT_ONCE = 40


def add(
    connection: Connection,
    sums: Mapping[Key, Sums],
    *,
    now_hour: int,
    kept_hour: int | None = None,
    is_other: str | None = None,
    failed_costs: Mapping[Key, Sums] | None = None,
) -> None:
    """Add *sums* to the hours and days that are kept; and delete what is too old at *kept_hour*, by
    default *now_hour*. The name *is_other* is no name: it stands for series beyond a bound.
    *failed_costs*: of those of *sums* that failed; None where that is not known.
    """
    kept_hour = now_hour if kept_hour is None else kept_hour
    by_ids = _numbered(connection, sums, is_other)
    hours: dict[int, dict[Ids, Sums]] = defaultdict(dict)
    days: dict[int, dict[Ids, Sums]] = defaultdict(dict)
    for key, ids in by_ids:
        if key.hour > kept_hour - bounds.KEPT_HOURS:
            add_up(hours[key.hour], ids, sums[key])
        if key.hour > kept_hour - bounds.KEPT_DAYS * DAY:
            add_up(days[key.hour // DAY * DAY], ids, sums[key])
    first, end = kept_hours(connection, now_hour).summed
    numbers = tags.numbers_of(connection)
    for span, periods in ((HOUR, hours), (DAY, days)):
        for hour, series in periods.items():
            has_all = span == DAY or first <= hour < end
            for grain, of_grain in by_grain(without_tags(series), has_all=has_all):
                add_series(connection, ROLLUPS, (span, grain, hour), of_grain)
            if numbers:
                _add_tagged(connection, (span, hour), series, numbers)
    _add_failed_costs(connection, failed_costs or {}, kept_hour)
    _note_changes(connection, days, now_hour, has_failed_costs=failed_costs is not None)
    _delete_old(connection, kept_hour)
    _keep_room(connection, now_hour)


def _add_tagged(
    connection: Connection, period: tuple[int, int], series: Mapping[Ids, Sums], numbers: Mapping[str, int]
) -> None:
    span, hour = period
    add_series(connection, TAGGED_ROLLUPS, (span, TAGGED, hour), series)
    for tag, number in numbers.items() if span == DAY else ():
        values = tags.values_of(connection, {ids[-1] for ids in series}, tag)
        add_series(connection, TAGGED_ROLLUPS, (span, tag_grain(number), hour), with_value(series, values))


def _add_failed_costs(connection: Connection, sums: Mapping[Key, Sums], kept_hour: int) -> None:
    days: dict[int, dict[Ids, Sums]] = defaultdict(dict)
    for key, ids in _numbered(connection, sums, None) if sums else ():
        if key.hour > kept_hour - bounds.KEPT_DAYS * DAY:
            add_up(days[key.hour // DAY * DAY], ids[:-1], sums[key])
    for day, series in days.items():
        add_series(connection, ROLLUPS, (DAY, FAILED_COSTS, day), series)


def keep_tags(connection: Connection, wanted: Collection[str]) -> None:
    """*wanted* are dimensions from now on, also of what was counted before."""
    before = tags.keep(connection, wanted)
    for tag, number in tags.numbers_of(connection).items():
        if tag in before or tag not in wanted:
            continue
        if tags.has_values(connection, tag):
            _project(connection, tag, number)
        else:
            tags.begin_tag(connection, number)


def _project(connection: Connection, tag: str, number: int) -> None:
    """The days that are kept, of a tag that was kept once before."""
    found = connection.execute(
        "SELECT DISTINCT hour FROM usage_tag_rollups WHERE span = ? AND grain = ?", (DAY, TAGGED.id)
    ).fetchall()
    for (hour,) in found:
        series = read_series(connection, TAGGED_ROLLUPS, (DAY, TAGGED, hour))
        values = tags.values_of(connection, {ids[-1] for ids in series}, tag)
        add_series(connection, TAGGED_ROLLUPS, (DAY, tag_grain(number), hour), with_value(series, values))


def note_as_of(connection: Connection, as_of_ms: int) -> None:
    """All calls whose outcome was final at that time are counted."""
    connection.execute("UPDATE usage_rollup_state SET as_of_ms = ?", (as_of_ms,))


def take_over(connection: Connection, kept: Mapping[Key, Sums], *, now_hour: int) -> None:
    """Add the usage that an earlier release *kept*, once."""
    (is_kept,) = connection.execute("SELECT is_history_kept FROM usage_rollup_state").fetchone()
    if not is_kept:
        add(connection, kept, now_hour=now_hour, is_other=OTHER)
        connection.execute("UPDATE usage_rollup_state SET is_history_kept = TRUE")


def _numbered(connection: Connection, sums: Mapping[Key, Sums], is_other: str | None) -> list[tuple[Key, Ids]]:
    """The ids of each series. Users and devices, of which there are most, take numbers last."""
    words = {word for key in sums for word in (key.currency, key.cost_source)}
    few = {name for key in sums for name in key._replace(user="", device_id="", tags="")[1:]} - words
    many = {name for key in sums for name in (key.user, key.device_id)}
    ids = names.ids_of(connection, words, most=bounds.MAX_NAMES + bounds.ROOM_FOR_CURRENCIES)
    ids |= names.ids_of(connection, few - {is_other})
    ids |= names.ids_of(connection, many - {is_other}, most=bounds.MAX_NAMES_WITH_MANY)
    if is_other is not None:
        ids[is_other] = OTHER_ID
    relate(connection, {key.model: ids[key.model] for key in sums})
    sets = tags.ids_of_sets(connection, {key.tags for key in sums})
    return [(key, (*[ids[name] for name in key[1:-1]], sets[key.tags])) for key in sums if any(sums[key])]


Period = tuple[int, Grain, int]
"""Hours of it, its grain, its first hour."""


def add_series(connection: Connection, table: SumTable, period: Period, series: Mapping[Ids, Sums]) -> None:
    """Add *series* to one period; those beyond its bound are folded."""
    span, grain, hour = period
    place = (span, grain.id, hour)
    (held,) = connection.execute(f"SELECT count(*) {table.period}", place).fetchone()
    if held + len(series) > grain.max_series(span):
        series = within_bounds(grain, span, [*connection.execute(table.find, place)], series)
    connection.executemany(table.add, ((*place, *ids, *_cells(sums)) for ids, sums in series.items()))


def read_series(connection: Connection, table: SumTable, period: Period) -> dict[Ids, Sums]:
    """Those of one period."""
    span, grain, hour = period
    width = len(table.columns)
    rows = connection.execute(table.read, (span, grain.id, hour)).fetchall()
    return {row[:width]: [*row[width:-2], row[-2] * REST + row[-1]] for row in rows}


def _cells(sums: Sums) -> list[int | None]:
    """*sums* as a row holds them; beyond its bounds is the bound."""
    counts = [None if count is None else min(count, MAX_COUNT) for count in sums[:COST]]
    micro, rest = divmod(sums[COST] or 0, REST)
    return [*counts, max(-MAX_MICRO, min(micro, MAX_MICRO)), rest]


def _note_changes(connection: Connection, days: Iterable[int], now_hour: int, *, has_failed_costs: bool) -> None:
    """Usage was added to *days*, which are named by their first hour."""
    connection.execute(
        "UPDATE usage_rollup_state SET counted_from = ? WHERE counted_from IS NULL", (now_hour // DAY * DAY,)
    )
    connection.executemany(_NOTE_DAY, [(day, 1 if has_failed_costs else None) for day in days])


def _delete_old(connection: Connection, now_hour: int) -> None:
    _delete_hours(connection, HOUR, now_hour - bounds.KEPT_HOURS)
    _delete_hours(connection, DAY, now_hour - bounds.KEPT_DAYS * DAY - DAY)
    for table in ("usage_folded", "usage_days"):
        connection.execute(f"DELETE FROM {table} WHERE hour <= ?", (now_hour - bounds.KEPT_DAYS * DAY - DAY,))  # noqa: S608 - own SQL


def _delete_hours(connection: Connection, span: int, through_hour: int) -> None:
    for table, kept in _grains(connection):
        of_grains = [(span, grain.id, through_hour) for grain in kept]
        connection.executemany(f"DELETE FROM {table.name} WHERE span = ? AND grain = ? AND hour <= ?", of_grains)  # noqa: S608 - own SQL


def _grains(connection: Connection) -> list[tuple[SumTable, list[Grain]]]:
    """Those of each table; the second has none before tags are kept."""
    of_tags = [tag_grain(number) for number in tags.numbers_of(connection).values()]
    return [(ROLLUPS, [*grains.KEPT]), (TAGGED_ROLLUPS, [*of_tags, TAGGED] if of_tags else [])]


def _keep_room(connection: Connection, now_hour: int) -> None:
    """Once an hour: keep the bounds on rows."""
    (checked_hour,) = connection.execute("SELECT room_checked FROM usage_rollup_state").fetchone()
    if checked_hour == now_hour:
        return
    connection.execute("UPDATE usage_rollup_state SET room_checked = ?", (now_hour,))
    _trim_hours(connection, now_hour)
    for _ in range(_MAX_FOLDS_AT_ONCE):
        if row_count(connection, DAY) <= bounds.MAX_DAY_ROWS or not _fold_oldest_day(connection, now_hour):
            break


def row_count(connection: Connection, span: int) -> int:
    """Sums of so many hours each that are kept, in the table that has more."""
    count = "SELECT count(*) FROM {} WHERE span = ?"
    return max(int(connection.execute(count.format(table.name), (span,)).fetchone()[0]) for table in TABLES)


def _trim_hours(connection: Connection, now_hour: int) -> None:
    """Delete the oldest hours while there are too many rows, a day at a time."""
    for keep_hours in range(bounds.KEPT_HOURS - DAY, bounds.LEAST_HOURS - 1, -DAY):
        if row_count(connection, HOUR) <= bounds.MAX_HOUR_ROWS:
            return
        _delete_hours(connection, HOUR, now_hour - keep_hours)
        first_hour = now_hour - keep_hours + 1
        connection.execute(
            "UPDATE usage_rollup_state SET hours_from = ? WHERE hours_from < ?", (first_hour, first_hour)
        )


def _fold_oldest_day(connection: Connection, now_hour: int) -> bool:
    """Fold the day that was folded least and is oldest among these; False when none is left."""
    found = connection.execute(
        "SELECT day.hour, coalesce(level, 0) FROM (SELECT DISTINCT hour FROM usage_rollups WHERE span = ? AND grain = 1) AS day"
        " LEFT JOIN usage_folded USING (hour) WHERE coalesce(level, 0) < 2 AND day.hour < ? ORDER BY 2, 1 LIMIT 1",
        (DAY, now_hour - DAY),
    ).fetchone()
    if found is None:
        return False
    hour, level = found
    for table, kept in _grains(connection):
        for grain in kept:
            if columns := grain.dimensions & FINE if level == 0 else grain.dimensions:
                _fold_day(connection, table, (DAY, grain, hour), columns)
    connection.execute(_NOTE_FOLDED, (hour, level + 1))
    return True


def _fold_day(connection: Connection, table: SumTable, period: Period, columns: Collection[str]) -> None:
    series: dict[Ids, Sums] = {}
    for ids, sums in read_series(connection, table, period).items():
        add_up(series, folded(ids, columns), sums)
    span, grain, hour = period
    connection.execute(f"DELETE {table.period}", (span, grain.id, hour))
    add_series(connection, table, period, series)
