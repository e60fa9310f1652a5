"""`demo --cluster`: sample traffic through three gateways that count as one, on a Postgres with two
synchronous standbys. The owner is killed, then the primary, and what arrives at the service is
compared with what was sent.
"""

import asyncio
import logging
import secrets
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import aiohttp
import click

from gateway.cli.demo import show_calls
from gateway.cli.demo_edges import Balancer, Node, arrived, listening, send_until
from gateway.cli.logging import configure_logging
from gateway.cli.postgres_servers import NEEDED, Cluster, programs
from gateway.cli.running import signalled
from gateway.common.contract.scopes import SEND_AI_TELEMETRY
from gateway.common.event_loop import run as run_loop
from gateway.pipeline.delivery.embedded import CONTROL_SCOPES, FOLDER, READ_KEY_FILE

GATEWAYS: Final = 3
STEADY_S: Final = 4.0
"""Traffic before the first fault, between faults and after the last."""
OWNED_S: Final = 60.0
POLL_S: Final = 0.2
SECRET: Final = "cell-secret"  # noqa: S105 - a file's name


class Service(Node):
    """The local stand-in for the cost management service, as a process of its own."""

    def command(self) -> Sequence[str]:
        return ("service", "run", "--data-dir", str(self.data_dir), "--listen", f"127.0.0.1:{self.port}")


def run_cluster_demo(*, keep: bool) -> int:
    """0 when everything that was sent arrived, once; also, with a line that says so, where there is
    no Postgres. Raises ClickException.
    """
    binaries = programs()
    if binaries is None:
        click.echo(f"skipped: {NEEDED}")
        return 0
    configure_logging(logging.WARNING)
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)  # its readers warn of their own end
    with tempfile.TemporaryDirectory(prefix="telemetry-gateway-demo-") as folder:
        return run_loop(_demo(Path(folder), binaries, keep=keep))


async def _demo(folder: Path, binaries: Path, *, keep: bool) -> int:
    async with AsyncExitStack() as stack:
        return await _run(folder, Cluster(folder, binaries), stack, keep=keep)


async def _run(folder: Path, cluster: Cluster, stack: AsyncExitStack, *, keep: bool) -> int:
    stack.push_async_callback(cluster.stop)
    click.echo("starting Postgres: a primary and two standbys, a commit is on two machines when it is answered")
    await cluster.start()
    service = Service(folder, "service")
    stack.push_async_callback(service.end)
    await service.start()
    (folder / SECRET).write_text(secrets.token_hex(32))
    gateways = [_gateway(folder, number, cluster, service) for number in range(1, GATEWAYS + 1)]
    for gateway in gateways:
        stack.push_async_callback(gateway.end)
    await asyncio.gather(*(gateway.start() for gateway in gateways))
    session = await stack.enter_async_context(aiohttp.ClientSession())
    balancer = Balancer(session, gateways, metrics_apart=False)
    url = await listening(balancer, stack)
    click.echo(f"{GATEWAYS} gateways of one cell behind a balancer that gives each request to one at random")
    rounds = await _traffic(url, cluster, gateways, session)
    read_key = (service.data_dir / READ_KEY_FILE).read_text().strip()
    click.echo("waiting until everything is at the service …")
    summary = await arrived(service.url, read_key, rounds)
    click.echo(f"requests: {', '.join(f'{each.name} {balancer.taken[each.name]}' for each in gateways)}")
    ok = show_calls(summary, rounds)
    if keep:
        click.echo(f"the page: telemetry-gateway open --data-dir {gateways[1].data_dir}  (Ctrl-C ends the demo)")
        await signalled()
    return 0 if ok else 1


def _gateway(folder: Path, number: int, cluster: Cluster, service: Node) -> Node:
    keys = service.data_dir / FOLDER
    telemetry = {"name": "telemetry", "secret": f"${{file:{keys / 'telemetry.key'}}}", "managed": [SEND_AI_TELEMETRY]}
    control = {"name": "control", "secret": f"${{file:{keys / 'control.key'}}}", "scopes": list(CONTROL_SCOPES)}
    return Node(
        folder,
        f"gateway-{number}",
        store={"type": "postgres", "dsn": cluster.dsn, "secret": f"${{file:{folder / SECRET}}}"},
        upstream={"base_url": service.url, "keys": [telemetry, control]},
    )


async def _traffic(url: str, cluster: Cluster, gateways: Sequence[Node], session: aiohttp.ClientSession) -> int:
    """Send while the owner and the primary are killed; how many rounds of the samples."""
    is_over = asyncio.Event()
    sending = asyncio.create_task(send_until(url, is_over))
    await asyncio.sleep(STEADY_S)
    owner = await _owner(gateways, session)
    click.echo(f"{owner.name} owns the cell; it is killed (SIGKILL)")
    await owner.end(killed=True)
    await asyncio.sleep(STEADY_S)
    click.echo(f"{(await _owner(gateways, session)).name} owns the cell now; {owner.name} is started again")
    await owner.start()
    click.echo("the primary of Postgres is killed, and a standby is promoted")
    await cluster.fail_over()
    await asyncio.sleep(STEADY_S)
    click.echo(f"{(await _owner(gateways, session)).name} owns the cell")
    is_over.set()
    return await sending


async def _owner(gateways: Sequence[Node], session: aiohttp.ClientSession) -> Node:
    """Raises ClickException where there is none after `OWNED_S`."""
    try:
        async with asyncio.timeout(OWNED_S):
            while True:
                for gateway in gateways:
                    if gateway.runs and await _owns(gateway, session):
                        return gateway
                await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise click.ClickException(f"no gateway owns the cell after {OWNED_S:.0f} s") from None


async def _owns(gateway: Node, session: aiohttp.ClientSession) -> bool:
    try:
        async with session.get(f"http://127.0.0.1:{gateway.ports['admin']}/metrics") as answer:
            return "telemetry_gateway_cell_owner 1.0" in await answer.text()
    except aiohttp.ClientError:
        return False
