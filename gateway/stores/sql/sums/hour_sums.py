"""Sums hours that are over by one dimension, from their series. Functions run in the caller's
transaction.
"""

from gateway.stores.sql.sums.kept_hours import kept_hours
from gateway.stores.sql.sums.rollups import add_series, read_series
from gateway.stores.sql.sums.tables import ROLLUPS
from gateway.usage.sums import grains
from gateway.usage.sums.grains import AT_ONCE, HOUR, SERIES
from gateway.usage.sums.summing import sums_of_hour, to_sum
from spool.sql.connection import Connection


def sum_hours(connection: Connection, now_hour: int) -> None:
    hours, summed = to_sum(kept_hours(connection, now_hour), now_hour)
    for hour in hours:
        _sum_hour(connection, hour)
    connection.executemany(
        "DELETE FROM usage_rollups WHERE span = ? AND grain = ? AND hour < ?",
        [(HOUR, grain.id, summed.first_hour) for grain in grains.GRAINS if grain.id not in AT_ONCE],
    )
    connection.execute("UPDATE usage_rollup_state SET summed_from = ?, summed_to = ?", summed)


def _sum_hour(connection: Connection, hour: int) -> None:
    for grain, series in sums_of_hour(read_series(connection, ROLLUPS, (HOUR, SERIES, hour))):
        connection.execute(
            "DELETE FROM usage_rollups WHERE span = ? AND grain = ? AND hour = ?", (HOUR, grain.id, hour)
        )
        add_series(connection, ROLLUPS, (HOUR, grain, hour), series)
