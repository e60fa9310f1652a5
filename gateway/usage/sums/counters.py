"""Counters of tokens, calls and cost since the process began, for `/metrics`. Pure.

A counter never goes down: of an amount that a credit made smaller, the largest so far stands.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from gateway.usage.sums.tally import (
    ATTO,
    CACHE_CREATION,
    CACHE_READ,
    CALLS,
    COST,
    FAILED,
    INPUT,
    MISSING_USAGE,
    OTHER,
    OUTPUT,
    REASONING,
    WITHOUT_COST,
    Key,
    Sums,
)

MAX_SERIES: Final = 300
MAX_CURRENCIES: Final = 20
"""Of all series; costs in further ones are not shown."""
COUNTED: Final = {
    "calls": CALLS, "failed": FAILED, "without_cost": WITHOUT_COST, "missing_usage": MISSING_USAGE,
    "input": INPUT, "output": OUTPUT, "cache_read": CACHE_READ, "cache_creation": CACHE_CREATION,
    "reasoning": REASONING,
}  # fmt: skip


class Series(NamedTuple):
    """The labels; "" is unknown."""

    provider: str
    model: str
    team: str


OTHERS: Final = Series(OTHER, OTHER, OTHER)


class Values(NamedTuple):
    counts: Mapping[Series, list[int]]
    """As `COUNTED` orders them."""
    costs: Mapping[tuple[Series, str], float]
    """(series, currency) -> units of the currency."""


class UsageCounters:
    """The first `MAX_SERIES` series by name; further ones are `OTHERS`."""

    def __init__(self) -> None:
        self._counts: dict[Series, list[int]] = {}
        self._costs: dict[tuple[Series, str], int] = {}
        self._shown: dict[tuple[Series, str], int] = {}
        self._currencies: set[str] = set()

    def add(self, sums: Mapping[Key, Sums]) -> None:
        """Count *sums*, each once."""
        for series, currency, numbers in self._rows(sums):
            _add_counts(self._counts, series, numbers)
            if currency:
                cost = self._costs.get((series, currency), 0)
                self._costs[series, currency] = cost + (numbers[COST] or 0)

    def values(self, uncounted: Mapping[Key, Sums]) -> Values:
        """The counters with sums that `add` will count later."""
        counts = {series: [*mine] for series, mine in self._counts.items()}
        costs = dict(self._costs)
        for series, currency, numbers in self._rows(uncounted):
            _add_counts(counts, series, numbers)
            if currency:
                costs[series, currency] = costs.get((series, currency), 0) + (numbers[COST] or 0)
        for key, cost in costs.items():
            self._shown[key] = max(self._shown.get(key, 0), cost)
        return Values(counts, {key: cost / ATTO for key, cost in self._shown.items()})

    def _rows(self, sums: Mapping[Key, Sums]) -> Iterable[tuple[Series, str, Sums]]:
        for key, numbers in sums.items():
            if any(numbers):
                yield self._series(Series(key.provider, key.model, key.team)), self._currency(key.currency), numbers

    def _series(self, series: Series) -> Series:
        if series not in self._counts:
            if len(self._counts) >= MAX_SERIES:
                return OTHERS
            self._counts[series] = [0] * len(COUNTED)
        return series

    def _currency(self, currency: str) -> str:
        if len(self._currencies) < MAX_CURRENCIES:
            self._currencies.add(currency)
        return currency if currency in self._currencies else ""


def _add_counts(counts: dict[Series, list[int]], series: Series, numbers: Sums) -> None:
    mine = counts.setdefault(series, [0] * len(COUNTED))
    for column, number in enumerate(COUNTED.values()):
        mine[column] += numbers[number] or 0
