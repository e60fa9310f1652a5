"""Records over gRPC: what each status means, and that all arrive whatever the server does."""

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc import aio
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from exporters.base import Delivered, Hold, NotUnderstood, Refused, Retry
from exporters.otlp.exporter import OtlpSettings
from exporters.otlp.grpc_exporter import (
    EXPORT,
    RETRY_INFO,
    STATUS_DETAILS,
    OtlpGrpcExporter,
    retry_info_s,
    roots_with,
)
from exporters.pump import BatchLimits
from exporters.secret import Secret
from spool.record import Batch
from tests.conformance.exporters.conftest import CASES, number_of
from tests.support.certificates import Authority
from tests.support.lane_runs import running_pump, skip_pauses_until
from tests.support.manual_clock import ManualClock
from tests.support.memory_spool import MemorySpool

TOKEN = "Bearer backend-token-4711"
LANE = "backend"
Code = grpc.StatusCode


class Backend:
    """A TraceService that answers as a test states; `respond` may abort."""

    def __init__(self) -> None:
        self.seen: list[list[int]] = []
        """The records of each request, by number."""
        self.metadata: list[dict[str, Any]] = []
        self.respond: Callable[[list[int], Any], Any] = lambda numbers, context: None
        self.port = 0
        self._server = aio.server()

    async def start(self) -> None:
        method = grpc.unary_unary_rpc_method_handler(self._export)
        service, _, name = EXPORT[1:].partition("/")
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {name: method}),))
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(None)

    async def _export(self, body: bytes, context: Any) -> bytes:
        request = ExportTraceServiceRequest.FromString(body)
        spans = [span for x in request.resource_spans for s in x.scope_spans for span in s.spans]
        self.seen.append([number_of(span) for span in spans])
        self.metadata.append(dict(context.invocation_metadata()))
        answer = self.respond(self.seen[-1], context)
        if asyncio.iscoroutine(answer):
            answer = await answer
        return b"" if answer is None else bytes(answer)


@pytest.fixture
async def backend() -> AsyncIterator[Backend]:
    made = Backend()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def exporter(backend: Backend) -> AsyncIterator[OtlpGrpcExporter]:
    headers = {"Authorization": Secret(TOKEN)}
    made = OtlpGrpcExporter(OtlpSettings(f"http://127.0.0.1:{backend.port}", "grpc", headers, timeout_s=60))
    yield made
    await made.close()


def batch(*numbers: int) -> Batch:
    return Batch("b", LANE, 0, 0, "", tuple(CASES["ai_telemetry"].make_record(number) for number in numbers))


def aborting(code: grpc.StatusCode, details: str = "no", *trailers: tuple[str, bytes]) -> Callable[..., Any]:
    async def abort(numbers: list[int], context: Any) -> None:
        await context.abort(code, details, trailers)

    return abort


def retry_info(seconds: int) -> RetryInfo:
    return RetryInfo(retry_delay=Duration(seconds=seconds, nanos=500_000_000))


def in_status(seconds: int) -> bytes:
    detail = AnyMessage()
    detail.Pack(retry_info(seconds))
    status: bytes = Status(
        code=14, message="busy", details=[AnyMessage(type_url="x/other"), detail]
    ).SerializeToString()
    return status


BY_ITSELF = ("google.rpc.retryinfo-bin", retry_info(3).SerializeToString())
IN_DETAILS = ("grpc-status-details-bin", in_status(7))
DAMAGED = ("grpc-status-details-bin", b"\x1a\xff\xff")


@pytest.mark.parametrize(
    ("respond", "outcome"),
    [
        (aborting(Code.INVALID_ARGUMENT), Refused("invalid_argument", "no")),
        (
            aborting(Code.RESOURCE_EXHAUSTED, "Received message larger than max (9 vs. 4)"),
            Refused("too_large", "gRPC RESOURCE_EXHAUSTED: Received message larger than max (9 vs. 4)", too_large=True),
        ),
        (
            aborting(Code.RESOURCE_EXHAUSTED, "quota"),
            Retry("gRPC RESOURCE_EXHAUSTED: quota", answered=True, throttled=True),
        ),
        (
            aborting(Code.RESOURCE_EXHAUSTED, "too large a queue", BY_ITSELF),
            Retry("gRPC RESOURCE_EXHAUSTED: too large a queue", answered=True, after_s=3.5, throttled=True),
        ),
        (
            aborting(Code.UNAVAILABLE, "busy", IN_DETAILS),
            Retry("gRPC UNAVAILABLE: busy", answered=True, after_s=7.5, throttled=True),
        ),
        (
            aborting(Code.UNAVAILABLE, "busy", DAMAGED),
            Retry("gRPC UNAVAILABLE: busy", answered=True, throttled=True),
        ),
        (aborting(Code.INTERNAL), Retry("gRPC INTERNAL: no", answered=True)),
        (aborting(Code.DATA_LOSS), Retry("gRPC DATA_LOSS: no", answered=True)),
        (aborting(Code.UNAUTHENTICATED, f"{TOKEN}?"), Hold("backend: gRPC UNAUTHENTICATED: ***?")),
        (aborting(Code.PERMISSION_DENIED), Hold("backend: gRPC PERMISSION_DENIED: no")),
        (lambda *_: b"\x0a\xff", None),
    ],
)
async def test_each_status_has_its_ending(
    backend: Backend, exporter: OtlpGrpcExporter, respond: Callable[..., Any], outcome: Any
) -> None:
    backend.respond = respond
    found = await exporter.send(batch(1, 2))
    if outcome is None:
        assert isinstance(found, Retry)
        assert found.unreadable
    else:
        assert found == outcome
    assert backend.metadata[0]["authorization"] == TOKEN
    assert backend.metadata[0]["user-agent"].startswith("ai-telemetry-gateway/")
    assert TOKEN not in repr(vars(exporter))


@pytest.mark.parametrize(("rejected", "refused", "unnamed"), [(0, [], 0), (2, [0, 1], 0), (1, [], 1)])
async def test_a_partial_success_is_read(
    backend: Backend, exporter: OtlpGrpcExporter, rejected: int, refused: list[int], unnamed: int
) -> None:
    partial = ExportTracePartialSuccess(rejected_spans=rejected, error_message="no")
    backend.respond = lambda *_: ExportTraceServiceResponse(partial_success=partial).SerializeToString()
    found = await exporter.send(batch(1, 2))
    assert isinstance(found, Delivered)
    assert [each.index for each in found.refused if each.index is not None] == refused
    assert sum(each.records for each in found.refused if each.index is None) == unnamed


@pytest.mark.parametrize(
    "body",
    [
        ExportTraceServiceResponse(partial_success=ExportTracePartialSuccess(rejected_spans=3)).SerializeToString(),
        ExportTraceServiceResponse(partial_success=ExportTracePartialSuccess(rejected_spans=-1)).SerializeToString(),
        Status(code=3, message="nothing was taken").SerializeToString(),
        b"\x12\x00",
        b"\x0a\x02\x18\x01",
    ],
)
async def test_an_answer_that_does_not_account_for_the_spans_is_not_understood(
    backend: Backend, exporter: OtlpGrpcExporter, body: bytes
) -> None:
    backend.respond = lambda *_: body
    found = await exporter.send(batch(1, 2))
    assert isinstance(found, NotUnderstood)
    assert found.reason.startswith("gRPC OK: the answer is not understood: it ")


async def test_a_backend_that_reads_no_gzip_is_sent_plain(backend: Backend, exporter: OtlpGrpcExporter) -> None:
    backend.respond = aborting(Code.UNIMPLEMENTED, "no such compression: gzip")
    assert await exporter.send(batch(1)) == Retry(
        "the upstream does not read gzip; sent plain from here on", answered=True, after_s=0
    )
    assert isinstance(await exporter.send(batch(1)), Hold)
    backend.respond = lambda *_: None
    assert await exporter.send(batch(1)) == Delivered()


async def test_batches_under_way_when_gzip_is_given_up_hold_nothing(
    backend: Backend, exporter: OtlpGrpcExporter
) -> None:
    together = asyncio.Event()

    async def refuse(numbers: list[int], context: Any) -> None:
        if len(backend.seen) == 2:
            together.set()
        await together.wait()
        await context.abort(Code.UNIMPLEMENTED, "no such compression: gzip")

    backend.respond = refuse
    found = await asyncio.gather(exporter.send(batch(1)), exporter.send(batch(2)))
    assert [type(each) for each in found] == [Retry, Retry]


@pytest.mark.parametrize(
    "trailers",
    [
        {RETRY_INFO: b"\x08\xff\xff\xff\xff\x07"},
        {RETRY_INFO: b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f"},
        {STATUS_DETAILS: b"\x1a\x06\x08\xff\xff\xff\xff\x07"},
    ],
)
def test_a_number_in_the_place_of_a_delay_is_none(trailers: dict[str, bytes]) -> None:
    """It was taken for a size, and as many bytes were made."""
    assert not retry_info_s(trailers)


def test_the_authorities_of_a_file_are_trusted_besides_the_systems(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own = ssl.PEM_cert_to_DER_cert(authority.pair.cert.read_text())
    roots = roots_with(authority.pair.cert).decode()
    assert ssl.DER_cert_to_PEM_cert(own) in roots
    assert roots.count("BEGIN CERTIFICATE") == len(ssl.create_default_context().get_ca_certs()) + 1
    (tmp_path / "none.pem").write_text("no certificate")
    with pytest.raises(ssl.SSLError, match="NO_CERTIFICATE"):
        roots_with(tmp_path / "none.pem")


async def test_no_one_there_is_silence_and_a_deadline_may_have_passed_the_batch_on(
    backend: Backend, exporter: OtlpGrpcExporter
) -> None:
    nobody = OtlpGrpcExporter(OtlpSettings("http://127.0.0.1:1", "grpc"))
    assert await nobody.send(batch(1)) == Retry("no answer from 127.0.0.1:1: UNAVAILABLE", answered=False)
    await nobody.close()
    never = asyncio.Event()
    backend.respond = lambda *_: never.wait()
    slow = OtlpGrpcExporter(OtlpSettings(f"http://127.0.0.1:{backend.port}", "grpc", timeout_s=1))
    text = f"no answer from 127.0.0.1:{backend.port}: DEADLINE_EXCEEDED"
    assert await slow.send(batch(1)) == Retry(text, answered=False, may_be_there=True)
    never.set()
    await slow.close()


async def test_an_address_that_would_leak_a_header_is_refused() -> None:
    with pytest.raises(ValueError, match="in the clear"):
        OtlpGrpcExporter(OtlpSettings("http://collector.example:4317", "grpc", {"a": Secret("x")}))


@pytest.mark.parametrize("_", range(2))
async def test_whatever_the_backend_does_everything_arrives_and_nothing_is_buried(
    backend: Backend, exporter: OtlpGrpcExporter, clock: ManualClock, chance: random.Random, _: int
) -> None:
    taken = set[int]()
    retryable = [Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.ABORTED, Code.INTERNAL, Code.DATA_LOSS, Code.UNKNOWN]

    async def respond(numbers: list[int], context: Any) -> bytes | None:
        if chance.random() < 0.5:
            taken.update(numbers)
            if chance.random() < 0.5:
                return None
        if chance.random() < 0.2:
            await context.abort(Code.RESOURCE_EXHAUSTED, "message larger than max") if len(numbers) > 5 else None
        await context.abort(chance.choice(retryable), "not now")
        return None

    backend.respond = respond
    store = MemorySpool(clock)
    await store.put(LANE, [CASES["ai_telemetry"].make_record(number) for number in range(60)])
    limits = BatchLimits(max_records=10)
    async with running_pump(store, exporter, clock, lane=LANE, limits=limits) as pump:
        await skip_pauses_until(lambda: store.depth(LANE).pending == 0, pump, clock)
    assert taken == set(range(60))
    assert (store.depth(LANE).delivered, store.dead_letters(LANE)) == (60, [])
