"""`status`: one screen, of a gateway that is well, of one that is not, and where none runs."""

import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.commands import run_command, run_telemetry_gateway
from tests.support.gateway_process import GatewayProcess
from tests.support.spans import call_span

PROTOBUF = {"Content-Type": "application/x-protobuf"}
ANY_PORT = "127.0.0.1:0"
LISTEN = {"http": ANY_PORT, "grpc": "off", "admin": ANY_PORT, "service": ANY_PORT}


def metric(tokens: int) -> dict[str, Any]:
    """A sum of tokens of a service that reports no calls."""
    now_ns = time.time_ns()
    named = {"gen_ai.token.type": "input", "gen_ai.request.model": "gpt-4o", "gen_ai.provider.name": "openai"}
    point = {
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in named.items()],
        "startTimeUnixNano": str(now_ns - 10**10), "timeUnixNano": str(now_ns),
        "count": "2", "sum": tokens, "bucketCounts": ["2"], "explicitBounds": [],
    }  # fmt: skip
    histogram = {"aggregationTemporality": 1, "dataPoints": [point]}
    scope = {"scope": {"name": "app"}, "metrics": [{"name": "gen_ai.client.token.usage", "histogram": histogram}]}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "meters"}}]}
    return {"resourceMetrics": [{"resource": resource, "scopeMetrics": [scope]}]}


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path, config={"listen": LISTEN, "counting": {"settle": "0s"}}) as gateway:
        yield gateway


def test_a_gateway_that_took_a_call_is_well(gateway: GatewayProcess) -> None:
    new = run_command(gateway, "status", "--json")
    assert (new.code, new.json["state"]) == (0, "warnings")
    assert [finding["text"] for finding in new.json["findings"]] == ["none has sent anything"]
    body = call_span("one", (5, 2))
    assert httpx.post(f"{gateway.intake_url}/v1/traces", content=body, headers=PROTOBUF).status_code == 200
    gateway.wait_until_delivered()
    shown = run_command(gateway, "status")
    assert shown.code == 0, shown.err
    assert "gateway    well (process" in shown.out
    assert "received   1 item: 1 kept" in shown.out
    assert "today      " in shown.out
    assert "waiting    nothing" in shown.out
    assert "\x1b[" not in shown.out, "colours are for terminals"
    found = run_command(gateway, "status", "--json").json
    assert (found["state"], found["running"], found["findings"]) == ("well", True, [])
    assert found["lanes"]["ai_telemetry"]["delivered"] == 1


def test_sums_of_metrics_that_wait_are_not_shown_as_kept(gateway: GatewayProcess) -> None:
    assert httpx.post(f"{gateway.intake_url}/v1/metrics", json=metric(300)).status_code == 200
    shown = run_command(gateway, "status")
    assert "received   1 item: 1 waiting\n" in shown.out
    note = "1 sum of metrics waits and is not in the totals yet: calls may report the same usage"
    assert note in shown.out
    assert note in run_command(gateway, "usage").out
    assert note in run_command(gateway, "spool", "status").out
    token = (gateway.data_dir / "admin-token").read_text().strip()
    for page in ("/", "/delivery"):
        assert note in httpx.get(f"{gateway.admin_url}{page}", headers={"Authorization": token}).text
    assert gateway.status().get("waiting_metrics") == 1
    assert gateway.stop() == 0
    gateway.start()
    assert gateway.status().get("waiting_metrics") == 1, "counted again from the disk"
    assert gateway.stop() == 0
    assert note in run_command(gateway, "status").out


def test_a_gateway_that_does_not_run_is_said_so_and_its_files_are_read(gateway: GatewayProcess) -> None:
    body = call_span("one", (5, 2))
    assert httpx.post(f"{gateway.intake_url}/v1/traces", content=body, headers=PROTOBUF).status_code == 200
    gateway.wait_until_delivered()
    assert gateway.stop() == 0
    shown = run_command(gateway, "status")
    assert shown.code == 1
    assert "gateway    not running" in shown.out
    assert "received   1 item: 1 kept" in shown.out
    assert "-> start it: `telemetry-gateway run`" in shown.out
    found = run_command(gateway, "status", "--json").json
    assert (found["state"], found["running"], found["process"]) == ("not_running", False, None)


def test_a_folder_without_data_is_named(tmp_path: Path) -> None:
    found = run_telemetry_gateway("status", "--json", "--data-dir", str(tmp_path / "nothing"))
    assert found.code == 1
    assert found.json["state"] == "no_data"
    (fault,) = found.json["findings"]
    assert str(tmp_path / "nothing") in fault["text"]
    assert "--data-dir" in fault["remedy"]
    assert not (tmp_path / "nothing").exists(), "asking makes no files"


def test_a_lane_without_a_key_is_among_what_is_wrong_with_its_remedy(tmp_path: Path) -> None:
    key = {"name": "control", "secret": secrets.token_hex(16), "scopes": ["events_v1:create_event"]}
    upstream = {"base_url": "http://127.0.0.1:1", "keys": [key]}
    config = {"listen": LISTEN, "upstream": upstream, "counting": {"settle": "0s"}}
    with GatewayProcess(tmp_path, config=config) as gateway:
        body = call_span("one", (5, 2))
        assert httpx.post(f"{gateway.intake_url}/v1/traces", content=body, headers=PROTOBUF).status_code == 200
        ended = run_command(gateway, "status", "--json")
    assert (ended.code, ended.json["state"]) == (1, "faults")
    assert ended.json["waiting"]["ai_telemetry"]["records"] == 1
    first = ended.json["findings"][0]
    assert (first["level"], first["what"]) == ("fault", "lane ai_telemetry")
    assert "upstream.keys" in first["remedy"]
