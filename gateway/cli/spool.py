"""`spool status`, `spool verify`, `spool backup`, `spool acknowledge` and `spool set-aside`."""

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.cli.offline_spool import LANE_COLUMNS
from gateway.cli.printing import STATE_COLOURS, print_table
from gateway.cli.progress import waiting
from gateway.cli.requests import LANES, SPOOL, STATUS, ask
from gateway.common.plural import plural
from gateway.config.model import Config
from gateway.observability.waiting_metrics import waiting_note
from gateway.operate import lanes, spool_files


async def print_status(config: Config, *, as_json: bool) -> int:
    """0 when both identities hold."""
    status = await ask(config, STATUS, spool_files.STATUS)
    if as_json:
        click.echo(json.dumps(status))
    else:
        print_tables(status)
    return 0 if is_balanced(status) else 1


async def print_verified(config: Config, *, as_json: bool) -> int:
    """0 when nothing was found."""
    with waiting("Reading the spool"):
        verified = await ask(config, SPOOL, spool_files.VERIFY)
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


async def print_backup(config: Config, to: Path, *, as_json: bool) -> int:
    """0 when the copy is on disk."""
    with waiting("Copying the spool"):
        done = await ask(config, SPOOL, spool_files.BACK_UP, body={"file": str(to)})
    click.echo(json.dumps(done) if as_json else f"{done['file']}: {done['bytes']} bytes")
    return 0


async def print_acknowledged(config: Config, *, as_json: bool) -> int:
    """0 when they are noted."""
    done = await ask(config, SPOOL, spool_files.ACKNOWLEDGE)
    n = done["acknowledged"]
    click.echo(json.dumps(done) if as_json else f"acknowledged: {plural(n, 'loss', 'losses')} of the spool")
    return 0


async def print_set_aside(config: Config, lane: str, *, as_json: bool) -> int:
    """0 when the lane goes on."""
    done = await ask(config, LANES, lanes.SET_ASIDE, path={"lane": lane})
    waiting = plural(done["waiting"], "record waits", "records wait")
    text = f"lane {lane} goes on; {waiting}, and what is refused of them now becomes dead letters"
    click.echo(json.dumps(done) if as_json else text)
    return 0


def is_balanced(status: dict[str, Any]) -> bool:
    edge = status["edge"]
    outcomes = sum(edge[name] for name in ("kept", "duplicate", "suppressed", "rejected", "ignored"))
    return bool(
        edge["received"] == outcomes
        and all(lane["kept"] == sum(lane[name] for name in LANE_COLUMNS[1:]) for lane in status["lanes"].values())
    )


def print_tables(status: dict[str, Any]) -> None:
    """Print the counters and lanes of a spool as tables."""
    console = Console()
    edge = Table(title="edge (items)")
    for name in status["edge"]:
        edge.add_column(name, justify="right")
    edge.add_row(*(str(n) for n in status["edge"].values()))
    print_table(edge)
    table = Table(title="lanes (records)", box=None, padding=(0, 2, 0, 0))
    table.add_column("lane", no_wrap=True)
    for name in LANE_COLUMNS:
        table.add_column(name.replace("_", " "), justify="right")
    table.add_column("oldest pending", justify="right")
    table.add_column("state", no_wrap=True)
    reasons: dict[str, list[str]] = {}
    for lane, counts in status["lanes"].items():
        age = counts["oldest_pending_age_s"]
        if counts["reason"]:
            reasons.setdefault(f"{counts['state']}: {counts['reason']}", []).append(lane)
        numbers = (str(counts[name]) for name in LANE_COLUMNS)
        state = Text(counts["state"], style=STATE_COLOURS.get(counts["state"], ""))
        table.add_row(lane, *numbers, "" if age is None else f"{age:.0f} s", state)
    print_table(table)
    if (note := waiting_note(status)) is not None:
        console.print(f"of what is kept, {note}", markup=False, highlight=False, soft_wrap=True)
    for reason, of in reasons.items():
        console.print(f"{', '.join(of)}: {reason}", markup=False, highlight=False, soft_wrap=True)
    console.print("both identities hold" if is_balanced(status) else "[red]an identity does not hold[/red]")
