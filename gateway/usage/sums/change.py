"""What changed from one period to the next. Pure.

A difference is None where one side is unknown; a percentage too where there was nothing before.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final, NamedTuple

from gateway.usage.sums.figures import EXACT, UsageSums

CHANGED: Final = ("calls", "input_tokens", "output_tokens")
_STEP: Final = Decimal("0.01")


class Change(NamedTuple):
    difference: Decimal | None
    percent: Decimal | None
    """To two decimals."""


UNKNOWN: Final = Change(None, None)


class Changes(NamedTuple):
    counts: Mapping[str, Change]
    """By the names of `CHANGED`."""
    costs: Mapping[str, Change]
    """By currency: each that either side has."""


def changes(now: UsageSums, before: UsageSums | None) -> Changes | None:
    """None where there is nothing before."""
    if before is None:
        return None
    counts = {name: change(getattr(now, name), getattr(before, name)) for name in CHANGED}
    currencies = sorted(now.costs.keys() | before.costs.keys())
    return Changes(counts, {name: change(cost_in(now, name), cost_in(before, name)) for name in currencies})


def cost_in(sums: UsageSums, currency: str) -> Decimal | None:
    """None where calls without a known cost are all that could have one."""
    return sums.costs.get(currency, None if sums.calls_without_cost else Decimal(0))


def change(now: Decimal | int | None, before: Decimal | int | None) -> Change:
    if now is None or before is None:
        return UNKNOWN
    difference = EXACT.subtract(Decimal(now), Decimal(before))
    return Change(difference, _percent(difference, Decimal(before)) if before else None)


def _percent(part: Decimal, whole: Decimal) -> Decimal:
    return EXACT.divide(EXACT.multiply(part, Decimal(100)), whole).quantize(_STEP, context=EXACT)
