"""Folds the sums of users into those of "forgotten". Functions run in the caller's transaction."""

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Final

from gateway.stores.sql.sums.columns import USER, quoted
from gateway.stores.sql.sums.model_versions import drop_names
from gateway.stores.sql.sums.names import ids_asked
from gateway.stores.sql.sums.rollups import Period, add_series
from gateway.stores.sql.sums.tables import REST, ROLLUPS, TABLES, TAGGED_ROLLUPS, SumTable
from gateway.usage.sums.figures import COUNTS
from gateway.usage.sums.grains import COLUMNS, FORGOTTEN_ID, GRAINS, TAGGED, Grain, Ids, add_up
from gateway.usage.sums.tally import Sums
from spool.sql.connection import Connection


def _among(table: SumTable) -> str:
    return " OR ".join(f"{name} = ?" for name in quoted(table.columns))


_USER: Final = COLUMNS.index("user")
_GRAINS: Final = ((ROLLUPS, GRAINS), (TAGGED_ROLLUPS, (TAGGED,)))
_OF_USER: Final = tuple((table, grain) for table, grains in _GRAINS for grain in grains if "user" in grain.dimensions)
_IS_USED: Final = (
    " UNION ALL ".join(f"SELECT 1 FROM {table.name} WHERE {_among(table)}" for table in TABLES)  # noqa: S608 - own SQL
    + " UNION ALL SELECT 1 FROM usage_model_versions WHERE model_id = ?"
    " UNION ALL SELECT 1 FROM usage_tag_values WHERE value_id = ? LIMIT 1"
)
_TIMES_USED: Final = _IS_USED.count("?")


def count_rows(connection: Connection, users: Collection[str]) -> int:
    found = (row for name in ids_asked(connection, sorted(users)) for row in _rows_of(connection, name))
    return sum(table is ROLLUPS for table, *_ in found)


def forget_in_sums(connection: Connection, users: Collection[str]) -> int:
    """Fold the sums of *users* into those of "forgotten"; how many rows they had."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA secure_delete = ON")  # what is written over is no longer in the file
    return sum(_forget_one(connection, name) for name in ids_asked(connection, sorted(users)))


def _forget_one(connection: Connection, name: int) -> int:
    rows = [*_rows_of(connection, name)]
    periods: dict[tuple[SumTable, Period], dict[Ids, Sums]] = defaultdict(dict)
    for table, grain, (span, hour, *rest) in rows:
        width = len(table.columns)
        ids, (*counts, micro, cost_rest) = rest[:width], rest[width:]
        ids[_USER] = FORGOTTEN_ID
        add_up(periods[table, (span, grain, hour)], tuple(ids), [*counts, micro * REST + cost_rest])
    for table, grain in _OF_USER:
        connection.execute(f"DELETE FROM {table.name} WHERE grain = ? AND {USER} = ?", (grain.id, name))  # noqa: S608 - own SQL
    for (table, period), series in periods.items():
        add_series(connection, table, period, series)
    if rows and connection.execute(_IS_USED, (name,) * _TIMES_USED).fetchone() is None:
        drop_names(connection, [name])
    return sum(table is ROLLUPS for table, *_ in rows)


def _rows_of(connection: Connection, name: int) -> Iterator[tuple[SumTable, Grain, tuple[int, ...]]]:
    for table, grain in _OF_USER:
        columns = ", ".join((*quoted(table.columns), *COUNTS))
        sql = (
            f"SELECT span, hour, {columns}, cost_micro, cost_rest FROM {table.name}"  # noqa: S608 - own SQL
            f" WHERE span = ? AND grain = ? AND {USER} = ?"
        )
        for span in (1, 24):
            yield from ((table, grain, row) for row in connection.execute(sql, (span, grain.id, name)).fetchall())
