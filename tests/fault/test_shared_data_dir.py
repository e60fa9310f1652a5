"""Two gateways and one data directory, after its lock file was deleted or replaced."""

import asyncio
import fcntl
import os
import secrets
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.bodies import Shape, Template
from benchmarks.scenario import running_sink
from tests.support.gateway_process import GatewayProcess, Upstream, broken_identities
from tests.support.kill_load import Load

TEMPLATE = Template(Shape(spans=20, attributes=15))
REQUESTS = 5


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    """One whose upstream refuses everything for now, with data in its spool."""
    with (
        running_sink(tmp_path / "sink.log", mode="refuse") as sink,
        GatewayProcess(tmp_path, upstream=Upstream(sink.url, secrets.token_hex(16))) as gateway,
    ):
        asyncio.run(send(gateway))
        yield gateway


async def send(gateway: GatewayProcess) -> None:
    load = Load(TEMPLATE, lambda: gateway.intake_url)
    for _ in range(REQUESTS):
        await load.send_one()


def second(gateway: GatewayProcess) -> subprocess.CompletedProcess[str]:
    """Another gateway on the same data directory; it ends by itself or the test fails."""
    return subprocess.run(
        gateway.command(), capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "TEST_UPSTREAM_KEY": "x" * 32},
    )  # fmt: skip


def test_a_second_gateway_is_kept_out_though_the_lock_file_was_deleted(gateway: GatewayProcess) -> None:
    (gateway.data_dir / "lock").unlink()
    ended = second(gateway)
    assert ended.returncode == 1
    assert "another gateway runs on this data directory" in ended.stderr
    assert gateway.is_running()
    assert broken_identities(gateway.status()) == []


def test_a_gateway_makes_its_deleted_lock_file_again_and_says_so(gateway: GatewayProcess) -> None:
    lock = gateway.data_dir / "lock"
    lock.unlink()
    gateway.process.wait_until(
        lambda: (lock.exists() and lock.read_text() == str(gateway.process.pid)) or None,
        what="the lock is there again",
    )  # fmt: skip
    assert "the lock file was removed or replaced" in gateway.log.read_text()
    assert f"(process {gateway.process.pid})" in second(gateway).stderr


@pytest.mark.parametrize("how", ["another holds the lock file", "the directory was replaced"])
def test_a_gateway_that_lost_its_directory_stops_and_loses_nothing(gateway: GatewayProcess, how: str) -> None:
    kept = gateway.status()["lanes"]["ai_telemetry"]["kept"]
    beside = gateway.data_dir.with_name("moved")
    (gateway.data_dir / "lock").unlink()
    with (gateway.data_dir / "lock").open("w+") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        if how == "the directory was replaced":
            gateway.data_dir.rename(beside)
            gateway.data_dir.mkdir(mode=0o700)
            (gateway.data_dir / "spool.db").write_bytes(b"of another gateway")
        assert gateway.process.wait(30) == 1
    assert "the lock was lost" in gateway.log.read_text()
    assert "Traceback" not in gateway.log.read_text()
    if beside.exists():
        (found,) = gateway.data_dir.iterdir()
        assert found.read_bytes() == b"of another gateway", "what took its place is left as it was"
        found.unlink()
        gateway.data_dir.rmdir()
        beside.rename(gateway.data_dir)
    gateway.restart()
    status = gateway.status()
    assert status["lanes"]["ai_telemetry"]["kept"] == status["lanes"]["ai_telemetry"]["pending"] == kept
    assert broken_identities(status) == []


def test_a_planted_link_is_refused_and_its_target_kept(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("kept as it is")
    gateway = GatewayProcess(tmp_path, upstream=Upstream("http://127.0.0.1:9", secrets.token_hex(16)))
    gateway.data_dir.mkdir(mode=0o700)
    (gateway.data_dir / "lock").symlink_to(target)
    ended = second(gateway)
    assert ended.returncode == 1
    assert f"rm {gateway.data_dir / 'lock'}" in ended.stderr
    assert target.read_text() == "kept as it is"


@pytest.mark.parametrize("link", [os.link, os.symlink], ids=["hard links", "symbolic links"])
@pytest.mark.parametrize("name", ["spool.db", "control.db"])
def test_a_second_gateway_is_kept_out_of_a_directory_of_links_to_the_data(
    gateway: GatewayProcess, tmp_path: Path, link: Callable[[Path, Path], None], name: str
) -> None:
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    for path in gateway.data_dir.glob(f"{name}*"):
        link(path, other / path.name)
    before = gateway.status()["edge"]
    ended = subprocess.run(
        [*gateway.command(), "--data-dir", str(other)],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "TEST_UPSTREAM_KEY": "x" * 32},
    )  # fmt: skip
    assert ended.returncode == 1
    assert f"process {gateway.process.pid} uses this file, by another name of it" in ended.stderr
    assert gateway.status()["edge"] == before
    assert broken_identities(gateway.status()) == []
