"""Every payload of the corpus through the running gateway: no prompt, completion or
error text stays anywhere.
"""

import urllib.error
import urllib.request
from pathlib import Path

import pytest

from benchmarks.scenario import fetch
from tests.support.canary import CANARY, files_with_canary
from tests.support.corpus import Payload, scenarios
from tests.support.gateway_process import GatewayProcess, broken_identities

PAYLOADS: dict[bytes, Payload] = {
    payload.body: payload
    for signal in ("traces", "logs", "metrics")
    for s in scenarios(signal)
    for payload in s.payloads
}
CONTENT_TYPES = {True: "application/json", False: "application/x-protobuf"}


def post(url: str, payload: Payload) -> bytes:
    headers = {"Content-Type": CONTENT_TYPES[payload.is_json]}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, payload.body, headers), timeout=30) as response:
            return bytes(response.read())
    except urllib.error.HTTPError as error:
        pytest.fail(f"{payload.signal}: {error.code} {error.read()!r}")


@pytest.mark.slow
def test_no_content_of_the_corpus_is_anywhere(tmp_path: Path) -> None:
    assert sum(CANARY in body for body in PAYLOADS) > 200, "the corpus does carry content"
    export = tmp_path / "data" / "records.ndjson"
    settings = {
        "exporters": {"archive": {"type": "file", "path": str(export)}},
        "counting": {"settle": "200ms", "metrics_settle": "200ms"},
    }
    with GatewayProcess(tmp_path, config=settings) as gateway:
        answers = [post(f"{gateway.intake_url}/v1/{payload.signal}", payload) for payload in PAYLOADS.values()]
        status = gateway.wait_until_delivered(at_least=100)
        gateway.wait_until_delivered("archive", at_least=100)
        assert not broken_identities(status)
        shown = [fetch(gateway.admin_url + path) for path in ("/v2/status", "/metrics")]
        assert gateway.summary()["totals"]["calls"] > 100
        while_running = files_with_canary(tmp_path)
        assert gateway.stop() == 0
    assert not any(CANARY in answer for answer in [*answers, *(str(text).encode() for text in shown)])
    assert not while_running, "beside the log and the export, write-ahead logs too"
    assert not files_with_canary(tmp_path)
    assert export.stat().st_size > 50_000
