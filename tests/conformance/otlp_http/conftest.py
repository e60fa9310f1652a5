"""The suite speaks to `base_url` only, so that it holds for any OTLP/HTTP receiver that a
parameter of the fixture starts.
"""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from gateway.config.values import TcpAddress
from gateway.serve.admission import Admission
from gateway.serve.authenticator import OpenIntakeAuthenticator
from gateway.serve.body import BodyLimits
from gateway.serve.cors import Cors
from gateway.serve.http.server import make_server
from gateway.serve.http.telemetry import telemetry_routes
from gateway.serve.listen import listen, runner_for
from gateway.serve.otlp import otlp_routes
from gateway.serve.receiver import Receiver
from gateway.serve.routes import RouteTable
from tests.conformance.otlp_http.recording import RecordingIntake

ALLOWED_ORIGIN = "https://app.example"


@pytest.fixture
async def base_url() -> AsyncIterator[str]:
    """A receiver on loopback with open intake, default limits, and ALLOWED_ORIGIN allowed."""
    intake = RecordingIntake()
    admission = Admission(OpenIntakeAuthenticator(check_host=True))
    routes = RouteTable([*otlp_routes(intake), *telemetry_routes(intake)])
    receiver = Receiver(routes, admission, BodyLimits(), Cors({ALLOWED_ORIGIN}))
    listener = await listen(runner_for(make_server(receiver)), TcpAddress("127.0.0.1", 0), receiver)
    assert listener is not None
    yield f"http://{listener.address}"
    await listener.close()


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(auto_decompress=False, connector=aiohttp.TCPConnector(limit=0)) as session:
        yield session
