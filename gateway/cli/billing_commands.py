"""`telemetry-gateway billing`: cost by day, dropped to a billing connection."""

import asyncio
import sys
from pathlib import Path

import click

from gateway.cli.groups import Group
from gateway.cli.options import config_of, config_option, data_dir_option, json_option


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
    from gateway.cli.billing import print_month  # noqa: PLC0415 starting the other commands must not cost its imports

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
    from gateway.cli.billing import print_plan, send_month  # noqa: PLC0415 as above

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
