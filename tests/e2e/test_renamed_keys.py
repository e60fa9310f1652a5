"""A key renamed between two exports, over a real gateway: what its counters
stated before is not billed again.
"""

import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scenario import fetch
from tests.support.calls import EPOCH_MS
from tests.support.commands import run_command
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.metrics import Export
from tests.support.spans import call_span

APP = {"service.name": "app"}
COUNTER = {"service.name": "counter"}


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path) as running:
        yield running


def post(gateway: GatewayProcess, path: str, body: bytes, key: str) -> None:
    headers = {"Content-Type": "application/x-protobuf", "Authorization": key}
    request = urllib.request.Request(gateway.intake_url + path, body, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200


def made(gateway: GatewayProcess, name: str) -> str:
    ended = run_command(gateway, "keys", "create", "--name", name, "--managed", "send-ai-telemetry", "--yes")
    assert ended.code == 0, ended.err
    return ended.out.strip()


def rename(gateway: GatewayProcess, name: str, to: str) -> None:
    ended = run_command(gateway, "keys", "edit", name, "--name", to)
    assert ended.code == 0, ended.err


def now_s() -> float:
    """As `Export` takes times."""
    return time.time() - EPOCH_MS / 1000


def counter(input_tokens: int, output_tokens: int) -> bytes:
    """Sums since a start that is not reported."""
    made = Export(resource=COUNTER, start=-1, at=now_s())
    return made.point(input_tokens, "input").point(output_tokens, "output").body


def totals(gateway: GatewayProcess) -> tuple[int, int]:
    told: dict[str, Any] = gateway.summary()["totals"]
    return told["input_tokens"], told["output_tokens"]


def test_a_counter_under_a_renamed_key_is_billed_by_what_it_adds(gateway: GatewayProcess) -> None:
    key = made(gateway, "team blue")
    post(gateway, "/v1/metrics", counter(100, 20), key)
    rename(gateway, "team blue", "team green")
    post(gateway, "/v1/metrics", counter(150, 30), key)
    gateway.kill()
    gateway.restart()
    rename(gateway, "team green", "team red")
    post(gateway, "/v1/metrics", counter(160, 31), key)
    status = gateway.wait_until_delivered(at_least=3)
    assert broken_identities(status) == []
    assert totals(gateway) == (160, 31)


def test_calls_cover_metrics_over_a_renaming_and_the_gap_shows_the_keys_name(gateway: GatewayProcess) -> None:
    key = made(gateway, "team blue")
    post(gateway, "/v1/traces", call_span("a", (7, 3), at=now_s() - 2, resource=APP), key)
    rename(gateway, "team blue", "team green")
    told = Export(resource=APP, start=now_s(), at=now_s() + 0.01).point(700, "input").point(300, "output")
    post(gateway, "/v1/metrics", told.body, key)
    rename(gateway, "team green", "team red")
    status = gateway.process.wait_until(lambda: of_gaps(gateway), what="a gap")
    assert [gap["sender"] for gap in status["gaps"]] == ["key:team red"]
    assert status["reasons"]["suppressed.calls_reported"] == 1
    gateway.wait_until_delivered()
    assert totals(gateway) == (7, 3)
    titles = [insight["title"] for insight in insights_of(gateway)]
    assert any("(key team red)" in title for title in titles), titles


def of_gaps(gateway: GatewayProcess) -> Any:
    status = gateway.status()
    return status if status["gaps"] else None


def insights_of(gateway: GatewayProcess) -> list[dict[str, Any]]:
    token = (gateway.data_dir / "admin-token").read_text().strip()
    answer = fetch(gateway.admin_url + "/v2/insights", headers={"Authorization": token})
    found: list[dict[str, Any]] = json.loads(answer)["insights"]
    return found
