"""`store restored`: what is printed around it."""

import asyncio
import json

import click

from gateway.app.cell.moving import name_of
from gateway.app.cell.restored import go_on_restored
from gateway.cli.moving import refused
from gateway.common.plural import plural
from gateway.config.model import Config


def go_on(config: Config, *, as_json: bool) -> int:
    """0 when gateways may own the cell again. Raises ClickException: then nothing was changed."""
    with refused():
        restored = asyncio.run(go_on_restored(config))
    if as_json:
        click.echo(json.dumps(restored._asdict()))
        return 0
    seen = f"; this gateway saw {restored.seen_turn}" if restored.seen_turn else ""
    click.echo(f"{name_of(config.store)} goes on: a gateway owns it within seconds (turn {restored.turn}{seen}).")
    click.echo("Totals of unit cost are read at the upstream before they are replaced.")
    if restored.dead_letters:
        waiting = plural(restored.dead_letters, "record of unit cost", "records of unit cost")
        click.echo(
            f"{waiting} may have been delivered: see `telemetry-gateway spool dead-letters list --reason restored`."
        )
    return 0
