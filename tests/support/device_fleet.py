"""A gateway of many devices, what the service knows of them, and a service that forgets."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path

from tests.support.device_senders import Enrolled, enrolled_at, heartbeat, post_all
from tests.support.gateway_process import GatewayProcess
from tests.support.service_process import ServiceProcess
from tests.support.tcp_proxy import TcpProxy


def gateway_to(folder: Path, service: ServiceProcess, port: int, **devices: object) -> GatewayProcess:
    return GatewayProcess(folder, config={"upstream": service.upstream(port), "devices": devices})


def devices(service: ServiceProcess) -> list[Enrolled]:
    return [each for each in enrolled_at(service.data_dir / "service") if each.device_id.startswith("dev-")]


@asynccontextmanager
async def enrolled_fleet(folder: Path, names: Sequence[str]) -> AsyncIterator[tuple[GatewayProcess, ServiceProcess]]:
    """A gateway and a service that run, with devices that are enrolled and heard of."""
    service = ServiceProcess(folder, is_brisk=True)
    service.start()
    async with TcpProxy(lambda: service.port) as proxy:
        gateway = gateway_to(folder, service, proxy.port, enroll_per_s=100, heartbeat_interval="15s")
        try:
            await asyncio.to_thread(gateway.start)
            await speak(gateway, names, 1)
            await until(lambda: len(devices(service)) == len(names), 60, "enrolled")
            await until(lambda: all(x.heartbeats for x in devices(service)), 60, "heard of")
            yield gateway, service
        finally:
            gateway.kill()
            service.kill()


async def speak(gateway: GatewayProcess, names: Sequence[str], sequence: int) -> None:
    answered = await post_all(lambda: gateway.intake_url, [heartbeat(name, sequence) for name in names])
    assert set(answered.statuses) == {202}


async def until(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    """As `until_true`; what is asked of another process is not asked a hundred times a second."""
    ends_s = time.monotonic() + timeout_s
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < ends_s, f"not {what} after {timeout_s} s"
        await asyncio.sleep(0.3)


def forget(service: ServiceProcess, which: str) -> None:
    """As if the service lost these devices: its file is changed while it is stopped."""
    service.kill()
    with closing(sqlite3.connect(service.data_dir / "service" / "service.db")) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"DELETE FROM devices WHERE {which}")
        connection.commit()
    service.start()
