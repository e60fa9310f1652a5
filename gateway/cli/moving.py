"""`store migrate`: what is locked, checked and printed around a move."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from gateway.access.errors import KeyStoreError
from gateway.app.cell.moving import Moved, move_to_cell, move_to_folder, name_of
from gateway.app.cell.secrets import FILES
from gateway.cli.options import with_remedy
from gateway.cli.restore import place, refuse_used, unpacking
from gateway.common.contract.errors import CannotStart
from gateway.common.plural import plural
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.config.model import Config
from gateway.stores.moving.cell_state import NotMovable
from gateway.stores.moving.tables import TablesDiffer
from spool.data_dir import make_data_dir
from spool.data_lock import DataLock
from spool.errors import SpoolError, SpoolLocked


def move_in(config: Config, data_dir: Path, *, as_json: bool) -> int:
    """0 when the cell holds what *data_dir* does. Raises ClickException: then nothing was moved."""
    if not data_dir.is_dir():
        raise click.ClickException(f"{data_dir} is no directory: name the gateway's with --data-dir")
    with refused(), DataLock(data_dir):
        moved = asyncio.run(move_to_cell(config, data_dir))
    print_moved(moved, str(data_dir), name_of(config.store), as_json=as_json)
    if not as_json:
        files = ", ".join(name for name in FILES if (data_dir / name).exists())
        click.echo(f"Each gateway of the cell needs {files} as in {data_dir}, unless store.secret makes them.")
        click.echo(f"Start them with `telemetry-gateway run`. {data_dir} is marked: no gateway starts on its files.")
    return 0


def move_out(config: Config, data_dir: Path, *, as_json: bool) -> int:
    """0 when *data_dir* holds what the cell does. Raises ClickException."""
    named = data_dir.absolute()
    refuse_used(named, "a cell is moved")
    with refused():
        make_data_dir(named)
        with DataLock(named), unpacking(named) as folder:
            moved = asyncio.run(move_to_folder(config, folder, named))
            place(folder, named)
    print_moved(moved, name_of(config.store), str(named), as_json=as_json)
    if not as_json:
        click.echo(f"Start the gateway with store.type: sqlite and data_dir: {named}. No gateway starts on the cell.")
    return 0


def print_moved(moved: Moved, source: str, target: str, *, as_json: bool) -> None:
    pending = {name: lane.pending for name, lane in moved.counters.lanes.items() if lane.pending}
    if as_json:
        done: dict[str, Any] = {
            "from": source,
            "to": target,
            "gateway_id": moved.gateway_id,
            "rows": moved.rows,
            "pending": pending,
        }
        click.echo(json.dumps(done))
        return
    waiting = ", ".join(f"{name} {n}" for name, n in pending.items()) or "none"
    rows, tables = sum(moved.rows.values()), sum(n > 0 for n in moved.rows.values())
    click.echo(f"{source} -> {target}: {plural(rows, 'row', 'rows')} of {plural(tables, 'table', 'tables')}")
    click.echo(f"gateway {moved.gateway_id}; records that wait to be sent: {waiting}")


@contextmanager
def refused() -> Iterator[None]:
    """Errors as ClickException, with what to do."""
    try:
        yield
    except SpoolLocked as error:
        raise click.ClickException(f"{error}: stop the gateway, and try again") from error
    except (NotMovable, TablesDiffer, CannotStart, SpoolError, DatabaseUnavailable, KeyStoreError, OSError) as error:
        raise click.ClickException(with_remedy(error)) from error
