"""Connections without a key, in a short form: `python -m tests.fault.unauthenticated` sends every
shape to every port for ten seconds.
"""

from collections.abc import Iterator

import pytest

from tests.fault.unauthenticated import running, tried
from tests.support.gateway_process import GatewayProcess

SECONDS = 1.5
SHAPES = [
    ("grpc", "header blocks of references"),
    ("grpc", "a preface and silence"),
    ("grpc", "calls without a key, answers unread"),
    ("http", "heads that never end"),
    ("http", "requests in a pipeline, answers unread"),
    ("http", "bodies of 64 MiB under a wrong key"),
    ("admin", "heads of many fields"),
    ("service", "heads of many fields"),
]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GatewayProcess, str]]:
    with running(tmp_path_factory.mktemp("strangers")) as started:
        yield started


@pytest.mark.parametrize(("port", "shape"), SHAPES)
def test_what_shows_no_key_costs_a_bounded_amount_and_others_are_served(
    gateway: tuple[GatewayProcess, str], port: str, shape: str
) -> None:
    row = tried(*gateway, port, shape, seconds=SECONDS, rest_s=10.0)
    assert row.strangers.get("opened"), "they came"
    assert row.faults() == [], row
