"""Metrics of budgets, by name; as many as there may be budgets."""

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from gateway.observability.metrics import Name, family
from gateway.usage.budgets.book import Budgets
from gateway.usage.budgets.budget import ratio

_ONE: Final = ("budget", "currency")

AMOUNT: Final = Name(
    "telemetry_gateway_budget_amount", "gauge", "What may be spent in a period, in the currency.", _ONE
)
SPENT: Final = Name("telemetry_gateway_budget_spent", "gauge", "What is spent in the current period.", _ONE)
FORECAST_RATIO: Final = Name(
    "telemetry_gateway_budget_forecast_ratio",
    "gauge",
    "Forecast of the current period's spend, of the amount; absent while less than a twentieth of it is over.",
    ("budget",),
)
WITHOUT_COST: Final = Name(
    "telemetry_gateway_budget_calls_without_cost",
    "gauge",
    "Calls of the current period whose cost is not known.",
    ("budget",),
)
CROSSED: Final = Name(
    "telemetry_gateway_budget_crossed_thresholds", "gauge", "Thresholds crossed in the current period.", ("budget",)
)
PENDING: Final = Name("telemetry_gateway_budget_webhooks_pending", "gauge", "Webhooks of alerts that wait to be taken.")
CALLS: Final = Name(
    "telemetry_gateway_budget_webhook_calls",
    "counter",
    "Calls of webhooks since the gateway started: delivered, retried, failed (given up).",
    ("outcome",),
)
BUDGET_NAMES: Final = (AMOUNT, SPENT, FORECAST_RATIO, WITHOUT_COST, CROSSED, PENDING, CALLS)
OUTCOMES: Final = ("delivered", "retried", "failed")


class BudgetCollector(Collector):
    """Give it to a prometheus-client registry."""

    def __init__(self, budgets: Budgets) -> None:
        self._budgets = budgets

    def describe(self) -> Iterable[Metric]:
        """The names without samples, so that registering reads no figure."""
        return [family(name, []) for name in BUDGET_NAMES]

    def collect(self) -> Iterator[Metric]:
        known, deliverer = self._budgets.known(), self._budgets.deliverer
        yield family(AMOUNT, [((x.name, x.currency), float(x.amount)) for x, _ in known])
        yield family(SPENT, [((x.name, x.currency), float(spend.spent)) for x, spend in known])
        yield family(
            FORECAST_RATIO,
            [((x.name,), ratio(spend.forecast, x.amount)) for x, spend in known if spend.forecast is not None],
        )
        yield family(WITHOUT_COST, [((x.name,), spend.calls_without_cost) for x, spend in known])
        yield family(CROSSED, [((x.name,), self._budgets.crossed_now(x.budget_id)) for x, _ in known])
        yield family(PENDING, [((), deliverer.pending)])
        yield family(CALLS, [((outcome,), deliverer.calls[outcome]) for outcome in OUTCOMES])
