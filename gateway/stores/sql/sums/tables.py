"""The two tables of the sums, and the SQL that adds to one row of them. One has the dimensions that
every call has; the other, used once tags are configured, has the tags too.
"""

from typing import Final

from gateway.stores.sql.sums.columns import quoted
from gateway.usage.sums.figures import COUNTS
from gateway.usage.sums.grains import COLUMNS, TAGGED_COLUMNS
from gateway.usage.sums.tally import INPUT

REST: Final = 10**12
"""Parts of `cost_micro` that `cost_rest` counts."""
MAX_COUNT: Final = 2**43
"""Of one row: 8.8e12 tokens. As many rows as there may be add up within 64 bits."""
MAX_MICRO: Final = 10**18
"""1e12 units of money, of one row."""
_PERIOD = ("span", "grain", "hour")


class SumTable:
    def __init__(self, name: str, columns: tuple[str, ...]) -> None:
        self.name = name
        self.columns = columns
        """What a row is of."""
        of_row = (*_PERIOD, *quoted(columns))
        stored = (*of_row, *COUNTS, "cost_micro", "cost_rest")
        self.add = (
            f"INSERT INTO {name} ({', '.join(stored)}) VALUES ({', '.join('?' * len(stored))})"  # noqa: S608 - own SQL
            f" ON CONFLICT ({', '.join(of_row)}) DO UPDATE SET {_added(name)}"
        )
        self.period = f"FROM {name} WHERE span = ? AND grain = ? AND hour = ?"
        self.find = f"SELECT {', '.join(quoted(columns))} {self.period}"
        self.read = f"SELECT {', '.join((*quoted(columns), *COUNTS))}, cost_micro, cost_rest {self.period}"


def _added(table: str) -> str:
    """What a row becomes where one of its names is there; beyond its bounds is the bound."""
    sums = {name: f"{table}.{name} + excluded.{name}" for name in (*COUNTS, "cost_micro", "cost_rest")}
    whole = [
        f"{name} = CASE WHEN {sums[name]} > {MAX_COUNT} THEN {MAX_COUNT} ELSE {sums[name]} END"
        for name in COUNTS[:INPUT]
    ]
    tokens = [
        f"{name} = CASE WHEN {sums[name]} > {MAX_COUNT} THEN {MAX_COUNT}"
        f" ELSE coalesce({sums[name]}, {table}.{name}, excluded.{name}) END"
        for name in COUNTS[INPUT:]
    ]
    micro = f"{sums['cost_micro']} + ({sums['cost_rest']}) / {REST}"
    return (
        f"{', '.join((*whole, *tokens))},"
        f" cost_micro = CASE WHEN {micro} BETWEEN -{MAX_MICRO} AND {MAX_MICRO} THEN {micro}"
        f" WHEN {micro} > 0 THEN {MAX_MICRO} ELSE -{MAX_MICRO} END,"
        f" cost_rest = ({sums['cost_rest']}) % {REST}"
    )


ROLLUPS: Final = SumTable("usage_rollups", COLUMNS)
TAGGED_ROLLUPS: Final = SumTable("usage_tag_rollups", TAGGED_COLUMNS)
TABLES: Final = (ROLLUPS, TAGGED_ROLLUPS)
