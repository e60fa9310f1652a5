"""Real clients and their instrumentations, each in an environment of its own,
against the real gateway.

A mock provider knows the true usage of every call that it served; the embedded service's totals
must be the same. All exporters that a client has are on, so most calls come as span, log and
metric, some from two or three libraries.

What a client does not state cannot be counted: `CLIENTS` names it, with its reason, and a client
that starts to state fails here as well.
"""

import json
import os
import re
import subprocess
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from benchmarks.processes import PROJECT_ROOT
from benchmarks.scenario import fetch
from tests.support.canary import files_with_canary
from tests.support.client_environments import client_python, requirements
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.mock_llm import Served
from tests.support.otlp_relay import OtlpRelay

INSTALL_AND_RUN_S = 900
CLIENT_TIMEOUT_S = 300

pytestmark = [pytest.mark.slow, pytest.mark.timeout(INSTALL_AND_RUN_S)]

WITH_METRICS = ("traces", "metrics")
ALL_SIGNALS = ("traces", "metrics", "logs")
Count = Literal["input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens", "reasoning_tokens"]
COUNTS: Mapping[str, Count] = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
    "cache_creation_input_tokens": "cache_creation_tokens",
    "reasoning_output_tokens": "reasoning_tokens",
}
"""Of the service's totals -> of the provider."""

Calls = Callable[[Served], bool]


def _no_call(call: Served) -> bool:
    return False


def _any_call(call: Served) -> bool:
    return True


def _asked_for_a_tool(call: Served) -> bool:
    return call["asked_for_tool"]


def _is_chat_stream(call: Served) -> bool:
    return call["stream"] and (call["response_id"] or "").startswith("chatcmpl-")


@dataclass(frozen=True)
class Client:
    """One application of `tests/e2e/clients`, and what it does not state."""

    module: str
    environment: str
    """Of `requirements-<name>.txt`."""
    variant: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Environment variables; `{otlp}` stands for where to send."""
    signals: Collection[str] = ("traces",)
    """What comes of it, with exporters of all three there."""
    lost: Calls = _no_call
    """Calls that the client reports in no way."""
    untold: Mapping[str, Calls] = field(default_factory=dict)
    """Parts of the usage, by their name in the totals -> of which calls they are not reported."""


LATEST_CONVENTIONS = {
    "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "span_and_event",
}
ANTHROPIC_CONTENT = {"ANTHROPIC_OPEN_TELEMETRY_TRACES_CONTENT_MODE": "content"}
LITELLM_EXPORTS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it asks the internet for prices at import
    "LITELLM_OTEL_INTEGRATION_ENABLE_EVENTS": "true",
    "LITELLM_OTEL_INTEGRATION_ENABLE_METRICS": "true",
    "OTEL_ENDPOINT": "{otlp}",
    "OTEL_EXPORTER": "otlp_http",
    "OTEL_SERVICE_NAME": "checkout-bot",
}


CLIENTS = {
    "OpenInference openai": Client("openinference_openai", "openinference-openai"),
    "OpenLLMetry openai": Client(
        "openllmetry_openai",
        "openllmetry-openai",
        signals=WITH_METRICS,
        untold={"reasoning_output_tokens": _is_chat_stream},  # of these it reports the cache only
    ),
    "Anthropic SDK": Client("anthropic_messages", "anthropic", "native", settings=ANTHROPIC_CONTENT),
    # Each call twice, side by side, the second time with one output token too many where it was
    # streamed.
    "Anthropic SDK and OpenLLMetry": Client(
        "anthropic_messages", "anthropic", "openllmetry", settings=ANTHROPIC_CONTENT, signals=WITH_METRICS
    ),
    # Each call twice, the SDK's span below the other.
    "Anthropic SDK and OpenInference": Client(
        "anthropic_messages", "anthropic", "openinference", settings=ANTHROPIC_CONTENT
    ),
    # Agents repeat the sums of their calls, and those to Anthropic come from its SDK and in metrics
    # too.
    "Pydantic AI": Client("pydantic_agents", "pydantic-ai", signals=WITH_METRICS),
    "OpenTelemetry google-genai": Client(
        "google_genai_calls",
        "google-genai",
        settings=LATEST_CONVENTIONS,
        signals=ALL_SIGNALS,
        lost=_asked_for_a_tool,  # one span for both calls where the client runs the tool itself, with the second's usage
    ),
    "LangChain under OpenInference": Client("langchain_chains", "langchain"),
    # Each call twice, with the response's id inside a text.
    "LangChain and openai under OpenInference": Client("langchain_chains", "langchain", "both"),
    "LiteLLM": Client("litellm_completions", "litellm", settings=LITELLM_EXPORTS, signals=ALL_SIGNALS),
    "LiteLLM, second version": Client(
        "litellm_completions",
        "litellm",
        settings=LITELLM_EXPORTS | {"LITELLM_OTEL_V2": "true"},
        signals=ALL_SIGNALS,
        untold={"reasoning_output_tokens": _any_call},  # its spans have the cache only
    ),
    # It writes its first call on the application's own span, which it ends; the second is reported
    # by metrics and a raw span.
    "LiteLLM inside a span": Client(
        "litellm_completions", "litellm", "inside a span", settings=LITELLM_EXPORTS, signals=ALL_SIGNALS
    ),
}
"""Who is tested."""


def run_client(client: Client, provider_url: str, otlp_url: str) -> int:
    """The application, to its end; the number of calls it made."""
    command = [str(client_python(client.environment)), "-m", f"tests.e2e.clients.{client.module}"]
    settings = {name: value.replace("{otlp}", otlp_url) for name, value in client.settings.items()}
    done = subprocess.run(
        [*command, provider_url, otlp_url, *filter(None, [client.variant])],
        cwd=PROJECT_ROOT,
        env={**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", **settings},
        capture_output=True,
        text=True,
        timeout=CLIENT_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Failed to export" not in done.stderr
    return int(done.stdout)


def true_totals(client: Client, served: list[Served]) -> dict[str, int]:
    """What the service's totals must be: what was served, less what the client does not state."""
    reported = [call for call in served if not client.lost(call)]
    totals = {"calls": len(reported)}
    for name, own_name in COUNTS.items():
        is_untold = client.untold.get(name, _no_call)
        counts = [call[own_name] for call in reported if not is_untold(call)]
        totals[name] = sum(count or 0 for count in counts)
    return totals


@pytest.mark.parametrize("name", CLIENTS)
def test_totals_are_what_the_provider_served_and_no_content_is_kept(
    tmp_path: Path, provider_url: str, name: str
) -> None:
    client = CLIENTS[name]
    with GatewayProcess(tmp_path, settle="2s") as gateway:
        with OtlpRelay(gateway.intake_url) as relay:
            calls = run_client(client, provider_url, relay.url)
        served: list[Served] = json.loads(fetch(provider_url + "/_served"))
        assert len(served) == calls
        assert relay.saw_content, "content was not there to be dropped"
        assert relay.statuses == {200}
        assert relay.signals == set(client.signals)
        expected = true_totals(client, served)

        status = gateway.wait_until_delivered(at_least=expected["calls"])
        totals = gateway.summary()["totals"]
        groups = gateway.summary("provider,model,kind")["summary"]

        assert {count: totals[count] for count in expected} == expected
        assert status["edge"]["kept"] == expected["calls"], "spans, logs and metrics of one call are one call"
        assert broken_identities(status) == []
        assert {group["kind"] for group in groups} == {"call"}
        assert {group["provider"] for group in groups} == {call["provider"] for call in served}
        assert files_with_canary(tmp_path) == []
        exposed = fetch(gateway.admin_url + "/metrics") + json.dumps([status, totals, groups]).encode()
        assert b"CANARY" not in exposed
        assert gateway.stop() == 0
    assert files_with_canary(tmp_path) == []


def test_the_environments_pin_every_package() -> None:
    for client in CLIENTS.values():
        pins = requirements(client.environment).read_text().splitlines()
        assert all(line.startswith("#") or re.match(r"[\w.-]+==[\w.]+( ;|$)", line) for line in pins)
