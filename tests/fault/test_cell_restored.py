"""A cell whose Postgres is restored to an earlier moment: what was delivered counts once."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.support.cell_processes import Cell, owns, running_cell, send, stopped
from tests.support.commands import run_telemetry_gateway
from tests.support.polling import wait_until_true
from tests.support.postgres import Server, needs_postgres, running_server

pytestmark = needs_postgres

ARCHIVING = [
    "wal_level=replica",
    "archive_mode=on",
    "archive_command=mkdir -p ../archive && cp %p ../archive/%f",
    "max_wal_senders=4",
]
EVENT = {"type": "report.generated", "title": "Report", "source": "shop", "time": "2026-01-05T12:00:00Z"}


@pytest.fixture
def server() -> Iterator[Server]:
    with running_server(ARCHIVING) as running:
        yield running


def post(cell: Cell, path: str, content: dict[str, Any], **headers: str) -> None:
    """To a gateway that is not the owner, which passes it on."""
    told = httpx.post(cell.others()[0].intake_url + path, json=content, headers=headers, timeout=60)
    assert told.status_code in {200, 202}, told.text


def send_event(cell: Cell, number: int) -> None:
    """And a heartbeat of the device that names it."""
    post(cell, "/v1/events", {**EVENT, "event_id": f"e{number}"})
    post(cell, "/v1/devices/laptop/heartbeat", {"instance_id": "i-1", "sequence": number, "status": "active"})


def add(cell: Cell, number: int) -> None:
    records = [{"timestamp": "2026-01-05", "granularity": "MONTHLY", "value": str(number)}]
    post(cell, "/v1/unit-cost/metric/answers/sum", {"records": records}, **{"Idempotency-Key": f"sum-{number}"})


def nothing_waits(cell: Cell) -> bool:
    """But for heartbeats, which a device may send once a minute."""
    lanes = cell.ask(cell.owner(), "/v2/status")["lanes"]
    return all(lanes[name]["pending"] == 0 for name in ("ai_telemetry", "usage_events", "unit_cost"))


def found(cell: Cell) -> tuple[int, int, int, Decimal]:
    """Records, events, devices and the sum of unit cost that the service has."""
    devices = [each for each in cell.service.device_ids() if each == "laptop"]
    return (len(cell.service.records()), len(cell.service.event_ids()), len(devices), cell.service.unit_cost_total())


def restore(server: Server, backup: Path) -> None:
    """To the point `before`, as docs/cell.md has it."""
    server.stop()
    data = server.folder / "data"
    data.rename(server.folder / "data-of-before")
    backup.rename(data)
    with (data / "postgresql.auto.conf").open("a") as file:
        file.write(
            "restore_command = 'cp ../archive/%f %p'\n"
            "recovery_target_name = 'before'\nrecovery_target_action = 'promote'\n"
        )
    (data / "recovery.signal").touch()
    server.start()

    def is_writable() -> bool:
        with psycopg.connect(server.dsn()) as connection:
            return connection.execute("SELECT NOT pg_is_in_recovery()").fetchone() == (True,)

    wait_until_true(is_writable, what="a server that ended its recovery")


def ask(server: Server, sql: str) -> Any:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        return connection.execute(sql).fetchone()


def archive(server: Server) -> None:
    """All that was committed is in the archive when this returns."""
    (segment,) = ask(server, "SELECT pg_walfile_name(pg_switch_wal())")
    archived = f"SELECT last_archived_wal >= '{segment}' FROM pg_stat_archiver"
    wait_until_true(lambda: ask(server, archived) == (True,), what="the archive of all that was committed")


def test_a_cell_that_is_restored_to_an_earlier_moment_delivers_nothing_twice(server: Server, tmp_path: Path) -> None:
    with running_cell(tmp_path, 2, server) as cell:
        cell.wait_until_owned()
        backup = server.folder / "backup"
        server.program("pg_basebackup", "-D", str(backup), "-d", server.dsn(), "-c", "fast")
        for number in range(3):
            assert send(cell.gateways[number % 2], f"delivered {number}") == 200
        send_event(cell, 1)
        add(cell, 1)
        wait_until_true(lambda: found(cell) == (3, 1, 1, Decimal(1)) and nothing_waits(cell), what="all delivered")
        with stopped(cell.service):  # what is on its way arrives later
            for number in range(2):
                assert send(cell.gateways[number], f"pending {number}") == 200
            send_event(cell, 2)
            add(cell, 2)
            wait_until_true(lambda: counted(cell) == 5, what="calls that wait to be sent")
            ask(server, "SELECT pg_create_restore_point('before')")
        delivered = (5, 2, 1, Decimal(1 + 2))
        wait_until_true(lambda: found(cell) == delivered and nothing_waits(cell), what="what waited, delivered")
        assert send(cell.gateways[0], "later") == 200
        send_event(cell, 4)
        add(cell, 4)
        after = (6, 3, 1, Decimal(1 + 2 + 4))
        wait_until_true(lambda: found(cell) == after and nothing_waits(cell), what="all delivered")
        archive(server)
        for gateway in cell.gateways:
            assert gateway.stop() == 0

        restore(server, backup)
        for gateway in cell.gateways:
            gateway.start()
        held = cell.gateways[0]
        wait_until_true(lambda: "restored to an earlier moment" in held.log.read_text(), what="a cell that is held")
        assert send(held, "while held") == 200
        config = str(held.data_dir.parent / "config.yaml")
        doctor = run_telemetry_gateway("doctor", "--config", config)
        assert "WARNING cell: the database was restored to an earlier moment" in doctor.out
        assert not any(map(owns, cell.gateways))
        assert found(cell) == after

        restored = run_telemetry_gateway("store", "restored", "--config", config, "--json")
        assert restored.code == 0, restored.err
        assert json.loads(restored.out)["turn"] < json.loads(restored.out)["seen_turn"]
        cell.wait_until_owned()
        add(cell, 8)
        send_event(cell, 2)  # a repeat of what the database has
        add(cell, 1)  # as well
        assert send(cell.gateways[1], "later") == 200  # and repeats of what only the service has
        send_event(cell, 4)
        wanted = (7, 3, 1, Decimal(1 + 2 + 4 + 8))
        wait_until_true(lambda: found(cell) == wanted and nothing_waits(cell), what="each once")
        names = [record["trace"]["span_id"] for record in cell.service.records()]
        assert len(names) == len(set(names)) == 7


def counted(cell: Cell) -> int:
    """Calls that the owner keeps, or kept until they were delivered."""
    return int(cell.ask(cell.owner(), "/v2/status")["lanes"]["ai_telemetry"]["kept"])
