"""What holds for spans on the way out: OTLP's own answers, gzip, headers, the record as a span."""

import asyncio
import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from exporters.base import Delivered, Retry
from exporters.otlp.encode import Encoded, encode_spans, span_of
from exporters.otlp.exporter import OtlpExporter, OtlpSettings
from exporters.pump import BatchLimits
from exporters.secret import Secret
from gateway.products.records.source import read_stated
from gateway.read.otlp_protobuf import decode_traces
from gateway.rules.context import Context
from gateway.rules.traces import normalise_traces
from gateway.serve.responses import rpc_status
from spool.record import Batch
from spool.span_form import OF_RESOURCE, OF_SPAN, span_record_id
from tests.conformance.exporters.conftest import CASES, SpoolUnderTest, number_of, spans_in
from tests.support.lane_runs import is_held_for_good, running_pump, skip_pauses_until, until
from tests.support.manual_clock import ManualClock
from tests.support.memory_spool import MemorySpool
from tests.support.upstream import Reply, Upstream, running_upstream

LANE = "backend"
PROTOBUF = "application/x-protobuf"
TOKEN = "Bearer backend-token-4711"
TRACE, SPAN, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"


@pytest.fixture
async def exporter(upstream: Upstream) -> Any:
    made = OtlpExporter(OtlpSettings(upstream.base_url, headers={"Authorization": Secret(TOKEN)}))
    yield made
    await made.close()


def record(number: int) -> bytes:
    return CASES["ai_telemetry"].make_record(number)


def partial(rejected: int, message: str = "no") -> Reply:
    body = ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(rejected_spans=rejected, error_message=message)
    )
    return Reply(200, {"Content-Type": PROTOBUF}, body.SerializeToString())


async def drain(
    store: SpoolUnderTest,
    exporter: OtlpExporter,
    clock: ManualClock,
    limits: BatchLimits = BatchLimits(),  # noqa: B008 - immutable
) -> Any:
    async with running_pump(store, exporter, clock, lane=LANE, limits=limits) as pump:
        await skip_pauses_until(lambda: store.depth(LANE).pending == 0, pump, clock)
    return pump


@pytest.fixture
def store(clock: ManualClock) -> SpoolUnderTest:
    """The sqlite home needs a lane of its own for this: `test_every_exporter` has it."""
    return MemorySpool(clock)


# ---- answers


@pytest.mark.parametrize(
    ("reply", "refused", "unnamed"),
    [
        (partial(0, "a warning"), [], 0),
        (partial(3, "nothing of it"), [0, 1, 2], 0),
        (partial(1, "1 of 3 items rejected: x (1, first at resourceSpans[0].scopeSpans[0].spans[1])"), [1], 0),
        (partial(2, "2 of 3 items rejected: x (2, first at resourceSpans[0].scopeSpans[0].spans[1])"), [], 2),
        (partial(1, "resourceSpans[0].scopeSpans[0].spans[9]"), [], 1),
        (Reply(200, {"Content-Type": "application/json"}, b'{"partialSuccess":{"rejectedSpans":"3"}}'), [0, 1, 2], 0),
        (Reply(200, {"Content-Type": "application/json"}, b'{"partialSuccess":{"rejectedSpans":1}}'), [], 1),
        (Reply(202), [], 0),
    ],
)
async def test_what_a_partial_success_rejects_is_never_sent_again(
    store: SpoolUnderTest,
    exporter: OtlpExporter,
    upstream: Upstream,
    clock: ManualClock,
    reply: Reply,
    refused: list[int],
    unnamed: int,
) -> None:
    upstream.script.append(reply)
    await store.put(LANE, [record(number) for number in range(3)])
    pump = await drain(store, exporter, clock)
    assert len(upstream.seen) == 1
    dead = store.dead_letters(LANE)
    assert [orjson.loads(data)["record_id"] for data, *_ in dead if data] == [f"{n:032x}" for n in refused]
    assert {code for data, code, _ in dead} <= {"rejected_span" if refused else "rejected_span_not_named"}
    assert (store.depth(LANE).delivered, len(dead)) == (3 - len(refused) - unnamed, len(refused) + unnamed)
    assert pump.counts.unnamed_refusals == unnamed


async def test_a_success_that_cannot_be_read_is_sent_again_with_the_same_bytes(
    store: SpoolUnderTest, exporter: OtlpExporter, upstream: Upstream, clock: ManualClock
) -> None:
    upstream.script.append(Reply(200, {"Content-Type": PROTOBUF}, b"\x0a\xff"))
    upstream.script.append(Reply(200, {"Content-Type": PROTOBUF}, partial(1).body, reset="mid_body"))
    await store.put(LANE, [record(1)])
    await drain(store, exporter, clock)
    assert len(upstream.seen) == 3
    assert len({seen.body for seen in upstream.seen}) == 1
    assert store.dead_letters(LANE) == []


async def test_a_span_that_is_refused_for_good_is_found_and_has_the_backends_words(
    store: SpoolUnderTest, exporter: OtlpExporter, upstream: Upstream, clock: ManualClock
) -> None:
    def respond(seen: Any) -> Reply:
        bad = 5 in [number_of(span) for _, span in spans_in(seen)]
        return Reply(400, {"Content-Type": PROTOBUF}, rpc_status("protobuf", 3, "no such model")) if bad else Reply(200)

    upstream.respond = respond
    await store.put(LANE, [record(number) for number in range(16)])
    await drain(store, exporter, clock)
    assert store.dead_letters(LANE) == [(record(5), "http_400", "no such model")]


async def test_too_large_a_request_is_halved(
    store: SpoolUnderTest, exporter: OtlpExporter, upstream: Upstream, clock: ManualClock
) -> None:
    upstream.respond = lambda seen: Reply(413) if len(spans_in(seen)) > 10 else Reply(200)
    await store.put(LANE, [record(number) for number in range(100)])
    await drain(store, exporter, clock, BatchLimits(in_flight=1))
    taken = [number_of(span) for seen in upstream.seen if len(spans_in(seen)) <= 10 for _, span in spans_in(seen)]
    assert sorted(taken) == list(range(100))


async def test_a_backend_that_reads_no_gzip_gets_plain_bodies_from_then_on(
    store: SpoolUnderTest, exporter: OtlpExporter, upstream: Upstream, clock: ManualClock
) -> None:
    upstream.respond = lambda seen: Reply(415 if "Content-Encoding" in seen.headers else 200)
    for number in (1, 2):
        await store.put(LANE, [record(number)])
        await drain(store, exporter, clock)
    assert [seen.headers.get("Content-Encoding") for seen in upstream.seen] == ["gzip", None, None]
    assert {seen.headers["Content-Type"] for seen in upstream.seen} == {PROTOBUF}


async def test_throttling_waits_for_retry_after_and_a_secret_header_is_in_no_state(
    store: SpoolUnderTest, exporter: OtlpExporter, upstream: Upstream, clock: ManualClock
) -> None:
    upstream.script.append(Reply(503, {"Retry-After": "77"}, rpc_status("json", 14, "busy")))
    await store.put(LANE, [record(1)])
    started_s = clock.now_s
    await drain(store, exporter, clock)
    assert clock.now_s - started_s == 77.0
    assert [seen.headers["Authorization"] for seen in upstream.seen] == [TOKEN, TOKEN]
    upstream.script.append(Reply(401, {}, f"{TOKEN} is bad".encode()))
    await store.put(LANE, [record(2)])
    async with running_pump(store, exporter, clock, lane=LANE) as pump:
        await until(lambda: pump.state == "held" and not pump.in_flight)
        assert "***" in (pump.reason or "")
        shown = f"{pump.reason} {exporter!r} {vars(exporter)} {vars(exporter.client)}"
    assert TOKEN not in shown


@pytest.mark.parametrize(
    ("endpoint", "headers", "fault"),
    [
        ("http://collector.example:4318", {"Authorization": Secret("x")}, "in the clear"),
        ("https://user:pass@collector.example", {}, "credentials"),
        ("ftp://collector.example", {}, "not an http or https address"),
    ],
)
async def test_an_address_that_would_leak_a_header_is_refused(
    endpoint: str, headers: dict[str, Secret], fault: str
) -> None:
    with pytest.raises(ValueError, match=fault):
        OtlpExporter(OtlpSettings(endpoint, headers=headers))


@pytest.mark.parametrize("tail", ["", "/", "/v1/traces"])
async def test_the_path_follows_the_base_url(tail: str) -> None:
    async with running_upstream() as upstream:
        exporter = OtlpExporter(OtlpSettings(f"{upstream.base_url}/otlp{tail}", packs=False))
        store_of_one = [record(1)]
        answer = await exporter.client.send(
            "POST", "/v1/traces", headers={}, body=encode_spans(store_of_one, packs=False).body
        )
        await exporter.close()
        assert not isinstance(answer, Exception)
        assert [seen.path for seen in upstream.seen] == ["/otlp/v1/traces"]


# ---- the record as a span

FULL: dict[str, Any] = {
    "schema": "inference/1",
    "record_id": "0123456789abcdef" * 2,
    "kind": "call",
    "billed": False,
    "source": {"format": "kong", "convention": "kong", "library": "kong-plugin", "library_version": "1.2"},
    "operation": "chat",
    "provider": "openai",
    "request_model": "gpt-5-mini",
    "response_model": "gpt-5-mini-2026",
    "response_id": "resp-1",
    "request_id": "req-1",
    "deployment": "dep-1",
    "region": "eu-1",
    "finish_reason": "stop",
    "started_at": "2026-01-05T10:00:00.123Z",
    "duration_ms": 4567,
    "time_to_first_token_ms": 89,
    "stream": True,
    "usage": {
        "status": "reported",
        "input_tokens": 1200,
        "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 200,
        "cache_creation_1h_input_tokens": 100,
        "output_tokens": 120,
        "reasoning_output_tokens": 20,
        "audio_input_tokens": 1,
        "audio_output_tokens": 2,
        "other": {"total_tokens": 1320, "gen_ai.usage.odd.units": 1.5},
    },
    "cost": {"amount": "0.00421000000000000000001", "currency": "USD", "source": "estimated", "price_version": "1.2"},
    "service_tier": "flex",
    "batch": True,
    "status": "error",
    "error_type": "RateLimitError",
    "attribution": {
        "service_name": "checkout-bot",
        "environment": "prod",
        "user": "u-1",
        "session": "s-1",
        "team": "core",
        "project": "p-1",
        "device_id": "dev-1",
        "key": "team-a",
        "labels": {"agent": "planner", "cost.center": "7", "flags": "none", "trace": "x"},
    },
    "trace": {"trace_id": TRACE, "span_id": SPAN, "parent_span_id": PARENT},
    "calls": 3,
    "period": {"start": "2026-01-05T10:00:00.000Z", "end": "2026-01-05T11:00:00.000Z"},
    "received_at": "2026-01-05T10:00:09.000Z",
    "flags": ["late", "conflict"],
}
"""That each field comes back: tests/unit/test_record_fields.py."""


def read_back(*records: dict[str, Any]) -> list[Any]:
    body = gzip.decompress(encode_spans([orjson.dumps(each) for each in records], packs=True).body)
    normalised = normalise_traces(decode_traces(body), Context(0, "2026-01-06T00:00:00.000Z"))
    read = read_stated(normalised, Context(0, "2026-01-06T00:00:00.000Z"))
    assert (read.rejected, read.ignored) == ([], 0)
    return [call.record for call in read.calls]


def test_a_record_comes_back() -> None:
    assert read_back(FULL) == [FULL]
    own = {**FULL, "record_id": span_record_id(bytes.fromhex(TRACE), bytes.fromhex(SPAN))}
    assert read_back(own, FULL) == [own, FULL]


@pytest.mark.parametrize("field", ["trace", "cost", "period", "duration_ms", "provider", "finish_reason", "error_type"])
def test_a_field_without_a_value_comes_back_without_one(field: str) -> None:
    (found,) = read_back({name: value for name, value in FULL.items() if name != field})
    assert found.get(field) is None


def test_the_span_is_what_the_conventions_say() -> None:
    span = Span.FromString(span_of(FULL))
    found = {each.key: each.value for each in span.attributes}
    assert (span.name, span.kind, span.status.code, span.status.message) == ("chat gpt-5-mini", 3, 2, "")
    assert span.end_time_unix_nano - span.start_time_unix_nano == 4_567_000_000
    assert found["gen_ai.usage.cache_read.input_tokens"].HasField("int_value"), "0 is a value"
    assert [x.string_value for x in found["gen_ai.response.finish_reasons"].array_value.values] == ["stop"]
    assert found["gen_ai.usage.cost"].double_value == pytest.approx(0.00421)
    assert found.keys() >= set(OF_SPAN.values())
    assert not found.keys() & set(OF_RESOURCE.values())
    assert not span.events


def test_ids_are_the_records_own_or_derived_and_the_same_each_time() -> None:
    own_id = span_record_id(bytes.fromhex(TRACE), bytes.fromhex(SPAN))
    own, logged, untraced = (
        Span.FromString(span_of({**FULL, "record_id": own_id})),
        Span.FromString(span_of(FULL)),
        Span.FromString(span_of({**FULL, "trace": None})),
    )
    assert ids_of(own) == (TRACE, SPAN, PARENT)
    assert ids_of(logged)[::2] == (TRACE, SPAN), "a report inside a span has one of its own below it"
    assert ids_of(untraced) == ("3eb1bd439947eb762998e566ccc2e099", "3eb1bd439947eb76", "")
    other = Span.FromString(span_of({**FULL, "record_id": "f" * 32}))
    assert len({own.span_id, logged.span_id, other.span_id}) == 3


def ids_of(span: Span) -> tuple[str, str, str]:
    return span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()


def test_records_of_one_service_share_a_resource_and_positions_name_each() -> None:
    who = [{"service_name": name} for name in ("a", "b", "a")]
    records = [{**FULL, "record_id": f"{n:032x}", "attribution": each} for n, each in enumerate(who)]
    encoded = encode_spans([orjson.dumps(each) for each in records], packs=False)
    request = ExportTraceServiceRequest.FromString(encoded.body)
    assert [len(x.scope_spans[0].spans) for x in request.resource_spans] == [2, 1]
    for position, index in encoded.positions.items():
        i, _, k = (int(part.partition("]")[0]) for part in position.split("[")[1:])
        assert number_of(request.resource_spans[i].scope_spans[0].spans[k]) == index


def test_a_span_of_the_scope_that_states_no_sound_record_is_rejected_by_its_field() -> None:
    request = ExportTraceServiceRequest.FromString(encode_spans([orjson.dumps(FULL)] * 3, packs=False).body)
    first, second, third = request.resource_spans[0].scope_spans[0].spans
    del first.attributes[:]
    next(x for x in second.attributes if x.key == "gen_ai.usage.input_tokens").value.int_value = -1
    third.trace_id = bytes(16)
    context = Context(0, "2026-01-06T00:00:00.000Z")
    read = read_stated(normalise_traces(decode_traces(request.SerializeToString()), context), context)
    spans = "resourceSpans[0].scopeSpans[0].spans"
    assert [tuple(each)[:2] for each in sorted(read.rejected, key=lambda x: x.position)] == [
        ("missing_field", f"{spans}[0].record_id"),
        ("invalid_field", f"{spans}[1].usage.input_tokens"),
        ("invalid_trace_id", f"{spans}[2]"),
    ]
    assert (read.items, read.calls) == (3, [])


def test_the_docs_name_the_attribute_of_each_field() -> None:
    page = (Path(__file__).parents[3] / "docs/otlp-export.md").read_text()
    for path, name in (OF_SPAN | OF_RESOURCE).items():
        assert f"| `{'.'.join(path)}` | `{name}`" in page


async def test_batches_under_way_when_gzip_is_given_up_have_the_header_of_their_own_body(
    exporter: OtlpExporter, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second is encoded before the first one's 415, and sent after it."""
    upstream.respond = lambda seen: Reply(415 if "Content-Encoding" in seen.headers else 200)
    encoder = exporter._encoder
    encode, given_up = encoder.encode, asyncio.Event()

    async def late(batch: Batch) -> Encoded:
        encoded = await encode(batch)
        if batch.batch_id == "second":
            await given_up.wait()
        return encoded

    monkeypatch.setattr(encoder, "encode", late)
    first, second = (Batch(name, LANE, 0, 0, "2026-01-05T10:00:00.000Z", (record(1),)) for name in ("first", "second"))
    sending = asyncio.ensure_future(exporter.send(second))
    assert isinstance(await exporter.send(first), Retry)
    given_up.set()
    found = await sending
    assert isinstance(found, Retry), "and the lane is not held"
    assert found.after_s == 0
    assert [seen.headers.get("Content-Encoding") for seen in upstream.seen] == ["gzip", "gzip"]
    assert isinstance(await exporter.send(second), Delivered)


@pytest.mark.parametrize("media", ["text/html; charset=utf-8", "text/plain", "application/json", ""])
async def test_a_web_page_in_the_upstreams_place_takes_nothing(
    store: SpoolUnderTest, exporter: OtlpExporter, upstream: Upstream, clock: ManualClock, media: str
) -> None:
    upstream.respond = lambda _: Reply(200, {"Content-Type": media}, b"\n<!doctype html><p>Log in")
    await store.put(LANE, [record(1)])
    async with running_pump(store, exporter, clock, lane=LANE) as pump:
        await skip_pauses_until(lambda: is_held_for_good(pump), pump, clock)
        assert "HTTP 200: the answer is not understood: it is a web page" in (pump.reason or "")
    assert (store.depth(LANE).pending, store.depth(LANE).delivered) == (1, 0)
