"""`demo`: sample traffic through a gateway of its own, what arrived as a table, and
whether it is what was sent.
"""

import asyncio
import logging
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import click
from rich.console import Console
from rich.table import Table

from gateway.app import Gateway
from gateway.cli import samples
from gateway.cli.logging import configure_logging
from gateway.cli.running import signalled
from gateway.common.event_loop import run as run_loop
from gateway.common.native import READER
from gateway.config.loader import load_config
from gateway.pipeline.delivery.embedded import READ_KEY_FILE

DEMO_OPTIONS = {
    "listen.http": "127.0.0.1:0",
    "listen.grpc": "off",
    "listen.admin": "127.0.0.1:0",
    "listen.service": "127.0.0.1:0",
    "counting.settle": "1s",
}
DELIVERY_TIMEOUT_S = 60.0
POLL_S = 0.1
TOKEN_COLUMNS = {
    "calls": "calls",
    "input_tokens": "input",
    "cache_read_input_tokens": "cache read",
    "output_tokens": "output",
    "reasoning_output_tokens": "reasoning",
}


def run_demo(*, keep: bool) -> int:
    """0 when everything that was sent arrived, once."""
    configure_logging(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="telemetry-gateway-demo-") as folder:
        return run_loop(_demo(Path(folder), keep=keep))


async def _demo(data_dir: Path, *, keep: bool) -> int:
    config = load_config(None, {**DEMO_OPTIONS, "data_dir": str(data_dir)}, environ={})
    gateway = await Gateway.start(config)
    ports = gateway.ports
    try:
        intake_url, service_url = f"http://{ports.http}", f"http://{ports.service}"
        click.echo(f"gateway on {intake_url}, local service on {service_url}; reader: {READER}")
        click.echo("sending sample traffic …")
        await asyncio.to_thread(send_all, intake_url)
        await wait_until_delivered(gateway)
        read_key = (data_dir / READ_KEY_FILE).read_text().strip()
        ok = await show(service_url, read_key)
        if keep:
            click.echo(f"status page: http://{ports.admin}{gateway.access.login_path()}  (Ctrl-C ends the demo)")
            await signalled()
    finally:
        await gateway.stop()
    return 0 if ok else 1


def send_all(intake_url: str) -> None:
    samples.send_with_sdk(intake_url)
    samples.send_gateway_callback(intake_url)
    samples.send_event(intake_url)
    samples.send_heartbeat(intake_url)


async def wait_until_delivered(gateway: Gateway) -> None:
    """Until no lane holds anything pending. Raises TimeoutError."""
    async with asyncio.timeout(DELIVERY_TIMEOUT_S):
        while any(lane["pending"] for lane in gateway.status()["lanes"].values()):  # noqa: ASYNC110 see below
            await asyncio.sleep(POLL_S)  # the counts change with every commit; looking now and then is enough


async def show(service_url: str, read_key: str) -> bool:
    """Print what the service has, and whether it is what was sent."""
    async with _service(service_url, read_key) as session:
        devices = (await _ask(session, "/v2/ai-control-plane/devices?kind=workstation"))["devices"]
        events = (await _ask(session, "/events/v1/events"))["events"]
    summary = await calls_summary(service_url, read_key)
    click.echo(f"device  {', '.join(str(device['device_id']) for device in devices)}")
    click.echo(f"event   {', '.join(str(event['title']) for event in events)}")
    is_all = len(devices) == 1 and len(events) == 1
    return show_calls(summary, 1, [samples.GATEWAY_CALL], "1 event, 1 heartbeat" if is_all else "") and is_all


async def calls_summary(service_url: str, read_key: str) -> Mapping[str, Any]:
    """The calls at the service by provider and model, and their totals."""
    async with _service(service_url, read_key) as session:
        return await _ask(session, "/v2/ai-telemetry/summary?group_by=provider,model")


def is_sent(summary: Mapping[str, Any], rounds: int, more: Sequence[samples.SampleCall] = ()) -> bool:
    """Whether the service has *rounds* of the sample traffic, the calls *more*, and no other."""
    wanted = sent_totals(rounds, more)
    return {name: summary["totals"][name] for name in wanted} == wanted


def show_calls(
    summary: Mapping[str, Any], rounds: int, more: Sequence[samples.SampleCall] = (), beside: str = ""
) -> bool:
    """Print *summary* as a table, and whether it is what was sent, with what else was."""
    console, wanted = Console(width=max(120, Console().width)), sent_totals(rounds, more)
    console.print(calls_table(summary["summary"], summary["totals"]))
    ok = is_sent(summary, rounds, more)
    if ok:
        text = ", ".join(filter(None, (f"{wanted['calls']:,} calls", beside)))
        console.print(f"[green]sent = delivered[/green]: {text}", highlight=False)
    else:
        got = {name: summary["totals"][name] for name in wanted}
        console.print(f"[red]sent ≠ delivered[/red]: sent {wanted}, delivered {got}", highlight=False)
    return ok


def sent_totals(rounds: int, more: Sequence[samples.SampleCall] = ()) -> dict[str, int]:
    """The truth about *rounds* of the sample traffic and the calls *more*."""
    calls = [*samples.SAMPLE_CALLS * (len(samples.TEAMS) * rounds), *more]
    return {
        "calls": len(calls),
        "input_tokens": sum(call.input_tokens for call in calls),
        "cache_read_input_tokens": sum(call.cache_read for call in calls),
        "output_tokens": sum(call.output_tokens for call in calls),
        "reasoning_output_tokens": sum(call.reasoning for call in calls),
    }


def calls_table(rows: Sequence[Mapping[str, Any]], totals: Mapping[str, Any]) -> Table:
    """The calls at the service by provider and model, with their totals."""
    table = Table(title="AI calls at the cost management service", show_footer=True)
    table.add_column("provider", footer="total", no_wrap=True)
    table.add_column("model", no_wrap=True)
    for name, title in TOKEN_COLUMNS.items():
        table.add_column(title, justify="right", footer=f"{totals[name]:,}")
    table.add_column("cost (USD)", justify="right", footer=_money(totals))
    for row in rows:
        counts = [f"{row[name]:,}" for name in TOKEN_COLUMNS]
        table.add_row(row["provider"] or "unattributed", row["model"] or "?", *counts, _money(row))
    return table


def _money(row: Mapping[str, Any]) -> str:
    """What the calls with a cost cost, and that there are others; `unknown` when none has one."""
    without = row["calls_without_cost"]
    if row["cost"] is None:
        return "unknown"
    return f"{row['cost']} + {without} unknown" if without else str(row["cost"])


def _service(url: str, read_key: str) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(url, headers={"Authorization": read_key})


async def _ask(session: aiohttp.ClientSession, path: str) -> dict[str, Any]:
    async with session.get(path) as response:
        response.raise_for_status()
        answer: dict[str, Any] = await response.json()
    return answer
