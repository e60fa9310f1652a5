"""The gateway's own metrics and traces at a real OTLP endpoint, over HTTP and gRPC; and that an
endpoint that is gone changes nothing.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from grpc import aio
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_grpc
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as trace_grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from gateway.app import Gateway
from gateway.config.draft import ConfigFaults
from gateway.config.loader import load_config
from gateway.operate.parts import PARTS
from tests.support.grpc_calls import TRACES
from tests.support.polling import until_true
from tests.support.ports import free_port
from tests.support.running_gateway import ANY_PORT, running_gateway
from tests.support.spans import call_span
from tests.support.upstream import Reply, Upstream, running_upstream

PROTOBUF = {"Content-Type": "application/x-protobuf"}
CANARY = "CANARY-7Q-telemetry"


class Backend:
    """What an endpoint got."""

    def __init__(self) -> None:
        self.metrics: list[ExportMetricsServiceRequest] = []
        self.traces: list[ExportTraceServiceRequest] = []
        self.metadata: dict[str, str] = {}

    def spans(self) -> list[Span]:
        return [
            span
            for request in self.traces
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def latest(self) -> dict[str, Any]:
        """Name -> metric, of the last push."""
        (resource,) = self.metrics[-1].resource_metrics
        return {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}


class MetricsService(metrics_grpc.MetricsServiceServicer):
    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 gRPC's name
        self._backend.metadata = dict(context.invocation_metadata())
        self._backend.metrics.append(request)
        return ExportMetricsServiceResponse()


class TraceService(trace_grpc.TraceServiceServicer):
    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 as above
        self._backend.traces.append(request)
        return ExportTraceServiceResponse()


@asynccontextmanager
async def grpc_backend() -> AsyncIterator[tuple[str, Backend]]:
    backend, server = Backend(), aio.server()
    metrics_grpc.add_MetricsServiceServicer_to_server(MetricsService(backend), server)  # type: ignore[no-untyped-call]
    trace_grpc.add_TraceServiceServicer_to_server(TraceService(backend), server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"http://127.0.0.1:{port}", backend
    finally:
        await server.stop(None)


def read_http(upstream: Upstream) -> Backend:
    backend = Backend()
    for seen in upstream.seen:
        body = seen.body  # as the server unpacked it
        if seen.path == "/v1/metrics":
            backend.metrics.append(ExportMetricsServiceRequest.FromString(body))
        elif seen.path == "/v1/traces":
            backend.traces.append(ExportTraceServiceRequest.FromString(body))
        backend.metadata = dict(seen.headers)
    return backend


def options(endpoint: str, **more: object) -> dict[str, object]:
    telemetry = {"endpoint": endpoint, "interval": "1s", "sample_ratio": 1.0, **more}
    return {"telemetry": telemetry, "counting.settle": "50ms", "listen.grpc": ANY_PORT}


async def send_calls(running: Gateway) -> None:
    """One over HTTP and one over gRPC, with a prompt; return when both are delivered."""
    prompt = {"gen_ai.prompt": CANARY}
    async with httpx.AsyncClient() as client:
        body = call_span("one", (5, 2), more=prompt)
        await client.post(f"http://{running.ports.http}/v1/traces", content=body, headers=PROTOBUF)
    async with aio.insecure_channel(str(running.ports.grpc)) as channel:
        await channel.unary_unary(TRACES)(call_span("two", (5, 2), more=prompt), timeout=30)
    await until_true(lambda: running.spool.depth("ai_telemetry").delivered == 2, what="delivered")


def check_metrics(backend: Backend, gateway_id: str) -> None:
    (resource,) = backend.metrics[-1].resource_metrics
    attributes = {each.key: each.value.string_value for each in resource.resource.attributes}
    assert attributes["service.name"] == "ai-telemetry-gateway"
    assert attributes["service.instance.id"] == gateway_id
    found = backend.latest()
    received = found["telemetry_gateway_items_received_total"]
    assert received.sum.is_monotonic
    assert received.sum.data_points[0].as_double == 2
    assert received.sum.data_points[0].start_time_unix_nano == 0, "it goes on after a restart"
    (requests,) = found["http.server.request.duration"].histogram.data_points
    assert [(x.key, x.value.string_value) for x in requests.attributes] == [("http.route", "/v1/traces")]
    assert (requests.count, sum(requests.bucket_counts)) == (1, 1)
    assert len(requests.bucket_counts) == len(requests.explicit_bounds) + 1
    assert requests.sum > 0
    (calls,) = found["telemetry_gateway_request_duration_seconds"].histogram.data_points
    assert ("transport", "grpc") in [(x.key, x.value.string_value) for x in calls.attributes]
    assert found["telemetry_gateway_spool_max_bytes"].unit == "By"
    assert found["process.memory.usage"].gauge.data_points[0].as_double > 2**20


def check_traces(backend: Backend) -> None:
    spans = {span.name: span for span in backend.spans()}
    request = spans["POST /v1/traces"]
    appends = [span for span in backend.spans() if span.name == "append"]
    (append,) = [span for span in appends if span.parent_span_id == request.span_id]
    assert append.trace_id == request.trace_id
    assert request.start_time_unix_nano <= append.start_time_unix_nano <= append.end_time_unix_nano
    assert append.end_time_unix_nano <= request.end_time_unix_nano + 1_000_000
    assert request.kind == Span.SpanKind.SPAN_KIND_SERVER
    of_grpc = spans[TRACES[1:]]
    for name in ("settle", "send ai_telemetry"):
        linked = {link.span_id for span in backend.spans() if span.name == name for link in span.links}
        assert linked == {request.span_id, of_grpc.span_id}, name
    assert spans["send ai_telemetry"].kind == Span.SpanKind.SPAN_KIND_CLIENT
    assert {span.status.code for span in backend.spans()} == {Status.StatusCode.STATUS_CODE_UNSET}


async def test_metrics_and_linked_traces_reach_an_endpoint_over_http(tmp_path: Path) -> None:
    async with running_upstream() as upstream:
        more = options(upstream.base_url, headers={"X-Tenant": "tenant-secret"})
        async with running_gateway(tmp_path, **more) as running:
            await send_calls(running)
            gateway_id = running.spool.gateway_id
        backend = read_http(upstream)  # with the push at the end
    check_metrics(backend, gateway_id)
    check_traces(backend)
    assert (backend.metadata["X-Tenant"], backend.metadata["Content-Encoding"]) == ("tenant-secret", "gzip")
    everything = b"".join(request.SerializeToString() for request in (*backend.metrics, *backend.traces))
    assert CANARY.encode() not in everything
    assert b"tenant-secret" not in everything


async def test_metrics_and_linked_traces_reach_an_endpoint_over_grpc(tmp_path: Path) -> None:
    async with grpc_backend() as (endpoint, backend):
        more = options(endpoint, protocol="grpc", headers={"x-tenant": "a"})
        async with running_gateway(tmp_path, **more) as running:
            await send_calls(running)
            gateway_id = running.spool.gateway_id
        check_metrics(backend, gateway_id)
        check_traces(backend)
        assert backend.metadata["x-tenant"] == "a"


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
async def test_an_endpoint_that_is_gone_changes_nothing(tmp_path: Path, protocol: str) -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    async with running_gateway(tmp_path, **options(endpoint, protocol=protocol)) as running:
        await send_calls(running)
        registry, failed = running.admin[PARTS].registry, {"signal": "metrics", "outcome": "failed"}
        name = "telemetry_gateway_own_telemetry_pushes_total"
        await until_true(lambda: bool(registry.get_sample_value(name, failed)), what="a push failed")
        edge = running.spool.edge()
        assert (edge["received"], edge["kept"]) == (2, 2)
        began_s = time.monotonic()
    assert time.monotonic() - began_s < 45, "a push that is waited for ends after 60 s"


async def test_an_endpoint_that_never_answers_holds_nothing_up(tmp_path: Path) -> None:
    async with running_upstream() as upstream:
        never = asyncio.Event()
        upstream.respond = lambda _: Reply(200, until=never)
        async with running_gateway(tmp_path, **options(upstream.base_url)) as running:
            await upstream.seen_at_least(1)
            await send_calls(running)
        never.set()


@pytest.mark.parametrize(
    ("listen", "endpoint", "named"),
    [
        ({"listen.http": "127.0.0.1:4318"}, "http://127.0.0.1:4318", "listen.http"),
        ({"listen.http": "127.0.0.1:4318"}, "http://localhost:4318/", "listen.http"),
        ({"listen.http": "0.0.0.0:4318"}, "http://127.0.0.1:4318", "listen.http"),
        ({"listen.grpc": "127.0.0.1:14317"}, "http://[::1]:14317", "listen.grpc"),
        ({"listen.grpc": "192.0.2.7:4317"}, "http://192.0.2.7:4317", "listen.grpc"),
        ({"telemetry.protocol": "grpc"}, "http://127.0.0.1", "listen.grpc"),
    ],
)
def test_its_own_listener_is_refused_as_endpoint(
    tmp_path: Path, listen: Mapping[str, str], endpoint: str, named: str
) -> None:
    with pytest.raises(ConfigFaults) as refused:
        load_config(None, {"data_dir": str(tmp_path), **listen, "telemetry.endpoint": endpoint}, {})
    assert f"telemetry.endpoint: is this gateway's own {named}" in str(refused.value)


def test_another_port_or_machine_is_taken(tmp_path: Path) -> None:
    for endpoint in ("http://127.0.0.1:14318", "https://collector.example:4318"):
        load_config(None, {"data_dir": str(tmp_path), "telemetry": {"endpoint": endpoint}}, {})
