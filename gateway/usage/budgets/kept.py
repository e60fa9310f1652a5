"""Budgets, their alerts, and the changes of both: one set of rules for all homes.

Every function here runs inside the caller's commit.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from hashlib import sha256
from typing import Any, Final

from gateway.common.contract.errors import NameInUse, NotFound, TooManyKept
from gateway.usage.budgets.budget import DAY_MS, Budget, Span, Spend, Threshold, is_crossed, thresholds_of
from gateway.usage.budgets.home import Alert, BudgetRows, Delivery
from gateway.usage.sums.saved_filter import kept_filter, without_users

MAX_BUDGETS: Final = 500
KEPT_ALERT_DAYS: Final = 400
"""As long as days of usage."""


def new_budget(kept: BudgetRows, fields: Mapping[str, Any], *, budget_id: str, by: str, now_ms: int) -> None:
    """Store a budget of *fields*, which are checked. Raises NameInUse, TooManyKept."""
    held = kept.every()
    if len(held) >= MAX_BUDGETS:
        raise TooManyKept(f"budgets: {MAX_BUDGETS} are kept already; delete some first")
    number = 1 + max((budget.budget_no for budget in held.values()), default=0)
    who: dict[str, Any] = {"created_at_ms": now_ms, "created_by": by, "updated_at_ms": now_ms, "updated_by": by}
    put_budget(kept, Budget(budget_id=budget_id, budget_no=number, **_typed(fields), **who))


def changed_budget(budget: Budget, fields: Mapping[str, Any], *, by: str, now_ms: int) -> Budget:
    return replace(budget, **_typed(fields), updated_at_ms=now_ms, updated_by=by)


def _typed(fields: Mapping[str, Any]) -> dict[str, Any]:
    typed = dict(fields)
    if "amount" in typed:
        typed["amount"] = Decimal(typed["amount"])
    if "filter" in typed:
        typed["filter"] = kept_filter(typed["filter"])
    if "thresholds" in typed:
        typed["thresholds"] = thresholds_of(typed["thresholds"])
    return typed


def put_budget(kept: BudgetRows, budget: Budget) -> None:
    """Store *budget*, in place of the one with its id if there is one. Raises NameInUse."""
    others = kept.every().values()
    if any(other.name == budget.name and other.budget_id != budget.budget_id for other in others):
        raise NameInUse("name: another budget has it")
    kept.put(budget)


def delete_budget(kept: BudgetRows, budget_id: str) -> None:
    """With its alerts; a webhook that still waits is not called. Raises NotFound."""
    if not kept.delete(budget_id):
        raise NotFound("no budget has this id")


def forget_users(kept: BudgetRows, users: Collection[str], *, dry_run: bool) -> int:
    """Take *users* out of the filters; a budget of theirs alone is deleted. How many budgets named
    one of them.
    """
    named = without_users(kept.every().values(), users)
    for budget, left in () if dry_run else named:
        if left is None:
            kept.delete(budget.budget_id)
        else:
            kept.put(replace(budget, filter=left))
    return len(named)


def raise_alerts(
    kept: BudgetRows,
    budget: Budget,
    spend: Spend,
    thresholds: Iterable[Threshold],
    *,
    now_ms: int,
    kept_ms: int,
    webhook: str | None,
    webhook_body: Callable[[Alert], bytes],
) -> list[Alert]:
    """Store an alert of each of *thresholds* that has none in this period, and delete those of the
    budget that are older than `KEPT_ALERT_DAYS` at *kept_ms*; the alerts stored now.

    *webhook*: name of the one to call, None for none. *webhook_body*: what is posted of an alert.
    """
    rearmed = [alert for alert in kept.alerts_of(budget.budget_id) if alert.is_rearmed]
    raised = []
    for threshold in thresholds:
        alert = _new_alert(rearmed, budget, spend, threshold, now_ms, "none" if webhook is None else "pending")
        body = None if webhook is None else webhook_body(alert)
        raised += [alert] if kept.add_alert(alert, webhook, body) else []
    kept.drop_alerts(budget.budget_id, kept_ms // DAY_MS - KEPT_ALERT_DAYS)
    return raised


def _new_alert(
    rearmed: Iterable[Alert], budget: Budget, spend: Spend, threshold: Threshold, now_ms: int, delivery: Delivery
) -> Alert:
    """Its id is of the budget, the threshold, the period, and how many alerts of these were
    rearmed.
    """
    whose = (budget.budget_id, threshold.of, threshold.percent, budget.period, spend.span.first_day)
    before = sum((each.budget_id, each.of, each.percent, each.period, each.first_day) == whose for each in rearmed)
    alert_id = sha256(json.dumps([*whose, before]).encode()).hexdigest()[:32]
    return Alert(
        alert_id, budget.budget_id, *threshold, budget.period, *spend.span, now_ms, budget.amount, budget.currency,
        spend.spent, spend.forecast, is_rearmed=False, delivery=delivery, attempts=0, ended_at_ms=None,
    )  # fmt: skip


def rearm(
    kept: BudgetRows,
    before: tuple[Budget, Mapping[Span, Spend]],
    after: tuple[Budget, Mapping[Span, Spend]],
) -> None:
    """Let thresholds raise an alert again that the change from *before* to *after* un-crossed."""
    for alert in kept.alerts_of(before[0].budget_id):
        was = _is_crossed(alert, *before)
        if not alert.is_rearmed and was and _is_crossed(alert, *after) is False:
            kept.rearm(alert.alert_id)


def _is_crossed(alert: Alert, budget: Budget, spends: Mapping[Span, Spend]) -> bool | None:
    """None where the budget has no such period now, or no forecast."""
    spend = spends.get(alert.span)
    if spend is None or budget.period != alert.period or (alert.of == "forecast" and spend.forecast is None):
        return None
    return is_crossed(budget, alert.threshold, spend)
