"""A budget whose threshold was crossed, as budgets state it and insights show it. Pure."""

from decimal import Decimal
from typing import Literal, NamedTuple

from gateway.common.contract.reach import EVERYTHING, Reach

Measure = Literal["actual", "forecast"]
"""What a threshold looks at: what was spent, or what will be at the end of the period."""


class Crossing(NamedTuple):
    """One threshold of one budget in one period."""

    alert_id: str
    """Names the crossing; its webhook carries it as `webhook-id`."""
    name: str
    """Of the budget, now."""
    of: Measure
    percent: int
    period: str
    """`month from 2026-01-01`"""
    amount: Decimal
    currency: str
    figure: Decimal
    """What is spent, or forecast, now."""
    reach: Reach = EVERYTHING
    """The teams and projects whose calls the budget counts."""
