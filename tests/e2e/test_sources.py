"""AI gateways that push in shapes of their own, against the running gateway: what they push
arrives, once, whole, and nothing else.
"""

import gzip
import http.client
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from gateway.common.native import VARIABLE
from tests.support.canary import files_with_canary
from tests.support.corpus import CORPUS
from tests.support.gateway_process import GatewayProcess, broken_identities

MIB = 1 << 20
KONG = json.loads((CORPUS / "gateways/kong/http_log_single.json").read_text())


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path) as running:
        yield running


def send(url: str, body: bytes, headers: dict[str, str] | None = None, method: str = "POST") -> tuple[int, Any]:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"} | (headers or {}), method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            return response.status, json.loads(response.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"null")


def entry(n: int, started_ms: int) -> bytes:
    """A Kong log entry of 1 200 and 340 tokens under a request id of its own, of some 13 kB as it
    comes with its payload logged.
    """
    made = json.loads(json.dumps(KONG))
    made["request"]["id"] = f"{n:032x}"
    made["started_at"] = started_ms + n
    answer = json.loads(made["ai"]["proxy"]["payload"]["response"]) | {
        "id": f"chatcmpl-{n}",
        "pad": "CANARY-7Q " * 1200,
    }
    made["ai"]["proxy"]["payload"]["response"] = json.dumps(answer)
    return json.dumps(made).encode()


def test_what_a_gateway_pushes_arrives_once_however_often_it_is_pushed(gateway: GatewayProcess) -> None:
    url = f"{gateway.intake_url}/v1/sources/kong"
    body = json.dumps(KONG).encode()
    assert send(url, body) == (200, {"accepted": 1, "rejected": []})
    assert send(url, gzip.compress(body), {"Content-Encoding": "gzip"})[0] == 200
    assert send(url, body, method="PUT")[0] == 200
    status = gateway.wait_until_delivered()
    assert broken_identities(status) == []
    assert (status["edge"]["kept"], status["edge"]["duplicate"]) == (1, 2)
    totals = gateway.summary("provider,model,team")["totals"]
    assert (totals["calls"], totals["input_tokens"], totals["output_tokens"]) == (1, 1200, 340)
    assert gateway.summary("team")["summary"][0]["team"] == "team-alpha"


def test_another_products_payload_is_said_to_be_none_of_this_source(gateway: GatewayProcess) -> None:
    url = f"{gateway.intake_url}/v1/sources/kong"
    status, answer = send(url, b'{"call_type": "acompletion", "model": "gpt-5-mini"}')
    assert (status, answer["accepted"], answer["ignored"]) == (200, 1, 1)
    lines = 2 * MIB // 100
    long = b'{"call_type": "acompletion", "model": "gpt-5-mini"%50s}\n' % b"" * lines
    assert len(long) > 2 * MIB - 100
    status, answer = send(url, long)
    assert (status, answer["ignored"], "message" in answer) == (200, lines, True)
    status, answer = send(url, long + json.dumps(KONG).encode())
    assert (status, answer["ignored"], "message" in answer) == (200, lines, False)


@pytest.fixture
def gateway_with_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GatewayProcess]:
    """One whose worker runs from the start, so that its memory is in all figures."""
    monkeypatch.setenv(VARIABLE, "python")
    with GatewayProcess(tmp_path) as running:
        yield running


def test_a_body_of_40_mb_is_taken_in_little_memory_and_bad_lines_cost_only_themselves(
    gateway_with_worker: GatewayProcess,
) -> None:
    gateway = gateway_with_worker
    started_ms = int(time.time() * 1000) - 60_000
    lines = [entry(n, started_ms) for n in range(3000)]
    for n in (7, 1500, 2999):
        lines[n] = b'{"request": {"id": "CANARY-7Q cut sh'
    body = b"\n".join(lines)
    assert len(body) > 40 * MIB
    assert send(f"{gateway.intake_url}/v1/sources/kong", lines[0][:-1] + b" " * MIB)[0] == 400  # both processes run now
    before, highest = _memory(gateway), 0
    sender = _Sending(f"{gateway.intake_url}/v1/sources/kong", body)
    sender.start()
    while sender.is_alive():
        highest = max(highest, _memory(gateway))
        sender.join(0.01)
    assert sender.answer is not None
    status, answer = sender.answer
    assert status == 200
    assert answer["accepted"] == 2997
    assert [x["position"] for x in answer["rejected"]] == ["line 8", "line 1501", "line 3000"]
    assert "CANARY" not in json.dumps(answer)
    assert highest - before < 80 * MIB
    counted = gateway.wait_until_delivered()
    assert broken_identities(counted) == []
    assert counted["edge"]["rejected"] == 3
    totals = gateway.summary()["totals"]
    assert (totals["calls"], totals["input_tokens"]) == (2997, 2997 * 1200)
    assert files_with_canary(gateway.data_dir) == []


def test_a_gateway_killed_between_the_pieces_counts_a_repeated_body_once(gateway: GatewayProcess) -> None:
    started_ms = int(time.time() * 1000) - 60_000
    body = b"\n".join(entry(n, started_ms) for n in range(2000))
    url = f"{gateway.intake_url}/v1/sources/kong"
    sender = _Sending(url, body)
    sender.start()
    gateway.process.wait_until(lambda: gateway.status()["edge"]["kept"] > 0 or None, what="first piece")
    gateway.kill()
    sender.join(60)
    gateway.restart()
    assert send(f"{gateway.intake_url}/v1/sources/kong", body)[0] == 200
    counted = gateway.wait_until_delivered(at_least=2000)
    assert broken_identities(counted) == []
    assert gateway.summary()["totals"]["calls"] == 2000


def _memory(gateway: GatewayProcess) -> int:
    """Resident bytes of the gateway and its worker."""
    own = psutil.Process(gateway.process.pid)
    return sum(process.memory_info().rss for process in (own, *own.children(recursive=True)))


class _Sending(threading.Thread):
    def __init__(self, url: str, body: bytes) -> None:
        super().__init__(daemon=True)
        self._url, self._body = url, body
        self.answer: tuple[int, Any] | None = None

    def run(self) -> None:
        try:
            self.answer = send(self._url, self._body)
        except (OSError, http.client.HTTPException):
            self.answer = None
