"""A gateway moves into a cell and out of it: what waited is sent once, and counts stay equal."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from benchmarks.processes import ProcessFailed
from gateway.app.cell.secrets import FILES
from tests.support.cell_processes import ask, owns
from tests.support.commands import Ended, run_command, run_telemetry_gateway
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.metrics import LABELS, Export
from tests.support.polling import wait_until_true
from tests.support.postgres import needs_postgres, shared_server
from tests.support.service_process import UNIT_COST_SCOPES, ServiceProcess
from tests.support.spans import call_span

pytestmark = needs_postgres

CELL = "moved"
SCOPES = (
    "ai-telemetry-ingest:ingest-ai-telemetry",
    "events_v1:create_event",
    "ai-control-plane:enroll-device",
    "ai-control-plane:heartbeat-device",
    "unit-cost_v1:manage_telemetry_records",
)
EVENT = {"type": "report.generated", "title": "Report", "source": "shop", "time": "2026-01-05T12:00:00Z"}
BATCHES = "SELECT batch_id, lane, n, sent_at, attempts FROM batch ORDER BY batch_id"


class Rig:
    """One service, and the gateways that send to it one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.service = ServiceProcess(folder)
        self.service.start()
        assert self.service.port is not None
        self.upstream = self.service.upstream(self.service.port, UNIT_COST_SCOPES)
        self.store = {
            "type": "postgres",
            "dsn": shared_server().dsn(),
            "cell": CELL,
            "durability": "storage",
            "lease": "1s",
        }
        self.made: list[GatewayProcess] = []
        self.key = ""

    def gateway(self, name: str, **config: Any) -> GatewayProcess:
        (self.folder / name).mkdir()
        self.made.append(GatewayProcess(self.folder / name, config={"upstream": self.upstream, **config}))
        return self.made[-1]

    def member(self, name: str, secrets_of: Path) -> GatewayProcess:
        """A gateway of the cell, with the secrets of a data directory."""
        gateway = self.gateway(name, store=self.store)
        gateway.data_dir.mkdir(mode=0o700)
        for file in FILES:
            if (secrets_of / file).exists():
                (gateway.data_dir / file).write_bytes((secrets_of / file).read_bytes())
        return gateway

    def migrate(self, member: GatewayProcess, *arguments: str) -> Ended:
        config = str(member.data_dir.parent / "config.yaml")
        return run_telemetry_gateway("store", "migrate", "--config", config, *arguments)

    def post(self, gateway: GatewayProcess, path: str, content: bytes | dict[str, Any], **headers: str) -> None:
        told = self.answer(gateway, path, content, Authorization=self.key, **headers)
        assert told.status_code in {200, 202}, told.text

    def answer(
        self, gateway: GatewayProcess, path: str, content: bytes | dict[str, Any], **headers: str
    ) -> httpx.Response:
        is_json = isinstance(content, dict)
        body = json.dumps(content).encode() if isinstance(content, dict) else content
        kind = "application/json" if is_json else "application/x-protobuf"
        return httpx.post(gateway.intake_url + path, content=body, headers={"Content-Type": kind, **headers})

    def call(self, gateway: GatewayProcess, name: str) -> None:
        self.post(gateway, "/v1/traces", call_span(name, (100, 20)))

    def send_all_kinds(self, gateway: GatewayProcess, number: int) -> None:
        self.post(gateway, "/v1/events", {**EVENT, "event_id": f"e{number}"})
        beat = {"instance_id": "i-1", "sequence": number, "status": "active"}
        self.post(gateway, f"/v1/devices/laptop-{number}/heartbeat", beat)
        records = [{"timestamp": "2026-01-05", "granularity": "MONTHLY", "value": str(number)}]
        headers = {"Idempotency-Key": f"sum-{number}"}
        self.post(gateway, "/v1/unit-cost/metric/answers/sum", {"records": records}, **headers)

    def span_ids(self) -> list[str]:
        return [record["trace"]["span_id"] for record in self.service.records() if record.get("trace")]


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    try:
        yield rig
    finally:
        for gateway in rig.made:
            if gateway.was_started:
                gateway.kill()
        rig.service.kill()
        with psycopg.connect(shared_server().dsn(), autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS cell_{CELL} CASCADE")


def lanes(gateway: GatewayProcess) -> dict[str, Any]:
    found: dict[str, Any] = ask(gateway, "/v2/status")["lanes"]
    return found


def usage(gateway: GatewayProcess) -> Any:
    """Sums of the calls that spans reported."""
    ended = run_command(
        gateway, "usage", "--json", "--from", "2025-12-01", "--group-by", "model,key", "--where", "model=gpt-4o"
    )
    assert ended.code == 0, ended.err
    return json.loads(ended.out)["usage"]


def calls(gateway: GatewayProcess) -> int:
    return sum(group["calls"] for group in usage(gateway))


def nothing_waits(gateway: GatewayProcess) -> bool:
    return all(lane["pending"] == 0 for lane in lanes(gateway).values())


def filled(rig: Rig) -> GatewayProcess:
    """A gateway on files: calls are delivered, dead letters, held and pending, as other records."""
    gateway = rig.gateway("alone", counting={"settle": "200ms", "metrics_settle": "60s"})
    gateway.start()
    scopes = [part for scope in SCOPES for part in ("--scope", scope)]
    rig.key = run_command(gateway, "keys", "create", "--name", "app", *scopes).out.split()[-1]
    run_command(gateway, "budgets", "create", "all", "--amount", "1000", "--currency", "USD", "--period", "month")
    for number in range(3):
        rig.call(gateway, f"delivered {number}")
    rig.send_all_kinds(gateway, 1)
    wait_until_true(lambda: len(rig.service.records()) == 3 and nothing_waits(gateway), what="all delivered")
    rig.service.kill()
    rig.service.start("--fail", "400:1")
    rig.call(gateway, "buried")
    wait_until_true(lambda: lanes(gateway)["ai_telemetry"]["dead_lettered"] == 1, what="a dead letter")
    rig.service.kill()
    for number in range(4):
        rig.call(gateway, f"pending {number}")
    rig.send_all_kinds(gateway, 2)
    rig.post(
        gateway,
        "/v1/metrics",
        Export(resource={"service.name": "metered"})
        .point(700, labels={**LABELS, "gen_ai.request.model": "other"})
        .body,
    )
    wait_until_true(lambda: calls(gateway) == 8, what="usage of all calls")
    wait_until_true(lambda: bool(rows_of(gateway, BATCHES)), what="a frozen batch")
    return gateway


def rows_of(gateway: GatewayProcess, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(gateway.data_dir / "spool.db")) as connection:
        return connection.execute(sql).fetchall()


def rows_of_cell(sql: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(shared_server().dsn(f"cell_{CELL}")) as connection:
        return connection.execute(sql).fetchall()


def test_a_gateway_moves_into_a_cell_and_out_of_it(rig: Rig) -> None:
    alone = filled(rig)
    before = usage(alone)
    assert alone.stop() == 0
    assert rows_of(alone, "SELECT count(*) FROM held") == [(1,)]
    members = [rig.member(name, alone.data_dir) for name in ("first", "second")]

    moved = rig.migrate(members[0], "--data-dir", str(alone.data_dir), "--json")
    assert moved.code == 0, moved.err
    (gateway_id,) = rows_of(alone, "SELECT value FROM meta WHERE name = 'gateway_id'")[0]
    assert moved.json["gateway_id"] == gateway_id
    assert moved.json["pending"]["ai_telemetry"] >= 4
    assert rows_of_cell(BATCHES) == rows_of(alone, BATCHES)
    with pytest.raises(ProcessFailed, match=f"moved to the cell {CELL}"):
        alone.start()

    for member in members:
        member.start()
    wait_until_true(lambda: any(map(owns, members)), what="an owner")
    assert usage(members[1]) == before
    rig.call(members[1], "sent to the cell")
    rig.call(members[0], "delivered 0")  # a repeat
    rig.service.start()
    wait_until_true(lambda: nothing_waits(members[0]) and calls(members[0]) == 9, what="all delivered by the cell")
    check_service(rig, calls=3 + 4 + 1)
    status = ask(members[0], "/v2/status")
    assert broken_identities(status) == []
    assert status["lanes"]["ai_telemetry"]["dead_lettered"] == 1
    assert [each["name"] for each in ask(members[1], "/v2/budgets")["budgets"]] == ["all"]
    refused = rig.answer(members[1], "/v1/traces", call_span("keyless", (1, 1)), Authorization="other")
    assert refused.status_code == 401

    in_cell = usage(members[0])
    for member in members:
        assert member.stop() == 0
    again = rig.gateway("again")
    back = rig.migrate(members[0], "--to", "sqlite", "--data-dir", str(again.data_dir))
    assert back.code == 0, back.err
    assert usage(again) == in_cell
    with pytest.raises(ProcessFailed, match=f"cell {CELL} held was moved to"):
        members[1].start()
    again.start()
    rig.call(again, "after all")
    rig.call(again, "sent to the cell")  # a repeat
    wait_until_true(lambda: nothing_waits(again) and calls(again) == 10, what="all delivered")
    check_service(rig, calls=3 + 4 + 1 + 1)
    assert broken_identities(ask(again, "/v2/status")) == []
    assert run_command(again, "spool", "dead-letters", "replay").code == 0
    wait_until_true(lambda: nothing_waits(again) and len(rig.span_ids()) == 10, what="the dead letter")


def check_service(rig: Rig, *, calls: int) -> None:
    """The service has each call, event and unit-cost record once, and the metrics."""
    found = rig.span_ids()
    assert len(found) == len(set(found)) == calls
    assert len(rig.service.records()) == calls + 1
    assert len(rig.service.event_ids()) == 2
    assert rig.service.unit_cost_total() == Decimal(1 + 2)
    assert {"laptop-1", "laptop-2"} <= set(rig.service.device_ids())
