"""`telemetry-gateway budgets`: what calls may cost in a period, and what they cost."""

from typing import TYPE_CHECKING, Any, Final

import click

from gateway.cli.groups import Group
from gateway.cli.named_resource_commands import add_commands

if TYPE_CHECKING:
    from gateway.cli.named_resource import NamedResource

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


@click.group(cls=Group)
def budgets() -> None:
    """What calls may cost in a period, and when to alert."""


def _load() -> "NamedResource[Any]":
    from gateway.cli.budgets import BUDGET  # noqa: PLC0415 starting the other commands must not cost its imports

    return BUDGET


add_commands(budgets, _FIELDS, _HELPS, _load)
