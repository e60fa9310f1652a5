"""`check`: what the configuration means, what `run` would refuse, and what the upstream answers."""

import json

import click

from exporters.cost_service.billing import DROP_SCOPE
from exporters.cost_service.preset import preset_notes
from exporters.keyring import NOT_WANTED, no_key_grants
from gateway.cli.options import Faulty
from gateway.cli.start_checks import StartChecks, try_upstream
from gateway.common.contract.errors import CannotStart
from gateway.common.plural import plural
from gateway.config.model import Billing, Config, OtlpExporter, Upstream, config_schema, grants_scope
from gateway.pipeline.delivery.lanes import lanes_without_scope


async def check_whole(config: Config, *, connects: bool) -> None:
    """Print what `run` would start. Raises Faulty with every reason for which it would not, and
    where it *connects* with every key that the upstream does not take.
    """
    print_check(config)
    checks = StartChecks(config)
    await checks.look()
    for note in checks.notes:
        click.echo(f"note: {note.text}")
    faults = [fault.text for fault in checks.faults]
    if connects:
        faults += await _tried(config)
    if faults:
        raise Faulty(f"`run` would meet {plural(len(faults), 'fault', 'faults')}\n" + "\n".join(faults))
    click.echo("The configuration has no faults, and `run` would start.")


async def _tried(config: Config) -> list[str]:
    """Print what the upstream made of each key; those that it did not take."""
    if config.upstream is None:
        click.echo("connect: the upstream is the embedded local service, which starts with `run`")
        return []
    try:
        tried = await try_upstream(config.upstream)
    except CannotStart:
        return []  # among the faults already
    for name, found in tried:
        click.echo(f"connect: key {name}: {found.text}")
    return [f"upstream.keys, {name!r}: {found.text}" for name, found in tried if not found.is_well]


def print_check(config: Config) -> None:
    """Print what `run` would start; secrets are masked."""
    click.echo(f"profile          {config.profile}")
    click.echo(f"data directory   {config.data_dir}")
    for name, address in config.listeners().items():
        tls = ", TLS" if address is not None and name in config.tls.groups() else ""
        click.echo(f"listen.{name:9} {'off' if address is None else address}{tls}")
    if config.upstream is None:
        click.echo("upstream         the embedded local service")
    else:
        click.echo(
            f"upstream         {config.upstream.base_url} ({config.upstream.preset}, {config.upstream.encoding})"
        )
        for key in config.upstream.keys:
            click.echo(f"  key {key.name}: {', '.join(key.managed or key.scopes or ())}")
        for note in preset_notes(config.upstream.preset, config.upstream.names):
            click.echo(f"  preset {config.upstream.preset}: {note}")
        for lane in config.upstream.unused_lanes:
            click.echo(f"  lane {lane}: off, {NOT_WANTED}")
        for lane, reason in lanes_without_scope(config.upstream).items():
            click.echo(f"  lane {lane}: {reason}; what needs it is accepted and waits here")
    if config.billing is not None:
        print_billing(config.billing, config.upstream)
    for name, exporter in config.exporters.items():
        where = f" {exporter.endpoint} ({exporter.protocol})" if isinstance(exporter, OtlpExporter) else ""
        click.echo(f"exporter {name}: {exporter.type}{where}")


def print_billing(billing: Billing, upstream: Upstream | None) -> None:
    since = billing.since or "the first day of the month in which it is named first"
    click.echo(f"billing          drops to connection {billing.connection}, from {since} on")
    if upstream is not None and not any(grants_scope(key, DROP_SCOPE) for key in upstream.keys):
        click.echo(f"  lane billing: {no_key_grants([DROP_SCOPE])}; days wait here")


def print_schema() -> None:
    click.echo(json.dumps(config_schema(), indent=2))
