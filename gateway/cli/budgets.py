"""`budgets`: as a table, and each one with its alerts."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import click
from rich.table import Table

from gateway.admin import budgets
from gateway.cli.printing import harmless, plain, print_table
from gateway.cli.requests import BUDGETS, ask
from gateway.cli.where import filter_of
from gateway.config.model import Config

LIST_LIMIT: Final = 50
_ID: Final = re.compile(r"[0-9a-f]{32}")


class Typed(NamedTuple):
    """The options, as they were typed."""

    name: str | None = None
    amount: str | None = None
    currency: str | None = None
    period: str | None = None
    where: tuple[str, ...] = ()
    alert: tuple[int, ...] = ()
    alert_forecast: tuple[int, ...] = ()
    stop_at: int | None = None
    webhook: str | None = None

    def body(self) -> dict[str, Any]:
        """The fields that were named. Raises UsageError."""
        plain_fields = {name: getattr(self, name) for name in ("name", "amount", "currency", "period")}
        fields: dict[str, Any] = {name: value for name, value in plain_fields.items() if value is not None}
        if self.where:
            fields["filter"] = filter_of(self.where)
        if self.alert or self.alert_forecast:
            actual = [{"of": "actual", "percent": percent} for percent in self.alert]
            forecast = [{"of": "forecast", "percent": percent} for percent in self.alert_forecast]
            fields["thresholds"] = actual + forecast
        if self.stop_at is not None:
            fields["stop_at"] = self.stop_at or None
        if self.webhook is not None:
            fields["webhook"] = self.webhook or None
        return fields


async def print_list(config: Config, *, limit: int | None, as_json: bool) -> int:
    answer = await ask(config, BUDGETS, budgets.LIST, query=[("limit", str(limit or LIST_LIMIT))])
    if as_json:
        click.echo(json.dumps(answer))
        return 0
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("budget", "period"):
        table.add_column(name, overflow="fold")
    for name in ("spent", "amount", "", "forecast"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in answer["budgets"]:
        table.add_row(*map(plain, cells_of(each)))
    print_table(table)
    paging = answer["pagination"]
    click.echo(f"{paging['item_count']} of {paging['total_count']} budgets")
    return 0


def cells_of(budget: Mapping[str, Any]) -> tuple[str, ...]:
    state = budget["state"]
    return (
        budget["name"],
        budget["period"],
        state["spent"],
        f"{budget['amount']} {budget['currency']}",
        percent_text(state["ratio"]),
        percent_text(state["forecast_ratio"]),
    )


def percent_text(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.0f} %"


async def create(config: Config, typed: Typed, *, as_json: bool) -> int:
    body = typed.body()
    missing = [f"--{name}" for name in ("amount", "currency", "period") if name not in body]
    if missing:
        raise click.UsageError(f"{', '.join(missing)}: needed for a new budget")
    answer = await ask(config, BUDGETS, budgets.CREATE, body=body, makes_files=True)
    print_one(answer, as_json=as_json)
    return 0


async def show(config: Config, budget: str, *, as_json: bool) -> int:
    path = await path_of(config, budget)
    print_one(await ask(config, BUDGETS, budgets.SHOW, path=path), as_json=as_json)
    return 0


async def change(config: Config, budget: str, typed: Typed, *, as_json: bool) -> int:
    body = typed.body()
    if not body:
        raise click.UsageError("name what is to be changed, such as --amount 1500")
    path = await path_of(config, budget)
    print_one(await ask(config, BUDGETS, budgets.CHANGE, path=path, body=body), as_json=as_json)
    return 0


async def delete(config: Config, budget: str) -> int:
    await ask(config, BUDGETS, budgets.DELETE, path=await path_of(config, budget))
    click.echo("deleted, with its alerts")
    return 0


async def path_of(config: Config, budget: str) -> dict[str, str]:
    """The parameter of the budget's path, from its id or name."""
    if _ID.fullmatch(budget):
        return {"budget_id": budget}
    found: Sequence[Mapping[str, Any]] = (await ask(config, BUDGETS, budgets.LIST, query=[("name", budget)]))["budgets"]
    if not found:
        raise click.ClickException("no budget has this name; `budgets list` shows them")
    return {"budget_id": found[0]["id"]}


def print_one(answer: Mapping[str, Any], *, as_json: bool) -> None:
    click.echo(json.dumps(answer) if as_json else "\n".join(lines_of(answer["budget"])))


def lines_of(budget: Mapping[str, Any]) -> Iterator[str]:
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
