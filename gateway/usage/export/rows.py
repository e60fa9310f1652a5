"""Rows of an export: usage of one period, one group and one currency. Pure.

A group whose calls cost several currencies has a row for each; its counts stand in the first, so
that every column can be added up.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from gateway.usage.figures import COUNTS

Row = dict[str, Any]
"""Column -> text, whole number, Decimal, or None for unknown."""

MAIN_CURRENCY: Final = "USD"


def columns(group_by: Sequence[str]) -> list[str]:
    return ["period_start", "period_end", *group_by, "absent", *COUNTS, "cost", "currency", "estimated_cost"]


def rows_of(answer: Mapping[str, Any], group_by: Sequence[str]) -> Iterator[Row]:
    """The rows of one answer of `GET /v2/usage`, which holds all groups of one period."""
    for group in answer["usage"]:
        yield from _rows(answer, group, {name: group[name] for name in group_by}, group.get("absent", {}))
    if other := _other(answer):
        yield from _rows(answer, other, dict.fromkeys(group_by), dict.fromkeys(group_by, "other"))


def _rows(
    answer: Mapping[str, Any], sums: Mapping[str, Any], names: Mapping[str, str | None], absent: Mapping[str, str]
) -> Iterator[Row]:
    costs = sorted(sums["costs"].items(), key=lambda item: (item[0] != MAIN_CURRENCY, item[0]))
    counts = {name: sums[name] for name in COUNTS}
    for currency, cost in costs or [(None, None)]:
        yield {
            "period_start": answer["from"],
            "period_end": answer["to"],
            **names,
            "absent": " ".join(f"{name}={reason}" for name, reason in absent.items()) or None,
            **counts,
            "cost": None if cost is None else Decimal(cost),
            "currency": currency,
            "estimated_cost": decimal_of(sums["estimated_costs"].get(currency)),
        }
        counts = dict.fromkeys(COUNTS)


def _other(answer: Mapping[str, Any]) -> dict[str, Any] | None:
    """What is in no group, since it was beyond the bounds on names; None where that is nothing."""
    left = {name: answer["totals"][name] for name in COUNTS}
    costs, estimated = [
        {currency: Decimal(amount) for currency, amount in answer["totals"][name].items()}
        for name in ("costs", "estimated_costs")
    ]
    for group in answer["usage"]:
        for name in COUNTS:
            if left[name] is not None:
                left[name] -= group[name] or 0
        for amounts, name in ((costs, "costs"), (estimated, "estimated_costs")):
            for currency, amount in group[name].items():
                amounts[currency] -= Decimal(amount)
    if not any(left.values()):
        return None
    known = {name: value if name.startswith(("calls", "failed")) else value or None for name, value in left.items()}
    return {**known, "costs": {c: a for c, a in costs.items() if a}, "estimated_costs": estimated}


def decimal_of(amount: str | Decimal | None) -> Decimal | None:
    return None if amount is None else Decimal(amount)
