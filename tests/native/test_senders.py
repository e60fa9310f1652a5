"""What many senders share of a reader, what no payload counts twice, and limits that it keeps."""

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.pipeline.parsing import reader
from gateway.pipeline.parsing.parse import Payload
from gateway.read.limits import ParseLimits
from tests.native.readers import Readers, context_at
from tests.native.test_generated import bodies

BODY = bodies()["otlp/otel-openai-v2-latest/chat"]


def test_one_more_sender_than_are_known_costs_only_one_its_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_CONTEXTS", 4)
    readers = Readers()
    contexts = [context_at(device_id=f"{n:032x}") for n in range(5)]
    for context in contexts:
        readers.compare(BODY, context)
    native = readers.native
    before = native.native_spans
    for context in reversed(contexts[1:]):
        assert native.parse(Payload("traces", BODY, json=False), context) is not None
    assert native.native_spans == before + 4 * len(ExportTraceServiceRequest.FromString(BODY).resource_spans)


def test_a_payload_that_python_reads_after_all_has_its_unpriced_calls_once() -> None:
    readers = Readers()
    for _ in range(3):
        readers.compare(payload(["gpt-4o"] * 11, is_related=False), context_at())
    assert not readers.compare(payload(["gpt-4o"] * 11 + ["my-finetune"], is_related=True), context_at())
    assert readers.native_rules.prices.unpriced == {"my-finetune": 1}


def payload(models: list[str], *, is_related: bool) -> bytes:
    """Calls of *models*; where *is_related*, with a span that states the session of others."""
    request = ExportTraceServiceRequest.FromString(BODY)
    del request.resource_spans[0].scope_spans[0].spans[1:]
    spans = request.resource_spans[0].scope_spans[0].spans
    first = spans.pop()
    for number, model in enumerate(models):
        span = spans.add()
        span.CopyFrom(first)
        span.span_id = number.to_bytes(8, "big")[:7] + b"\x01"
        for attribute in span.attributes:
            if attribute.key in {"gen_ai.request.model", "gen_ai.response.model"}:
                attribute.value.string_value = model
    if is_related:
        span = spans.add(name="session", trace_id=first.trace_id, span_id=b"\x02" * 8)
        attribute = span.attributes.add(key="session.id")
        attribute.value.string_value = "s-1"
    return request.SerializeToString()


def test_a_large_span_of_a_known_shape_keeps_to_the_limit_of_attributes() -> None:
    readers, context = Readers(), context_at(limits=ParseLimits(max_attributes=500))
    request = ExportTraceServiceRequest.FromString(payload(["gpt-4o"] * 11, is_related=False))
    spans = request.resource_spans[0].scope_spans[0].spans
    for span in spans:
        span.events.add(name="note")
    for _ in range(4):
        readers.compare(request.SerializeToString(), context)
    for number in range(2000):
        attribute = spans[0].events[0].attributes.add(key=f"key{number}")
        attribute.value.string_value = "x" * 30
    assert not readers.compare(request.SerializeToString(), context)
