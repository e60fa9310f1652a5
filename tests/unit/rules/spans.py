"""Builders: one span as a sender's SDK would encode it, and what becomes of it."""

from collections.abc import Mapping
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

from gateway.common.operations import rfc3339
from gateway.read.otlp_protobuf import decode_traces
from gateway.rules.call import Normalised
from gateway.rules.context import Context
from gateway.rules.traces import normalise_traces
from spool.record import Record

RECEIVED_MS = 1_767_607_203_000
START_NS = 1_767_607_201_250_000_000
END_NS = START_NS + 840_400_000
CONTEXT = Context(RECEIVED_MS, rfc3339(RECEIVED_MS), key="team-key")
TRACE_ID = bytes(range(16))
SPAN_ID = bytes(range(8, 16))


def any_value(value: Any) -> AnyValue:
    match value:
        case bool():
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case str():
            return AnyValue(string_value=value)
        case list():
            return AnyValue(array_value=ArrayValue(values=[any_value(entry) for entry in value]))
        case dict():
            return AnyValue(kvlist_value=KeyValueList(values=key_values(value)))
        case _:
            raise TypeError(value)


def key_values(attributes: Mapping[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=any_value(value)) for key, value in attributes.items()]


def request(
    attributes: Mapping[str, Any],
    *,
    scope: str = "some.scope",
    version: str = "",
    name: str = "chat",
    status: int = 0,
    resource: Mapping[str, Any] | None = None,
    exception: str | None = None,
    **span: Any,
) -> ExportTraceServiceRequest:
    message = ExportTraceServiceRequest()
    resource_spans = message.resource_spans.add()
    resource_spans.resource.attributes.extend(key_values(resource or {}))
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name, scope_spans.scope.version = scope, version
    made = {
        "trace_id": TRACE_ID,
        "span_id": SPAN_ID,
        "start_time_unix_nano": START_NS,
        "end_time_unix_nano": END_NS,
        **span,
    }
    entry = scope_spans.spans.add(name=name, attributes=key_values(attributes), **made)
    entry.status.code = status  # type: ignore[assignment]  # any number is legal on the wire
    if exception is not None:
        entry.events.add(
            name="exception", attributes=key_values({"exception.type": exception, "exception.message": "x y"})
        )
    return message


def normalised(attributes: Mapping[str, Any], *, context: Context = CONTEXT, **rest: Any) -> Normalised:
    return normalise_traces(decode_traces(request(attributes, **rest).SerializeToString()), context)


def record_of(attributes: Mapping[str, Any], *, context: Context = CONTEXT, **rest: Any) -> Record:
    """The record of a span that is a call; fails when it is none."""
    out = normalised(attributes, context=context, **rest)
    assert len(out.calls) == 1, out
    return out.calls[0].record
