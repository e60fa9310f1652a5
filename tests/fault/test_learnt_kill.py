"""kill -9 of the real gateway after a call proved what its instrumentation's input holds: calls
that come afterwards are read by it.
"""

import time
import urllib.request
from pathlib import Path

import pytest

from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.metrics import at_ns
from tests.support.spans import call_span

NOW_S = time.time() - at_ns(0) / 1e9
MODEL = {"gen_ai.provider.name": "anthropic", "gen_ai.request.model": "claude-sonnet-4-5"}

pytestmark = pytest.mark.slow


def send(gateway: GatewayProcess, name: str, given: int, cached: int) -> None:
    more = {**MODEL, "gen_ai.response.model": MODEL["gen_ai.request.model"]}
    more |= {"gen_ai.usage.cache_read.input_tokens": cached}  # type: ignore[dict-item]
    body = call_span(name, (given, 10), at=NOW_S, more=more, scope="acme.llm")
    headers = {"Content-Type": "application/x-protobuf"}
    with urllib.request.urlopen(urllib.request.Request(f"{gateway.intake_url}/v1/traces", body, headers)) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("settled", [True, False], ids=["after it settled", "before it settled"])
def test_a_proof_outlives_a_kill(tmp_path: Path, *, settled: bool) -> None:
    with GatewayProcess(tmp_path) as gateway:
        send(gateway, "proof", 20, 5_000)
        if settled:
            gateway.wait_until_delivered()
        gateway.kill()
        gateway.restart()
        send(gateway, "call", 200, 100)
        status = gateway.wait_until_delivered(at_least=2)
        assert broken_identities(status) == []
        assert gateway.summary()["totals"]["input_tokens"] == 5_020 + 300
