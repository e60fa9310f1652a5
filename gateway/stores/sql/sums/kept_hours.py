"""Which hours are kept, and which of them are summed by one dimension too. Functions run in the
caller's transaction.
"""

from gateway.usage.sums import bounds
from gateway.usage.sums.timespan import KeptHours, TimeRange
from spool.sql.connection import Connection


def kept_hours(connection: Connection, now_hour: int) -> KeptHours:
    kept_from, *summed = connection.execute(
        "SELECT hours_from, summed_from, summed_to FROM usage_rollup_state"
    ).fetchone()
    return KeptHours(max(int(kept_from), now_hour - bounds.KEPT_HOURS + 1), TimeRange(*summed))
