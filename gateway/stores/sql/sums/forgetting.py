"""Folds the sums of users into those of "forgotten". Functions run in the caller's transaction."""

import sqlite3
from collections import defaultdict
from collections.abc import Collection
from typing import Final

from gateway.stores.sql.sums.columns import USER, quoted
from gateway.stores.sql.sums.model_versions import drop_names
from gateway.stores.sql.sums.names import ids_asked
from gateway.stores.sql.sums.rollups import REST, add_series
from gateway.usage.sums.figures import COUNTS
from gateway.usage.sums.grains import COLUMNS, FORGOTTEN_ID, GRAINS, Grain, Ids, add_up
from gateway.usage.sums.tally import Sums
from spool.sql.connection import Connection

_USER: Final = COLUMNS.index("user")
_OF_USER: Final = tuple(grain for grain in GRAINS if "user" in grain.dimensions)
_ROWS: Final = (
    f"SELECT span, grain, hour, {', '.join((*quoted(COLUMNS), *COUNTS))}, cost_micro, cost_rest FROM usage_rollups"  # noqa: S608 - own SQL
    f" WHERE span = ? AND grain = ? AND {USER} = ?"
)
_DELETE: Final = f"DELETE FROM usage_rollups WHERE grain = ? AND {USER} = ?"  # noqa: S608 - own SQL
_IS_USED: Final = (
    f"SELECT 1 FROM usage_rollups WHERE {' OR '.join(f'{name} = ?' for name in quoted(COLUMNS))}"  # noqa: S608 - own SQL
    " UNION ALL SELECT 1 FROM usage_model_versions WHERE model_id = ? LIMIT 1"
)


def count_rows(connection: Connection, users: Collection[str]) -> int:
    return sum(1 for name in ids_asked(connection, sorted(users)) for _ in _rows_of(connection, name))


def forget_in_sums(connection: Connection, users: Collection[str]) -> int:
    """Fold the sums of *users* into those of "forgotten"; how many rows they had."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA secure_delete = ON")  # what is written over is no longer in the file
    return sum(_forget_one(connection, name) for name in ids_asked(connection, sorted(users)))


def _forget_one(connection: Connection, name: int) -> int:
    rows = _rows_of(connection, name)
    periods: dict[tuple[int, Grain, int], dict[Ids, Sums]] = defaultdict(dict)
    grains = {grain.id: grain for grain in GRAINS}
    for span, grain_id, hour, *rest in rows:
        ids, (*counts, micro, cost_rest) = rest[: len(COLUMNS)], rest[len(COLUMNS) :]
        ids[_USER] = FORGOTTEN_ID
        add_up(periods[span, grains[grain_id], hour], tuple(ids), [*counts, micro * REST + cost_rest])
    for grain in _OF_USER:
        connection.execute(_DELETE, (grain.id, name))
    for (span, of_grain, hour), series in periods.items():
        add_series(connection, span, of_grain, hour, series)
    if rows and connection.execute(_IS_USED, (name,) * (len(COLUMNS) + 1)).fetchone() is None:
        drop_names(connection, [name])
    return len(rows)


def _rows_of(connection: Connection, name: int) -> list[tuple[int, ...]]:
    return [row for grain in _OF_USER for span in (1, 24) for row in connection.execute(_ROWS, (span, grain.id, name))]
