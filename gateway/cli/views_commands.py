"""`telemetry-gateway views`: questions about usage that are kept."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from gateway.cli.options import config_of, config_option, data_dir_option, json_option

_FIELDS = (
    click.option("--where", multiple=True, metavar="NAME=VALUE", help="Only these calls, such as team=core, or team= for unknown; may be repeated."),
    click.option("--group-by", help="Up to three dimensions, separated by commas; provider,model without it."),
    click.option("--interval", type=click.Choice(["hour", "day", "none"]), help="Hours or UTC days in place of groups."),
    click.option("--sort", help="cost, calls, input_tokens, output_tokens or name; cost without it."),
    click.option("--range", help="Such as today, last_7_days, this_month, last_quarter; last_30_days without it."),
)  # fmt: skip


def _fields(command: Any) -> Any:
    for option in reversed(_FIELDS):
        command = option(command)
    return command


@click.group()
def views() -> None:
    """Questions about usage that are kept, for `usage --view`, `export --view` and the page."""


@views.command("list")
@config_option
@data_dir_option
@click.option("--limit", type=click.IntRange(min=1, max=500), help="At most so many; 50 without it.")
@json_option
def views_list(config_file: Path | None, data_dir: Path | None, limit: int | None, as_json: bool) -> None:  # noqa: FBT001 a flag of the command line
    """List them by name."""
    from gateway.cli.views import print_list  # noqa: PLC0415 starting the other commands must not cost its imports

    sys.exit(asyncio.run(print_list(config_of(config_file, data_dir), limit=limit, as_json=as_json)))


@views.command("create")
@config_option
@data_dir_option
@_fields
@json_option
@click.argument("name")
def views_create(config_file: Path | None, data_dir: Path | None, as_json: bool, **typed: Any) -> None:  # noqa: FBT001 as above
    """Keep a question about usage.

    \b
    Examples:
      telemetry-gateway views create "Core by model" --where team=core --range this_month
    """
    from gateway.cli.views import Typed, create  # noqa: PLC0415 as above

    sys.exit(asyncio.run(create(config_of(config_file, data_dir), Typed(**typed), as_json=as_json)))


@views.command("show")
@config_option
@data_dir_option
@json_option
@click.argument("view", metavar="ID|NAME")
def views_show(config_file: Path | None, data_dir: Path | None, as_json: bool, view: str) -> None:  # noqa: FBT001 as above
    """Show one; `usage --view NAME` shows what it asks for."""
    from gateway.cli.views import show  # noqa: PLC0415 as above

    sys.exit(asyncio.run(show(config_of(config_file, data_dir), view, as_json=as_json)))


@views.command("change")
@config_option
@data_dir_option
@click.option("--name", help="A new name.")
@_fields
@json_option
@click.argument("view", metavar="ID|NAME")
def views_change(config_file: Path | None, data_dir: Path | None, as_json: bool, view: str, **typed: Any) -> None:  # noqa: FBT001 as above
    """Change what is named; the filter is replaced as a whole."""
    from gateway.cli.views import Typed, change  # noqa: PLC0415 as above

    sys.exit(asyncio.run(change(config_of(config_file, data_dir), view, Typed(**typed), as_json=as_json)))


@views.command("delete")
@config_option
@data_dir_option
@click.argument("view", metavar="ID|NAME")
def views_delete(config_file: Path | None, data_dir: Path | None, view: str) -> None:
    """Delete one."""
    from gateway.cli.views import delete  # noqa: PLC0415 as above

    sys.exit(asyncio.run(delete(config_of(config_file, data_dir), view)))
