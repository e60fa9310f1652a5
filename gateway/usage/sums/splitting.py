"""Sums divided by shares. Pure.

Counts stay whole. One `Splitter` divides the sums of one answer: what a share got too little of in
an hour or group, it gets in a later one. So the counts of a share over many small groups differ by
a few from its exact part, and not by what each of them left over.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from gateway.usage.sums.figures import COUNTS, EXACT, UsageSums

PERCENT_DECIMALS: Final = 6
_WHOLE: Final = 100 * 10**PERCENT_DECIMALS

PART_OF: Final[Mapping[str, str]] = {
    "failed_calls": "calls",
    "calls_without_usage": "calls",
    "calls_missing_usage": "calls_without_usage",
    "calls_without_cost": "calls",
    "calls_without_price": "calls_without_cost",
    "cache_read_tokens": "input_tokens",
    "cache_creation_tokens": "input_tokens",
    "reasoning_tokens": "output_tokens",
    "cacheable_tokens": "input_tokens",
    "cached_tokens": "cacheable_tokens",
}
"""A count -> the count before it in `COUNTS` that it is a part of, for each share too."""


class Share(NamedTuple):
    name: str
    percent: Decimal
    """Above 0; of one rule they add up to 100."""


class Splitter:
    """Divides sums by the shares of one rule, in the order in which they come."""

    def __init__(self, shares: Sequence[Share]) -> None:
        self._weights = [int(share.percent.scaleb(PERCENT_DECIMALS)) for share in shares]
        self._none = (0,) * len(shares)
        self._owed: dict[str, list[int]] = defaultdict(lambda: [0] * len(shares))
        """Count -> what each share has still to get, in 1e-8 of one."""

    def split(self, sums: UsageSums) -> list[UsageSums]:
        """All parts add up to *sums*: counts stay whole, money is exact to 1e-18."""
        counts: dict[str, Sequence[int | None]] = {}
        for name in COUNTS:
            whole = getattr(sums, name)
            counts[name] = (
                self._nothing if whole is None else self._counts(name, whole, counts.get(PART_OF.get(name, "")))
            )
        costs, estimated = self._money(sums.costs), self._money(sums.estimated_costs)
        return [
            UsageSums(
                **{name: parts[at] for name, parts in counts.items()},  # type: ignore[arg-type]  # None only where the whole is
                costs=costs[at],
                estimated_costs=estimated[at],
            )
            for at in range(len(self._weights))
        ]

    @property
    def _nothing(self) -> Sequence[int | None]:
        return [None] * len(self._weights)

    def _counts(self, name: str, whole: int, within: Sequence[int | None] | None) -> Sequence[int]:
        """What rounding down leaves over goes, one by one, to the share that has most to get, among
        those whose part of *within* has room.
        """
        if not whole:
            return self._none
        parts = [whole * weight // _WHOLE for weight in self._weights]
        owed = self._owed[name]
        for at, weight in enumerate(self._weights):
            owed[at] += whole * weight - parts[at] * _WHOLE
        for _ in range(whole - sum(parts)):
            at = max(range(len(parts)), key=lambda at: (_has_room(parts[at], within, at), owed[at], -at))
            parts[at] += 1
            owed[at] -= _WHOLE
        return parts

    def _money(self, amounts: Mapping[str, Decimal]) -> list[dict[str, Decimal]]:
        found: list[dict[str, Decimal]] = [{} for _ in self._weights]
        for currency, amount in amounts.items():
            for into, part in zip(found, self._exact(int(amount.scaleb(18, EXACT))), strict=True):
                into[currency] = Decimal(part).scaleb(-18, EXACT)
        return found

    def _exact(self, whole: int) -> Sequence[int]:
        """What rounding leaves over goes to the first share."""
        size, sign = abs(whole), 1 if whole >= 0 else -1
        rest = [size * weight // _WHOLE for weight in self._weights[1:]]
        return [sign * part for part in (size - sum(rest), *rest)]


def _has_room(part: int, within: Sequence[int | None] | None, at: int) -> bool:
    most = None if within is None else within[at]
    return most is None or part < most
