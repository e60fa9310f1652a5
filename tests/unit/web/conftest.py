"""A receiver on a real socket, with whatever parts a test gives it."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from gateway.config_values import Address, TcpAddress
from gateway.keys.database import Database
from gateway.keys.store import KeyStore
from gateway.web.admission import Admission
from gateway.web.body import Limits
from gateway.web.cors import Cors
from gateway.web.gate import Gate, OpenGate
from gateway.web.listen import Listener, listen, runner_for
from gateway.web.otlp import otlp_routes
from gateway.web.quotas import Quotas
from gateway.web.receiver import Receiver
from gateway.web.recent import RecentSenders
from gateway.web.routes import Route, RouteTable
from gateway.web.telemetry import telemetry_routes
from tests.conformance.otlp_http.recording import RecordingIntake

ANY_PORT = TcpAddress("127.0.0.1", 0)


class Served:
    def __init__(self, intake: RecordingIntake, receiver: Receiver, listener: Listener) -> None:
        self.intake = intake
        self.receiver = receiver
        self.listener = listener
        self.url = f"http://{listener.address}"


Serve = Callable[..., Awaitable[Served]]
FurtherRoutes = Callable[[RecordingIntake, Admission, Limits, Cors], list[Route]]
"""Routes beside those of OTLP, events and heartbeats."""


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start a receiver; by default with open intake, default limits and no allowed origin."""
    started: list[Served] = []

    async def start(
        *,
        gate: Gate | None = None,
        limits: Limits | None = None,
        base_path: str = "",
        address: Address = ANY_PORT,
        intake: RecordingIntake | None = None,
        cors: Cors | None = None,
        further: FurtherRoutes = lambda *_: [],
        quotas: Quotas | None = None,
        recent: RecentSenders | None = None,
    ) -> Served:
        intake, admission = intake or RecordingIntake(), Admission(gate or OpenGate(check_host=True), quotas, recent)
        limits, cors = limits or Limits(), cors or Cors()
        own = [*otlp_routes(intake), *telemetry_routes(intake), *further(intake, admission, limits, cors)]
        receiver = Receiver(RouteTable(own, base_path), admission, limits, cors)
        listener = await listen(runner_for(receiver.make_server()), address)
        assert listener is not None
        started.append(Served(intake, receiver, listener))
        return started[-1]

    yield start
    for served in started:
        await served.listener.close()


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
def socket_path(tmp_path: Path) -> Path:
    """Short enough for a unix socket."""
    return tmp_path / "s"


@pytest.fixture
async def keys(tmp_path: Path) -> AsyncIterator[KeyStore]:
    database = await Database.open(tmp_path / "control.db")
    store = await KeyStore.open(
        database, prefix="tgk", pepper=bytes(32), now_ms=lambda: 1_767_607_200_000, random_bytes=os.urandom
    )
    yield store
    await store.close()
    await database.close()
