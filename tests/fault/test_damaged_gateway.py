"""The whole gateway on damaged files: C03 (it starts and states it), C19 (two on one directory),
keys that are damaged, verify and backup.
"""

import asyncio
import os
import secrets
import sqlite3
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.bodies import Shape, Template
from benchmarks.processes import Process
from benchmarks.scenario import fetch, running_sink
from tests.support.commands import Ended, run_telemetry_gateway
from tests.support.damage import PAGE_BYTES
from tests.support.gateway_process import GatewayProcess, Upstream, broken_identities
from tests.support.kill_load import Load

TEMPLATE = Template(Shape(spans=20, attributes=15))
REQUESTS = 30


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    """One whose upstream refuses everything for now, with data in its spool."""
    with (
        running_sink(tmp_path / "sink.log", mode="refuse") as sink,
        GatewayProcess(tmp_path, upstream=Upstream(sink.url, secrets.token_hex(16))) as gateway,
    ):
        asyncio.run(_send(gateway))
        yield gateway


async def _send(gateway: GatewayProcess) -> None:
    load = Load(TEMPLATE, lambda: gateway.intake_url)
    for _ in range(REQUESTS):
        await load.send_one()


def command(gateway: GatewayProcess, *words: str) -> Ended:
    """A command on the gateway's configuration."""
    config = gateway.data_dir.parent / "config.yaml"
    admin = gateway.admin_url.removeprefix("http://")
    environ = {"TEST_UPSTREAM_KEY": "x" * 32, "TELEMETRY_GATEWAY_LISTEN_ADMIN": admin}
    return run_telemetry_gateway(*words, "--config", str(config), environ=environ)


def zero_a_page_of_records(data_dir: Path) -> None:
    """A page of the tree of chunks, whatever it holds."""
    path = data_dir / "spool.db"
    with closing(sqlite3.connect(path)) as connection:
        (page,) = connection.execute("SELECT max(pageno) FROM dbstat WHERE name='chunk' AND pagetype='leaf'").fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE_BYTES)
        file.write(bytes(PAGE_BYTES))


def test_c03_a_gateway_on_a_damaged_spool_starts_and_says_what_is_gone(gateway: GatewayProcess) -> None:
    assert gateway.stop() == 0
    kept = command(gateway, "spool", "status", "--json").json["lanes"]["ai_telemetry"]["kept"]
    zero_a_page_of_records(gateway.data_dir)
    checked = command(gateway, "spool", "verify", "--json")
    assert checked.code == 1
    assert {finding["of"] for finding in checked.json["findings"]} == {"pages"}

    gateway.start()
    status = gateway.status()
    quarantine = status["quarantine"]
    assert broken_identities(status) == []
    assert status["lanes"]["ai_telemetry"]["kept"] == kept
    assert status["lanes"]["ai_telemetry"]["dead_lettered"] == quarantine["records"] > 0
    assert quarantine["bytes"] > 0
    assert (gateway.data_dir / "quarantine" / quarantine["latest"]["folder"] / "spool.db").exists()
    assert fetch(gateway.admin_url + "/readyz").startswith(b"ready, degraded: ")
    metrics = fetch(gateway.admin_url + "/metrics").decode()
    assert f"telemetry_gateway_quarantined_records {float(quarantine['records'])}" in metrics
    assert "damaged" in gateway.log.read_text()
    assert '"level": "error"' in gateway.log.read_text() or "error" in gateway.log.read_text().lower()
    assert b"the spool was damaged" in page(gateway)

    for kept_file in (gateway.data_dir / "quarantine").glob("*/*"):
        kept_file.unlink()
    assert fetch(gateway.admin_url + "/readyz") == b"ready\n"
    assert command(gateway, "spool", "verify").code == 0, "asked of the running gateway"


def page(gateway: GatewayProcess) -> bytes:
    token = (gateway.data_dir / "admin-token").read_text().strip()
    return fetch(gateway.admin_url + "/", headers={"Authorization": token})


def test_a_backup_of_a_running_gateway_is_a_spool_of_its_own(gateway: GatewayProcess, tmp_path: Path) -> None:
    kept = gateway.status()["lanes"]["ai_telemetry"]["kept"]
    done = command(gateway, "spool", "backup", str(tmp_path / "restored" / "spool.db"))
    assert done.code == 1, "the folder is not there, and is not made"
    (tmp_path / "restored").mkdir()
    done = command(gateway, "spool", "backup", str(tmp_path / "restored" / "spool.db"), "--json")
    assert done.code == 0, done.err
    assert (tmp_path / "restored" / "spool.db").stat().st_mode & 0o777 == 0o600
    assert done.json["bytes"] == (tmp_path / "restored" / "spool.db").stat().st_size
    again = command(gateway, "spool", "backup", str(tmp_path / "restored" / "spool.db"))
    assert again.code == 1
    assert "exists already" in again.err
    gateway.kill()
    (tmp_path / "restored").rename(gateway.data_dir.parent / "restored-data")
    for name in ("spool.db", "spool.db-wal", "spool.db-shm"):
        (gateway.data_dir / name).unlink(missing_ok=True)
    (gateway.data_dir.parent / "restored-data" / "spool.db").rename(gateway.data_dir / "spool.db")
    gateway.start()
    status = gateway.status()
    assert status["lanes"]["ai_telemetry"]["kept"] == kept
    assert broken_identities(status) == []


def test_verify_says_that_all_is_well(gateway: GatewayProcess) -> None:
    running = command(gateway, "spool", "verify", "--json")
    assert running.code == 0, running.out + running.err
    assert running.json["records"] == REQUESTS * 20
    gateway.kill()
    stopped = command(gateway, "spool", "verify", "--json")
    assert stopped.json == running.json, "the log is read too"


def test_verify_and_backup_need_the_admin_token(gateway: GatewayProcess) -> None:
    for path in ("/v2/spool/verify", "/v2/spool/backup"):
        request = urllib.request.Request(gateway.admin_url + path, method="POST")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(request, timeout=60)


def test_c19_a_second_gateway_ends_with_a_message_and_touches_nothing(gateway: GatewayProcess) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in gateway.data_dir.iterdir()}
    second = subprocess.run(
        gateway.command(), capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "TEST_UPSTREAM_KEY": "x" * 32},
    )  # fmt: skip
    assert second.returncode == 1
    assert "another gateway runs on this data directory" in second.stderr
    *_, last = second.stderr.splitlines()
    assert last.startswith(f"Error: data_dir {gateway.data_dir}: ")
    assert f"(process {gateway.process.pid}): stop it, or set another data_dir" in second.stderr
    assert gateway.process.returncode() is None
    still = {"control.db", "lock"}
    assert {name: before[name] for name in still} == {
        name: (gateway.data_dir / name).stat().st_mtime_ns for name in still
    }
    assert broken_identities(gateway.status()) == []


@pytest.mark.parametrize("what", ["gone", "emptied", "overwritten", "one page zeroed"])
def test_damaged_keys_do_not_open_the_intake(tmp_path: Path, what: str) -> None:
    gateway = GatewayProcess(tmp_path, upstream=Upstream("http://127.0.0.1:9", secrets.token_hex(16)))
    gateway.start()
    assert gateway.stop() == 0
    path = gateway.data_dir / "control.db"
    content = bytearray(path.read_bytes())
    match what:
        case "gone":
            path.unlink()
        case "emptied":
            path.write_bytes(b"")
        case "overwritten":
            path.write_bytes(b"not a database" * 500)
        case _:
            content[4096:8192] = bytes(4096)
            path.write_bytes(content)
    process = gateway.spawn()
    try:
        assert "control.db is" in ended(process)
        assert process.returncode() == 1
        assert "restore it from a backup" in process.log_tail()
    finally:
        process.kill()


@pytest.mark.parametrize("is_revoked", [False, True])
def test_keys_that_lost_their_write_ahead_log_do_not_open_the_intake(tmp_path: Path, *, is_revoked: bool) -> None:
    gateway = GatewayProcess(tmp_path, upstream=Upstream("http://127.0.0.1:9", secrets.token_hex(16)))
    with gateway:
        assert command(gateway, "keys", "create", "--name", "sender", "--managed", "send-ai-telemetry").code == 0
        if is_revoked:
            assert command(gateway, "keys", "delete", "sender", "--confirm", "sender").code == 0
        gateway.kill()
        (gateway.data_dir / "control.db-wal").unlink()
        gateway.start()
        with pytest.raises(urllib.error.HTTPError) as refused:
            fetch(gateway.intake_url + "/v1/events", method="POST", headers={"Content-Type": "application/json"})
        with refused.value:
            assert refused.value.code == 401


def ended(process: Process) -> str:
    """What it said until it ended by itself."""
    process.wait(60)
    return process.log_tail()
