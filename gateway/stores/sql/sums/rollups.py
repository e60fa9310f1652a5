"""Usage by hour and day, for questions about cost. Functions run in the caller's transaction. At
worst some 200 MiB.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from gateway.stores.sql.sums import names
from gateway.stores.sql.sums.columns import quoted
from gateway.stores.sql.sums.kept_hours import kept_hours
from gateway.stores.sql.sums.model_versions import relate
from gateway.usage.sums import bounds, grains
from gateway.usage.sums.figures import COUNTS
from gateway.usage.sums.grains import (
    COLUMNS,
    DAY,
    FINE,
    HOUR,
    OTHER_ID,
    Grain,
    Ids,
    add_up,
    by_grain,
    folded,
    within_bounds,
)
from gateway.usage.sums.tally import COST, INPUT, OTHER, Key, Sums
from spool.sql.connection import Connection

REST: Final = 10**12
"""Parts of `cost_micro` that `cost_rest` counts."""

MAX_COUNT: Final = 2**43
"""Of one row: 8.8e12 tokens. As many rows as there may be add up within 64 bits."""
MAX_MICRO: Final = 10**18
"""1e12 units of money, of one row."""
_PERIOD = ("span", "grain", "hour")
_OF_ROW = (*_PERIOD, *quoted(COLUMNS))
_ALL = (*_OF_ROW, *COUNTS, "cost_micro", "cost_rest")
_ADDED = "usage_rollups.{0} + excluded.{0}"
_WHOLE_COUNTS = ", ".join(
    f"{name} = CASE WHEN {_ADDED.format(name)} > {MAX_COUNT} THEN {MAX_COUNT} ELSE {_ADDED.format(name)} END"
    for name in COUNTS[:INPUT]
)
_TOKENS = ", ".join(
    f"{name} = CASE WHEN {_ADDED.format(name)} > {MAX_COUNT} THEN {MAX_COUNT}"
    f" ELSE coalesce({_ADDED.format(name)}, usage_rollups.{name}, excluded.{name}) END"
    for name in COUNTS[INPUT:]
)
_MICRO = f"{_ADDED.format('cost_micro')} + ({_ADDED.format('cost_rest')}) / {REST}"
_ADD = (
    f"INSERT INTO usage_rollups ({', '.join(_ALL)}) VALUES ({', '.join('?' * len(_ALL))})"  # noqa: S608 - own SQL
    f" ON CONFLICT ({', '.join(_OF_ROW)}) DO UPDATE SET {_WHOLE_COUNTS}, {_TOKENS},"
    f" cost_micro = CASE WHEN {_MICRO} BETWEEN -{MAX_MICRO} AND {MAX_MICRO} THEN {_MICRO}"
    f" WHEN {_MICRO} > 0 THEN {MAX_MICRO} ELSE -{MAX_MICRO} END,"
    f" cost_rest = ({_ADDED.format('cost_rest')}) % {REST}"
)
_ONE_PERIOD = "FROM usage_rollups WHERE span = ? AND grain = ? AND hour = ?"
_FIND = f"SELECT {', '.join(quoted(COLUMNS))} {_ONE_PERIOD}"
_READ = f"SELECT {', '.join((*quoted(COLUMNS), *COUNTS))}, cost_micro, cost_rest {_ONE_PERIOD}"
_NOTE_FOLDED = (
    "INSERT INTO usage_folded (hour, level) VALUES (?, ?) ON CONFLICT (hour) DO UPDATE SET level = excluded.level"
)
_MAX_FOLDS_AT_ONCE = 40


def add(
    connection: Connection,
    sums: Mapping[Key, Sums],
    *,
    now_hour: int,
    kept_hour: int | None = None,
    is_other: str | None = None,
) -> None:
    """Add *sums* to the hours and days that are kept; and delete what is too old at *kept_hour*, by
    default *now_hour*. The name *is_other* is no name: it stands for series beyond a bound.
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
    for span, periods in ((HOUR, hours), (DAY, days)):
        for hour, series in periods.items():
            for grain, of_grain in by_grain(series, has_all=span == DAY or first <= hour < end):
                add_series(connection, span, grain, hour, of_grain)
    _note_changes(connection, days, now_hour)
    _delete_old(connection, kept_hour)
    _keep_room(connection, now_hour)


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
    few = {name for key in sums for name in key._replace(user="", device_id="")[1:]} - words
    many = {name for key in sums for name in (key.user, key.device_id)}
    ids = names.ids_of(connection, words, most=bounds.MAX_NAMES + bounds.ROOM_FOR_CURRENCIES)
    ids |= names.ids_of(connection, few - {is_other})
    ids |= names.ids_of(connection, many - {is_other}, most=bounds.MAX_NAMES_WITH_MANY)
    if is_other is not None:
        ids[is_other] = OTHER_ID
    relate(connection, {key.model: ids[key.model] for key in sums})
    return [(key, tuple([ids[name] for name in key[1:]])) for key in sums if any(sums[key])]


def add_series(connection: Connection, span: int, grain: Grain, hour: int, series: Mapping[Ids, Sums]) -> None:
    """Add *series* to one period; those beyond its bound are folded."""
    (held,) = connection.execute(f"SELECT count(*) {_ONE_PERIOD}", (span, grain.id, hour)).fetchone()
    if held + len(series) > grain.most(span):
        series = within_bounds(grain, span, [*connection.execute(_FIND, (span, grain.id, hour))], series)
    connection.executemany(_ADD, ((span, grain.id, hour, *ids, *_cells(sums)) for ids, sums in series.items()))


def read_series(connection: Connection, span: int, grain: Grain, hour: int) -> dict[Ids, Sums]:
    """Those of one period."""
    width = len(COLUMNS)
    rows = connection.execute(_READ, (span, grain.id, hour)).fetchall()
    return {row[:width]: [*row[width:-2], row[-2] * REST + row[-1]] for row in rows}


def _cells(sums: Sums) -> list[int | None]:
    """*sums* as a row holds them; beyond its bounds is the bound."""
    counts = [None if count is None else min(count, MAX_COUNT) for count in sums[:COST]]
    micro, rest = divmod(sums[COST] or 0, REST)
    return [*counts, max(-MAX_MICRO, min(micro, MAX_MICRO)), rest]


def _note_changes(connection: Connection, days: Iterable[int], now_hour: int) -> None:
    """Usage was added to *days*, which are named by their first hour."""
    connection.execute(
        "UPDATE usage_rollup_state SET counted_from = ? WHERE counted_from IS NULL", (now_hour // DAY * DAY,)
    )
    connection.executemany(
        "INSERT INTO usage_days (hour, revision) VALUES (?, 1) ON CONFLICT (hour) DO UPDATE SET revision = usage_days.revision + 1",
        [(day,) for day in days],
    )


def _delete_old(connection: Connection, now_hour: int) -> None:
    _delete_hours(connection, HOUR, now_hour - bounds.KEPT_HOURS)
    _delete_hours(connection, DAY, now_hour - bounds.KEPT_DAYS * DAY - DAY)
    for table in ("usage_folded", "usage_days"):
        connection.execute(f"DELETE FROM {table} WHERE hour <= ?", (now_hour - bounds.KEPT_DAYS * DAY - DAY,))  # noqa: S608 - own SQL


def _delete_hours(connection: Connection, span: int, through_hour: int) -> None:
    of_grains = [(span, grain.id, through_hour) for grain in grains.GRAINS]
    connection.executemany("DELETE FROM usage_rollups WHERE span = ? AND grain = ? AND hour <= ?", of_grains)


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
    """Sums of so many hours each that are kept."""
    (rows,) = connection.execute("SELECT count(*) FROM usage_rollups WHERE span = ?", (span,)).fetchone()
    return int(rows)


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
    for grain in grains.GRAINS:
        if columns := grain.dimensions & FINE if level == 0 else grain.dimensions:
            _fold_day(connection, grain, hour, columns)
    connection.execute(_NOTE_FOLDED, (hour, level + 1))
    return True


def _fold_day(connection: Connection, grain: Grain, hour: int, columns: Collection[str]) -> None:
    series: dict[Ids, Sums] = {}
    for ids, sums in read_series(connection, DAY, grain, hour).items():
        add_up(series, folded(ids, columns), sums)
    connection.execute(f"DELETE {_ONE_PERIOD}", (DAY, grain.id, hour))
    add_series(connection, DAY, grain, hour, series)
