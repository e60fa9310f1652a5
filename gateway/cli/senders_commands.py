"""`telemetry-gateway senders`."""

import asyncio
import sys
from pathlib import Path

import click

from gateway.cli.options import config_of, config_option, data_dir_option, json_option


@click.command("senders")
@config_option
@data_dir_option
@click.option(
    "--warning",
    multiple=True,
    type=click.Choice(["refused", "silent", "missing_usage"]),
    help="Only those with this warning; may be repeated.",
)
@click.option("--limit", type=click.IntRange(min=1), help="Show at most this many; default 50.")
@json_option
def senders(
    config_file: Path | None,
    data_dir: Path | None,
    warning: tuple[str, ...],
    limit: int | None,
    as_json: bool,  # noqa: FBT001 a flag of the command line
) -> None:
    """List who sends, what is wrong with it, and what to do."""
    from gateway.cli.senders import print_senders  # noqa: PLC0415 starting the other commands must not cost its imports

    config = config_of(config_file, data_dir)
    sys.exit(asyncio.run(print_senders(config, warning=warning, limit=limit, as_json=as_json)))
