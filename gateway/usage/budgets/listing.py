"""Budgets as answers hold them, and their list. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, TypedDict

from gateway.common.contract.budgets import Measure
from gateway.common.contract.json_types import Count, Money, Schema, Time
from gateway.common.lists.conventions import Filterable, ListRequest, ListShape, Page, Sort, SortValue
from gateway.common.lists.memory import page_of
from gateway.usage.budgets.book import Standing
from gateway.usage.budgets.budget import PERIODS, Period, is_to_stop, ratio, time_of
from gateway.usage.budgets.home import Alert, Delivery
from gateway.usage.sums.figures import money_text
from gateway.usage.sums.saved_filter import ShownFilter
from spool.clock import rfc3339_ms


class BudgetPeriod(TypedDict):
    kind: Period
    start: Time
    end: Time
    """Not included."""


class BudgetState(TypedDict):
    id: str
    name: str
    period: BudgetPeriod
    amount: Money
    currency: str
    spent: Money
    remaining: Money
    """The amount less what is spent; below 0 beyond it."""
    ratio: float
    """What is spent of the amount."""
    forecast: Money | None
    """For the whole period; null while less than a twentieth of it is over."""
    forecast_ratio: float | None
    calls: Count
    calls_without_cost: Count
    """Of these, whose cost is not known: what is spent may be more."""
    other_costs: Mapping[str, str]
    """Currency -> amount; not in what is spent, which is of the budget's own."""
    stop_at: int | None
    """Percent of the amount from which on `hard_stop` is true; null where it never is."""
    hard_stop: bool
    counted_through: Time | None
    """Calls whose outcome was final by then are counted."""


class BudgetThreshold(TypedDict):
    of: Measure
    percent: Annotated[int, Schema(minimum=1)]


class BudgetJson(TypedDict):
    id: str
    name: str
    amount: Money
    currency: str
    period: Period
    filter: ShownFilter
    """Dimension -> names, null for an unknown one. A call has any of the names of each; an empty
    object keeps every call."""
    thresholds: Sequence[BudgetThreshold]
    stop_at: int | None
    webhook: str | None
    """Name in the configuration; null for that of all budgets."""
    created_at: Time
    created_by: str
    updated_at: Time
    updated_by: str
    state: BudgetState


class BudgetDelivery(TypedDict):
    outcome: Delivery
    attempts: Count
    ended_at: Time | None


class BudgetAlert(TypedDict):
    id: str
    """`webhook-id` of the webhook, on every try."""
    of: Measure
    percent: Annotated[int, Schema(minimum=1)]
    period: BudgetPeriod
    at: Time
    amount: Money
    currency: str
    spent: Money
    forecast: str | None
    is_rearmed: bool
    """After a later change of the budget the threshold was no longer crossed."""
    webhook: BudgetDelivery


class BudgetDetail(BudgetJson):
    alerts: Annotated[Sequence[BudgetAlert], Schema(maxItems=100)]
    """The latest first."""


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


def budget_item(each: Standing, clock: Clock) -> BudgetJson:
    budget = each.budget
    return {
        "id": budget.budget_id,
        "name": budget.name,
        "amount": money_text(budget.amount),
        "currency": budget.currency,
        "period": budget.period,
        "filter": {name: list(names) for name, names in budget.filter.items()},
        "thresholds": [{"of": each.of, "percent": each.percent} for each in budget.thresholds],
        "stop_at": budget.stop_at,
        "webhook": budget.webhook,
        "created_at": rfc3339_ms(budget.created_at_ms),
        "created_by": budget.created_by,
        "updated_at": rfc3339_ms(budget.updated_at_ms),
        "updated_by": budget.updated_by,
        "state": state_item(each, clock),
    }


def state_item(each: Standing, clock: Clock) -> BudgetState:
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


def alert_item(alert: Alert) -> BudgetAlert:
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
