"""`billing`: the days of a month, and the wait until they are dropped."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click
from rich.table import Table

from gateway.admin import billing
from gateway.cli.printing import harmless, plain, print_table
from gateway.cli.requests import BILLING, ask
from gateway.common.plural import plural
from gateway.config.model import Config

LOOK_S: Final = 0.5
CLOSED: Final = ("held", "off")
"""States of the lane in which waiting is in vain."""

Json = Mapping[str, Any]


async def print_month(config: Config, month: str | None, *, as_json: bool) -> int:
    """0 where no day is refused and the lane is not closed. Raises ClickException."""
    shown = await _show(config, month)
    if as_json:
        click.echo(json.dumps(shown))
    else:
        _print_days(
            shown["days"], ("day", "state", "row_count", "costs", "calls_without_cost", "dropped_at", "refused")
        )
        _print_lane(shown)
    return _code(shown)


async def send_month(config: Config, month: str, *, partly_known: bool, as_json: bool) -> int:
    """0 when all closed days of *month* are dropped, none left out. Raises ClickException."""
    wanted = await ask(config, BILLING, billing.SEND, body={"month": month, "partial": partly_known})
    _note_left_out(wanted)
    if not wanted["is_running"]:
        raise click.ClickException(
            f"no gateway runs on {config.data_dir}: {plural(wanted['wanted'], 'day goes', 'days go')} out when it does"
        )
    shown = await _show(config, month)
    while any(day["state"] == "due" for day in shown["days"]) and shown["lane"]["state"] not in CLOSED:
        await asyncio.sleep(LOOK_S)
        shown = await _show(config, month)
    if as_json:
        click.echo(json.dumps(shown))
    else:
        dropped = sum(day["state"] == "dropped" for day in shown["days"])
        click.echo(f"{month}: {plural(dropped, 'day is', 'days are')} dropped to {shown['connection']}")
        _print_lane(shown)
        for day in shown["days"]:
            if day["state"] == "refused":
                click.echo(f"{day['day']} is refused: {harmless(day['refused'])}", err=True)
    is_due = any(day["state"] == "due" for day in shown["days"])
    return 1 if is_due or wanted["left_out"] else _code(shown)


async def print_plan(config: Config, month: str, *, partly_known: bool, as_json: bool) -> int:
    """0 where the upstream would take all of it, or was not asked. Raises ClickException."""
    planned = await ask(config, BILLING, billing.SEND, body={"month": month, "dry_run": True, "partial": partly_known})
    _note_left_out(planned)
    if as_json:
        click.echo(json.dumps(planned))
    else:
        _print_days(planned["days"], ("day", "change", "row_count", "costs", "calls_without_cost", "refused"))
        if not planned["is_running"]:
            click.echo("No gateway runs, so the upstream was not asked.", err=True)
        elif not any(day["refused"] for day in planned["days"]):
            click.echo("The upstream would take it. Nothing was sent.", err=True)
    return int(any(day["refused"] for day in planned["days"]))


def _note_left_out(answer: Json) -> None:
    if answer["left_out"]:
        began = plural(
            answer["left_out"], "day began before counting did and is", "days began before counting did and are"
        )
        click.echo(f"{began} left out, since a drop replaces what the upstream has: --partial drops them too", err=True)


async def _show(config: Config, month: str | None) -> dict[str, Any]:
    return await ask(config, BILLING, billing.SHOW, query=[] if month is None else [("month", month)])


def _code(shown: Json) -> int:
    is_closed = shown["lane"] is not None and shown["lane"]["state"] in CLOSED
    return int(is_closed or any(day["state"] == "refused" for day in shown["days"]))


def _print_lane(shown: Json) -> None:
    lane = shown["lane"]
    if lane is not None and lane["state"] != "ok":
        click.echo(f"The lane is {lane['state']}: {harmless(lane['reason'] or 'no reason is known')}", err=True)


def _print_days(days: Sequence[Json], columns: Sequence[str]) -> None:
    table = Table(box=None, pad_edge=False)
    for name in columns:
        table.add_column(name.replace("_", " "), justify="right" if name in {"row_count", "costs"} else "left")
    for day in days:
        table.add_row(*(plain(_cell(day[name])) for name in columns))
    print_table(table)


def _cell(value: object) -> str:
    """Unknown is empty."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{amount} {currency}" for currency, amount in value.items()) or "none"
    return str(value)
