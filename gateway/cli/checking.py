"""`check`: what the configuration means, once it has no faults."""

import json

import click

from gateway.config.model import Config, config_schema


def print_check(config: Config) -> None:
    """Print what `run` would start; secrets are masked."""
    click.echo(f"profile          {config.profile}")
    click.echo(f"data directory   {config.data_dir}")
    for name, address in config.listeners().items():
        click.echo(f"listen.{name:9} {'off' if address is None else address}")
    if "grpc" in config.listen.model_fields_set and config.listen.grpc is not None:
        click.echo("listen.grpc      nothing listens there: this release has no OTLP/gRPC")
    if config.upstream is None:
        click.echo("upstream         the embedded local service")
    else:
        click.echo(
            f"upstream         {config.upstream.base_url} ({config.upstream.preset}, {config.upstream.encoding})"
        )
        for key in config.upstream.keys:
            click.echo(f"  key {key.name}: {', '.join(key.managed or key.scopes or ())}")
    for name, exporter in config.exporters.items():
        click.echo(f"exporter {name}: {exporter.type}")
    click.echo("The configuration has no faults.")


def print_schema() -> None:
    click.echo(json.dumps(config_schema(), indent=2))
