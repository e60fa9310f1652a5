"""What many senders share of a reader, what no payload counts twice, and limits that it keeps."""

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.pipeline.parsing import reader
from gateway.pipeline.parsing.parse import Payload
from gateway.read.limits import ParseLimits
from gateway.rules.texts import may_hold_object
from tests.native.readers import Readers, context_at
from tests.native.test_generated import bodies
from tests.support.metrics import attributes

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


TEXTS = (
    "a plain answer", "", "5 tokens", "call(x)", "a.call_2(x=1)", " \t{}", "x" * 31 + "{", "x" * 33 + "{", "(", "é(",
    '{"model": "gpt-4o", "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}}',
    "Answer(usage={'prompt_tokens': 5, 'completion_tokens': 7, 'total_tokens': 12}, model='gpt-4o')",
)  # fmt: skip


@pytest.mark.parametrize(
    "usage", [{}, {"acme.usage.prompt_tokens": 5, "acme.usage.completion_tokens": 7, "acme.model": "gpt-4o"}]
)
def test_a_text_in_which_usage_may_be_is_read_by_the_rules_and_any_other_costs_nothing(
    usage: dict[str, object],
) -> None:
    readers, context = Readers(), context_at()
    for turn in range(4):
        for number, text in enumerate(TEXTS):
            readers.compare(of_text(text, usage, 16 * turn + number), context)
    before = readers.native.native_spans
    for number in range(10):
        assert readers.compare(of_text(f"another plain answer, {number}", usage, 100 + number), context)
    assert readers.native.native_spans == before + 10
    for number, text in enumerate(TEXTS[2:]):
        readers.compare(of_text(text, usage, 200 + number), context)
    assert readers.native.native_spans == before + 10 + sum(not may_hold_object(x.encode()) for x in TEXTS[2:])


def of_text(text: str, usage: dict[str, object], number: int) -> bytes:
    """A span of an unknown scope with *text* in the place of an answer."""
    request = ExportTraceServiceRequest()
    scope_spans = request.resource_spans.add().scope_spans.add()
    scope_spans.scope.name = "acme.flow"
    scope_spans.spans.add(
        name="step",
        trace_id=number.to_bytes(16, "big")[:15] + b"\x01",
        span_id=number.to_bytes(8, "big")[:7] + b"\x01",
        start_time_unix_nano=1_793_527_200_000_000_000,
        end_time_unix_nano=1_793_527_201_000_000_000,
        attributes=attributes({**usage, "acme.output": text}),
    )
    return request.SerializeToString()
