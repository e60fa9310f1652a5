"""What a provider billed beside what the gateway counted, by UTC day and model. Pure.

Models are compared by their names without date and `-latest`, since a provider bills the dated name
of what was asked for by its alias.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, NamedTuple

from gateway.usage.reconcile.statements import Billed

Number = int | Decimal
MEASURES: Final = ("calls", "input_tokens", "output_tokens", "cost")
_COUNTS: Final = ("calls", "input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")
_DATED: Final = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{8}|latest)$|-v\d+(:\d+)?$")
ALL_MODELS: Final = "(all models)"


@dataclass(slots=True)
class Side:
    """The sums of one day and model on one side; a number that is not stated is absent."""

    numbers: dict[str, Number] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    """Models as this side names them."""
    missing_usage: int = 0
    without_price: int = 0

    def add(self, name: str, value: Number | None) -> None:
        if value is not None:
            self.numbers[name] = self.numbers.get(name, 0) + value


class Difference(NamedTuple):
    day: str
    model: str
    measure: str
    billed: Number | None
    """None: the file has nothing of that day and model."""
    counted: Number | None
    """The same of the gateway."""
    reason: str

    @property
    def of(self) -> Number:
        return (self.billed or 0) - (self.counted or 0)


Sides = dict[tuple[str, str], Side]


def differences(
    billed: Iterable[Billed], counted: Iterable[Mapping[str, Any]], *, tolerance: Decimal, currency: str
) -> list[Difference]:
    """Where both differ by more than *tolerance* of the larger. *counted*: rows of an export by day
    and model. Costs in other currencies are left out.
    """
    theirs = _of_file(billed, currency)
    has_models = any(model != ALL_MODELS for _, model in theirs)
    ours = _of_gateway(counted, currency, has_models=has_models)
    stated = {name for side in theirs.values() for name in side.numbers}
    measures = [name for name in MEASURES if name in stated]
    found = []
    for day, model in sorted({*theirs, *ours}):
        for name in measures:
            pair = _pair(theirs, ours, (day, model), name)
            if not is_near(*pair, tolerance):
                reason = likely_reason(theirs, ours, (day, model), name, tolerance)
                found.append(Difference(day, model, name, *pair, reason))
    return found


def family(model: str) -> str:
    """*model* without its date or version."""
    return _DATED.sub("", model)


def is_near(left: Number | None, right: Number | None, tolerance: Decimal) -> bool:
    first, second = Decimal(left or 0), Decimal(right or 0)
    return abs(first - second) <= max(abs(first), abs(second)) * tolerance


def likely_reason(theirs: Sides, ours: Sides, key: tuple[str, str], name: str, tolerance: Decimal) -> str:
    """The first that fits."""
    billed, counted = theirs.get(key, Side()), ours.get(key, Side())
    more = (billed.numbers.get(name) or 0) > (counted.numbers.get(name) or 0)
    for reason in (
        _of_edge(theirs, ours, key, name, tolerance),
        _of_side(theirs, ours, key),
        _of_cache(billed, counted, name, tolerance),
        _of_usage(counted, name) if more else None,
        _of_price(billed, counted, name, tolerance),
    ):
        if reason:
            return reason
    if more:
        return "calls that bypass the gateway, or spans that were sampled or lost"
    return "calls of another account or project, or calls that the provider did not bill"


def _of_edge(theirs: Sides, ours: Sides, key: tuple[str, str], name: str, tolerance: Decimal) -> str | None:
    """A day and a neighbour differ, and their sums do not."""
    day, model = key
    days = sorted({each for each, of in {*theirs, *ours} if of == model})
    at = days.index(day)
    for other in (days[at - 1 : at] if at else []) + days[at + 1 : at + 2]:
        first, second = _pair(theirs, ours, key, name), _pair(theirs, ours, (other, model), name)
        sums = [(left or 0) + (right or 0) for left, right in zip(first, second, strict=True)]
        if not is_near(*second, tolerance) and is_near(sums[0], sums[1], tolerance):
            return f"the edge of the day: with {other} both agree; the file's days may be of another time zone"
    return None


def _of_side(theirs: Sides, ours: Sides, key: tuple[str, str]) -> str | None:
    """Only one side has the model on that day."""
    if key not in ours:
        anywhere = any(model == key[1] for _, model in ours)
        return (
            "the gateway saw no call of it that day: calls that bypass it"
            if anywhere
            else ("the gateway knows no such model: calls that bypass it, or another name of it")
        )
    if key not in theirs:
        return "the file has nothing of it: another account, project or name, or it does not cover the day"
    return None


def _of_cache(billed: Side, counted: Side, name: str, tolerance: Decimal) -> str | None:
    if name != "input_tokens":
        return None
    gap = abs(Decimal(billed.numbers.get(name, 0)) - Decimal(counted.numbers.get(name, 0)))
    for kind in ("cache_read_tokens", "cache_creation_tokens"):
        for side in (billed, counted):
            if (cached := side.numbers.get(kind)) and is_near(int(gap), cached, max(tolerance, Decimal("0.02"))):
                return f"{kind.replace('_', ' ')} are left out on one side"
    return None


def _of_usage(counted: Side, name: str) -> str | None:
    if name != "calls" and counted.missing_usage:
        return f"{counted.missing_usage} calls came to the gateway without their tokens"
    return None


def _of_price(billed: Side, counted: Side, name: str, tolerance: Decimal) -> str | None:
    """Costs differ; tokens, where both state them, do not."""
    if name != "cost":
        return None
    if counted.without_price:
        return f"{counted.without_price} calls have no price in the gateway"
    kinds = [kind for kind in ("input_tokens", "output_tokens") if kind in billed.numbers and kind in counted.numbers]
    if kinds and all(is_near(billed.numbers[kind], counted.numbers[kind], tolerance) for kind in kinds):
        return "prices: a discount, a service tier, batch, tools or a price list that is out of date"
    return None


def _pair(theirs: Sides, ours: Sides, key: tuple[str, str], name: str) -> tuple[Number | None, Number | None]:
    return tuple(side[key].numbers.get(name) if key in side else None for side in (theirs, ours))  # type: ignore[return-value]  # two of them


def _of_file(billed: Iterable[Billed], currency: str) -> Sides:
    sides: Sides = defaultdict(Side)
    for row in billed:
        side = sides[row.day, family(row.model) if row.model else ALL_MODELS]
        side.names.add(row.model or ALL_MODELS)
        for name in _COUNTS:
            side.add(name, getattr(row, name))
        if row.currency == currency:
            side.add("cost", row.cost)
    return dict(sides)


def _of_gateway(counted: Iterable[Mapping[str, Any]], currency: str, *, has_models: bool) -> Sides:
    sides: Sides = defaultdict(Side)
    for row in counted:
        model = row["model"] or "unknown"
        side = sides[row["period_start"][:10], family(model) if has_models else ALL_MODELS]
        side.names.add(model)
        for name in _COUNTS:
            side.add(name, row[name])
        side.missing_usage += row["calls_missing_usage"] or 0
        side.without_price += row["calls_without_price"] or 0
        if row["currency"] == currency:
            side.add("cost", row["cost"])
    return dict(sides)


def days_of(billed: Sequence[Billed]) -> Iterator[str]:
    """The first and the last day. Raises ValueError for no rows."""
    days = [row.day for row in billed]
    yield min(days)
    yield max(days)
