"""OTLP/gRPC over raw channels, against a whole gateway in this process."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from gateway.access.limits import RateLimits
from gateway.app import Gateway
from gateway.common.contract.scopes import EVENT_SCOPE, INGEST_SCOPE, Fixed
from gateway.config.loader import load_config
from gateway.config.values import TcpAddress
from gateway.serve.grpc import export
from gateway.serve.grpc.export import BARE_RETRY_S
from spool.errors import SpoolError
from tests.support.grpc_calls import LOGS, METRICS, TRACES, called, refused
from tests.support.http2_client import Http2Client, http2, message
from tests.support.metrics import LABELS, at_ns, attributes
from tests.support.polling import HANGS_S, until_true
from tests.support.running_gateway import ANY_PORT, options, running_gateway
from tests.support.spans import call_span
from tests.support.strain_senders import Plan, Send, send_grpc, send_http

MAX_BODY_BYTES = 256 * 1024
MAX_DECOMPRESSED_BYTES = 1024 * 1024
KIB = 1024


LIMITS: dict[str, object] = {
    "listen.grpc": ANY_PORT,
    "listen.admin": "off",
    "counting.settle": "60s",
    "limits.max_body_bytes": MAX_BODY_BYTES,
    "limits.max_decompressed_bytes": MAX_DECOMPRESSED_BYTES,
}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    async with running_gateway(tmp_path, **LIMITS) as running:
        yield running


def target(gateway: Gateway) -> str:
    assert isinstance(gateway.ports.grpc, TcpAddress)
    return str(gateway.ports.grpc)


@asynccontextmanager
async def connected(gateway: Gateway) -> AsyncIterator[Http2Client]:
    address = gateway.ports.grpc
    assert isinstance(address, TcpAddress)
    async with http2(address.host, address.port) as client:
        yield client


async def nothing_yet() -> AsyncIterator[bytes]:
    """A message that never comes."""
    await asyncio.Event().wait()
    yield b""


@pytest.fixture
async def channel(gateway: Gateway) -> AsyncIterator[Any]:
    async with aio.insecure_channel(target(gateway)) as opened:
        yield opened


def kept(gateway: Gateway) -> int:
    return gateway.spool.edge()["kept"]


def padded(n_bytes: int) -> bytes:
    """A valid request of *n_bytes*: an unknown field of zeros."""
    head = b"\x9a\x06"  # field 99, length-delimited
    for size in range(n_bytes - 2, 0, -1):
        length, rest = bytearray(), size
        while rest > 0x7F:
            length.append(rest & 0x7F | 0x80)
            rest >>= 7
        length.append(rest)
        if len(head) + len(length) + size == n_bytes:
            return head + bytes(length) + bytes(size)
    raise AssertionError(n_bytes)


async def test_a_span_is_kept_once_plain_and_compressed(gateway: Gateway, channel: Any) -> None:
    assert await called(channel, call_span("a", (10, 5))) == b""
    assert await called(channel, call_span("b", (10, 5)), gzip=True) == b""
    assert await called(channel, call_span("b", (10, 5))) == b"", "the answer was lost; it comes again"
    assert kept(gateway) == 2
    assert gateway.spool.edge()["duplicate"] == 1
    assert gateway.receiver.counts.answers[TRACES, 200] == 3


@pytest.mark.parametrize("method", [TRACES, LOGS, METRICS])
async def test_a_request_without_data_succeeds(channel: Any, method: str) -> None:
    assert await called(channel, b"", method) == b""
    assert await called(channel, b"", method, gzip=True) == b""


async def test_calls_on_one_connection_do_not_wait_for_each_other(gateway: Gateway, channel: Any) -> None:
    answers = await asyncio.gather(*(called(channel, call_span(f"many-{n}", (1, 1))) for n in range(150)))
    assert set(answers) == {b""}
    assert kept(gateway) == 150


async def test_partial_success_counts_the_spans_that_were_rejected(gateway: Gateway, channel: Any) -> None:
    request = ExportTraceServiceRequest.FromString(call_span("good", (3, 4)))
    spans = request.resource_spans[0].scope_spans[0].spans
    for name in (b"", b"short"):
        spans.add(
            trace_id=name, span_id=b"12345678", start_time_unix_nano=at_ns(1), attributes=attributes(dict(LABELS))
        )
    answer = await called(channel, request.SerializeToString())
    assert isinstance(answer, bytes)
    partial = ExportTraceServiceResponse.FromString(answer).partial_success
    assert partial.rejected_spans == 2
    assert partial.error_message.startswith("2 of 3 items rejected")
    assert kept(gateway) == 1

    del spans[0]
    nothing = await refused(channel, request.SerializeToString())
    assert nothing.code is grpc.StatusCode.INVALID_ARGUMENT
    assert nothing.text.startswith("2 of 2 items rejected")


GZIP = [("grpc-encoding", "gzip")]


@pytest.mark.parametrize(
    ("sent", "headers", "text"),
    [
        (message(b"damaged", compressed=True), GZIP, "the compressed body is damaged"),
        (message(gzip.compress(bytes(1000), mtime=0)[:-6], compressed=True), GZIP, "the compressed body is cut short"),
        (message(gzip.compress(b"", mtime=0), compressed=True), [], "compressed, and grpc-encoding does not name gzip"),
        (b"", [], "the call holds no message"),
        (message(b"")[:3], [], "the message is cut short"),
        (message(b"1234")[:-1], [], "the message is cut short"),
        (message(b"") * 2, [], "the call holds more than one message"),
        (b"\2" + message(b"")[1:], [], "neither 0 nor 1"),
        (message(b""), [("grpc-timeout", "soon")], "grpc-timeout must be"),
    ],
    ids=["gzip", "cut gzip", "no coding", "nothing", "cut prefix", "cut", "two", "flag", "timeout"],
)
async def test_what_is_no_message_is_refused_for_good(
    gateway: Gateway, sent: bytes, headers: list[tuple[str, str]], text: str
) -> None:
    async with connected(gateway) as client:
        stream = client.call(more=headers)
        await client.send(stream, sent, end=True)
        answer = await client.answer(stream)
    assert (answer.status, text in answer.text) == (3, True), answer
    assert gateway.receiver.budget.used_bytes == 0


async def test_bytes_that_are_no_protobuf_are_refused_for_good(channel: Any) -> None:
    answer = await refused(channel, b"\xff\xff")
    assert answer.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "not a valid OTLP protobuf message" in answer.text
    assert answer.status is not None
    assert (answer.status.code, answer.status.message) == (3, answer.text)
    assert answer.bad_fields == ["body"]
    assert answer.retry_after_s is None


async def test_a_call_without_a_message_is_refused(channel: Any) -> None:
    async def nothing() -> AsyncIterator[bytes]:
        return
        yield b""

    with pytest.raises(grpc.RpcError) as raised:
        await channel.stream_unary(TRACES)(nothing())
    assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_too_large_is_final_and_names_the_option(gateway: Gateway, channel: Any) -> None:
    assert await called(channel, padded(MAX_BODY_BYTES)) == b""
    for body, is_compressed, option in (
        (padded(MAX_BODY_BYTES + 1), False, "limits.max_body_bytes"),
        (bytes(MAX_DECOMPRESSED_BYTES + 1), True, "limits.max_decompressed_bytes"),
        (bytes(4 * MAX_BODY_BYTES), False, "limits.max_body_bytes"),
    ):
        answer = await refused(channel, body, gzip=is_compressed)
        assert answer.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert option in answer.text
        assert answer.retry_after_s is None
    assert gateway.receiver.budget.used_bytes == 0
    assert [entry["reason"] for entry in gateway.receiver.refused.status()] == ["too_large"]


async def test_unknown_methods_services_and_codings_are_unimplemented(channel: Any) -> None:
    for method in (TRACES.replace("Export", "Import"), "/a.Service/Export"):
        assert (await refused(channel, b"", method)).code is grpc.StatusCode.UNIMPLEMENTED
    with pytest.raises(grpc.RpcError) as raised:
        await channel.unary_unary(TRACES)(b"x" * 1000, compression=grpc.Compression.Deflate)
    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_keys_come_in_the_metadata_as_in_the_headers_of_http(gateway: Gateway, channel: Any) -> None:
    await called(channel, call_span("open", (1, 1)))
    assert [sender.paths for sender in gateway.receiver.outcomes.recent.last_hour()] == [(TRACES,)]
    good, other = [
        (await gateway.keys.create(name, Fixed(frozenset({scope})), by="ops@example.com")).secret.reveal()
        for name, scope in (("good", INGEST_SCOPE), ("other", EVENT_SCOPE))
    ]
    body = call_span("keyed", (1, 1))
    for name, value in (
        ("authorization", good),
        ("authorization", f"Bearer {good}"),
        ("x-api-key", good),
        ("api-key", good),
    ):
        assert await called(channel, body, metadata=[(name, value)]) == b""

    unknown = await refused(channel, body, metadata=[("authorization", "tgk_unknown")])
    assert unknown.code is grpc.StatusCode.UNAUTHENTICATED
    assert unknown.text == "the API key is unknown or disabled"
    assert unknown.status is not None
    assert (await refused(channel, body)).code is grpc.StatusCode.UNAUTHENTICATED
    assert (await refused(channel, body, metadata=[("authorization", other)])).code is grpc.StatusCode.PERMISSION_DENIED
    two = await refused(channel, body, metadata=[("authorization", good), ("x-api-key", other)])
    assert "two API keys that differ" in two.text
    reasons = {(entry["reason"], entry["route"]) for entry in gateway.receiver.refused.status()}
    assert reasons == {
        (reason, TRACES) for reason in ("key_unknown_or_disabled", "no_key", "scope_missing", "keys_differ")
    }


async def test_a_refused_sender_is_answered_before_its_message_came(gateway: Gateway, channel: Any) -> None:
    await gateway.keys.create("any", Fixed(frozenset({INGEST_SCOPE})), by="ops@example.com")
    with pytest.raises(grpc.RpcError) as raised:
        await channel.stream_unary(TRACES)(nothing_yet(), timeout=20)
    assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_key_over_its_quota_is_asked_to_come_again(gateway: Gateway, channel: Any) -> None:
    made = await gateway.keys.create(
        "batch", Fixed(frozenset({INGEST_SCOPE})), by="ops@example.com", limits=RateLimits(requests_per_minute=1)
    )
    metadata = [("authorization", made.secret.reveal())]
    assert await called(channel, b"", metadata=metadata) == b""
    over = await refused(channel, b"", metadata=metadata)
    assert over.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert over.retry_after_s is not None
    assert 1 <= over.retry_after_s <= 60


async def test_a_full_or_failing_spool_asks_the_sender_to_come_again(
    gateway: Gateway, channel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = gateway.spool.settings
    gateway.spool.settings = replace(settings, max_bytes=1)
    full = await refused(channel, call_span("a", (1, 1)))
    gateway.spool.settings = settings
    assert full.code is grpc.StatusCode.UNAVAILABLE
    assert full.retry_after_s is not None
    assert full.retry_after_s > BARE_RETRY_S
    assert full.retry_info is None, "the Python exporter would drop its data at once"

    for error in (SpoolError("the ledger is being read again"), ValueError("of our own: a-secret")):

        def fail(size: int, error: Exception = error) -> None:
            raise error

        with monkeypatch.context() as patched:
            patched.setattr(gateway.spool, "admit", fail)
            failing = await refused(channel, call_span("a", (1, 1)))
        assert failing.code is grpc.StatusCode.UNAVAILABLE
        assert failing.retry_after_s == BARE_RETRY_S
        assert failing.retry_info is not None
        assert "a-secret" not in failing.text
    assert gateway.receiver.counts.unforeseen == 1
    assert kept(gateway) == 0
    assert await called(channel, call_span("a", (1, 1))) == b""
    assert kept(gateway) == 1


async def test_a_message_on_its_way_costs_what_came_of_it(gateway: Gateway, channel: Any) -> None:
    budget = gateway.receiver.budget
    async with connected(gateway) as client:
        stream = client.call()
        await client.send(stream, b"\0" + (200 * KIB).to_bytes(4) + bytes(60 * KIB))
        await until_true(lambda: budget.used_bytes == 60 * KIB + 5, what="held")
        budget.limit_bytes = 60 * KIB + 100
        full = await refused(channel, padded(KIB))
        assert full.code is grpc.StatusCode.UNAVAILABLE
        assert full.text == "too many bytes are in flight"
        assert full.retry_after_s is not None
        budget.limit_bytes = 64 * MAX_BODY_BYTES
        assert await called(channel, padded(KIB)) == b""
        await client.send(stream, padded(200 * KIB)[60 * KIB :], end=True)
        assert (await client.answer(stream)).status == 3, "zeros and the rest of a request are none"
        assert budget.used_bytes == 0
        client.call()
        await client.send(stream + 2, b"\0" + (200 * KIB).to_bytes(4) + bytes(60 * KIB))
        await until_true(lambda: budget.used_bytes == 60 * KIB + 5, what="held")
    await until_true(lambda: budget.used_bytes == 0, what="given back")
    assert gateway.receiver.counts.gone == 1


async def test_a_message_too_large_is_refused_by_its_prefix(gateway: Gateway) -> None:
    async with connected(gateway) as client:
        stream = client.call()
        await client.send(stream, b"\0" + (MAX_BODY_BYTES + 1).to_bytes(4))
        answer = await client.answer(stream)
    assert (answer.status, "limits.max_body_bytes" in answer.text) == (8, True)


async def test_a_message_larger_than_every_window_is_taken_whole(gateway: Gateway) -> None:
    gateway.receiver.limits = replace(gateway.receiver.limits, max_body_bytes=32 * KIB * KIB)
    gateway.receiver.limits = replace(gateway.receiver.limits, max_decompressed_bytes=32 * KIB * KIB)
    async with connected(gateway) as client:
        stream = client.call()
        await client.send(stream, message(padded(20 * KIB * KIB)), end=True)
        assert (await client.answer(stream)).status == 0


async def test_one_sender_leaves_room_for_another(gateway: Gateway, channel: Any) -> None:
    keys = [
        (await gateway.keys.create(name, Fixed(frozenset({INGEST_SCOPE})), by="ops@example.com")).secret.reveal()
        for name in ("greedy", "modest")
    ]
    greedy, modest = ([("authorization", key)] for key in keys)
    budget = gateway.receiver.budget
    budget.limit_bytes = 8 * KIB
    async with connected(gateway) as client:
        streams = [client.call(more=greedy) for _ in range(8)]
        for stream in streams[:4]:
            await client.send(stream, b"\0" + (200 * KIB).to_bytes(4) + bytes(KIB - 5))
        await until_true(lambda: budget.used_bytes == 4 * KIB, what="held")
        for stream in streams[4:]:
            await client.send(stream, bytes(KIB))
            answer = await client.answer(stream)
            assert (answer.status, answer.text) == (14, "too many bytes of this sender are in flight")
        assert await called(channel, call_span("a", (1, 1)), metadata=modest) == b""
        over = await refused(channel, call_span("b", (1, 1)), metadata=greedy)
        assert over.text == "too many bytes of this sender are in flight"
        assert over.retry_after_s is not None
    await until_true(lambda: budget.used_bytes == 0, what="given back")
    assert await called(channel, call_span("b", (1, 1)), metadata=greedy) == b""


async def test_the_calls_of_one_sender_leave_room_for_another(
    gateway: Gateway, channel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "MAX_CALLS", 8)
    keys = [
        (await gateway.keys.create(name, Fixed(frozenset({INGEST_SCOPE})), by="ops@example.com")).secret.reveal()
        for name in ("greedy", "modest")
    ]
    greedy, modest = ([("authorization", key)] for key in keys)
    slow = [channel.stream_unary(TRACES)(nothing_yet(), metadata=greedy, timeout=60) for _ in range(8)]
    calls = [asyncio.ensure_future(call) for call in slow]
    await until_true(lambda: sum(call.done() for call in calls) == 4, what="refused")
    assert await called(channel, call_span("a", (1, 1)), metadata=modest) == b""
    over = await refused(channel, call_span("b", (1, 1)), metadata=greedy)
    assert (over.code, over.text) == (
        grpc.StatusCode.UNAVAILABLE,
        "too many calls of this sender are under way",
    )
    for call in slow:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    await until_true(lambda: not gateway.receiver.budget.used_bytes, what="given back")


async def test_a_message_that_never_comes_ends_and_so_does_one_whose_sender_left(
    gateway: Gateway, channel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.receiver.limits = replace(gateway.receiver.limits, body_timeout_s=0.05)
    with pytest.raises(grpc.RpcError) as raised:
        await channel.stream_unary(TRACES)(nothing_yet(), timeout=20)
    assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
    assert gateway.receiver.budget.used_bytes == 0

    gateway.receiver.limits = replace(gateway.receiver.limits, body_timeout_s=60)
    with pytest.raises(grpc.RpcError) as raised:
        await channel.stream_unary(TRACES)(nothing_yet(), timeout=0.1)
    assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    counts, budget = gateway.receiver.counts, gateway.receiver.budget
    await until_true(lambda: counts.gone == 1 and not budget.used_bytes, what="given back")


@pytest.mark.parametrize(("send", "answer"), [(send_http, "503"), (send_grpc, "grpc 14")], ids=["http", "grpc"])
async def test_a_body_of_which_a_byte_comes_now_and_then_ends_in_time(
    gateway: Gateway, send: Send, answer: str
) -> None:
    gateway.receiver.limits = replace(gateway.receiver.limits, body_timeout_s=1)
    sent = 0

    async def trickle() -> AsyncIterator[memoryview]:
        nonlocal sent
        while True:
            yield memoryview(b"\0")
            sent += 1
            await asyncio.sleep(0.01)

    plan = Plan("slow", 1, http=str(gateway.ports.http), grpc=str(gateway.ports.grpc))
    async with asyncio.timeout(HANGS_S):
        seen, retry_after_s = await send(plan, 0, trickle(), 10_000)
    assert seen == answer
    assert retry_after_s is not None
    assert sent > 1, "it was not silent"
    assert gateway.receiver.budget.used_bytes == 0


async def test_a_client_of_http_1_reads_which_port_it_wants(gateway: Gateway, channel: Any) -> None:
    address = gateway.ports.grpc
    assert isinstance(address, TcpAddress)
    assert isinstance(gateway.ports.http, TcpAddress)
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
    async with asyncio.timeout(HANGS_S):
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 505 ")
    assert answer.endswith(f"OTLP over HTTP is on port {gateway.ports.http.port}".encode())
    assert [entry["reason"] for entry in gateway.receiver.refused.status()] == ["http_on_grpc_port"]
    writer.close()
    assert await called(channel, call_span("a", (1, 1))) == b""


def held_append(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """What lets appends go on, and what is set once one waits."""
    go, waits = asyncio.Event(), asyncio.Event()
    core = gateway.intake.front.core
    take = core.take

    async def slow_take(*arguments: Any) -> Any:
        waits.set()
        await go.wait()
        return await take(*arguments)

    monkeypatch.setattr(core, "take", slow_take)
    return go, waits


async def test_a_deadline_during_the_commit_keeps_the_message_once(
    gateway: Gateway, channel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The append goes on without its sender; the repeat is a duplicate."""
    go, waits = held_append(gateway, monkeypatch)
    body = call_span("late", (1, 1))
    late = await refused(channel, body, timeout_s=2)
    assert late.code is grpc.StatusCode.DEADLINE_EXCEEDED
    await waits.wait()
    assert kept(gateway) == 0
    assert gateway.receiver.budget.used_bytes == len(message(body))
    go.set()
    assert await called(channel, body) == b""
    assert (kept(gateway), gateway.spool.edge()["duplicate"]) == (1, 1)
    assert gateway.receiver.budget.used_bytes == 0


async def test_stopping_answers_what_is_under_way_and_takes_nothing_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = await Gateway.start(load_config(None, options(tmp_path, **LIMITS), {}))
    go, waits = held_append(gateway, monkeypatch)
    async with aio.insecure_channel(target(gateway)) as channel:
        watching = HealthStub(channel).Watch(HealthCheckRequest())
        assert (await watching.read()).status == HealthCheckResponse.SERVING
        under_way = asyncio.ensure_future(called(channel, call_span("a", (1, 1))))
        await waits.wait()
        stopping = asyncio.ensure_future(gateway.stop())
        assert (await watching.read()).status == HealthCheckResponse.NOT_SERVING
        late = await refused(channel, call_span("b", (1, 1)))
        assert late.code is grpc.StatusCode.UNAVAILABLE
        go.set()
        assert await under_way == b""
        assert await watching.read() is aio.EOF
        await stopping
    assert kept(gateway) == 1


async def test_health_and_reflection_describe_the_services(channel: Any, gateway: Gateway) -> None:
    health = HealthStub(channel)
    for service in ("", TRACES.split("/")[1], LOGS.split("/")[1], METRICS.split("/")[1]):
        assert (await health.Check(HealthCheckRequest(service=service))).status == HealthCheckResponse.SERVING
    with pytest.raises(grpc.RpcError) as raised:
        await health.Check(HealthCheckRequest(service="a.Service"))
    assert raised.value.code() is grpc.StatusCode.NOT_FOUND

    def described() -> tuple[set[str], str]:
        with grpc.insecure_channel(target(gateway)) as plain:
            database = ProtoReflectionDescriptorDatabase(plain)
            file = database.FindFileContainingSymbol(TRACES.split("/")[1])
            return set(database.get_services()), file.name

    services, file = await asyncio.to_thread(described)
    assert services >= {method.split("/")[1] for method in (TRACES, LOGS, METRICS)}
    assert file == "opentelemetry/proto/collector/trace/v1/trace_service.proto"


async def test_a_port_that_is_taken_is_named(tmp_path: Path, gateway: Gateway) -> None:
    second = load_config(None, options(tmp_path / "second", **{**LIMITS, "listen.grpc": target(gateway)}), {})
    with pytest.raises(
        Exception, match=r"listen\.grpc: 127\.0\.0\.1:\d+ cannot be listened on: Address already in use"
    ):
        await Gateway.start(second)
