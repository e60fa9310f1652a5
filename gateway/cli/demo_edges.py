"""`demo --edges`: sample traffic through several gateways in front of a hub. One of them is killed,
the hub is stopped for a while, and what arrives at the service is compared with what was sent.
"""

import asyncio
import json
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import aiohttp
import click
from aiohttp import web

from gateway.access.key_files import INBOUND
from gateway.cli import samples
from gateway.cli.demo import calls_summary, is_sent, show_calls
from gateway.cli.logging import configure_logging
from gateway.cli.running import signalled
from gateway.common.contract.scopes import ENROLL_SCOPE, HEARTBEAT_SCOPE, INGEST_SCOPE, PING_SCOPE, Fixed
from gateway.common.event_loop import run as run_loop
from gateway.common.free_port import free_port
from gateway.common.wall_clock import wall_ms
from gateway.pipeline.delivery.embedded import READ_KEY_FILE
from gateway.stores.sqlite.keys import offline_keys

HUB_SCOPES: Final = (INGEST_SCOPE, ENROLL_SCOPE, HEARTBEAT_SCOPE, PING_SCOPE)
SETTLE: Final = {"settle": "1s", "metrics_settle": "3s"}
STEADY_S: Final = 3.0
"""Traffic before the first fault, between faults and after the last."""
ROUND_S: Final = 0.5
READY_S: Final = 60.0
ARRIVED_S: Final = 300.0
"""After an outage an edge waits up to about as long again before it tries the hub again."""
POLL_S: Final = 0.2


class Node:
    """A gateway of its own: a process on a data directory."""

    def __init__(self, folder: Path, name: str, **config: object) -> None:
        self.name = name
        self.data_dir = folder / name
        self.data_dir.mkdir(mode=0o700)
        self.port = free_port()
        self._config = folder / f"{name}.yaml"
        self._ports = folder / f"{name}.ports.json"
        self._log = folder / f"{name}.log"
        self._process: asyncio.subprocess.Process | None = None
        self.ports: Mapping[str, Any] = {}
        """By listener, once it is ready."""
        any_port = "127.0.0.1:0"
        listen = {"http": f"127.0.0.1:{self.port}", "grpc": "off", "admin": any_port, "service": any_port}
        settings = {"data_dir": str(self.data_dir), "listen": listen, "counting": SETTLE, **config}
        self._config.write_text(json.dumps(settings))  # JSON is YAML

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> Sequence[str]:
        return ("run", "--config", str(self._config))

    async def start(self) -> Mapping[str, Any]:
        """Start, and wait until it is ready; its addresses by listener. Raises ClickException."""
        self._ports.unlink(missing_ok=True)
        command = (*self.command(), "--ports-file", str(self._ports))
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "gateway.cli.main", *command, stdout=log, stderr=log
            )
        try:
            async with asyncio.timeout(READY_S):
                while not (ports := _read(self._ports)):
                    if self._process.returncode is not None:
                        raise click.ClickException(f"{self.name} did not start:\n{self._log.read_text()[-2000:]}")
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise click.ClickException(f"{self.name} was not ready after {READY_S:.0f} s") from None
        self.ports = ports
        return ports

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def end(self, *, killed: bool = False) -> None:
        """Stop it, or kill it, and wait for its end; nothing where it does not run."""
        if self._process is not None and self.runs:
            self._process.kill() if killed else self._process.terminate()
            await self._process.wait()


class Balancer:
    """Each request goes to a gateway drawn at random; to another one where that does not answer.
    With *metrics_apart* metrics go to the first, everything else to the others: so none sees both
    the calls of a sender and its metrics.
    """

    def __init__(self, session: aiohttp.ClientSession, edges: Sequence[Node], *, metrics_apart: bool) -> None:
        self._session = session
        self._edges, self._metrics_apart = edges, metrics_apart
        self.taken: Counter[str] = Counter()
        """Edge -> requests that it answered."""

    async def pass_on(self, request: web.Request) -> web.Response:
        body = await request.read()
        headers = {name: value for name, value in request.headers.items() if name.startswith("Content-")}
        for edge in self._order(request.path):
            try:
                async with self._session.post(f"{edge.url}{request.path}", data=body, headers=headers) as answer:
                    content = await answer.read()
            except aiohttp.ClientError:
                continue
            if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
                continue
            self.taken[edge.name] += 1
            return web.Response(body=content, status=answer.status, content_type=answer.content_type)
        return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, headers={"Retry-After": "1"})

    def _order(self, path: str) -> list[Node]:
        if not self._metrics_apart:
            return random.sample(self._edges, len(self._edges))
        first, *others = self._edges
        others = random.sample(others, len(others))
        return [first, *others] if path == "/v1/metrics" else [*others, first]


def run_edges_demo(edges: int, *, outage_s: float, keep: bool) -> int:
    """0 when everything that was sent arrived, once. Raises ClickException."""
    configure_logging(logging.WARNING)
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)  # its readers warn of their own end
    with tempfile.TemporaryDirectory(prefix="telemetry-gateway-demo-") as folder:
        return run_loop(_demo(Path(folder), edges, outage_s, keep=keep))


async def _demo(folder: Path, n: int, outage_s: float, *, keep: bool) -> int:
    async with AsyncExitStack() as stack:
        return await _run(folder, n, outage_s, stack, keep=keep)


async def _run(folder: Path, n: int, outage_s: float, stack: AsyncExitStack, *, keep: bool) -> int:
    hub = Node(folder, "hub")
    async with offline_keys(hub.data_dir, INBOUND, wall_ms) as keys:
        made = await keys.create("edges", Fixed(frozenset(HUB_SCOPES)), by="demo")
    upstream = {
        "base_url": hub.url,
        "keys": [{"name": "hub", "secret": made.secret.reveal(), "scopes": list(HUB_SCOPES)}],
    }
    edges = [Node(folder, f"edge-{number}", upstream=upstream) for number in range(1, n + 1)]
    for node in (hub, *edges):
        stack.push_async_callback(node.end)
    ports = await hub.start()
    await asyncio.gather(*(edge.start() for edge in edges))
    session = await stack.enter_async_context(aiohttp.ClientSession())
    balancer = Balancer(session, edges, metrics_apart=True)
    url = await listening(balancer, stack)
    click.echo(f"{n} gateways in front of a hub, with one key of the hub")
    click.echo("metrics go to edge-1, spans of the same calls to one of the others at random")
    rounds = await _traffic(url, hub, edges, outage_s)
    ports = _read(folder / "hub.ports.json") or ports
    service_url, read_key = f"http://127.0.0.1:{ports['service']}", (hub.data_dir / READ_KEY_FILE).read_text().strip()
    click.echo("waiting until everything is at the service …")
    summary = await arrived(service_url, read_key, rounds)
    requests = ", ".join(f"{edge.name} {balancer.taken[edge.name]}" for edge in edges)
    click.echo(f"requests: {requests}")
    ok = show_calls(summary, rounds)
    if keep:
        click.echo(
            f"a link to the hub's page: telemetry-gateway open --data-dir {hub.data_dir}  (Ctrl-C ends the demo)"
        )
        await signalled()
    return 0 if ok else 1


async def _traffic(url: str, hub: Node, edges: Sequence[Node], outage_s: float) -> int:
    """Send while an edge is killed and the hub is stopped; how many rounds of the samples."""
    is_over = asyncio.Event()
    sending = asyncio.create_task(send_until(url, is_over))
    await asyncio.sleep(STEADY_S)
    click.echo(f"{edges[-1].name} is killed (SIGKILL)")
    await edges[-1].end(killed=True)
    await asyncio.sleep(STEADY_S)
    click.echo(f"{edges[-1].name} is started again on its data")
    await edges[-1].start()
    click.echo(f"the hub is stopped for {outage_s:g} s; senders notice nothing")
    await hub.end()
    await asyncio.sleep(outage_s)
    click.echo("the hub is started again")
    await hub.start()
    await asyncio.sleep(STEADY_S)
    is_over.set()
    return await sending


async def send_until(url: str, is_over: asyncio.Event) -> int:
    """Send the samples again and again; how many rounds."""
    rounds = 0
    while not is_over.is_set():
        started_s = time.monotonic()
        await asyncio.to_thread(samples.send_with_sdk, url, rounds, metrics=True)
        rounds += 1
        await asyncio.sleep(max(0.0, ROUND_S - (time.monotonic() - started_s)))
    return rounds


async def arrived(service_url: str, read_key: str, rounds: int) -> Mapping[str, Any]:
    """What the service has once all that was sent is there, or after `ARRIVED_S`; then a little
    later, for what would come twice.
    """
    ends_s = time.monotonic() + ARRIVED_S
    while time.monotonic() < ends_s and not is_sent(  # noqa: ASYNC110 what the service has changes with each delivery
        await calls_summary(service_url, read_key), rounds
    ):
        await asyncio.sleep(POLL_S)
    await asyncio.sleep(2 * STEADY_S)
    return await calls_summary(service_url, read_key)


async def listening(balancer: Balancer, stack: AsyncExitStack) -> str:
    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/{path:.*}", balancer.pass_on)
    runner = web.AppRunner(app)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return f"http://127.0.0.1:{port}"


def _read(ports_file: Path) -> dict[str, Any]:
    """Empty until it is written."""
    try:
        found: dict[str, Any] = json.loads(ports_file.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return found
