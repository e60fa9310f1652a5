"""What the native reader costs at most: of CPU with senders of ever new shapes, of memory, and by
the bytes of whatever is sent.
"""

import gc
from collections.abc import Callable, Iterator
from random import Random
from time import thread_time_ns

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.pipeline.parsing.parse import ParseRules, Payload, parse
from gateway.pipeline.parsing.reader import ShapeReader
from gateway.read.otlp_protobuf import one_span
from gateway.usage.pricing.own import OwnPrices
from gateway.usage.pricing.prices import Prices
from gateway.usage.pricing.rates import Rates
from tests.native.readers import NOW_MS, Readers, context_at
from tests.native.test_generated import bodies
from tests.support.otlp_bytes import field

NAME = "otlp/otel-openai-v2-latest/chat"
MS = 10**6


def spans_of_new_shapes(random: Random, each: int) -> Iterator[bytes]:
    """Payloads of *each* spans; every span names a model of its own."""
    request = ExportTraceServiceRequest.FromString(bodies()[NAME])
    scope_spans = request.resource_spans[0].scope_spans[0]
    span = scope_spans.spans[0]
    del scope_spans.spans[1:]
    for _ in range(each - 1):
        scope_spans.spans.add().CopyFrom(span)
    while True:
        for span in scope_spans.spans:
            span.span_id = random.randbytes(8)
            for attribute in span.attributes:
                if attribute.key == "gen_ai.request.model":
                    attribute.value.string_value = random.randbytes(8).hex()
        yield request.SerializeToString()


def cpu_ns(read: Callable[[bytes], object], body: bytes) -> int:
    began_ns = thread_time_ns()
    read(body)
    return thread_time_ns() - began_ns


@pytest.mark.parametrize("each", [1, 32])
def test_a_sender_of_ever_new_shapes_costs_hardly_more_than_without_the_extension(each: int) -> None:
    rules, context = ParseRules(Prices()), context_at()
    native = ShapeReader(rules, lessons_ns=MS)

    def plain(body: bytes) -> object:
        return parse(Payload("traces", body, json=False), context, rules)

    def both(body: bytes) -> object:
        return native.parse(Payload("traces", body, json=False), context) or plain(body)

    payloads = spans_of_new_shapes(Random(5), each)
    gc.disable()  # one pass over what all tests before made takes longer than all of this
    try:
        costs = [(cpu_ns(plain, next(payloads)), cpu_ns(both, next(payloads))) for _ in range(2000 // each)]
    finally:
        gc.enable()
    plainly, natively = (sum(cost) for cost in zip(*costs, strict=True))
    assert natively < 1.4 * plainly


def test_templates_take_a_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 128 * 1024
    monkeypatch.setattr("gateway.pipeline.parsing.reader.MAX_BYTES", most)
    reader, payloads, largest = Readers(), spans_of_new_shapes(Random(6), 1), 0
    for _ in range(200):
        body = next(payloads)
        reader.compare(body, context_at())
        assert reader.compare(body, context_at()), "the shape just taught is known"
        largest = max(largest, reader.native.template_bytes)
    assert most / 2 < largest < most + 16 * 1024


def test_an_hour_after_the_other_a_shape_stays_known() -> None:
    """Prices go by the hour: each has a template of its own."""
    reader, request = Readers(), ExportTraceServiceRequest.FromString(bodies()[NAME])
    span = request.resource_spans[0].scope_spans[0].spans[0]
    for hour in range(40):
        span.start_time_unix_nano = (NOW_MS + hour * 3_600_000) * MS
        span.end_time_unix_nano = span.start_time_unix_nano + MS
        context = context_at(NOW_MS + hour * 3_600_000)
        reader.compare(request.SerializeToString(), context)
        assert reader.compare(request.SerializeToString(), context)


def test_a_span_that_only_python_reads_leaves_others_of_its_shape_native() -> None:
    reader, request = Readers(), ExportTraceServiceRequest.FromString(bodies()[NAME])
    span = request.resource_spans[0].scope_spans[0].spans[0]
    sent_ns = span.start_time_unix_nano
    for start_ns in (MS, sent_ns, MS, sent_ns):
        span.start_time_unix_nano = start_ns
        found = reader.compare(request.SerializeToString(), context_at())
    assert found, "the time that is refused is remembered as such, and the shape as known"
    assert reader.native.python_payloads == {"unknown": 2, "rejected": 1}


def test_a_span_that_repeats_a_name_leaves_those_with_as_many_attributes_known() -> None:
    reader, request = Readers(), ExportTraceServiceRequest.FromString(bodies()[NAME])
    usual = request.SerializeToString()
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.attributes[1].CopyFrom(span.attributes[0])
    odd = request.SerializeToString()
    for _ in range(2):
        reader.compare(usual, context_at())
        reader.compare(odd, context_at())
    assert reader.compare(usual, context_at())


def nested(depth: int) -> bytes:
    value = b""
    for _ in range(depth):
        value = field(5, field(1, value))
    return value


WORST = {
    "empty spans": lambda n: one_span(b"", b"", b"") + field(1, field(2, field(2, b"") * n)),
    "unknown fields": lambda n: field(1, field(2, field(2, b"\xf8\x07\x01" * n))),
    "attributes": lambda n: one_span(b"", b"", field(9, field(1, b"a") + field(2, field(1, b"b"))) * n),
    "nested values": lambda n: one_span(b"", b"", field(9, field(1, b"a") + field(2, nested(10))) * (n // 20)),
    "fields without an end": lambda n: b"\xff" * n,
}


@pytest.mark.parametrize("kind", WORST)
def test_any_bytes_take_time_by_their_number(kind: str) -> None:
    reader = ShapeReader(ParseRules(Prices()))

    def cost_ns(n: int) -> int:
        payload = Payload("traces", WORST[kind](n), json=False)
        context = context_at()

        def read(_: bytes) -> object:
            return reader.parse(payload, context)

        return min(cpu_ns(read, b"") for _ in range(3))

    assert cost_ns(320_000) < 10 * cost_ns(80_000) + MS


def test_prices_that_change_hold_at_once() -> None:
    reader, body = Readers(), bodies()[NAME]
    for _ in range(2):
        reader.compare(body, context_at())
    own = OwnPrices(rates={(None, "gpt-4o-2024-08-06"): (Rates(-1, 1, 2, 3, 4, 5, 6), "EUR")})
    reader.rules.prices.use(own)
    reader.native_rules.prices.use(own)
    for _ in range(2):
        reader.compare(body, context_at())
    assert reader.compare(body, context_at())
