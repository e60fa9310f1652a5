"""OTLP/gRPC of the real process: the OpenTelemetry SDK's own exporters, kills under load, a
restart, and a listener that is off.

GRPC_KILL_TEST_KILLS=20 is the long run.
"""

import asyncio
import json
import os
import random
import secrets
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs.export import LogRecordExportResult
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from benchmarks.bodies import Shape, Template
from benchmarks.processes import PROJECT_ROOT
from benchmarks.scenario import Sink, fetch, running_sink
from gateway.common.contract.scopes import INGEST_SCOPE, Fixed
from tests.support.commands import run_command
from tests.support.gateway_process import GatewayProcess, Upstream, broken_identities
from tests.support.grpc_calls import called
from tests.support.keys_beside import BY, keys_beside
from tests.support.kill_load import GrpcLoad, assert_acknowledged_arrived_once
from tests.support.polling import until_true
from tests.support.ports import free_port
from tests.support.sdk_application import Application
from tests.support.spans import call_span
from tests.support.strain_senders import Plan, send_grpc

KILLS = int(os.environ.get("GRPC_KILL_TEST_KILLS", "3"))
WORKERS = 8
SHAPE = Shape(spans=20, attributes=15)
ON = {"http": "127.0.0.1:0", "grpc": "127.0.0.1:0", "admin": "127.0.0.1:0", "service": "127.0.0.1:0"}
CALL = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o"}

pytestmark = pytest.mark.slow


def call(number: int, tokens: tuple[int, int]) -> dict[str, str | int]:
    used = {"gen_ai.usage.input_tokens": tokens[0], "gen_ai.usage.output_tokens": tokens[1]}
    return {**CALL, **used, "gen_ai.response.id": f"chatcmpl-grpc-{number}"}


def exporter(target: str, *, gzip: bool = False, **more: Any) -> OTLPSpanExporter:
    compression = grpc.Compression.Gzip if gzip else grpc.Compression.NoCompression
    return OTLPSpanExporter(f"http://{target}", insecure=True, compression=compression, timeout=60, **more)


def exported(exporter: OTLPSpanExporter, spans: Sequence[ReadableSpan]) -> bool:
    try:
        return exporter.export(spans) is SpanExportResult.SUCCESS
    finally:
        exporter.shutdown()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with GatewayProcess(tmp_path_factory.mktemp("grpc"), config={"listen": ON}) as running:
        yield running


def test_the_sdks_exporters_are_counted_exactly_plain_and_compressed(gateway: GatewayProcess) -> None:
    application = Application("checkout-bot")
    sent = 0
    for gzip in (False, True):
        for _ in range(3):
            application.span("chat gpt-4o", call(sent, (100 + sent, 10 + sent)))
            sent += 1
        assert exported(exporter(gateway.grpc_target, gzip=gzip), application.spans())
    compressed: dict[str, Any] = {"insecure": True, "compression": grpc.Compression.Gzip, "timeout": 60}
    logs = OTLPLogExporter(f"http://{gateway.grpc_target}", **compressed)
    assert logs.export(application.details(call(0, (100, 10)))) is LogRecordExportResult.SUCCESS
    logs.shutdown()
    metrics = OTLPMetricExporter(f"http://{gateway.grpc_target}", **compressed)
    assert metrics.export(application.used(100, 10, CALL)) is MetricExportResult.SUCCESS
    metrics.shutdown()

    status = gateway.wait_until_delivered(at_least=sent)
    assert broken_identities(status) == []
    totals = gateway.summary()["totals"]
    assert totals["calls"] == sent
    assert totals["input_tokens"] == sum(100 + n for n in range(sent))
    assert totals["output_tokens"] == sum(10 + n for n in range(sent))
    answers = fetch(gateway.admin_url + "/metrics").decode()
    for signal, count in (("trace.v1.Trace", 2), ("logs.v1.Logs", 1), ("metrics.v1.Metrics", 1)):
        route = f"/opentelemetry.proto.collector.{signal}Service/Export"
        assert f'telemetry_gateway_http_answers_total{{route="{route}",status="200"}} {count}.0' in answers


def test_the_address_is_stated_where_it_listens(gateway: GatewayProcess, tmp_path: Path) -> None:
    assert f"senders, gRPC: {gateway.grpc_target}" in gateway.log.read_text()
    assert run_command(gateway, "check").out.count("listen.grpc ") == 1
    loaded = Path(f"/proc/{gateway.process.pid}/maps").read_text()
    assert "cygrpc" not in loaded, "grpcio costs memory, and only an exporter needs it"
    off = GatewayProcess(tmp_path)
    with off:
        assert "senders, gRPC: off" in off.log.read_text()
        assert json.loads((tmp_path / "ports.json").read_text())["grpc"] is None
        assert off.stop() == 0


def test_a_key_that_is_not_right_is_refused_once_and_for_good(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keyed = GatewayProcess(tmp_path, config={"listen": ON})

    async def made() -> str:
        async with keys_beside(keyed.data_dir) as keys:
            return (await keys.create("app", Fixed(frozenset({INGEST_SCOPE})), by=BY)).secret.reveal()

    secret = asyncio.run(made())
    application = Application("checkout-bot")
    application.span("chat gpt-4o", call(1, (3, 4)))
    spans = application.spans()
    with keyed:
        assert not exported(exporter(keyed.grpc_target, headers={"authorization": "wrong"}), spans)
        assert "StatusCode.UNAUTHENTICATED, error details: the API key is unknown or disabled" in caplog.text
        assert not exported(exporter(keyed.grpc_target), spans)
        assert keyed.status()["edge"]["received"] == 0
        assert exported(exporter(keyed.grpc_target, headers={"authorization": f"Bearer {secret}"}), spans)
        assert keyed.wait_until_delivered()["edge"]["kept"] == 1
        assert secret not in keyed.log.read_text()


def test_the_exporters_own_retry_carries_it_over_a_restart(tmp_path: Path) -> None:
    listen = {**ON, "grpc": f"127.0.0.1:{free_port()}"}
    application = Application("checkout-bot")
    with GatewayProcess(tmp_path, config={"listen": listen}) as restarted:
        kept_open = exporter(restarted.grpc_target)
        application.span("chat gpt-4o", call(0, (5, 7)))
        assert kept_open.export(application.spans()) is SpanExportResult.SUCCESS
        assert restarted.stop() == 0
        for number in (1, 2, 3):
            application.span("chat gpt-4o", call(number, (5, 7)))
        results: list[SpanExportResult] = []
        sending = threading.Thread(target=lambda: results.append(kept_open.export(application.spans())))
        sending.start()
        restarted.restart()
        sending.join()
        kept_open.shutdown()
        assert results == [SpanExportResult.SUCCESS]
        status = restarted.wait_until_delivered(at_least=4)
        assert broken_identities(status) == []
        assert restarted.summary()["totals"]["input_tokens"] == 4 * 5
        assert status["edge"]["kept"] == 4


async def test_stopping_answers_the_call_that_is_under_way(tmp_path: Path) -> None:
    """SIGTERM while a message is still on its way."""
    with GatewayProcess(tmp_path, config={"listen": ON}) as stopping:
        go, body = asyncio.Event(), memoryview(call_span("under way", (1, 1)))

        async def slowly() -> AsyncIterator[memoryview]:
            yield body[:10]
            await go.wait()
            yield body[10:]

        plan = Plan("under way", 1, http="", grpc=stopping.grpc_target)
        async with aio.insecure_channel(stopping.grpc_target) as channel:
            assert await called(channel, b"") == b""
            under_way = asyncio.ensure_future(send_grpc(plan, 0, slowly(), len(body)))
            await asyncio.to_thread(stopping.process.wait_until, partial(in_flight, stopping), what="under way")
            ended = asyncio.ensure_future(asyncio.to_thread(stopping.stop))
            while isinstance(await called(channel, b""), bytes):
                pass
            go.set()
            assert await under_way == ("grpc 0", None)
        assert await ended == 0
        stopping.restart()
        status = await asyncio.to_thread(stopping.wait_until_delivered)
        assert status["edge"]["kept"] == 1


def in_flight(gateway: GatewayProcess) -> bool | None:
    """Whether a message that is not whole yet takes its share of the budget; None for no."""
    return "telemetry_gateway_http_in_flight_bytes 0.0" not in fetch(gateway.admin_url + "/metrics").decode() or None


def test_large_messages_that_are_refused_leave_no_memory_behind(gateway: GatewayProcess) -> None:
    """12 senders with 60 MiB each, on connections of their own, in a process of their own."""
    process = gateway.process
    before_mib = process.rss_bytes("VmRSS") >> 20
    command = [sys.executable, "-m", "tests.support.large_uploads", gateway.grpc_target, "12", str(60 << 20)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, cwd=PROJECT_ROOT)
    answers = json.loads(done.stdout)
    assert set(answers) <= {"OK", "UNAVAILABLE"}
    assert answers["OK"] >= 1

    def given_back() -> bool | None:
        return process.rss_bytes("VmRSS") >> 20 < before_mib + 100 or None

    process.wait_until(given_back, what="small again")
    budget_mib, joined_mib, fixed_mib = 256, 3 * 64, 32  # docs/promises.md, "Memory under strain"
    assert process.rss_bytes() >> 20 < before_mib + budget_mib + joined_mib + fixed_mib


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Sink]:
    with running_sink(tmp_path / "sink.log") as running:
        yield running


@pytest.mark.timeout(1200)
async def test_every_acknowledged_span_arrives_once_over_kills_under_load(
    tmp_path: Path, sink: Sink, chance: random.Random
) -> None:
    template = Template(SHAPE)
    listen = {**ON, "service": "off"}
    upstream = Upstream(sink.url, secrets.token_hex(16))
    with GatewayProcess(tmp_path, upstream=upstream, config={"listen": listen}) as killed:
        load = GrpcLoad(template, lambda: killed.grpc_target)
        async with asyncio.TaskGroup() as group:
            group.create_task(load.run(WORKERS))
            for _ in range(KILLS):
                load.gateway_is_up()
                acked = len(load.acked)
                await until_true(lambda acked=acked: len(load.acked) > acked, what="acknowledged")
                await asyncio.sleep(chance.uniform(0.02, 0.7))
                load.gateway_is_down()
                killed.kill()
                await asyncio.to_thread(killed.restart)
            load.gateway_is_up()
            load.stop()
        status = await asyncio.to_thread(killed.wait_until_delivered)

    assert_acknowledged_arrived_once(load, sink, template, KILLS)
    assert set(load.statuses) <= {200, 14}
    assert broken_identities(status) == []
