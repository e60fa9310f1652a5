"""A disk that fails under a running gateway, or before it starts: syncs that fail with EIO, and a
file system that was remounted read-only. What is acknowledged arrives once; nothing else is.
"""

import os
import secrets
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from benchmarks.bodies import Shape, Template
from benchmarks.scenario import Sink, fetch, running_sink
from tests.support.gateway_process import GatewayProcess, Upstream, broken_identities
from tests.support.polling import HANGS_S, wait_until_true
from tests.support.power import built_shim

SHAPE = Shape(spans=5, attributes=15)
TEMPLATE = Template(SHAPE)
FAULTS = {"syncs": "DISK_SHIM_FAIL", "read-only": "DISK_SHIM_READ_ONLY"}

pytestmark = pytest.mark.slow


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Sink]:
    with running_sink(tmp_path / "sink.log") as running:
        yield running


def failing_disk(folder: Path, variable: str) -> Mapping[str, str]:
    """The environment in which the disk fails while the file `failing` in *folder* is there."""
    return {
        "LD_PRELOAD": str(built_shim(folder)),
        "DISK_SHIM_LOG": str(folder / "disk.log"),
        "DISK_SHIM_DIR": str(folder / "data"),
        variable: str(folder / "failing"),
    }


def posted(gateway: GatewayProcess, number: int) -> int:
    """The status of request *number*."""
    url, body = gateway.intake_url + "/v1/traces", TEMPLATE.body(number)
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, body, dict(TEMPLATE.headers())), timeout=HANGS_S
        ) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def arrived(sink: Sink) -> set[int]:
    """Numbers of the requests of which all spans came."""
    seen = int.from_bytes(sink.seen(), "little")
    whole = (1 << SHAPE.spans) - 1
    return {number for number in range(100) if seen >> number * SHAPE.spans & whole == whole}


@pytest.mark.parametrize("variable", FAULTS.values(), ids=FAULTS)
def test_a_disk_that_fails_under_a_running_gateway_acknowledges_nothing_until_it_is_well(
    tmp_path: Path, sink: Sink, variable: str
) -> None:
    environ, failing = failing_disk(tmp_path, variable), tmp_path / "failing"
    gateway = GatewayProcess(tmp_path, upstream=Upstream(sink.url, secrets.token_hex(16)), environ=environ)
    with gateway:
        acknowledged = [number for number in range(10) if posted(gateway, number) == 200]
        assert len(acknowledged) == 10
        failing.touch()
        assert {posted(gateway, number) for number in range(10, 20)} == {503}
        assert fetch(f"{gateway.admin_url}/healthz")
        failing.unlink()
        wait_until_true(lambda: posted(gateway, 20) == 200, what="the gateway takes data again")
        assert gateway.stop() == 0
        gateway.restart()
        acknowledged += [number for number in range(21, 30) if posted(gateway, number) == 200]
        assert len(acknowledged) == 19
        wait_until_true(lambda: arrived(sink) >= {*acknowledged, 20}, what="all that was acknowledged arrived")
        gateway.wait_until_delivered()
        assert broken_identities(gateway.status()) == []
        assert sink.counts().double_counted == 0
        assert "Traceback" not in gateway.log.read_text()


@pytest.mark.parametrize("variable", FAULTS.values(), ids=FAULTS)
def test_a_start_on_a_disk_that_fails_ends_with_what_to_do_and_damages_nothing(
    tmp_path: Path, sink: Sink, variable: str
) -> None:
    gateway = GatewayProcess(tmp_path, upstream=Upstream("http://127.0.0.1:9", secrets.token_hex(16)))
    with gateway:
        assert [posted(gateway, number) for number in range(10)] == [200] * 10
        gateway.kill()
        (tmp_path / "failing").touch()
        ended = subprocess.run(
            gateway.command(), capture_output=True, text=True, timeout=HANGS_S, check=False,
            env={**os.environ, "TEST_UPSTREAM_KEY": "x" * 32, **failing_disk(tmp_path, variable)},
        )  # fmt: skip
        assert ended.returncode == 1, ended.stderr
        assert "Traceback" not in ended.stderr
        assert "disk" in ended.stderr or "read-only" in ended.stderr, ended.stderr
    well = GatewayProcess(tmp_path, upstream=Upstream(sink.url, secrets.token_hex(16)))
    with well:
        wait_until_true(lambda: arrived(sink) == set(range(10)), what="all that was acknowledged arrived")
        assert sink.counts().double_counted == 0
