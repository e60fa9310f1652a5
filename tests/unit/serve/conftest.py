"""A receiver on a real socket, with whatever parts a test gives it."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from gateway.config.values import Address, TcpAddress
from gateway.serve.admission import Admission
from gateway.serve.authenticator import Authenticator, OpenIntakeAuthenticator
from gateway.serve.body import BodyLimits
from gateway.serve.cors import Cors
from gateway.serve.http.server import make_server
from gateway.serve.http.telemetry import telemetry_routes
from gateway.serve.listen import Listener, listen, runner_for
from gateway.serve.otlp import otlp_routes
from gateway.serve.quotas import Quotas
from gateway.serve.receiver import Receiver
from gateway.serve.recent_senders import RecentSenders
from gateway.serve.routes import Route, RouteTable
from tests.conformance.otlp_http.recording import RecordingIntake

ANY_PORT = TcpAddress("127.0.0.1", 0)


class Served:
    def __init__(self, intake: RecordingIntake, receiver: Receiver, listener: Listener) -> None:
        self.intake = intake
        self.receiver = receiver
        self.listener = listener
        self.url = f"http://{listener.address}"


Serve = Callable[..., Awaitable[Served]]
FurtherRoutes = Callable[[RecordingIntake], list[Route]]
"""Routes beside those of OTLP, events and heartbeats."""


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start a receiver; by default with open intake, default limits and no allowed origin."""
    started: list[Served] = []

    async def start(
        *,
        gate: Authenticator | None = None,
        limits: BodyLimits | None = None,
        base_path: str = "",
        address: Address = ANY_PORT,
        intake: RecordingIntake | None = None,
        cors: Cors | None = None,
        further: FurtherRoutes = lambda *_: [],
        quotas: Quotas | None = None,
        recent: RecentSenders | None = None,
    ) -> Served:
        intake = intake or RecordingIntake()
        admission = Admission(gate or OpenIntakeAuthenticator(check_host=True), quotas)
        limits, cors = limits or BodyLimits(), cors or Cors()
        own = [*otlp_routes(intake), *telemetry_routes(intake), *further(intake)]
        receiver = Receiver(RouteTable(own, base_path), admission, limits, cors, recent=recent)
        listener = await listen(runner_for(make_server(receiver)), address, receiver)
        assert listener is not None
        started.append(Served(intake, receiver, listener))
        return started[-1]

    yield start
    for served in started:
        await served.listener.close()
