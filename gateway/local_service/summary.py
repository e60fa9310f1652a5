"""Sums over the billed AI records, exact to the last decimal, grouped by the columns of
`DIMENSIONS`.

Sums cover known values; `calls_without_usage` and `calls_without_cost` count the unknown ones.
`cost` is in US dollars, and null where records are summed of which none has a cost in dollars;
amounts in other currencies are never added to it and stand in `other_costs`. An aggregate adds its
tokens, and its calls where it states them.
"""

import sqlite3
from collections.abc import Iterable
from decimal import Decimal

from gateway.local_service.ai_records import ATTRIBUTION, TOKENS
from gateway.local_service.amounts import EXACT, decimal_text
from gateway.local_service.call import ServiceAnswer, ServiceCall, json_answer
from gateway.local_service.errors import Invalid
from gateway.local_service.times import parse_ms

DIMENSIONS = ("provider", "model", "operation", "kind", *ATTRIBUTION)
DEFAULT_DIMENSIONS = ("provider", "model")
MAIN_CURRENCY = "USD"
MAX_NUMBER = 10**9
"""Of `limit` and `offset`."""
COUNTS = ("calls", *TOKENS, "calls_without_usage", "calls_without_cost")

_FIRST_MS, _LAST_MS = -(2**62), 2**62
_PICO_SPLIT = 10**6
# Two sums in place of one: the upper and lower half of the picounits, each far below 64 bits
# for any number of rows.
_SUMS = (
    "sum(calls), "
    + ", ".join(f"sum({name})" for name in TOKENS)
    + ", sum(kind = 'call' AND input_tokens IS NULL AND output_tokens IS NULL)"
    + ", sum(kind = 'call' AND currency IS NULL)"
    + f", sum(cost_pico / {_PICO_SPLIT}), sum(cost_pico % {_PICO_SPLIT})"
    + ", decimal_sum(cost_rest) FILTER (WHERE cost_rest IS NOT NULL)"
)

Group = tuple[str | None, ...]


class _Sums:
    def __init__(self) -> None:
        self.counts = [0] * len(COUNTS)
        self.costs: dict[str, Decimal] = {}
        self.is_empty = True

    def add(self, counts: Iterable[int], currency: str | None, cost: Decimal) -> None:
        self.is_empty = False
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, counts, strict=True)]
        if currency is not None:
            self.costs[currency] = EXACT.add(self.costs.get(currency, Decimal(0)), cost)

    def as_json(self) -> dict[str, object]:
        others = {name: decimal_text(cost) for name, cost in sorted(self.costs.items()) if name != MAIN_CURRENCY}
        cost = self.costs.get(MAIN_CURRENCY, Decimal(0) if self.is_empty else None)
        return {
            **dict(zip(COUNTS, self.counts, strict=True)),
            "cost": None if cost is None else decimal_text(cost),
            **({"other_costs": others} if others else {}),
        }


def summary(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    """`group_by` (comma-separated dimensions), `from` (inclusive) and `to` (exclusive), by the
    start of the call. With `limit` the groups with most calls, from `offset` on, and how many
    groups there are.
    """
    query = dict(call.query)
    dimensions = _dimensions(query.get("group_by"))
    bounds = _time(query, "from", _FIRST_MS), _time(query, "to", _LAST_MS)
    groups, totals = _summed(connection, dimensions, bounds)
    chosen, beside = list(groups.items()), {}
    if (limit := _number(query, "limit")) is not None:
        offset = _number(query, "offset") or 0
        chosen.sort(key=lambda found: -found[1].counts[0])  # stable: of as many calls, by the dimensions
        chosen, beside = chosen[offset : offset + limit], {"groups": len(groups)}
    rows = [{**dict(zip(dimensions, group, strict=True)), **sums.as_json()} for group, sums in chosen]
    return json_answer(200, {"summary": rows, "totals": totals.as_json(), **beside})


def _summed(
    connection: sqlite3.Connection, dimensions: tuple[str, ...], bounds: tuple[int, int]
) -> tuple[dict[Group, _Sums], _Sums]:
    columns = "".join(f"{name}, " for name in dimensions)
    found = connection.execute(
        f"SELECT {columns} currency, {_SUMS} FROM ai_records"  # noqa: S608 - names from DIMENSIONS only
        f" WHERE billed AND started_at_ms >= ? AND started_at_ms < ? GROUP BY {columns} currency ORDER BY {columns} currency",
        bounds,
    )
    groups: dict[Group, _Sums] = {}
    totals = _Sums()
    for row in found:
        group, (currency, *sums) = row[: len(dimensions)], row[len(dimensions) :]
        *counts, upper, lower, rest = sums
        cost = EXACT.add(Decimal((upper or 0) * _PICO_SPLIT + (lower or 0)).scaleb(-12, EXACT), Decimal(rest or 0))
        for each in (groups.setdefault(group, _Sums()), totals):
            each.add((count or 0 for count in counts), currency, cost)
    return groups, totals


def _dimensions(text: str | None) -> tuple[str, ...]:
    if text is None:
        return DEFAULT_DIMENSIONS
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not set(names) <= set(DIMENSIONS):
        raise Invalid("invalid_group_by", f"group_by: of {', '.join(DIMENSIONS)}")
    return names


def _number(query: dict[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) > MAX_NUMBER:
        raise Invalid(f"invalid_{name}", f"{name}: a number from 0 to {MAX_NUMBER} is needed")
    return int(text)


def _time(query: dict[str, str], name: str, default_ms: int) -> int:
    if name not in query:
        return default_ms
    # A plus sign that was not escaped arrives as a blank.
    time_ms = parse_ms(query[name].replace(" ", "+"))
    if time_ms is None:
        raise Invalid(f"invalid_{name}", f"{name}: an ISO 8601 time is needed")
    return time_ms
