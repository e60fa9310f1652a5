"""`GET /metrics` of a running gateway: what it measured of calls on their way from a sender to the
upstream, that Prometheus reads it, and that docs/metrics.md has every metric of it.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.bodies import Shape, Template
from gateway.common.native import VARIABLE
from gateway.common.release import commit, release
from gateway.observability.cell import CELL_NAMES
from tests.support.gateway_process import GatewayProcess
from tests.support.grpc_calls import TRACES
from tests.support.promtool import needs_promtool, promtool

DOCS = Path(__file__).parents[2] / "docs"
PROTOBUF = {"Content-Type": "application/x-protobuf"}
SPANS = 5
TEMPLATE = Template(Shape(spans=SPANS, attributes=15))


@pytest.fixture(scope="module")
def with_worker() -> Iterator[None]:
    """The worker process runs from the start, as without the native extension."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "python")
        yield


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, with_worker: None) -> Iterator[GatewayProcess]:
    """One that took two payloads over HTTP and one over gRPC, refused one, and delivered all."""
    any_port = "127.0.0.1:0"
    listen = {"http": any_port, "grpc": any_port, "admin": any_port, "service": any_port}
    with GatewayProcess(tmp_path_factory.mktemp("metrics"), config={"listen": listen}) as gateway:
        for number in range(2):
            httpx.post(f"{gateway.intake_url}/v1/traces", content=TEMPLATE.body(number), headers=PROTOBUF)
        httpx.post(f"{gateway.intake_url}/v1/traces", content=b"\xff", headers=PROTOBUF)
        with grpc.insecure_channel(gateway.grpc_target) as channel:
            channel.unary_unary(TRACES)(TEMPLATE.body(2), timeout=30)
        gateway.wait_until_delivered(at_least=3 * SPANS)
        yield gateway


@pytest.fixture(scope="module")
def families(gateway: GatewayProcess) -> dict[str, Metric]:
    """By name, `_total` of counters included."""
    text = httpx.get(f"{gateway.admin_url}/metrics").text
    found = text_string_to_metric_families(text)
    return {family.name + "_total" * (family.type == "counter"): family for family in found}


def count_of(family: Metric, **labels: str) -> float:
    """How many observations a histogram has."""
    return sum(x.value for x in family.samples if x.name.endswith("_count") and labels.items() <= x.labels.items())


def test_each_step_of_a_call_is_timed(families: dict[str, Metric]) -> None:
    requests = families["telemetry_gateway_request_duration_seconds"]
    assert count_of(requests, transport="http", route="/v1/traces") == 3
    assert count_of(requests, transport="grpc", route=TRACES) == 1
    assert count_of(families["telemetry_gateway_append_duration_seconds"]) == 3
    assert count_of(families["telemetry_gateway_spool_commit_duration_seconds"]) >= 1
    assert 1 <= count_of(families["telemetry_gateway_settle_lag_seconds"]) <= 3


def test_the_settle_lag_holds_the_time_to_settle(families: dict[str, Metric]) -> None:
    """200 ms here: less would be a clock of its own."""
    samples = {
        x.name: x.value for x in families["telemetry_gateway_settle_lag_seconds"].samples if "le" not in x.labels
    }
    total, n = (samples[f"telemetry_gateway_settle_lag_seconds_{part}"] for part in ("sum", "count"))
    assert total / n >= 0.2


def test_each_send_is_timed_and_its_answer_counted(families: dict[str, Metric]) -> None:
    outcomes = {
        (x.labels["lane"], x.labels["outcome"]): x.value for x in families["telemetry_gateway_sends_total"].samples
    }
    answers = {
        (x.labels["lane"], x.labels["status"]): x.value
        for x in families["telemetry_gateway_upstream_answers_total"].samples
    }
    sent = outcomes["ai_telemetry", "delivered"]
    assert sent >= 1
    assert answers["ai_telemetry", "2xx"] == sent
    assert count_of(families["telemetry_gateway_send_duration_seconds"], lane="ai_telemetry") == sent


CELL_METRICS = {name.name + "_total" * (name.kind == "counter"): name.kind for name in CELL_NAMES}
"""Of gateways of a cell: `tests/e2e/test_cell.py` finds each."""


def test_both_processes_are_measured(gateway: GatewayProcess, families: dict[str, Metric]) -> None:
    (own,) = families["process_resident_memory_bytes"].samples
    (parser,) = families["telemetry_gateway_parser_process_resident_memory_bytes"].samples
    assert own.value > 2**24 < parser.value
    assert families["process_open_fds"].samples[0].value > 5


def test_release_commit_and_reader_are_labels(families: dict[str, Metric]) -> None:
    (sample,) = families["telemetry_gateway_build_info"].samples
    assert sample.labels == {"version": release(), "commit": commit() or "unknown", "reader": "python"}
    assert sample.value == 1


@needs_promtool
def test_prometheus_finds_no_fault(gateway: GatewayProcess) -> None:
    promtool("check", "metrics", given=httpx.get(f"{gateway.admin_url}/metrics").text)


def test_every_metric_is_documented_with_its_type_and_no_other(families: dict[str, Metric]) -> None:
    page = (DOCS / "metrics.md").read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| `")]
    metrics = [row for row in rows if row[1] in {"counter", "gauge", "histogram"}]
    documented = {name: row[1] for row in metrics for name in re.findall(r"`(\w+)`", row[0])}
    parser = "telemetry_gateway_parser_"
    assert (
        documented
        == {
            name.removeprefix(parser) if name.startswith(parser) else name: family.type
            for name, family in families.items()
        }
        | CELL_METRICS
    )
