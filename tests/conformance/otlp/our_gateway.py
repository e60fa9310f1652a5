"""Gateways for the kit: `python -m tests.conformance.otlp.our_gateway --save FILE` runs it against
a fresh one at the default ports.
"""

import argparse
import asyncio
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from gateway.common.contract.scopes import EVENT_SCOPE, INGEST_SCOPE, Fixed
from tests.conformance.otlp.grpc_wire import Grpc
from tests.conformance.otlp.http_wire import Http
from tests.conformance.otlp.payloads import traces
from tests.conformance.otlp.table import report, results
from tests.conformance.otlp.target import Target
from tests.support.certificates import Authority
from tests.support.gateway_process import GatewayProcess, Upstream
from tests.support.keys_beside import BY, keys_beside

ORIGIN = "https://app.example"
NO_UPSTREAM = Upstream("http://127.0.0.1:9", "any")
SMALL_SPOOL = {"max_bytes": "1MiB", "reserve_bytes": "16MiB"}
DEFAULT_PORTS = ("127.0.0.1:4318", "127.0.0.1:4317")
ANY_PORT = "127.0.0.1:0"


Place = Literal["TCP", "TLS", "Unix socket"]
PLACES: tuple[Place, ...] = get_args(Place)


class Keys(NamedTuple):
    good: str
    weak: str


def made_keys(data_dir: Path) -> Keys:
    """Made before the gateway starts."""

    async def made() -> Keys:
        async with keys_beside(data_dir) as keys:
            secrets = [
                (await keys.create(scope, Fixed(frozenset({scope})), by=BY)).secret.reveal()
                for scope in (INGEST_SCOPE, EVENT_SCOPE)
            ]
        return Keys(*secrets)

    return asyncio.run(made())


class Busy(NamedTuple):
    """Addresses of a gateway that takes nothing for now."""

    http: Http
    grpc: Grpc


@contextmanager
def gateway_at(place: Place, folder: Path, busy: Busy, ports: Sequence[str] = (ANY_PORT, ANY_PORT)) -> Iterator[Target]:
    """A gateway with keys; *ports*: its addresses for HTTP and gRPC, but on a Unix socket."""
    http, grpc = ports if place != "Unix socket" else (f"unix:{folder / name}" for name in ("http", "grpc"))
    listen: dict[str, object] = {"http": http, "grpc": grpc, "admin": ANY_PORT, "service": ANY_PORT}
    config: dict[str, object] = {"listen": listen, "http": {"cors_origins": [ORIGIN]}}
    trusted = None
    if place == "TLS":
        authority = Authority(folder)
        files = authority.signed("server").files
        config["tls"] = {"http": files, "grpc": files}
        trusted = str(authority.pair.cert)
    gateway = GatewayProcess(folder, config=config)
    keys = made_keys(gateway.data_dir)
    with gateway:
        if place != "Unix socket":
            http, grpc = gateway.intake_url, gateway.grpc_target
        if place == "TLS":
            http, grpc = http.replace("http://", "https://"), f"https://{grpc}"
        yield Target(
            Http(http, keys.good, trusted),
            Grpc(grpc, keys.good, trusted),
            busy.http,
            busy.grpc,
            weak_key=keys.weak,
            origin=ORIGIN,
            pid=gateway.process.pid,
            status_url=gateway.admin_url + "/v2/status",
        )


@contextmanager
def forwarding_gateway(folder: Path) -> Iterator[Target]:
    """One that forwards to the kit by OTLP/HTTP, and sends nothing anywhere else."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        destination: tuple[str, int] = free.getsockname()
    listen = {"http": ANY_PORT, "grpc": "off", "admin": ANY_PORT, "service": ANY_PORT}
    url = "http://{}:{}".format(*destination)
    config = {"listen": listen, "exporters": {"kit": {"type": "otlp", "endpoint": url}}}
    with GatewayProcess(folder, config=config) as gateway:
        yield Target(sender=Http(gateway.intake_url), destination=destination)


@contextmanager
def full_gateway(folder: Path) -> Iterator[Busy]:
    """One whose spool is full, and whose upstream is not there."""
    listen = {"http": ANY_PORT, "grpc": ANY_PORT, "admin": ANY_PORT, "service": "off"}
    config = {"spool": SMALL_SPOOL, "listen": listen}
    with GatewayProcess(folder, upstream=NO_UPSTREAM, settle="1h", config=config) as gateway:
        http = Http(gateway.intake_url)
        asyncio.run(_filled(http))
        yield Busy(http, Grpc(gateway.grpc_target))


async def _filled(http: Http) -> None:
    """Until it has no room for a single call."""
    for calls in (500, 50, 1, 1):
        body = traces(*[None] * calls)
        while (await http.post("traces", body.SerializeToString())).status == 200:
            body = traces(*[None] * calls)
    http.statuses.clear()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.otlp.our_gateway")
    parser.add_argument("--at", choices=PLACES, default="TCP", help="what its addresses are")
    parser.add_argument("--save", metavar="FILE", type=Path, help="write the results there, as JSON")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name in ("one", "full", "forwarding"):
            (folder / name).mkdir()
        busy = stack.enter_context(full_gateway(folder / "full"))
        target = stack.enter_context(gateway_at(given.at, folder / "one", busy, DEFAULT_PORTS))
        forwarding = stack.enter_context(forwarding_gateway(folder / "forwarding"))
        target.sender, target.destination = forwarding.sender, forwarding.destination
        return report(asyncio.run(results(target)), given.save)


if __name__ == "__main__":
    sys.exit(main())
