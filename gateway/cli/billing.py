"""`billing`: the days of a month, and the wait until they are dropped."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.table import Table

from gateway.cli.asking import ask
from gateway.cli.groups import Group
from gateway.cli.options import config_of, config_option, data_dir_option, json_option
from gateway.cli.printing import plain, print_table
from gateway.common.plural import plural
from gateway.common.printable import harmless

if TYPE_CHECKING:
    from gateway.config.model import Config

LOOK_S: Final = 0.5
CLOSED: Final = ("held", "off")
"""States of the lane in which waiting is in vain."""

Json = Mapping[str, Any]


async def print_month(config: "Config", month: str | None, *, as_json: bool) -> int:
    """0 where no day is refused and the lane is not closed. Raises ClickException."""
    shown = await _show(config, month)
    if as_json:
        click.echo(json.dumps(shown))
    elif not shown["days"]:
        click.echo(f"No day of {shown['month']} holds usage.")
        _print_lane(shown)
    else:
        _print_days(
            shown["days"], ("day", "state", "row_count", "costs", "calls_without_cost", "dropped_at", "refused")
        )
        _print_lane(shown)
    return _code(shown)


async def send_month(config: "Config", month: str, *, partly_known: bool, as_json: bool) -> int:
    """0 when all closed days of *month* are dropped, none left out. Raises ClickException."""
    wanted = await ask(config, "sendBilling", body={"month": month, "partial": partly_known})
    _note_left_out(wanted)
    if not wanted["is_running"]:
        raise click.ClickException(_later(config, wanted["wanted"]))
    shown = await _ended(config, month)
    if as_json:
        click.echo(json.dumps(shown))
    else:
        dropped = sum(day["state"] == "dropped" for day in shown["days"])
        click.echo(f"{month}: {plural(dropped, 'day is', 'days are')} dropped to {shown['connection']}")
        _print_lane(shown)
        for day in shown["days"]:
            if day["state"] == "refused":
                click.echo(f"{day['day']} is refused: {harmless(day['refused'])}", err=True)
    return 1 if _due(shown) or wanted["left_out"] else _code(shown)


async def _ended(config: "Config", month: str) -> dict[str, Any]:
    """The month once no day of it is due, or the lane is closed. While it waits for the upstream,
    stderr has why, whenever that changes. Raises ClickException where the gateway stops meanwhile.
    """
    noted = None
    while True:
        shown = await _show(config, month)
        lane, due = shown["lane"], _due(shown)
        if lane is None:
            raise click.ClickException(_later(config, due))
        if not due or lane["state"] in CLOSED:
            return shown
        if (lane["state"], lane["reason"]) != noted:
            noted = lane["state"], lane["reason"]
            _print_lane(shown)
        await asyncio.sleep(LOOK_S)


def _later(config: "Config", days: int) -> str:
    return f"no gateway runs on {config.data_dir}: {plural(days, 'day goes', 'days go')} out when it does"


def _due(shown: Json) -> int:
    return sum(day["state"] == "due" for day in shown["days"])


async def print_plan(config: "Config", month: str, *, partly_known: bool, as_json: bool) -> int:
    """0 where the upstream would take all of it, or was not asked. Raises ClickException."""
    planned = await ask(config, "sendBilling", body={"month": month, "dry_run": True, "partial": partly_known})
    _note_left_out(planned)
    if as_json:
        click.echo(json.dumps(planned))
    else:
        _print_days(planned["days"], ("day", "change", "row_count", "costs", "calls_without_cost", "refused"))
        if not planned["days"]:
            click.echo(f"No closed day of {month} would be dropped.", err=True)
        elif not planned["is_running"]:
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


async def _show(config: "Config", month: str | None) -> dict[str, Any]:
    return await ask(config, "showBilling", query=[] if month is None else [("month", month)])


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


@click.group(cls=Group)
def billing() -> None:
    """Cost by day, sent to a billing connection."""


@billing.command("show")
@config_option
@data_dir_option
@click.option("--month", metavar="YYYY-MM", help="A month of UTC; default: the current one.")
@json_option
def billing_show(config_file: Path | None, data_dir: Path | None, month: str | None, as_json: bool) -> None:  # noqa: FBT001 a flag of the command line
    """Show the days of a month: what was dropped, and what is due."""
    sys.exit(asyncio.run(print_month(config_of(config_file, data_dir), month, as_json=as_json)))


@billing.command("send")
@config_option
@data_dir_option
@click.option("--month", metavar="YYYY-MM", required=True, help="A month of UTC.")
@click.option(
    "--dry-run", is_flag=True, help="Show what would be dropped, have the upstream check it, and send nothing."
)
@click.option(
    "--partial", is_flag=True, help="Drop also days that began before counting did; each replaces what is there."
)
@json_option
def billing_send(
    config_file: Path | None,
    data_dir: Path | None,
    month: str,
    dry_run: bool,  # noqa: FBT001 as above
    partial: bool,  # noqa: FBT001 as above
    as_json: bool,  # noqa: FBT001 as above
) -> None:
    """Send every closed day of a month, and wait for the outcome.

    Days that were sent before are sent again.
    """
    work = print_plan if dry_run else send_month
    sys.exit(asyncio.run(work(config_of(config_file, data_dir), month, partly_known=partial, as_json=as_json)))


@billing.command("relayed")
@config_option
@data_dir_option
@click.option("--state", "states", multiple=True, help="waiting, sent, delivered, refused or expired; may be repeated.")
@click.option("--retry", metavar="ID", help="Send a refused drop again.")
@click.option("--remove", metavar="ID", help="Give up a drop that waits or was refused.")
@json_option
def billing_relayed(
    config_file: Path | None,
    data_dir: Path | None,
    states: tuple[str, ...],
    retry: str | None,
    remove: str | None,
    as_json: bool,  # noqa: FBT001 as above
) -> None:
    """Show the billing drops of senders, or change one of them."""
    from gateway.cli.billing_relay import change_drop, print_relayed  # noqa: PLC0415 as above

    config = config_of(config_file, data_dir)
    if retry is not None and remove is not None:
        raise click.UsageError("--retry and --remove exclude each other")
    if retry is None and remove is None:
        sys.exit(asyncio.run(print_relayed(config, states, as_json=as_json)))
    sys.exit(asyncio.run(change_drop(config, retry=retry, remove=remove)))
