"""`billing relayed`: the drops of senders that the gateway forwards."""

import json
from collections.abc import Sequence
from typing import Final

import click
from rich.table import Table

from gateway.cli.asking import ask
from gateway.cli.printing import plain, print_table
from gateway.config.model import Config

COLUMNS: Final = ("id", "connection", "month", "operation", "row_count", "key", "state", "accepted_at", "refused")


async def print_relayed(config: Config, states: Sequence[str], *, as_json: bool) -> int:
    """0 where none was refused; as JSON one page, in the table all. Raises ClickException."""
    answer = await ask(config, "listRelayedDrops", query=[("state", state) for state in states])
    found = list(answer["relayed"])
    if as_json:
        click.echo(json.dumps(answer))
    else:
        while (cursor := answer["pagination"]["cursor"]["next_cursor"]) is not None:
            answer = await ask(config, "listRelayedDrops", query=[("cursor", cursor)])
            found += answer["relayed"]
        table = Table(box=None, pad_edge=False)
        for name in COLUMNS:
            table.add_column(name.replace("_", " "), justify="right" if name == "row_count" else "left")
        for drop in found:
            table.add_row(*(plain("" if drop[name] is None else str(drop[name])) for name in COLUMNS))
        print_table(table)
    return int(any(drop["state"] == "refused" for drop in found))


async def change_drop(config: Config, *, retry: str | None, remove: str | None) -> int:
    """One of both is an id. Raises ClickException where no drop has it."""
    if retry is not None:
        await ask(config, "retryRelayedDrop", path={"drop_id": retry})
        click.echo(f"drop {retry} goes out again")
    if remove is not None:
        await ask(config, "removeRelayedDrop", path={"drop_id": remove})
        click.echo(f"drop {remove} is given up")
    return 0
