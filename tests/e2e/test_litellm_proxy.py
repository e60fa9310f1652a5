"""The real LiteLLM proxy in front of a mock provider, telling the real gateway in all its
ways: each call counts once.

The provider knows the true usage of every call that it served; the embedded service's totals must
be the same. What LiteLLM loses by itself, when the gateway is away, is shown as what it is, beside
the setting that keeps it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from benchmarks.processes import ProcessFailed
from benchmarks.scenario import fetch
from gateway.products.catalogue import SOURCES
from tests.clients.live import after_shell
from tests.support.canary import files_with_canary
from tests.support.gateway_process import GatewayProcess, Status, broken_identities
from tests.support.litellm_proxy import PROMPT, LiteLLMProxy, pushed
from tests.support.mock_llm import Served
from tests.support.ports import free_port

INSTALL_AND_RUN_S = 900

pytestmark = [pytest.mark.slow, pytest.mark.timeout(INSTALL_AND_RUN_S)]

COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
    "cache_creation_input_tokens": "cache_creation_tokens",
    "reasoning_output_tokens": "reasoning_tokens",
}
"""Of the service's totals -> of the provider."""
OTEL = {"OTEL_EXPORTER": "otlp_http", "OTEL_BSP_SCHEDULE_DELAY": "500", "USE_OTEL_LITELLM_REQUEST_SPAN": "true"}
OTEL_2 = {**OTEL, "LITELLM_OTEL_V2": "true"}


TOLD = 12
"""Calls that LiteLLM reports: what `make_calls` has served, and a hit of its cache."""


@dataclass(frozen=True)
class Way:
    """How the proxy is asked to report."""

    formats: tuple[str, ...] = ()
    """One `generic_api` callback each."""
    batch: int = TOLD
    """Calls a request: all of them, or one."""
    otel: Mapping[str, str] = field(default_factory=dict)
    untold: tuple[str, ...] = ()
    """Parts of the usage that it does not report."""


WAYS = {
    "json_array, one call a request": Way(("json_array",), batch=1),
    "all three formats at once": Way(("json_array", "ndjson", "single")),
    "otel": Way(otel=OTEL),
    "otel, second version": Way(otel=OTEL_2, untold=("reasoning_output_tokens",)),
    "single and otel": Way(("single",), otel=OTEL),
    "ndjson and otel, second version": Way(("ndjson",), otel=OTEL_2),
}


def make_calls(proxy: LiteLLMProxy) -> int:
    """Calls of all kinds; how many of them the gateway's cache answered."""
    cached = {"cache": {"use-cache": True}, "seed": 11}
    assert proxy.chat("fast") == 200
    assert proxy.chat("fast", stream=True) == 200
    assert proxy.chat("careful") == 200
    assert proxy.chat("careful", stream=True) == 200
    assert proxy.ask("/v1/embeddings", {"model": "embedder", "input": [PROMPT]}) == 200
    assert proxy.ask("/v1/responses", {"model": "fast", "input": PROMPT}) == 200
    messages = [{"role": "user", "content": PROMPT}]
    assert proxy.ask("/v1/messages", {"model": "careful", "max_tokens": 50, "messages": messages}) == 200
    assert proxy.chat("broken") == 200, "falls back"
    assert proxy.chat("limited") == 429
    assert proxy.chat("fast", **cached) == 200
    assert proxy.chat("fast", **cached) == 200
    return 1


def gateway_at(folder: Path, port: int, *, settle: str = "3s") -> GatewayProcess:
    """A gateway that listens on *port* whenever it runs."""
    folder.mkdir()
    listen = {"http": f"127.0.0.1:{port}", "grpc": "off", "admin": "127.0.0.1:0", "service": "127.0.0.1:0"}
    return GatewayProcess(folder, settle=settle, config={"listen": listen})


def truth(provider_url: str) -> list[Served]:
    served: list[Served] = json.loads(fetch(provider_url + "/_served"))
    return served


def totals_of(served: list[Served]) -> dict[str, int]:
    counts = {name: sum(call[own] or 0 for call in served) for name, own in COUNTS.items()}  # type: ignore[literal-required]
    return {"calls": len(served), **counts}


def delivered(gateway: GatewayProcess, at_least: int) -> tuple[Status, dict[str, Any]]:
    status = gateway.wait_until_delivered(at_least=at_least)
    return status, gateway.summary()["totals"]


def wait_until_received(gateway: GatewayProcess, items: int) -> None:
    """Raises ProcessFailed with the edge's counts."""
    try:
        gateway.process.wait_until(
            lambda: True if gateway.status()["edge"]["received"] >= items else None,
            what=f"told of {items} items",
        )
    except ProcessFailed as failed:
        raise ProcessFailed(f"{failed}{gateway.status()['edge']}") from failed


@pytest.mark.parametrize("name", WAYS)
def test_each_call_counts_once_however_it_is_reported(tmp_path: Path, provider_url: str, name: str) -> None:
    way = WAYS[name]
    port = free_port()
    source = f"http://127.0.0.1:{port}/v1/sources/litellm"
    settings = {f"gateway_{form}": pushed(source, form) for form in way.formats}
    # A request goes out when so many calls are there, and at no other time: LiteLLM forgets what
    # comes while one is sent.
    env = {"DEFAULT_BATCH_SIZE": str(way.batch), "DEFAULT_FLUSH_INTERVAL_SECONDS": "3600"}
    env |= {**way.otel, "OTEL_ENDPOINT": source} if way.otel else {}
    callbacks = [*settings, *(["otel"] if way.otel else [])]
    # The request comes after the last call; the span of the first one must still wait for it then.
    settle = "10s" if way.otel and way.formats else "3s"
    with (
        gateway_at(tmp_path / "gateway", port, settle=settle) as gateway,
        LiteLLMProxy(tmp_path / "proxy", provider_url, callbacks=callbacks, settings=settings, env=env) as proxy,
    ):
        hits = make_calls(proxy)
        served = truth(provider_url)
        assert len(served) + hits == TOLD
        told_hits = 0 if way.otel is OTEL_2 and not way.formats else hits
        at_edge = (len(served) + hits) * len(way.formats)
        wait_until_received(gateway, max(at_edge, len(served)))
        status, totals = delivered(gateway, len(served) + told_hits)
        expected = {k: v for k, v in totals_of(served).items() if k not in way.untold}

        assert {count: totals[count] for count in expected} == expected
        assert status["edge"]["kept"] == len(served) + told_hits
        assert broken_identities(status) == []
        if not way.otel:
            assert status["edge"]["received"] >= at_edge, "each format told of each call"
            teams = gateway.summary("team")["summary"]
            assert {group["team"] for group in teams} == {"team-alpha"}
        groups = gateway.summary("provider")["summary"]
        assert {group["provider"] for group in groups} == {"openai", "anthropic"}
        assert b"CANARY" not in fetch(gateway.admin_url + "/metrics")
        assert gateway.stop() == 0
    assert files_with_canary(tmp_path / "gateway") == []


RETRYING = "Generic API Logger - retrying request"
LOST = "Generic API Logger Error sending batch"


def assert_counted(gateway: GatewayProcess, served: list[Served]) -> None:
    """The service holds exactly *served*."""
    status, totals = delivered(gateway, len(served))
    assert {count: totals[count] for count in totals_of(served)} == totals_of(served)
    assert broken_identities(status) == []


def test_what_litellm_sends_while_the_gateway_is_away_is_lost_by_default(tmp_path: Path, provider_url: str) -> None:
    port = free_port()
    settings = {"gateway": pushed(f"http://127.0.0.1:{port}/v1/sources/litellm", "json_array")}
    with (
        gateway_at(tmp_path / "gateway", port) as gateway,
        LiteLLMProxy(tmp_path / "proxy", provider_url, callbacks=["gateway"], settings=settings) as proxy,
    ):
        assert proxy.chat("fast") == 200
        delivered(gateway, 1)
        gateway.kill()
        assert proxy.chat("fast") == 200
        proxy.wait_for_log(LOST)
        gateway.restart()
        assert proxy.chat("fast") == 200
        delivered(gateway, 2)
        first, _lost, third = truth(provider_url)
        assert_counted(gateway, [first, third])


PRINTED = after_shell([each.text for each in SOURCES["litellm"].snippets if each.language == "sh"], {})
"""The settings that `telemetry-gateway sources litellm` prints."""


@pytest.mark.parametrize("limit_s", ["1", PRINTED["LOGGING_WORKER_MAX_TIME_PER_COROUTINE"]])
def test_with_the_printed_settings_retries_go_on_where_litellm_would_end_them(
    tmp_path: Path, provider_url: str, limit_s: str
) -> None:
    """LiteLLM's limit is 20 s; 1 s here, to show what it does."""
    port = free_port()
    callback = pushed(f"http://127.0.0.1:{port}/v1/sources/litellm", "json_array", max_retries=8, retry_delay=0.25)
    env = {**PRINTED, "LOGGING_WORKER_MAX_TIME_PER_COROUTINE": limit_s, "DEFAULT_FLUSH_INTERVAL_SECONDS": "3600"}
    is_ended = limit_s == "1"
    with (
        gateway_at(tmp_path / "gateway", port) as gateway,
        LiteLLMProxy(
            tmp_path / "proxy", provider_url, callbacks=["gateway"], settings={"gateway": callback}, env=env
        ) as proxy,
    ):
        assert proxy.chat("fast") == 200
        delivered(gateway, 1)
        gateway.kill()
        assert proxy.chat("fast") == 200
        if is_ended:
            proxy.wait_for_log("timed out")
        else:
            proxy.wait_for_log(RETRYING, times=4)  # 1.75 s after the first
        gateway.restart()
        assert proxy.chat("fast") == 200
        first, meanwhile, last = truth(provider_url)
        assert_counted(gateway, [first, last] if is_ended else [first, meanwhile, last])


@pytest.mark.parametrize("batch", [512, 1])
def test_max_retries_saves_a_request_and_a_batch_of_one_saves_what_comes_meanwhile(
    tmp_path: Path, provider_url: str, batch: int
) -> None:
    """LiteLLM clears its queue when a request ends, with what joined it since the request began."""
    port = free_port()
    callback = pushed(f"http://127.0.0.1:{port}/v1/sources/litellm", "json_array", max_retries=8, retry_delay=0.25)
    env = {"DEFAULT_BATCH_SIZE": str(batch)}
    settings = {"gateway": callback}
    with (
        gateway_at(tmp_path / "gateway", port) as gateway,
        LiteLLMProxy(tmp_path / "proxy", provider_url, callbacks=["gateway"], settings=settings, env=env) as proxy,
    ):
        assert proxy.chat("fast") == 200
        delivered(gateway, 1)
        gateway.kill()
        assert proxy.chat("fast") == 200
        proxy.wait_for_log(RETRYING)
        assert proxy.chat("careful", stream=True) == 200
        proxy.wait_for_log(
            RETRYING, times=proxy.times_logged(RETRYING) + 2
        )  # the stream's call is in the queue by then
        gateway.restart()
        delivered(gateway, 2)
        assert proxy.chat("fast") == 200
        first, second, meanwhile, last = truth(provider_url)
        assert_counted(gateway, [first, second, last] if batch > 1 else [first, second, meanwhile, last])
