"""OTLP traces of one call, as bytes; its metrics are `tests.support.metrics`."""

from collections.abc import Mapping

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.calls import span_id, trace_id
from tests.support.metrics import LABELS, RESOURCE, at_ns, attributes


def call_span(
    name: str,
    tokens: tuple[int, int],
    *,
    at: float = 1,
    resource: Mapping[str, object] = RESOURCE,
    more: Mapping[str, object] | None = None,
    scope: str = "",
) -> bytes:
    """A request with the span of one call, a second long."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add()
    spans.resource.attributes.extend(attributes(resource))
    used = {"gen_ai.usage.input_tokens": tokens[0], "gen_ai.usage.output_tokens": tokens[1]}
    of_scope = spans.scope_spans.add()
    of_scope.scope.name = scope
    of_scope.spans.add(
        trace_id=trace_id(name),
        span_id=span_id(name),
        name="chat gpt-4o",
        start_time_unix_nano=at_ns(at),
        end_time_unix_nano=at_ns(at + 1),
        attributes=attributes({**LABELS, **used, **(more or {})}),
    )
    return request.SerializeToString()
