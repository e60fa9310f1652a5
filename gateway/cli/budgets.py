"""`telemetry-gateway budgets`: what calls may cost in a period, and what they cost."""

import json
from collections.abc import Iterator
from typing import Any, Final

import click

from gateway.cli.groups import Group
from gateway.cli.named_resource import Item, NamedResource
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


_PERCENT: Final = click.IntRange(1, 1000)
_FIELDS: Final = (
    click.option("--amount", help="What may be spent in a period, such as 1000 or 12.50."),
    click.option("--currency", help="A code of ISO 4217, such as USD."),
    click.option("--period", type=click.Choice(["day", "week", "month", "quarter", "year"]), help="UTC; a week begins on Monday."),
    click.option("--where", multiple=True, metavar="NAME=VALUE", help="Only these calls, such as team=core, or team= for unknown; may be repeated."),
    click.option("--alert", multiple=True, type=_PERCENT, metavar="PERCENT", help="Alert when this share of the amount is spent; may be repeated."),
    click.option("--alert-forecast", multiple=True, type=_PERCENT, metavar="PERCENT", help="Alert when the forecast reaches this share of the amount; may be repeated."),
    click.option("--stop-at", type=click.IntRange(0, 1000), metavar="PERCENT", help="From this share on `hard_stop` of the state is true; 0 for never."),
    click.option("--webhook", help="Name in budgets.webhooks of the configuration; empty for budgets.webhook."),
)  # fmt: skip
_HELPS: Final = {
    "list": "List budgets by name, each with what is spent.",
    "create": """Create a budget.

    --amount, --currency and --period are needed.

    \b
    Examples:
      telemetry-gateway budgets create Core --amount 90 --currency USD --period week
    """,
    "show": "Show a budget with its latest alerts.",
    "change": "Change the given fields.\n\nAlerts and filters are replaced as a whole.",
    "delete": "Delete a budget with its alerts.",
}


BUDGET: Final = NamedResource(
    noun="budget",
    fields=_FIELDS,
    helps=_HELPS,
    body_of=body_of,
    needed=("amount", "currency", "period"),
    example="--amount 1500",
    columns={"budget": "left", "period": "left", "spent": "right", "amount": "right", "": "right", "forecast": "right"},
    cells_of=cells_of,
    lines_of=lines_of,
    deleted="deleted, with its alerts",
)


@click.group(cls=Group)
def budgets() -> None:
    """What calls may cost in a period, and when to alert."""


BUDGET.add_to(budgets)
