"""A device's gateway (the edge) that sends to another gateway (the hub), each a process of its own,
with networks between that a test can cut.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gateway.common.contract.scopes import Fixed
from spool.record import DEVICES
from tests.support.gateway_process import GatewayProcess, Status
from tests.support.keys_beside import BY, keys_beside
from tests.support.polling import HANGS_S
from tests.support.service_process import UNIT_COST_SCOPES, ServiceProcess
from tests.support.tcp_proxy import TcpProxy

EDGE_SCOPES = (
    "ai-telemetry-ingest:ingest-ai-telemetry",
    "ai-control-plane:enroll-device",
    "ai-control-plane:heartbeat-device",
    "ai-control-plane:ping-device",
    "events_v1:create_event",
    "unit-cost_v1:manage_telemetry_records",
    "insights:read_insights",
)
EDGE_KEY = "edge laptop"


class GatewayPair:
    """Made by `gateway_pair`; nothing runs until it is started."""

    def __init__(
        self, folder: Path, service: ServiceProcess, hub: GatewayProcess, *, near: TcpProxy, far: TcpProxy
    ) -> None:
        self.folder = folder
        self.service = service
        self.hub = hub
        self.near = near
        """Between edge and hub."""
        self.far = far
        """Between hub and service."""

    def edge(self, name: str = "edge", **config: Any) -> GatewayProcess:
        """A gateway in the profile of devices that sends to the hub,
        in a data directory of that name.
        """
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        key = {"name": "hub", "secret": f"${{file:{self.folder / 'edge.key'}}}", "scopes": EDGE_SCOPES}
        upstream = {"base_url": f"http://127.0.0.1:{self.near.port}", "keys": [key]}
        return GatewayProcess(folder, settle="300ms", config={"profile": "device", "upstream": upstream, **config})

    async def make_key(self) -> None:
        """The key that edges show to the hub, which may not run yet."""
        async with keys_beside(self.hub.data_dir) as keys:
            made = await keys.create(EDGE_KEY, Fixed(frozenset(EDGE_SCOPES)), by=BY)
        (self.folder / "edge.key").write_text(made.secret.reveal())


def port_of(gateway: GatewayProcess) -> int | None:
    """Of its senders' listener; None while it does not run."""
    return int(gateway.intake_url.rpartition(":")[2]) if gateway.is_running() else None


@asynccontextmanager
async def gateway_pair(folder: Path, **hub_config: Any) -> AsyncIterator[GatewayPair]:
    """A service that runs, a hub that does not, with a key for edges, and the network between edges
    and hub; *hub_config* as of `GatewayProcess`.
    """
    service = ServiceProcess(folder)
    await asyncio.to_thread(service.start)
    (folder / "hub").mkdir()
    async with TcpProxy(lambda: service.port) as far:
        upstream = service.upstream(far.port, UNIT_COST_SCOPES)
        hub = GatewayProcess(folder / "hub", settle="300ms", config={"upstream": upstream, **hub_config})
        hub.data_dir.mkdir(mode=0o700)
        async with TcpProxy(lambda: port_of(hub)) as near:
            pair = GatewayPair(folder, service, hub, near=near, far=far)
            await pair.make_key()
            try:
                yield pair
            finally:
                if hub.was_started:
                    hub.kill()
                service.kill()


async def until_empty(gateway: GatewayProcess, *, timeout_s: float = HANGS_S) -> Status:
    """The status once nothing is pending in any lane but that of devices, whose heartbeats wait for
    their slots. Raises TimeoutError.
    """
    async with asyncio.timeout(timeout_s):
        while True:
            status = await asyncio.to_thread(gateway.status)
            if not any(lane["pending"] for name, lane in status["lanes"].items() if name != DEVICES):
                return status
            await asyncio.sleep(0.1)
