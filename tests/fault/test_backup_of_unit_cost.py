"""A backup that was made while a record of unit cost waited, which was delivered since: restored,
it is not added again.
"""

from decimal import Decimal
from pathlib import Path

import httpx

from tests.support.cell_processes import stopped
from tests.support.commands import run_telemetry_gateway
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.service_process import UNIT_COST_SCOPES, ServiceProcess


def add(gateway: GatewayProcess, value: int) -> None:
    record = {"timestamp": "2026-01-05", "granularity": "MONTHLY", "value": str(value)}
    url = f"{gateway.intake_url}/v1/unit-cost/metric/answers/sum"
    assert httpx.post(url, json={"records": [record]}, timeout=60).status_code == 202


def run(*command: str) -> None:
    ended = run_telemetry_gateway(*command)
    assert ended.code == 0, ended.err


def test_what_waited_at_the_backup_and_was_delivered_since_is_not_added_again(tmp_path: Path) -> None:
    service = ServiceProcess(tmp_path)
    service.start()
    assert service.port is not None
    upstream = service.upstream(service.port, UNIT_COST_SCOPES)
    file = tmp_path / "gateway.tar"
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    try:
        with GatewayProcess(tmp_path / "a", config={"upstream": upstream}) as first:
            add(first, 1)
            first.wait_until_delivered("unit_cost")
            with stopped(service):
                add(first, 2)
                run("backup", "--data-dir", str(first.data_dir), "--to", str(file))
            add(first, 4)
            first.wait_until_delivered("unit_cost", at_least=3)
            assert service.unit_cost_total() == Decimal(1 + 2 + 4)
            assert first.stop() == 0
        second = GatewayProcess(tmp_path / "b", config={"upstream": upstream})
        run("restore", str(file), "--data-dir", str(second.data_dir))
        with second:
            add(second, 8)
            status = second.wait_until_delivered("unit_cost", at_least=3)
            assert broken_identities(status) == []
            assert service.unit_cost_total() == Decimal(1 + 2 + 4 + 8)
            lane = status["lanes"]["unit_cost"]
            assert (lane["delivered"], lane["dead_lettered"]) == (3, 0)
            assert second.stop() == 0
    finally:
        service.kill()
