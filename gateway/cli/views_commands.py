"""`telemetry-gateway views`: saved questions about usage."""

from typing import TYPE_CHECKING, Any, Final

import click

from gateway.cli.groups import Group
from gateway.cli.named_resource_commands import add_commands

if TYPE_CHECKING:
    from gateway.cli.named_resource import NamedResource

_FIELDS: Final = (
    click.option("--where", multiple=True, metavar="NAME=VALUE", help="Only these calls, such as team=core, or team= for unknown; may be repeated."),
    click.option("--group-by", help="Up to three dimensions, separated by commas; provider,model without it."),
    click.option("--interval", type=click.Choice(["hour", "day", "none"]), help="Hours or UTC days in place of groups."),
    click.option("--sort", help="cost, calls, input_tokens, output_tokens or name; cost without it."),
    click.option("--range", help="Such as today, last_7_days, this_month, last_quarter; last_30_days without it."),
)  # fmt: skip
_HELPS: Final = {
    "list": "List views by name.",
    "create": """Save a question about usage.

    \b
    Examples:
      telemetry-gateway views create "Core by model" --where team=core --range this_month
    """,
    "show": "Show a view; `usage --view NAME` shows its figures.",
    "change": "Change the given fields; the filter is replaced as a whole.",
    "delete": "Delete a view.",
}


@click.group(cls=Group)
def views() -> None:
    """Saved questions about usage.

    For `usage --view`, `export --view` and the page.
    """


def _load() -> "NamedResource[Any]":
    from gateway.cli.views import VIEW  # noqa: PLC0415 starting the other commands must not cost its imports

    return VIEW


add_commands(views, _FIELDS, _HELPS, _load)
