"""`spool verify` and `spool backup`: asked of the running gateway, or done on the files when none runs."""

import json
from pathlib import Path
from typing import Any

import click

from gateway.cli.admin_client import ask_gateway
from gateway.common.plural import plural
from gateway.config.model import Config
from gateway.observability.quarantine import BACKUP_PATH, VERIFY_PATH, verified_json
from spool.data_dir import DATABASE, DataLock
from spool.errors import SpoolError, SpoolLocked
from spool.sqlite.backup import back_up
from spool.sqlite.recovery.verify import verify_stopped


async def print_verified(config: Config, *, as_json: bool) -> int:
    """0 when nothing was found."""
    try:
        verified = await _verify(config)
    except click.ClickException as error:
        error.show()
        return 1
    if as_json:
        click.echo(json.dumps(verified))
    else:
        for finding in verified["findings"]:
            click.echo(f"{finding['of']}: {finding['text']}")
        verdict = "all is well" if verified["ok"] else plural(len(verified["findings"]), "finding", "findings")
        records = plural(verified["records"], "record", "records")
        chunks = plural(verified["chunks"], "chunk", "chunks")
        click.echo(f"{verdict}: {records} in {chunks} {'holds' if verified['records'] == 1 else 'hold'} together")
    return 0 if verified["ok"] else 1


async def _verify(config: Config) -> dict[str, Any]:
    _must_hold_a_spool(config)
    try:
        return verified_json(verify_stopped(config.data_dir))
    except SpoolLocked as error:
        return await ask_gateway(config, error, "POST", VERIFY_PATH, (), {})
    except SpoolError as error:
        raise click.ClickException(str(error)) from error


async def print_backup(config: Config, to: Path, *, as_json: bool) -> int:
    """0 when the copy is on disk."""
    try:
        done = await _back_up(config, to)
    except click.ClickException as error:
        error.show()
        return 1
    click.echo(json.dumps(done) if as_json else f"{done['file']}: {done['bytes']} bytes")
    return 0


async def _back_up(config: Config, to: Path) -> dict[str, Any]:
    _must_hold_a_spool(config)
    try:
        with DataLock(config.data_dir):
            return {"file": str(to), "bytes": back_up(config.data_dir, to)}
    except SpoolLocked as error:
        return await ask_gateway(config, error, "POST", BACKUP_PATH, (), {"file": str(to)})
    except SpoolError as error:
        raise click.ClickException(str(error)) from error


def _must_hold_a_spool(config: Config) -> None:
    if not (config.data_dir / DATABASE).exists():
        raise click.ClickException(f"{config.data_dir} holds no spool: name the gateway's with --data-dir or --config")
