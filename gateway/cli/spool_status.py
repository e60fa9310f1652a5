"""`spool status`: the counts, asked of the running gateway or read from the file when none runs."""

import json
import sqlite3
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import aiohttp
import click
from rich.console import Console
from rich.table import Table

from gateway.cli.admin_client import reach, unanswered
from gateway.cli.printing import print_table
from gateway.common.wall_clock import wall_ms
from gateway.config.model import Config
from gateway.devices.rows import Figures
from gateway.devices.rows import figures as figures_of
from gateway.keys.control_store import INBOUND
from gateway.observability.devices import edge_with
from gateway.storage.database import read_only
from spool.counters import LaneCounters
from spool.data_dir import DATABASE
from spool.errors import SpoolError, SpoolLocked
from spool.record import DEVICES
from spool.sqlite.reading import read_held

LANE_COLUMNS = ("kept", "delivered", "pending", "dead_lettered", "expired")


async def print_status(config: Config, *, as_json: bool) -> int:
    """0 when the counts could be read and both identities hold."""
    try:
        status = await read_status(config)
    except click.ClickException as error:
        error.show()
        return 1
    if as_json:
        click.echo(json.dumps(status))
    else:
        print_tables(status)
    return 0 if is_balanced(status) else 1


async def read_status(config: Config) -> dict[str, Any]:
    """From the file when nobody holds its lock, else from the gateway that does."""
    if not (config.data_dir / DATABASE).exists():
        raise click.ClickException(f"{config.data_dir} holds no spool: name the gateway's with --data-dir or --config")
    try:
        held = read_held(config.data_dir)
    except SpoolLocked as error:
        return await ask_gateway(config, error)
    except SpoolError as error:
        raise click.ClickException(str(error)) from error
    counters = held.counters
    lanes = {lane: lane_json(counters.lane(lane), oldest_ms) for lane, oldest_ms in held.oldest_ms.items()}
    devices = device_figures(config.data_dir / INBOUND.database)
    if devices is not None:
        lanes[DEVICES] = {**lanes[DEVICES], **edge_with({x: lanes[DEVICES][x] for x in LANE_COLUMNS}, devices.lane)}
        return {
            "edge": edge_with(counters.edge, devices.edge),
            "lanes": lanes,
            "reasons": edge_with(counters.reasons, devices.reasons),
        }
    return {"edge": counters.edge, "lanes": lanes, "reasons": counters.reasons}


def device_figures(control_database: Path) -> Figures | None:
    """What control.db counts; None where there is none yet."""
    if not control_database.exists():
        return None
    try:
        with closing(read_only(control_database)) as connection:
            return figures_of(connection)
    except sqlite3.Error:
        return None  # of a release that kept no devices there, or damaged: the gateway tells at its start


def lane_json(figures: LaneCounters, oldest_ms: int | None) -> dict[str, Any]:
    age_s = None if oldest_ms is None else max(0, wall_ms() - oldest_ms) / 1000
    return {**asdict(figures), "oldest_pending_age_s": age_s, "state": "off", "reason": "no gateway runs"}


async def ask_gateway(config: Config, locked: SpoolLocked) -> dict[str, Any]:
    """Needs no token on loopback, so that it is asked without one."""
    connector, base = reach(config, locked)
    try:
        async with aiohttp.ClientSession(connector=connector) as session, session.get(f"{base}/v2/status") as response:
            response.raise_for_status()
            status: dict[str, Any] = await response.json()
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise click.ClickException(unanswered(locked, base, error)) from error
    return status


def is_balanced(status: dict[str, Any]) -> bool:
    edge = status["edge"]
    fates = sum(edge[name] for name in ("kept", "duplicate", "suppressed", "rejected", "ignored"))
    return bool(
        edge["received"] == fates
        and all(lane["kept"] == sum(lane[name] for name in LANE_COLUMNS[1:]) for lane in status["lanes"].values())
    )


def print_tables(status: dict[str, Any]) -> None:
    console = Console()
    edge = Table(title="edge (items)")
    for name in status["edge"]:
        edge.add_column(name, justify="right")
    edge.add_row(*(str(n) for n in status["edge"].values()))
    print_table(edge)
    lanes = Table(title="lanes (records)", box=None, padding=(0, 2, 0, 0))
    lanes.add_column("lane", no_wrap=True)
    for name in LANE_COLUMNS:
        lanes.add_column(name.replace("_", " "), justify="right")
    lanes.add_column("oldest pending", justify="right")
    lanes.add_column("state", no_wrap=True)
    reasons: dict[str, list[str]] = {}
    for lane, counts in status["lanes"].items():
        age = counts["oldest_pending_age_s"]
        if counts["reason"]:
            reasons.setdefault(f"{counts['state']}: {counts['reason']}", []).append(lane)
        numbers = (str(counts[name]) for name in LANE_COLUMNS)
        lanes.add_row(lane, *numbers, "" if age is None else f"{age:.0f} s", counts["state"])
    print_table(lanes)
    for reason, of in reasons.items():
        console.print(f"{', '.join(of)}: {reason}", markup=False, highlight=False, soft_wrap=True)
    console.print("both identities hold" if is_balanced(status) else "[red]an identity does not hold[/red]")
