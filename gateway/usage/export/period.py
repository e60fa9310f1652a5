"""The rows of one period from the sums, on the caller's snapshot."""

from collections.abc import Sequence

from gateway.usage.export.rows import Row, rows_of
from gateway.usage.sums.answer_json import group_json, sums_json, time_text
from gateway.usage.sums.bounds import MAX_GROUPS
from gateway.usage.sums.figures import Group
from gateway.usage.sums.grains import Dimension
from gateway.usage.sums.home import AskedGroups, SumRows
from gateway.usage.sums.tally import HOUR_MS
from gateway.usage.sums.timespan import TimeRange


def period_rows(kept: SumRows, within: TimeRange, group_by: Sequence[Dimension], *, now_hour: int) -> list[Row]:
    """All groups of *within*, as an export has them. Raises BadRange."""
    groups: list[Group] = []
    while True:
        asked = AskedGroups(group_by, order_by="name", ascending=True, offset=len(groups), limit=MAX_GROUPS)
        found = kept.breakdown(within, asked, now_hour=now_hour)
        groups += found.groups
        if not found.groups or len(groups) >= found.count:
            break
    answer = {
        "from": time_text(within.first_hour * HOUR_MS),
        "to": time_text(within.end_hour * HOUR_MS),
        "usage": [group_json(group_by, group) for group in groups],
        "totals": sums_json(found.total),
    }
    return list(rows_of(answer, group_by))
