"""Budgets as answers hold them, and their list. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.budgets.book import Standing
from gateway.budgets.budget import PERIODS, is_to_stop, ratio, time_of
from gateway.budgets.tables import Alert
from gateway.lists.conventions import Filterable, ListRequest, ListShape, Page, Sort, SortValue
from gateway.lists.memory import page_of
from gateway.usage.figures import money_text
from spool.clock import rfc3339_ms

Json = dict[str, Any]

SORT_VALUES: Final[Mapping[str, Callable[[Standing], SortValue]]] = {
    "amount": lambda each: float(each.budget.amount),
    "created_at": lambda each: each.budget.created_at_ms,
    "name": lambda each: each.budget.name,
    "ratio": lambda each: ratio(each.spend.spent, each.budget.amount),
    "spent": lambda each: float(each.spend.spent),
    "updated_at": lambda each: each.budget.updated_at_ms,
}
FILTER_VALUES: Final[Mapping[str, Callable[[Standing], str]]] = {
    "currency": lambda each: each.budget.currency,
    "name": lambda each: each.budget.name,
    "period": lambda each: each.budget.period,
}
BUDGET_LIST: Final = ListShape(
    root="budgets",
    sort_keys=tuple(SORT_VALUES),
    default_sort=Sort("name", "asc"),
    filters=(
        Filterable("currency", (), is_open=True),
        Filterable("name", (), is_open=True),
        Filterable("period", PERIODS),
    ),
)


@dataclass(frozen=True, slots=True)
class Clock:
    """When an answer is made, and through when its sums are counted."""

    now_ms: int
    counted_through_ms: int | None


def budget_page(standings: Sequence[Standing], request: ListRequest, clock: Clock) -> Page:
    return page_of(
        request,
        standings,
        field_of=lambda each, name: SORT_VALUES[name](each) if name == request.sort.key else FILTER_VALUES[name](each),
        id_of=lambda each: each.budget.budget_no,
        item_of=lambda each: budget_item(each, clock),
    )


def budget_item(each: Standing, clock: Clock) -> Json:
    """What `Budget` in the description of the API holds."""
    budget = each.budget
    return {
        "id": budget.budget_id,
        "name": budget.name,
        "amount": money_text(budget.amount),
        "currency": budget.currency,
        "period": budget.period,
        "filter": {name: list(names) for name, names in budget.filter.items()},
        "thresholds": [threshold._asdict() for threshold in budget.thresholds],
        "stop_at": budget.stop_at,
        "webhook": budget.webhook,
        "created_at": rfc3339_ms(budget.created_at_ms),
        "created_by": budget.created_by,
        "updated_at": rfc3339_ms(budget.updated_at_ms),
        "updated_by": budget.updated_by,
        "state": state_item(each, clock),
    }


def state_item(each: Standing, clock: Clock) -> Json:
    """What `BudgetState` there holds."""
    budget, spend = each
    forecast = spend.forecast
    return {
        "id": budget.budget_id,
        "name": budget.name,
        "period": {"kind": budget.period, "start": time_of(spend.span.start_ms), "end": time_of(spend.span.end_ms)},
        "amount": money_text(budget.amount),
        "currency": budget.currency,
        "spent": money_text(spend.spent),
        "remaining": money_text(budget.amount - spend.spent),
        "ratio": ratio(spend.spent, budget.amount),
        "forecast": None if forecast is None else money_text(forecast),
        "forecast_ratio": None if forecast is None else ratio(forecast, budget.amount),
        "calls": spend.calls,
        "calls_without_cost": spend.calls_without_cost,
        "other_costs": {currency: money_text(cost) for currency, cost in sorted(spend.other_costs.items())},
        "stop_at": budget.stop_at,
        "hard_stop": is_to_stop(budget, spend, clock.now_ms),
        "counted_through": None if clock.counted_through_ms is None else time_of(clock.counted_through_ms),
    }


def alert_item(alert: Alert) -> Json:
    """What `BudgetAlert` there holds."""
    return {
        "id": alert.alert_id,
        "of": alert.of,
        "percent": alert.percent,
        "period": {"kind": alert.period, "start": time_of(alert.span.start_ms), "end": time_of(alert.span.end_ms)},
        "at": rfc3339_ms(alert.at_ms),
        "amount": money_text(alert.amount),
        "currency": alert.currency,
        "spent": money_text(alert.spent),
        "forecast": None if alert.forecast is None else money_text(alert.forecast),
        "is_rearmed": alert.is_rearmed,
        "webhook": {
            "outcome": alert.delivery,
            "attempts": alert.attempts,
            "ended_at": None if alert.ended_at_ms is None else rfc3339_ms(alert.ended_at_ms),
        },
    }
