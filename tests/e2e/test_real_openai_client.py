"""A real client, a real instrumentation and real exporters against the real gateway: its
totals are the provider's.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.processes import PROJECT_ROOT
from benchmarks.scenario import fetch
from tests.support.canary import files_with_canary
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.mock_llm import Served

pytestmark = pytest.mark.slow

CONTENT_ON = {
    "default conventions": {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "span_and_event"},
    "latest conventions": {
        "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "span_and_event",
    },
}


def run_client(provider_url: str, otlp_url: str, conventions: str) -> int:
    """The application, to its end; the number of calls it made."""
    command = [sys.executable, "-m", "tests.support.openai_client", provider_url, otlp_url]
    environment = {**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", **CONTENT_ON[conventions]}
    done = subprocess.run(
        command, cwd=PROJECT_ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Failed to export" not in done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("conventions", CONTENT_ON)
def test_totals_are_those_of_the_provider_and_no_content_is_kept(
    tmp_path: Path, provider_url: str, conventions: str
) -> None:
    with GatewayProcess(tmp_path, settle="2s") as gateway:
        calls = run_client(provider_url, gateway.intake_url, conventions)
        served: list[Served] = json.loads(fetch(provider_url + "/_served"))
        assert len(served) == calls
        assert all(call["prompt_canary"] for call in served), "content was not there to be dropped"
        succeeded = [call for call in served if call["status"] == 200]

        status = gateway.wait_until_delivered(at_least=calls)
        totals = gateway.summary()["totals"]
        groups = gateway.summary("operation,provider,model")["summary"]

        assert status["edge"]["kept"] == calls, "spans, logs and metrics of one call are one call"
        assert broken_identities(status) == []
        assert totals["calls"] == calls
        assert totals["input_tokens"] == sum(call["input_tokens"] or 0 for call in succeeded)
        assert totals["output_tokens"] == sum(call["output_tokens"] or 0 for call in succeeded)
        assert {group["provider"] for group in groups} == {"openai"}
        assert {group["model"] for group in groups} >= {call["response_model"] for call in succeeded}
        assert files_with_canary(tmp_path) == []
        exposed = fetch(gateway.admin_url + "/metrics") + json.dumps([status, totals, groups]).encode()
        assert b"CANARY" not in exposed
        assert gateway.stop() == 0
    assert files_with_canary(tmp_path) == []
