"""The log of a running gateway: its start and stop, and an upstream that goes away."""

import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.bodies import Shape, Template
from gateway.common.contract.scopes import SEND_AI_TELEMETRY
from gateway.common.native import READER, WHY_NOT, other_reader
from gateway.common.release import commit, release
from tests.support.gateway_process import GatewayProcess
from tests.support.service_process import ServiceProcess

TEMPLATE = Template(Shape(spans=5, attributes=15))
PROTOBUF = {"Content-Type": "application/x-protobuf"}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ServiceProcess]:
    process = ServiceProcess(tmp_path)
    process.start()
    yield process
    process.kill()


def lines(gateway: GatewayProcess, event: str) -> list[dict[str, Any]]:
    """The lines of *event*; every line of the log is an object."""
    told = [json.loads(line) for line in gateway.log.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [line for line in told if line["event"] == event]


def test_start_outage_and_stop_are_one_line_each(tmp_path: Path, service: ServiceProcess) -> None:
    key = (service.data_dir / "service" / "telemetry.key").read_text().strip()
    address = f"127.0.0.1:{service.port}"
    keys = [{"name": "a", "secret": key, "managed": [SEND_AI_TELEMETRY]}]
    config = {"log_format": "json", "upstream": {"base_url": f"http://{address}", "keys": keys}}
    with GatewayProcess(tmp_path, config=config) as gateway:
        (started,) = lines(gateway, "gateway started")
        assert started["version"] == version("ai-telemetry-gateway")
        first = json.loads(gateway.log.read_text().splitlines()[0])
        assert first["event"] == "gateway starting"
        assert (first["version"], first["commit"]) == (release(), commit())
        assert (first["reader"], first["why_not_native"]) == (READER, WHY_NOT or None)
        assert first["other_reader"] == other_reader(WHY_NOT)
        assert started["http"] == gateway.intake_url
        assert started["config"] == str(tmp_path / "config.yaml")
        assert (started["upstream"], started["lanes"]) == (f"http://{address}", ["ai_telemetry"])
        assert {line["lane"] for line in lines(gateway, "lane off")} == {"usage_events", "devices", "unit_cost"}
        service.kill()
        body = TEMPLATE.body(0)
        assert httpx.post(f"{gateway.intake_url}/v1/traces", content=body, headers=PROTOBUF).status_code == 200
        (changed,) = gateway.process.wait_until(
            lambda: lines(gateway, "lane state changed") or None, what="the outage in the log"
        )
        assert (changed["level"], changed["lane"], changed["state"]) == ("warning", "ai_telemetry", "retrying")
        assert changed["reason"] == f"{address} cannot be reached: Connection refused"
        assert gateway.stop() == 0
        assert len(lines(gateway, "gateway stopping")) == len(lines(gateway, "gateway stopped")) == 1
        assert key not in gateway.log.read_text()
