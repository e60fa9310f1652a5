"""A spool.db that is emptied, deleted, replaced, or an old copy, under a real gateway: what is gone
is reported until an operator acknowledges it, and not laid upon the upstream.
"""

import asyncio
import re
import secrets
import shutil
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.bodies import Shape, Template
from benchmarks.scenario import fetch, running_sink
from tests.fault.test_damaged_gateway import command, page
from tests.support.gateway_process import GatewayProcess, Upstream, broken_identities
from tests.support.kill_load import Load

SPANS = 20
REQUESTS = 10
RECORDS = SPANS * REQUESTS
SUMMARIES = ("spool.summary", "state.summary")


class Sender:
    """Sends new calls to one gateway."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self._load = Load(Template(Shape(spans=SPANS, attributes=15)), lambda: gateway.intake_url)

    def send(self, requests: int = REQUESTS) -> None:
        asyncio.run(self._send(requests))

    async def _send(self, requests: int) -> None:
        for _ in range(requests):
            await self._load.send_one()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    """One whose upstream refuses the key for now: nothing is delivered or refused."""
    with (
        running_sink(tmp_path / "sink.log", mode="refuse") as sink,
        GatewayProcess(tmp_path, upstream=Upstream(sink.url, secrets.token_hex(16))) as gateway,
    ):
        yield gateway


@pytest.fixture
def sender(gateway: GatewayProcess) -> Sender:
    return Sender(gateway)


def delete_spool(data_dir: Path, *others: str) -> None:
    for name in ("spool.db", "spool.db-wal", "spool.db-shm", *others):
        (data_dir / name).unlink(missing_ok=True)


def readyz(gateway: GatewayProcess) -> str:
    """As soon as it takes data: after a salvage the ledger is rebuilt first."""

    def ready() -> str | None:
        try:
            return fetch(gateway.admin_url + "/readyz").decode()
        except urllib.error.HTTPError as error:
            error.close()
            return None

    return gateway.process.wait_until(ready, what="ready")


def metrics(gateway: GatewayProcess) -> dict[str, float]:
    lines = fetch(gateway.admin_url + "/metrics").decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines) if "#" not in name}


def quarantine(gateway: GatewayProcess) -> dict[str, Any]:
    found: dict[str, Any] = gateway.status()["quarantine"]  # type: ignore[typeddict-item]  # of a running gateway
    return found


def assert_reported(gateway: GatewayProcess, *words: str, records: int | None = RECORDS) -> None:
    """`/readyz`, the page, metrics and the log state the loss, and do not blame the upstream."""
    told = readyz(gateway)
    assert told.startswith("ready, degraded: ")
    shown = page(gateway).decode()
    for word in (*words, "not refused by the upstream", "spool acknowledge"):
        assert word in told
        assert word in shown
    assert not re.search("(was|were) refused by the upstream", shown)
    log = gateway.log.read_text()
    assert all(word in log for word in words)
    figures = metrics(gateway)
    assert figures["telemetry_gateway_spool_unacknowledged_losses"] == 1
    if records is not None:
        assert f"{records} records" in told
        assert figures['telemetry_gateway_spool_lost_records{lane="ai_telemetry"}'] == records
        assert gateway.status()["lanes"]["ai_telemetry"]["dead_lettered"] == records
    assert broken_identities(gateway.status()) == []


def assert_acknowledged_by_an_operator_only(gateway: GatewayProcess) -> None:
    assert gateway.stop() == 0
    gateway.start()
    assert readyz(gateway).startswith("ready, degraded: "), "a restart forgets nothing"
    done = command(gateway, "spool", "acknowledge", "--json")
    assert done.code == 0, done.err
    assert done.json["acknowledged"] == 1
    assert readyz(gateway) == "ready\n"
    assert metrics(gateway)["telemetry_gateway_spool_unacknowledged_losses"] == 0
    gateway.kill()
    gateway.start()
    assert readyz(gateway) == "ready\n"


def test_a_new_data_directory_has_lost_nothing(gateway: GatewayProcess) -> None:
    assert gateway.stop() == 0
    shutil.rmtree(gateway.data_dir)
    assert command(gateway, "keys", "create", "--name", "first", "--managed", "send-ai-telemetry").code == 0
    gateway.start()
    assert readyz(gateway) == "ready\n"
    assert quarantine(gateway)["salvages"] == 0


@pytest.mark.parametrize("kept", ["both", *SUMMARIES])
def test_a_spool_that_was_deleted_while_stopped_is_reported(gateway: GatewayProcess, sender: Sender, kept: str) -> None:
    sender.send()
    assert gateway.stop() == 0
    delete_spool(gateway.data_dir, *(name for name in SUMMARIES if kept not in {"both", name}))
    gateway.start()
    assert_reported(gateway, "spool.db is missing", f"ai_telemetry {RECORDS}")
    latest = quarantine(gateway)["latest"]
    assert latest["lanes"] == {"ai_telemetry": RECORDS}
    assert 0 < latest["since_ms"] <= latest["at_ms"]
    assert_acknowledged_by_an_operator_only(gateway)


def test_a_spool_that_was_deleted_after_a_kill_states_what_was_known_last(
    gateway: GatewayProcess, sender: Sender
) -> None:
    sender.send()
    assert gateway.stop() == 0
    gateway.start()
    gateway.kill()
    delete_spool(gateway.data_dir)
    gateway.start()
    assert_reported(gateway, "spool.db is missing", f"ai_telemetry {RECORDS}", records=None)
    assert quarantine(gateway)["latest"]["records"] is None
    assert_acknowledged_by_an_operator_only(gateway)


def test_a_spool_that_was_lost_with_both_summaries_is_a_finding(gateway: GatewayProcess, sender: Sender) -> None:
    sender.send()
    assert gateway.stop() == 0
    delete_spool(gateway.data_dir, *SUMMARIES)
    gateway.start()
    assert_reported(gateway, "unknown number of records", "summaries", records=None)
    assert quarantine(gateway)["records"] is None
    assert_acknowledged_by_an_operator_only(gateway)


def test_both_summaries_gone_from_a_whole_spool_are_a_finding(gateway: GatewayProcess, sender: Sender) -> None:
    sender.send()
    gateway.kill()
    gateway.start()
    assert gateway.stop() == 0
    for name in SUMMARIES:
        (gateway.data_dir / name).unlink()
    gateway.start()
    assert_reported(gateway, "whether spool.db is an old copy is unknown", records=None)
    assert gateway.status()["lanes"]["ai_telemetry"]["pending"] == RECORDS
    assert_acknowledged_by_an_operator_only(gateway)


def test_a_data_directory_that_is_replaced_is_not_written_to(gateway: GatewayProcess, sender: Sender) -> None:
    sender.send()
    moved = gateway.data_dir.with_name("moved")
    gateway.data_dir.rename(moved)
    gateway.data_dir.mkdir(mode=0o700)
    (gateway.data_dir / "spool.db").write_bytes(b"another gateway's")
    gateway.process.wait()
    assert (gateway.data_dir / "spool.db").read_bytes() == b"another gateway's"
    shutil.rmtree(gateway.data_dir)
    moved.rename(gateway.data_dir)
    gateway.start()
    assert gateway.status()["lanes"]["ai_telemetry"]["pending"] == RECORDS


def test_an_old_copy_that_was_put_back_is_reported(gateway: GatewayProcess, sender: Sender) -> None:
    sender.send()
    assert gateway.stop() == 0
    shutil.copy(gateway.data_dir / "spool.db", gateway.data_dir.parent / "old.db")
    gateway.start()
    sender.send()
    assert gateway.stop() == 0
    delete_spool(gateway.data_dir)
    shutil.copy(gateway.data_dir.parent / "old.db", gateway.data_dir / "spool.db")
    gateway.start()
    assert_reported(gateway, "older than spool.summary", f"ai_telemetry {2 * RECORDS}", records=None)
    assert_acknowledged_by_an_operator_only(gateway)


@pytest.mark.parametrize("log", ["kept", "emptied"])
def test_a_spool_that_is_emptied_while_it_runs_is_reported(gateway: GatewayProcess, sender: Sender, log: str) -> None:
    sender.send()
    assert gateway.stop() == 0  # all of it is in spool.db itself
    gateway.start()
    (gateway.data_dir / "spool.db").write_bytes(b"")
    if log == "emptied":
        (gateway.data_dir / "spool.db-wal").write_bytes(b"")
    gateway.process.wait_until(lambda: quarantine(gateway)["salvages"] or None, what="salvaged")
    assert_reported(gateway, "emptied", f"ai_telemetry {RECORDS}")
    sender.send()
    pending = gateway.status()["lanes"]["ai_telemetry"]["pending"]
    assert pending == RECORDS, "what comes now is taken"
    assert_acknowledged_by_an_operator_only(gateway)
    assert gateway.status()["lanes"]["ai_telemetry"]["pending"] == RECORDS


@pytest.mark.parametrize("how", ["deleted", "replaced by an old copy", "emptied, and all in the log"])
def test_a_spool_that_is_taken_away_while_it_runs_is_put_back(
    gateway: GatewayProcess, sender: Sender, how: str
) -> None:
    path = gateway.data_dir / "spool.db"
    old = gateway.data_dir.parent / "old.db"
    assert command(gateway, "spool", "backup", str(old)).code == 0
    sender.send()
    if how != "emptied, and all in the log":
        assert gateway.stop() == 0  # now spool.db holds it
        gateway.start()
    match how:
        case "deleted":
            path.unlink()
        case "replaced by an old copy":
            old.replace(path)
        case _:
            path.write_bytes(b"")
    sender.send()
    assert gateway.status()["lanes"]["ai_telemetry"]["kept"] == 2 * RECORDS
    assert gateway.stop() == 0
    gateway.start()
    status = gateway.status()
    assert status["lanes"]["ai_telemetry"]["pending"] == 2 * RECORDS
    assert "while the gateway ran" in gateway.log.read_text()
    assert broken_identities(status) == []
    if how == "replaced by an old copy":
        assert readyz(gateway) == "ready, degraded: there are damaged files in quarantine/ in the data directory\n"
    else:
        assert readyz(gateway) == "ready\n"
        assert command(gateway, "spool", "verify").code == 0
