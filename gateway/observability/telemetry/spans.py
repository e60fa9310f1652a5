"""Spans of the gateway as an OTLP request. Pure."""

from collections.abc import Iterable, Mapping

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Written
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from gateway.observability.telemetry.metrics import SCOPE, attributes_of
from gateway.observability.telemetry.tracer import Span


def traces_request(spans: Iterable[Span], resource: Mapping[str, str]) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    of_resource = request.resource_spans.add()
    of_resource.resource.attributes.extend(attributes_of(resource))
    scope = of_resource.scope_spans.add()
    scope.scope.name = SCOPE
    scope.spans.extend(map(written, spans))
    return request


def written(span: Span) -> Written:
    found = Written(
        trace_id=span.context.trace_id,
        span_id=span.context.span_id,
        parent_span_id=span.parent_span_id,
        name=span.name,
        kind=Written.SpanKind.Value(f"SPAN_KIND_{span.kind}"),
        start_time_unix_nano=span.start_ns,
        end_time_unix_nano=span.end_ns,
        attributes=attributes_of(span.attributes),
        links=[Written.Link(trace_id=each.trace_id, span_id=each.span_id) for each in span.links],
    )
    if span.is_error:
        found.status.code = Status.StatusCode.STATUS_CODE_ERROR
    return found
