"""Spans with other values: the extremes of whatever may vary, and attributes dropped, doubled or
of another type.
"""

from random import Random
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.native.readers import NOW_MS

COUNTS = (0, 0, 1, 7, 100, 200_000, 200_001, 2**31 - 1, 2**31, 2**40, 2**40 + 1, 2**62, 2**63 - 1, -1, -(2**63))
NOW_NS = NOW_MS * 10**6
TIMES_NS = (
    *(0, 1, 946_684_800 * 10**9 - 1, 946_684_800 * 10**9, 4_102_444_800 * 10**9 - 1, 4_102_444_800 * 10**9),
    *(2**63 - 1, 2**63, 2**64 - 1, NOW_NS, NOW_NS + 300_000 * 10**6, NOW_NS + 300_001 * 10**6),
    *(NOW_NS - 86_400_000 * 10**6, NOW_NS - 86_400_001 * 10**6, NOW_NS - 1, NOW_NS - 3_600_000 * 10**6),
)
TEXTS = (
    *(
        "",
        "none",
        "unknown",
        "anonymous",
        "chatcmpl-1",
        "msg_01ABC",
        "a b",
        "x" * 128,
        "x" * 129,
        "x" * 300,
        "é",
        '"q"',
    ),
    *("gpt-4o", "claude-sonnet-4-5", "openai/gpt-4o", "chat", "execute_tool", "a\nb", "\\", "/:@+=-.$#_"),
)

IDS = (".id", "_id", "sessionId")


def varied(request: ExportTraceServiceRequest, random: Random, oddity: float = 1) -> ExportTraceServiceRequest:
    """*request* with other values in some places of each span; with less *oddity*, fewer of its
    spans become ones of another shape.
    """
    made = ExportTraceServiceRequest()
    made.CopyFrom(request)
    for resource_spans in made.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                vary(span, random)
                if random.random() < oddity:
                    make_odd(span, random)
    return made


def vary(span: Span, random: Random) -> None:
    """Other ids, times and counts, as the calls of one program have them."""
    span.trace_id, span.span_id = random.randbytes(16), random.randbytes(8)
    if random.random() < 0.8:
        span.start_time_unix_nano = NOW_NS - random.randrange(10**12)
        span.end_time_unix_nano = span.start_time_unix_nano + random.randrange(10**11)
    if any(span.parent_span_id):
        span.parent_span_id = random.randbytes(8)
    for attribute in span.attributes:
        value = attribute.value
        if value.WhichOneof("value") == "int_value" and random.random() < 0.8:
            value.int_value = random.choice(COUNTS) if random.random() < 0.05 else random.randrange(10_000)
        elif attribute.key.endswith(IDS) and value.HasField("string_value"):
            value.string_value = random.randbytes(12).hex()


def make_odd(span: Span, random: Random) -> None:
    """Another time, parent or status, texts, types, and attributes dropped or doubled."""
    match random.randrange(6):
        case 0:
            span.start_time_unix_nano = random.choice(TIMES_NS)
        case 1:
            span.end_time_unix_nano = random.choice(TIMES_NS)
        case 2:
            span.parent_span_id = random.choice((b"", bytes(8), random.randbytes(8), b"abc"))
        case 3:
            span.status.code = random.choice((0, 1, 2))  # type: ignore[assignment]  # any number
    for attribute in span.attributes:
        if random.random() < 0.3:
            vary_value(attribute, random)
    attributes: Any = span.attributes
    if attributes and random.random() < 0.15:
        del attributes[random.randrange(len(attributes))]
    if attributes and random.random() < 0.1:
        attributes.add().CopyFrom(random.choice(list(attributes)))
    if attributes and random.random() < 0.1:
        random.choice(list(attributes)).value.Clear()


def vary_value(attribute: KeyValue, random: Random) -> None:
    """Mostly a value of the same type; texts are rarely read, so they change rarely."""
    value = attribute.value
    match value.WhichOneof("value"):
        case "int_value":
            value.int_value = random.choice(COUNTS)
            if random.random() < 0.03:
                value.string_value = str(random.choice(COUNTS))
            elif random.random() < 0.03:
                value.double_value = random.choice((0.0, 12.0, 1.5, float("nan"), float("inf")))
        case "string_value" if attribute.key.endswith(IDS):
            value.string_value = random.choice((random.randbytes(12).hex(), random.choice(TEXTS)))
        case "string_value" if random.random() < 0.1:
            value.string_value = random.choice(TEXTS)
        case "double_value":
            value.double_value = random.choice((0.0, 0.25, 1e-9, 3.0, value.double_value))
        case _:
            pass
