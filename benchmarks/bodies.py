"""Request bodies for the load: OTLP trace exports of gen_ai spans, built
once and made unique by patching.

One template per shape is serialised with sentinel ids. A request is a copy of it in which the
trace id, span id and response id of every span are overwritten in place, at offsets found once:
the length of no field changes, so nothing is encoded again. Uniqueness matters on three fields:
equal span ids or equal response ids are one call to the gateway.

Layout of the ids of AI span number *s* of a run (s counts from 0):
  span id      8 bytes, big endian: `AI_SPAN_ID_BASE + s` (other spans: `OTHER_SPAN_ID_BASE + s`)
  trace id    16 bytes: 8 bytes `TRACE_ID_HIGH`, 8 bytes as the span id
  response id `chatcmpl-` and 24 hex digits
so the upstream knows from a span id which span of the run it is (`benchmarks.sink`: a bitmap).
"""

import gzip
import json
import time
from dataclasses import dataclass
from typing import Literal, NamedTuple

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span, Status

from benchmarks.attributes import CONVENTIONS, AttributeValue, Convention, ai_attributes, other_attributes, tokens_of

AI_SPAN_ID_BASE = 0xA1 << 56
OTHER_SPAN_ID_BASE = 0x0E << 56
TRACE_ID_HIGH = bytes.fromhex("5f1e2d3c4b5a6978")
SEQUENCE_MASK = (1 << 56) - 1


@dataclass(frozen=True, slots=True)
class Shape:
    """What one request looks like."""

    spans: int = 100
    attributes: int = 15
    """Attributes on each AI span; beyond 15 they include message
    content, which the gateway has to drop."""
    encoding: Literal["protobuf", "json", "litellm"] = "protobuf"
    """`litellm`: not OTLP but what LiteLLM's generic callback pushes
    (`benchmarks.litellm_bodies`)."""
    gzip: bool = False
    convention: Convention = "gen_ai"
    ai_percent: int = 100
    """Share of AI spans; the others are HTTP client spans."""

    def ai_spans(self) -> int:
        """AI spans in one request, at least one."""
        return max(1, self.spans * self.ai_percent // 100)


class Patch(NamedTuple):
    """Where the ids of one span stand in the body."""

    is_ai: bool
    trace_id: int
    span_id: int
    response_id: int | None


class Place(NamedTuple):
    """Where the number of one item is written into a body."""

    offset: int
    item: int
    """Its index in the request."""
    digits: int
    """How many hex digits, from the right; 0 for eight bytes, big endian."""


class Template:
    """The serialised request of a shape, and where its ids are."""

    def __init__(self, shape: Shape, *, now_ns: int | None = None) -> None:
        self.shape = shape
        self.ai_spans = shape.ai_spans()
        request = export_request(shape, time.time_ns() if now_ns is None else now_ns)
        self._hex = shape.encoding == "json"
        self._body = _serialise(request, json_encoding=self._hex)
        self._patches = [self._locate(index) for index in range(shape.spans)]
        usages = [tokens_of(index) for index in range(self.ai_spans)]
        self.input_tokens = sum(usage.input_tokens for usage in usages)
        self.output_tokens = sum(usage.output_tokens for usage in usages)

    @property
    def body_bytes(self) -> int:
        """Length of one body before compression."""
        return len(self._body)

    def body(self, number: int) -> bytes:
        """Request *number* of a run (from 0), ready to send: AI spans
        `number * ai_spans` and following.
        """
        out = bytearray(self._body)
        ai = AI_SPAN_ID_BASE + number * self.ai_spans
        other = OTHER_SPAN_ID_BASE + number * (self.shape.spans - self.ai_spans)
        for patch in self._patches:
            if patch.is_ai:
                self._write(out, patch, ai)
                ai += 1
            else:
                self._write(out, patch, other)
                other += 1
        return gzip.compress(bytes(out), compresslevel=1, mtime=0) if self.shape.gzip else bytes(out)

    def headers(self) -> dict[str, str]:
        """Content-Type and Content-Encoding of the bodies."""
        media = "application/json" if self._hex else "application/x-protobuf"
        return {"Content-Type": media} | ({"Content-Encoding": "gzip"} if self.shape.gzip else {})

    def places(self) -> list["Place"]:
        """Where the numbers of AI spans stand, for a sender that writes them itself."""
        found: list[Place] = []
        for item, patch in enumerate(patch for patch in self._patches if patch.is_ai):
            digits = 16 if self._hex else 0
            found += [Place(patch.trace_id + (digits or 8), item, digits), Place(patch.span_id, item, digits)]
            found += [Place(patch.response_id, item, 24)] if patch.response_id is not None else []
        return found

    def _write(self, out: bytearray, patch: Patch, ident: int) -> None:
        raw = ident.to_bytes(8, "big")
        value = raw.hex().encode() if self._hex else raw
        # The high half of the trace id is the same everywhere: only the low half is written.
        low = patch.trace_id + len(value)
        out[low : low + len(value)] = value
        out[patch.span_id : patch.span_id + len(value)] = value
        if patch.response_id is not None:
            out[patch.response_id : patch.response_id + 24] = b"%024x" % ident

    def _locate(self, index: int) -> Patch:
        is_ai = index < self.ai_spans
        as_sent = (lambda raw: raw.hex().encode()) if self._hex else bytes
        return Patch(
            is_ai,
            find_once(self._body, as_sent(_trace_sentinel(index))),
            find_once(self._body, as_sent(_span_sentinel(index))),
            find_once(self._body, _response_sentinel(index).encode()) if is_ai else None,
        )


def sequence_of(span_id: str) -> int | None:
    """Which AI span of the run a span id (16 hex digits) is; None for
    an id that is not one of ours.
    """
    number = int(span_id, 16)
    return number & SEQUENCE_MASK if number >= AI_SPAN_ID_BASE and number >> 56 == AI_SPAN_ID_BASE >> 56 else None


def export_request(shape: Shape, now_ns: int) -> ExportTraceServiceRequest:
    """The request of *shape* with sentinel ids, spans ending at *now_ns*."""
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add()
    for name, value in _RESOURCE.items():
        resource_spans.resource.attributes.append(_key_value(name, value))
    ai, other = resource_spans.scope_spans.add(), ScopeSpans()
    convention = CONVENTIONS[shape.convention]
    ai.scope.name, ai.scope.version = convention.scope_name, convention.scope_version
    other.scope.name, other.scope.version = "opentelemetry.instrumentation.httpx", "0.60b0"
    for index in range(shape.spans):
        (ai if index < shape.ai_spans() else other).spans.append(_span(shape, index, now_ns))
    if other.spans:
        resource_spans.scope_spans.append(other)
    return request


_RESOURCE: dict[str, AttributeValue] = {
    "service.name": "checkout-bot",
    "service.instance.id": "7d9f6c5b8-x2x7k",
    "service.version": "3.14.1",
    "deployment.environment.name": "prod",
    "telemetry.sdk.name": "opentelemetry",
    "telemetry.sdk.language": "python",
    "telemetry.sdk.version": "1.40.0",
    "k8s.namespace.name": "shop",
}


def _span(shape: Shape, index: int, now_ns: int) -> Span:
    is_ai = index < shape.ai_spans()
    duration_ns = (300 + 37 * (index % 50)) * 1_000_000
    end_ns = now_ns - (index % 1000) * 1_000_000
    pairs = (
        ai_attributes(shape.convention, index, _response_sentinel(index), shape.attributes)
        if is_ai
        else other_attributes(index)
    )
    return Span(
        trace_id=_trace_sentinel(index),
        span_id=_span_sentinel(index),
        parent_span_id=(0x77 << 56 | index).to_bytes(8, "big"),
        name=CONVENTIONS[shape.convention].span_name if is_ai else "GET",
        kind=Span.SPAN_KIND_CLIENT,
        start_time_unix_nano=end_ns - duration_ns,
        end_time_unix_nano=end_ns,
        attributes=[_key_value(name, value) for name, value in pairs.items()],
        status=Status(code=Status.STATUS_CODE_UNSET),
    )


def _key_value(name: str, value: AttributeValue) -> KeyValue:
    return KeyValue(key=name, value=_any_value(value))


def _any_value(value: AttributeValue) -> AnyValue:
    match value:
        case str():
            return AnyValue(string_value=value)
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case list():
            return AnyValue(array_value=ArrayValue(values=[AnyValue(string_value=item) for item in value]))


def _serialise(request: ExportTraceServiceRequest, *, json_encoding: bool) -> bytes:
    if not json_encoding:
        return request.SerializeToString()
    # OTLP/JSON is protobuf's JSON mapping, but for ids in hex where that has base64.
    tree = MessageToDict(request, use_integers_for_enums=True)
    scopes = zip(request.resource_spans[0].scope_spans, tree["resourceSpans"][0]["scopeSpans"], strict=True)
    for scope, scope_tree in scopes:
        for span, span_tree in zip(scope.spans, scope_tree["spans"], strict=True):
            span_tree["traceId"] = span.trace_id.hex()
            span_tree["spanId"] = span.span_id.hex()
            span_tree["parentSpanId"] = span.parent_span_id.hex()
    return json.dumps(tree, separators=(",", ":")).encode()


def _trace_sentinel(index: int) -> bytes:
    return TRACE_ID_HIGH + b"Tr%06d" % index


def _span_sentinel(index: int) -> bytes:
    return b"Sp%06d" % index


def _response_sentinel(index: int) -> str:
    return f"Response{index:016d}"


def find_once(body: bytes, sentinel: bytes) -> int:
    """Where *sentinel* stands, which must be in one place."""
    at = body.find(sentinel)
    if at < 0 or body.find(sentinel, at + 1) >= 0:
        raise AssertionError(f"the id {sentinel!r} does not stand exactly once in the template")
    return at
