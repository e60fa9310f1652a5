"""`telemetry-gateway usage`: what the gateway counted."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import click

from gateway.cli.options import config_of, config_option, data_dir_option, json_option

_DIMENSIONS = "provider, model, team, project, user, device_id, service_name, key, operation, source"

from_option = click.option("--from", "since", help="The first day or hour, such as 2026-01-05; UTC.")
to_option = click.option("--to", "until", help="The end, not included; without it, now.")


@click.command()
@config_option
@data_dir_option
@from_option
@to_option
@click.option("--group-by", help=f"Up to three of {_DIMENSIONS}, separated by commas; provider,model without it.")
@click.option("--interval", type=click.Choice(["hour", "day"]), help="Hours or UTC days in place of groups.")
@click.option("--where", multiple=True, metavar="NAME=VALUE", help="Only these, such as team=core; may be repeated.")
@click.option("--sort", help="cost, calls, input_tokens, output_tokens or name.")
@click.option("--limit", type=click.IntRange(min=1, max=500), help="At most so many rows; 20 without it.")
@json_option
def usage(config_file: Path | None, data_dir: Path | None, as_json: bool, **options: Any) -> None:  # noqa: FBT001 a flag of the command line
    """Show calls, tokens and cost, of the last 30 days where no time is given."""
    from gateway.cli.usage import Options, print_usage  # noqa: PLC0415 starting the other commands must not cost its imports

    sys.exit(asyncio.run(print_usage(config_of(config_file, data_dir), Options(**options), as_json=as_json)))
