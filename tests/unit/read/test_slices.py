"""A large body is read slice by slice: to the same view, with a slice of it in memory."""

import random
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from gateway.common.contract.errors import BadPayload, TooLarge
from gateway.read import slices, wire
from gateway.read.limits import DEFAULT_LIMITS, ParseLimits
from gateway.read.otlp_protobuf import decode_logs, decode_metrics, decode_traces
from gateway.read.view import Logs, Metrics, Traces
from gateway.rules.context import Context
from gateway.rules.logs import normalise_logs
from gateway.rules.metrics import normalise_metrics
from gateway.rules.traces import normalise_traces
from tests.support.otlp_bytes import field, varint

NOW_NS = 1_767_607_200_000_000_000
CONTEXT = Context(NOW_NS // 10**6, "2026-01-05T10:00:00.000Z")
PADS = (0, 0, 0, 10, 200, 20_000, 90_000)
"""Bytes of a text; most items are small, some are larger than a slice."""


def attributes(chance: random.Random) -> Iterator[KeyValue]:
    for name in ("gen_ai.request.model", "gen_ai.response.model"):
        made = KeyValue(key=name)
        made.value.string_value = chance.choice(("gpt-4o", "claude-sonnet-4"))
        yield made
    for name in ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"):
        made = KeyValue(key=name)
        made.value.int_value = chance.randrange(1000)
        yield made
    made = KeyValue(key="padding")
    made.value.string_value = "x" * chance.choice(PADS)
    yield made


def traces(chance: random.Random) -> bytes:
    request = ExportTraceServiceRequest()
    for _ in range(chance.randrange(1, 5)):
        resource = request.resource_spans.add()
        resource.resource.attributes.add(key="service.name").value.string_value = f"s{chance.randrange(3)}"
        for _ in range(chance.randrange(5)):
            scope = resource.scope_spans.add()
            scope.scope.name = "opentelemetry.instrumentation.openai"
            for _ in range(chance.choice((0, 1, 30, 300))):
                span = scope.spans.add(name="chat", trace_id=chance.randbytes(16), span_id=chance.randbytes(8))
                span.start_time_unix_nano = NOW_NS
                span.end_time_unix_nano = NOW_NS + 10**9
                span.attributes.extend(attributes(chance))
    return request.SerializeToString()


def logs(chance: random.Random) -> bytes:
    request = ExportLogsServiceRequest()
    for _ in range(chance.randrange(1, 5)):
        resource = request.resource_logs.add()
        for _ in range(chance.randrange(5)):
            scope = resource.scope_logs.add()
            for _ in range(chance.choice((0, 1, 30, 300))):
                record = scope.log_records.add(time_unix_nano=NOW_NS, event_name="claude_code.api_request")
                record.attributes.extend(attributes(chance))
    return request.SerializeToString()


def metrics(chance: random.Random) -> bytes:
    request = ExportMetricsServiceRequest()
    for _ in range(chance.randrange(1, 4)):
        resource = request.resource_metrics.add()
        for _ in range(chance.randrange(4)):
            scope = resource.scope_metrics.add()
            for _ in range(chance.choice((0, 1, 8))):
                metric = scope.metrics.add(name=chance.choice(("gen_ai.client.token.usage", "http.requests")))
                histogram = metric.histogram
                histogram.aggregation_temporality = 2
                for n in range(chance.choice((0, 1, 40, 500))):
                    point = histogram.data_points.add(time_unix_nano=NOW_NS, start_time_unix_nano=NOW_NS - 10**9)
                    point.count, point.sum = 1, n
                    point.attributes.extend(attributes(chance))
                    point.attributes.add(key="gen_ai.token.type").value.string_value = "input"
    return request.SerializeToString()


def whole(kind: str, body: bytes) -> object:
    match kind:
        case "traces":
            return normalise_traces(Traces(wire.TRACES.FromString(body)), CONTEXT)  # type: ignore[arg-type] # as decoded
        case "logs":
            return normalise_logs(Logs(wire.LOGS.FromString(body)), CONTEXT)  # type: ignore[arg-type] # as decoded
        case _:
            return normalise_metrics(Metrics(wire.METRICS.FromString(body)), CONTEXT)  # type: ignore[arg-type] # as decoded


def read(kind: str, body: bytes, limits: ParseLimits = DEFAULT_LIMITS) -> object:
    context = CONTEXT._replace(limits=limits)
    match kind:
        case "traces":
            return normalise_traces(decode_traces(body, limits), context)
        case "logs":
            return normalise_logs(decode_logs(body, limits), context)
        case _:
            return normalise_metrics(decode_metrics(body, limits), context)


MADE: dict[str, Callable[[random.Random], bytes]] = {"traces": traces, "logs": logs, "metrics": metrics}


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("_", range(8))
def test_slices_give_what_the_whole_gives(
    kind: str, _: int, monkeypatch: pytest.MonkeyPatch, chance: random.Random
) -> None:
    monkeypatch.setattr(slices, "SLICE_BYTES", chance.choice((1, 300, 5_000, 64 * 1024)))
    body = MADE[kind](chance)
    while len(body) <= slices.SLICE_BYTES:
        body = MADE[kind](chance)
    assert read(kind, body) == whole(kind, body)


@pytest.mark.parametrize("kind", MADE)
def test_a_body_that_is_cut_or_changed_is_refused_or_read_as_the_whole_is(
    kind: str, monkeypatch: pytest.MonkeyPatch, chance: random.Random
) -> None:
    monkeypatch.setattr(slices, "SLICE_BYTES", 100)
    body = b""
    while len(body) < 5_000:
        body = MADE[kind](chance)[:30_000]
    for _ in range(300):
        changed = bytearray(body[: chance.randrange(200, len(body))])
        changed[chance.randrange(len(changed))] = chance.randrange(256)
        try:
            wanted = whole(kind, bytes(changed))
        except Exception:  # noqa: BLE001 - protobuf's own, whatever it is
            with pytest.raises(BadPayload):
                read(kind, bytes(changed))
        else:
            assert read(kind, bytes(changed)) == wanted


def test_what_a_metric_states_twice_is_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_BYTES", 50)
    point = field(
        1,
        b"\x11"
        + (NOW_NS - 10**9).to_bytes(8, "little")
        + b"\x19"
        + NOW_NS.to_bytes(8, "little")
        + b"\x31"
        + (7).to_bytes(8, "little"),
    )
    metric = field(1, b"gen_ai.client.token.usage") + b"".join(
        field(7, point * n + b"\x10\x02\x18\x01") for n in (1, 3, 2)
    )
    body = field(1, field(2, field(2, metric)))
    assert read("metrics", body) == whole("metrics", body)
    assert len(read("metrics", body).points) == 6  # type: ignore[attr-defined] # UsagePoints


def test_groups_and_long_tags_are_read_as_protobuf_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "SLICE_BYTES", 50)
    span = field(1, b"t" * 16) + field(2, b"s" * 8)
    group = varint(9 << 3 | 3) + varint(4 << 3 | 3) + field(1, b"x") + varint(4 << 3 | 4) + varint(9 << 3 | 4)
    spans = field(2, span) + group + b"\x92\x00" + varint(len(span)) + span + field(300, b"?" * 200) + field(2, span)
    body = field(1, field(2, spans))
    assert read("traces", body) == whole("traces", body)
    assert read("traces", body).items == 3  # type: ignore[attr-defined] # Normalised


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("traces", b"\x0a\x00" * 60_000),
        ("traces", field(1, b"\x12\x00" * 60_000)),
        ("traces", field(1, field(2, b"\x12\x00" * 60_000))),
        ("traces", field(1, field(2, b"\x12\x00" * 6)) * 9_000),
        ("logs", field(1, field(2, b"\x12\x00" * 60_000))),
        ("metrics", field(1, field(2, b"\x12\x00" * 60_000))),
        ("metrics", field(1, field(2, field(2, field(7, b"\x0a\x00" * 60_000))))),
        ("metrics", field(1, field(2, field(2, field(11, b"\x0a\x00" * 6)))) * 9_000),
    ],
)
def test_more_items_than_allowed_are_refused_with_the_option(kind: str, body: bytes) -> None:
    with pytest.raises(TooLarge, match=r"more than 30000 items .* raise limits\.max_items"):
        read(kind, body)
    read(kind, body, ParseLimits(max_items=200_000))


def large_attribute(elements: int) -> bytes:
    return field(9, field(1, b"name") + field(2, field(5, b"\x0a\x00" * elements)))


def test_an_item_with_too_many_attributes_is_rejected_and_its_neighbours_are_read() -> None:
    good = field(2, field(1, b"t" * 16) + field(2, b"s" * 8))
    bad = field(2, field(1, b"t" * 16) + field(2, b"u" * 8) + large_attribute(40_000))
    found = read("traces", field(1, field(2, good + bad + good)))
    assert found.items == 3  # type: ignore[attr-defined] # Normalised
    assert found.rejected == [("too_many_attributes", "resourceSpans[0].scopeSpans[0].spans[1]", "")]  # type: ignore[attr-defined] # as above
    assert not read("traces", field(1, field(2, good + bad)), ParseLimits(max_attributes=41_000)).rejected  # type: ignore[attr-defined] # as above


def test_a_resource_with_too_many_attributes_refuses_the_request() -> None:
    resource = b"".join(field(1, field(1, b"%05d" % n) + field(2, b"")) for n in range(11_000))
    with pytest.raises(TooLarge, match=r"limits\.max_attributes"):
        read("traces", field(1, field(1, resource)))


@pytest.mark.parametrize("elements", [50_000, 200_000])
def test_memory_is_that_of_a_slice_and_not_of_the_body(elements: int) -> None:
    """Every span is full of empty values: as one message, sixty times its bytes."""
    span = field(2, field(1, b"t" * 16) + field(2, b"s" * 8) + large_attribute(5_000))
    body = field(1, field(2, span * (elements // 5_000)))
    tracemalloc.start()
    try:
        read("traces", body)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 500_000
