"""Rows of an export: usage of one period, one group and one currency. Pure.

A group whose calls cost several currencies has a row for each, those that ISO 4217 does not have
last; its counts stand in the first, so that every column can be added up.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal
from typing import Any, Final

from gateway.common.contract.currencies import is_currency
from gateway.usage.sums.figures import COUNTS, UsageSums, less

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
    costs = sorted(
        sums["costs"].items(), key=lambda item: (item[0] != MAIN_CURRENCY, not is_currency(item[0]), item[0])
    )
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
    left = less(_sums_of(answer["totals"]), map(_sums_of, answer["usage"]))
    return None if left is None else asdict(left)


def _sums_of(group: Mapping[str, Any]) -> UsageSums:
    costs, estimated = [
        {currency: Decimal(amount) for currency, amount in group[name].items()} for name in ("costs", "estimated_costs")
    ]
    return UsageSums(**{name: group[name] for name in COUNTS}, costs=costs, estimated_costs=estimated)


def decimal_of(amount: str | Decimal | None) -> Decimal | None:
    return None if amount is None else Decimal(amount)
