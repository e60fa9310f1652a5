"""Gateways for the kit: `python -m tests.conformance.otlp.our_gateway --save FILE` runs it against
a fresh one at the default ports.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from gateway.contract.scopes import EVENT_SCOPE, INGEST_SCOPE, Fixed
from tests.conformance.otlp.grpc_wire import Grpc
from tests.conformance.otlp.http_wire import Http
from tests.conformance.otlp.payloads import traces
from tests.conformance.otlp.table import report, results
from tests.conformance.otlp.target import Target
from tests.support.gateway_process import GatewayProcess, Upstream
from tests.support.keys_beside import BY, keys_beside

ORIGIN = "https://app.example"
NO_UPSTREAM = Upstream("http://127.0.0.1:9", "any")
SMALL_SPOOL = {"max_bytes": "1MiB", "reserve_bytes": "16MiB"}
DEFAULT_PORTS = ("127.0.0.1:4318", "127.0.0.1:4317")
ANY_PORT = "127.0.0.1:0"


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
def gateway_at(http: str, grpc: str, folder: Path, busy: Busy) -> Iterator[Target]:
    """A gateway with keys that listens there: `unix:/path`, or `host:port`."""
    listen: dict[str, object] = {"http": http, "grpc": grpc, "admin": ANY_PORT, "service": ANY_PORT}
    gateway = GatewayProcess(folder, config={"listen": listen, "http": {"cors_origins": [ORIGIN]}})
    keys = made_keys(gateway.data_dir)
    with gateway:
        yield Target(
            Http(http if http.startswith("unix:") else gateway.intake_url, keys.good),
            Grpc(grpc if grpc.startswith("unix:") else gateway.grpc_target, keys.good),
            busy.http,
            busy.grpc,
            weak_key=keys.weak,
            origin=ORIGIN,
            pid=gateway.process.pid,
            status_url=gateway.admin_url + "/v2/status",
        )


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
    parser.add_argument("--save", metavar="FILE", type=Path, help="write the results there, as JSON")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name in ("one", "full"):
            (folder / name).mkdir()
        busy = stack.enter_context(full_gateway(folder / "full"))
        target = stack.enter_context(gateway_at(*DEFAULT_PORTS, folder / "one", busy))
        return report(asyncio.run(results(target)), given.save)


if __name__ == "__main__":
    sys.exit(main())
