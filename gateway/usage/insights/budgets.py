"""Detector of crossed budgets, which `gateway.usage.budgets` states with their alerts. Pure."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final

from gateway.common.contract.budgets import Crossing
from gateway.usage.insights.finding import Finding
from gateway.usage.insights.words import money, shown
from gateway.usage.sums.figures import money_text
from gateway.usage.sums.tally import PICO

BUDGET_CAUSES: Final = frozenset({"budget_crossed"})
"""Alerts outlive a restart, so their findings are known completely from the first round on."""


def budget_crossed(crossings: Sequence[Crossing]) -> Iterator[Finding]:
    """One finding for each alert, so that each threshold and period has one insight."""
    for each in crossings:
        whole = f"{money_text(each.amount)} {each.currency}"
        what = "spent" if each.of == "actual" else "forecast"
        yield Finding(
            cause="budget_crossed",
            source=each.alert_id,
            model="",
            title=f"budget {shown(each.name)}: {each.percent} % of {whole} is {what}, {each.period}",
            category="spend",
            effort="low",
            cost_impact=_beyond(each),
            reach=each.reach,
        )


def _beyond(each: Crossing) -> str:
    return money(int(max(Decimal(0), each.figure - each.amount) * PICO))
