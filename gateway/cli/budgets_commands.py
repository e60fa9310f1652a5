"""`telemetry-gateway budgets`: what calls may cost in a period, and what they cost."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from gateway.cli.options import config_of, config_option, data_dir_option, json_option

_FIELDS = (
    click.option("--amount", help="What may be spent in a period, such as 1000 or 12.50."),
    click.option("--currency", help="A code of three capitals, such as USD."),
    click.option("--period", type=click.Choice(["day", "week", "month", "quarter", "year"]), help="UTC; a week begins on Monday."),
    click.option("--where", multiple=True, metavar="NAME=VALUE", help="Only these calls, such as team=core, or team= for unknown; may be repeated."),
    click.option("--alert", multiple=True, type=int, metavar="PERCENT", help="Alert when so much of the amount is spent; may be repeated."),
    click.option("--alert-forecast", multiple=True, type=int, metavar="PERCENT", help="The same of the forecast for the period."),
    click.option("--stop-at", type=int, metavar="PERCENT", help="From here on the state says hard_stop; 0 for never."),
    click.option("--webhook", help="Name in budgets.webhooks of the configuration; empty for budgets.webhook."),
)  # fmt: skip


def _fields(command: Any) -> Any:
    for option in reversed(_FIELDS):
        command = option(command)
    return command


@click.group()
def budgets() -> None:
    """What calls may cost in a period, what they cost, and whom to tell."""


@budgets.command("list")
@config_option
@data_dir_option
@click.option("--limit", type=click.IntRange(min=1, max=500), help="At most so many; 50 without it.")
@json_option
def budgets_list(config_file: Path | None, data_dir: Path | None, limit: int | None, as_json: bool) -> None:  # noqa: FBT001 a flag of the command line
    """List them by name, each with what is spent."""
    from gateway.cli.budgets import print_list  # noqa: PLC0415 starting the other commands must not cost its imports

    sys.exit(asyncio.run(print_list(config_of(config_file, data_dir), limit=limit, as_json=as_json)))


@budgets.command("create")
@config_option
@data_dir_option
@_fields
@json_option
@click.argument("name")
def budgets_create(config_file: Path | None, data_dir: Path | None, as_json: bool, **typed: Any) -> None:  # noqa: FBT001 as above
    """Make one; --amount, --currency and --period are needed.

    \b
    Examples:
      telemetry-gateway budgets create Core --amount 90 --currency USD --period week
    """
    from gateway.cli.budgets import Typed, create  # noqa: PLC0415 as above

    sys.exit(asyncio.run(create(config_of(config_file, data_dir), Typed(**typed), as_json=as_json)))


@budgets.command("show")
@config_option
@data_dir_option
@json_option
@click.argument("budget", metavar="ID|NAME")
def budgets_show(config_file: Path | None, data_dir: Path | None, as_json: bool, budget: str) -> None:  # noqa: FBT001 as above
    """Show one with its latest alerts."""
    from gateway.cli.budgets import show  # noqa: PLC0415 as above

    sys.exit(asyncio.run(show(config_of(config_file, data_dir), budget, as_json=as_json)))


@budgets.command("change")
@config_option
@data_dir_option
@click.option("--name", help="A new name.")
@_fields
@json_option
@click.argument("budget", metavar="ID|NAME")
def budgets_change(config_file: Path | None, data_dir: Path | None, as_json: bool, budget: str, **typed: Any) -> None:  # noqa: FBT001 as above
    """Change what is named; alerts and filters are replaced as a whole."""
    from gateway.cli.budgets import Typed, change  # noqa: PLC0415 as above

    sys.exit(asyncio.run(change(config_of(config_file, data_dir), budget, Typed(**typed), as_json=as_json)))


@budgets.command("delete")
@config_option
@data_dir_option
@click.argument("budget", metavar="ID|NAME")
def budgets_delete(config_file: Path | None, data_dir: Path | None, budget: str) -> None:
    """Delete one with its alerts."""
    from gateway.cli.budgets import delete  # noqa: PLC0415 as above

    sys.exit(asyncio.run(delete(config_of(config_file, data_dir), budget)))
