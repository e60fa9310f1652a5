"""`telemetry-gateway store`: where everything is kept."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from gateway.cli.groups import Group
from gateway.cli.options import config_of, config_option, data_dir_option, json_option
from gateway.config.model import Config


@click.group(cls=Group)
def store() -> None:
    """Where everything is kept: files, or a cell in Postgres."""


@store.command("migrate")
@config_option
@data_dir_option
@click.option(
    "--to",
    "to",
    type=click.Choice(["postgres", "sqlite"]),
    default="postgres",
    show_default=True,
    help="postgres: from --data-dir into the cell. sqlite: from the cell into --data-dir, which is empty.",
)
@json_option
def migrate(config_file: Path | None, data_dir: Path | None, to: str, as_json: bool) -> None:  # noqa: FBT001 a flag of the command line
    """Move everything into a cell, or back into files.

    For a gateway, or a cell, that is stopped. The configuration is that of the cell (store.type:
    postgres). Everything goes along: what waits to be sent, keys, devices, usage, budgets, views,
    insights. The source stays as it is, and no gateway starts on it any more.

    \b
    Examples:
      telemetry-gateway store migrate --config cell.yaml --data-dir ./data
      telemetry-gateway store migrate --config cell.yaml --to sqlite --data-dir ./data-again
    """
    with _psycopg_named():
        from gateway.cli.moving import move_in, move_out  # noqa: PLC0415 psycopg is an extra
    config = _config_of_cell(config_file)
    if to == "postgres":
        sys.exit(move_in(config, data_dir or config.data_dir, as_json=as_json))
    if data_dir is None:
        raise click.UsageError("--to sqlite needs --data-dir, an empty directory")
    sys.exit(move_out(config, data_dir, as_json=as_json))


@store.command("restored")
@config_option
@json_option
def restored(config_file: Path | None, as_json: bool) -> None:  # noqa: FBT001 a flag of the command line
    """Let a cell go on whose database was restored to an earlier moment.

    Run it once, with the configuration of any gateway of the cell. Until then gateways that saw a
    later moment take telemetry, and count and deliver nothing. What was delivered since goes out
    again under its ids. Totals of unit cost are read at the upstream first.

    \b
    Examples:
      telemetry-gateway store restored --config cell.yaml
    """
    with _psycopg_named():
        from gateway.cli.restored_cell import go_on  # noqa: PLC0415 psycopg is an extra
    sys.exit(go_on(_config_of_cell(config_file), as_json=as_json))


@contextmanager
def _psycopg_named() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name is not None and missing.name.startswith("gateway"):
            raise
        raise click.ClickException(
            f"a cell needs {missing.name}: pip install 'ai-telemetry-gateway[postgres]'"
        ) from missing


def _config_of_cell(config_file: Path | None) -> Config:
    config = config_of(config_file, None)
    if config.store.type != "postgres":
        raise click.UsageError(
            "the configuration names no cell: set store.type: postgres, and store.dsn (docs/cell.md)"
        )
    return config
