"""Records -> an OTLP ExportTraceServiceRequest, one span a record (`spool.span_form`). Pure; a
retry has the same bytes.
"""

import gzip
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import orjson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from spool.span_form import (
    DURATION_UNKNOWN,
    LISTS,
    OF_ENVELOPE,
    OF_RESOURCE,
    SCOPE,
    attribute_name,
    fields_of,
    span_ids,
    span_record_id,
)

NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000
COST: Final = "gen_ai.usage.cost"
"""US dollars as a double, as backends read it; the exact amount travels beside it."""
GZIP_LEVEL: Final = 6


class Encoded(NamedTuple):
    """A request body, and which record each of its spans is."""

    body: bytes
    positions: Mapping[str, int]
    """`resourceSpans[0].scopeSpans[0].spans[3]` -> index in the batch."""


def encode_spans(records: Sequence[bytes], *, packs: bool) -> Encoded:
    """One resource for each service, environment and device, in the order in which they first come.

    *packs*: gzip, with the same bytes each time.
    """
    request = ExportTraceServiceRequest()
    resources: dict[tuple[Any, ...], tuple[int, Any]] = {}
    positions: dict[str, int] = {}
    for index, data in enumerate(records):
        record: dict[str, Any] = orjson.loads(data)
        who = record.get("attribution") or {}
        key = tuple(who.get(path[-1]) for path in OF_RESOURCE)
        if key not in resources:
            made = request.resource_spans.add(resource=_resource(key))
            scope = made.scope_spans.add()
            scope.scope.name = SCOPE
            resources[key] = len(resources), scope.spans
        number, spans = resources[key]
        positions[f"resourceSpans[{number}].scopeSpans[0].spans[{len(spans)}]"] = index
        spans.append(span_of(record))
    body = request.SerializeToString()
    return Encoded(gzip.compress(body, GZIP_LEVEL, mtime=0) if packs else body, positions)


def span_of(record: Mapping[str, Any]) -> Span:
    """The record as a span; what its resource holds is left out."""
    start_ns = _unix_ns(record.get("started_at"))
    duration_ms = record.get("duration_ms")
    trace_id, span_id, parent_id, is_own = _ids(record)
    attributes = [
        KeyValue(key=attribute_name(path), value=_value(path, value))
        for path, value in fields_of(record)
        if path not in OF_ENVELOPE and path not in OF_RESOURCE and not (is_own and path[0] == "trace")
    ]
    if duration_ms is None:
        attributes.append(KeyValue(key=DURATION_UNKNOWN, value=AnyValue(bool_value=True)))
    cost = record.get("cost") or {}
    if cost.get("currency") == "USD":
        attributes.append(KeyValue(key=COST, value=AnyValue(double_value=float(cost["amount"]))))
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=parent_id,
        name=_name(record),
        kind=Span.SPAN_KIND_CLIENT,
        start_time_unix_nano=start_ns,
        end_time_unix_nano=start_ns + (duration_ms or 0) * NS_PER_MS,
        attributes=attributes,
        status=Status(code=Status.STATUS_CODE_ERROR) if record.get("status") == "error" else None,
    )


def _name(record: Mapping[str, Any]) -> str:
    """`chat gpt-4o`, as the conventions have it."""
    model = record.get("request_model") or record.get("response_model")
    return " ".join(part for part in (record.get("operation") or record.get("kind"), model) if part)


def _ids(record: Mapping[str, Any]) -> tuple[bytes, bytes, bytes, bool]:
    """Trace, span and parent, and whether they are the record's own."""
    trace = record.get("trace") or {}
    stated = [bytes.fromhex(trace.get(name) or "") for name in ("trace_id", "span_id", "parent_span_id")]
    trace_id, span_id, parent_id = span_ids(record["record_id"], *stated)
    return trace_id, span_id, parent_id, span_record_id(trace_id, span_id) == record["record_id"]


def _resource(key: tuple[str | None, ...]) -> Resource:
    stated = [
        KeyValue(key=name, value=AnyValue(string_value=text))
        for name, text in zip(OF_RESOURCE.values(), key, strict=True)
        if text is not None
    ]
    return Resource(attributes=stated)


def _value(path: tuple[str, ...], value: Any) -> AnyValue:
    if path in LISTS:
        texts = value if isinstance(value, list) else [value]
        return AnyValue(array_value=ArrayValue(values=[AnyValue(string_value=text) for text in texts]))
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case _:
            return AnyValue(string_value=str(value))


def _unix_ns(stamp: str | None) -> int:
    """Of RFC 3339 with milliseconds; exact, which a float of seconds would not be."""
    if stamp is None:
        return 0
    time = datetime.fromisoformat(stamp)
    return int(time.replace(microsecond=0).timestamp()) * NS_PER_S + time.microsecond * 1000
