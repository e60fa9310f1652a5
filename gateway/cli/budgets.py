"""`budgets`: options as fields, and budgets as text."""

import json
from collections.abc import Iterator
from typing import Any, Final

from gateway.admin import budgets
from gateway.cli.named_resource import Item, NamedResource
from gateway.cli.requests import BUDGETS
from gateway.cli.where import filter_of
from gateway.common.printable import harmless


def body_of(
    *,
    where: tuple[str, ...],
    alert: tuple[int, ...],
    alert_forecast: tuple[int, ...],
    stop_at: int | None,
    webhook: str | None,
    **plain_fields: str | None,
) -> dict[str, Any]:
    """The fields that were named. Raises UsageError."""
    fields: dict[str, Any] = {name: value for name, value in plain_fields.items() if value is not None}
    if where:
        fields["filter"] = filter_of(where)
    if alert or alert_forecast:
        actual = [{"of": "actual", "percent": percent} for percent in alert]
        forecast = [{"of": "forecast", "percent": percent} for percent in alert_forecast]
        fields["thresholds"] = actual + forecast
    if stop_at is not None:
        fields["stop_at"] = stop_at or None
    if webhook is not None:
        fields["webhook"] = webhook or None
    return fields


def cells_of(budget: Item) -> tuple[str, ...]:
    state = budget["state"]
    return (
        budget["name"],
        budget["period"],
        state["spent"],
        f"{budget['amount']} {budget['currency']}",
        percent_text(state["ratio"]),
        percent_text(state["forecast_ratio"]),
    )


def lines_of(budget: Item) -> Iterator[str]:
    state = budget["state"]
    yield f"{harmless(budget['name'])} ({budget['id']})"
    span = f"{state['period']['start'][:10]} to {state['period']['end'][:10]}"
    yield f"  {budget['period']}, {span}, UTC; filter {harmless(json.dumps(budget['filter'], ensure_ascii=False))}"
    spent = f"{state['spent']} of {budget['amount']} {budget['currency']}, {percent_text(state['ratio'])}"
    yield f"  spent {spent}; forecast {state['forecast'] or 'unknown'}, {percent_text(state['forecast_ratio'])}"
    if state["calls_without_cost"]:
        yield f"  {state['calls_without_cost']} of {state['calls']} calls have no known cost"
    if state["hard_stop"]:
        yield f"  hard stop: {budget['stop_at']} % are reached"
    for alert in budget["alerts"]:
        webhook = alert["webhook"]["outcome"]
        yield f"  {alert['at']}: {alert['percent']} % {alert['of']}, from {alert['period']['start'][:10]}, webhook {webhook}"


def percent_text(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.0f} %"


BUDGET: Final = NamedResource(
    noun="budget",
    subject=BUDGETS,
    listing=budgets.LIST,
    creation=budgets.CREATE,
    reading=budgets.SHOW,
    changing=budgets.CHANGE,
    deletion=budgets.DELETE,
    body_of=body_of,
    needed=("amount", "currency", "period"),
    example="--amount 1500",
    columns={"budget": "left", "period": "left", "spent": "right", "amount": "right", "": "right", "forecast": "right"},
    cells_of=cells_of,
    lines_of=lines_of,
    deleted="deleted, with its alerts",
)
