"""`spool status`: the counts, asked of the running gateway or read from the file when none runs."""

import json
from typing import Any

import aiohttp
import click
from rich.console import Console
from rich.table import Table

from gateway.app import spool_settings, wall_ms
from gateway.config import Config
from gateway.config_values import TcpAddress
from spool.errors import SpoolLocked
from spool.sqlite.database import DATABASE
from spool.sqlite.spool import SqliteSpool

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
        raise click.ClickException(f"{config.data_dir} holds no spool")
    try:
        spool = SqliteSpool(config.data_dir, spool_settings(config), now_ms=wall_ms, exporters=list(config.exporters))
    except SpoolLocked as error:
        return await ask_gateway(config, error)
    try:
        await spool.look_after()
        lanes = {lane: lane_json(spool, lane) for lane in spool.lanes()}
        return {"edge": dict(spool.edge()), "lanes": lanes, "reasons": dict(spool.reasons())}
    finally:
        await spool.close()


def lane_json(spool: SqliteSpool, lane: str) -> dict[str, Any]:
    depth = spool.depth(lane)
    counts: dict[str, Any] = {name: getattr(depth, name) for name in LANE_COLUMNS}
    oldest = depth.oldest_pending_ms
    counts["oldest_pending_age_s"] = None if oldest is None else max(0, wall_ms() - oldest) / 1000
    return {**counts, "state": "off", "reason": "no gateway runs"}


async def ask_gateway(config: Config, locked: SpoolLocked) -> dict[str, Any]:
    address = config.listen.admin
    if not isinstance(address, TcpAddress):
        raise click.ClickException(f"{locked}; and its admin listener is not on a port that can be asked")
    url = f"http://{address}/v2/status"
    try:
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            response.raise_for_status()
            status: dict[str, Any] = await response.json()
    except aiohttp.ClientError as error:
        raise click.ClickException(f"{locked}; {url} does not answer ({type(error).__name__})") from error
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
    console.print(edge)
    lanes = Table(title="lanes (records)")
    lanes.add_column("lane")
    for name in LANE_COLUMNS:
        lanes.add_column(name, justify="right")
    lanes.add_column("oldest pending", justify="right")
    lanes.add_column("state")
    for lane, counts in status["lanes"].items():
        age = counts["oldest_pending_age_s"]
        state = counts["state"] + (f" ({counts['reason']})" if counts["reason"] else "")
        lanes.add_row(lane, *(str(counts[x]) for x in LANE_COLUMNS), "" if age is None else f"{age:.0f} s", state)
    console.print(lanes)
    console.print("both identities hold" if is_balanced(status) else "[red]an identity does not hold[/red]")
