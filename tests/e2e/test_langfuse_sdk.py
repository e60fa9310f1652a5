"""Real Langfuse SDKs, each in an environment of its own, against the real gateway: the totals are
what the provider served.

SDK 2 sends batches of events, and one generation of its application takes longer than the gateway
settles; the current SDK sends OTLP. Both show the inbound key as the secret half of Basic, or any
secret while intake is open.
"""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from benchmarks.processes import PROJECT_ROOT
from benchmarks.scenario import fetch
from tests.support.canary import files_with_canary
from tests.support.client_environments import client_python, requirements
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.keys_beside import inbound_key
from tests.support.mock_llm import Served

pytestmark = pytest.mark.slow

CLIENTS = {"langfuse_v2": "langfuse-v2", "langfuse_otel": "langfuse"}
"""Module -> environment."""
COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
    "reasoning_output_tokens": "reasoning_tokens",
}
"""Of the service's totals -> of the provider."""


def run_client(module: str, provider_url: str, gateway_url: str, key: str) -> int:
    """The application, to its end; the number of calls it made."""
    settings = {
        "LANGFUSE_HOST": gateway_url,
        "LANGFUSE_BASE_URL": gateway_url,
        "LANGFUSE_PUBLIC_KEY": "pk-lf-any",
        "LANGFUSE_SECRET_KEY": key,
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }
    done = subprocess.run(
        [str(client_python(CLIENTS[module])), "-m", f"tests.e2e.clients.{module}", provider_url],
        cwd=PROJECT_ROOT,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not re.search(r"Failed to export|APIError|Unexpected error|Traceback", done.stderr), done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("path", ["", "/v1/sources/langfuse"])
@pytest.mark.parametrize("with_key", [True, False], ids=["key", "open intake"])
@pytest.mark.parametrize("module", CLIENTS)
def test_totals_are_what_the_provider_served_and_no_content_is_kept(
    tmp_path: Path, provider_url: str, module: str, *, with_key: bool, path: str
) -> None:
    key = inbound_key(tmp_path / "data") if with_key else "sk-lf-any"
    with GatewayProcess(tmp_path, settle="300ms") as gateway:
        calls = run_client(module, provider_url, gateway.intake_url + path, key)
        served: list[Served] = json.loads(fetch(provider_url + "/_served"))
        assert len(served) == calls
        status = gateway.wait_until_delivered(at_least=calls)
        totals = gateway.summary()["totals"]
        assert totals["calls"] == status["edge"]["kept"] == calls
        assert {name: totals[name] for name in COUNTS} == {
            name: sum(call[own] or 0 for call in served)  # type: ignore[literal-required]
            for name, own in COUNTS.items()
        }
        groups = gateway.summary("provider,model,kind")["summary"]
        assert {group["provider"] for group in groups} == {"openai"}
        assert broken_identities(status) == []
        assert status["edge"]["rejected"] == 0
        assert files_with_canary(tmp_path) == []
        assert gateway.stop() == 0
    assert files_with_canary(tmp_path) == []


def test_a_wrong_key_keeps_nothing_and_the_sdk_does_not_complain(tmp_path: Path) -> None:
    inbound_key(tmp_path / "data")
    with GatewayProcess(tmp_path) as gateway:
        client = [str(client_python("langfuse-v2")), "-c", _ONE_TRACE]
        settings = {"LANGFUSE_HOST": gateway.intake_url, "LANGFUSE_PUBLIC_KEY": "pk", "LANGFUSE_SECRET_KEY": "wrong"}
        done = subprocess.run(
            client, env={**os.environ, **settings}, capture_output=True, text=True, timeout=90, check=False
        )
        assert done.returncode == 0
        assert gateway.status()["edge"]["received"] == 0


_ONE_TRACE = """
from langfuse import Langfuse
sdk = Langfuse(debug=True)
sdk.trace(name="one").generation(name="two", model="gpt-4o").end(usage={"input": 1, "output": 1})
sdk.flush()
"""


def test_the_environments_pin_every_package() -> None:
    for environment in CLIENTS.values():
        pins = requirements(environment).read_text().splitlines()
        assert all(line.startswith("#") or re.match(r"[\w.-]+==[\w.]+( ;|$)", line) for line in pins)
