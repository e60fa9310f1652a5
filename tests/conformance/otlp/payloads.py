"""Requests of the kit: calls of a model with ids of their own, so that a repeat is a repeat of
nothing but itself.
"""

import json
import os
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from tests.support.otlp_bytes import field

SIGNALS = ("traces", "logs", "metrics")
RESPONSES: dict[str, Any] = {
    "traces": ExportTraceServiceResponse,
    "logs": ExportLogsServiceResponse,
    "metrics": ExportMetricsServiceResponse,
}
REJECTED = {
    "traces": ("rejected_spans", "rejectedSpans"),
    "logs": ("rejected_log_records", "rejectedLogRecords"),
    "metrics": ("rejected_data_points", "rejectedDataPoints"),
}
"""Signal -> the count's name in protobuf and in JSON."""
START_NS = 1_767_607_200_000_000_000
USAGE = {"gen_ai.usage.input_tokens": 11, "gen_ai.usage.output_tokens": 3}
TEXTS = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m-small"}


def traces(*trace_ids: bytes | None, name: str = "chat m-small") -> ExportTraceServiceRequest:
    """One call for each trace id; None, and without any: one of its own."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add()
    spans.resource.attributes.add(key="service.name").value.string_value = "conformance"
    scope = spans.scope_spans.add()
    for trace_id in trace_ids or (None,):
        span = scope.spans.add(
            trace_id=os.urandom(16) if trace_id is None else trace_id, span_id=os.urandom(8), name=name
        )
        span.kind = 3
        span.start_time_unix_nano, span.end_time_unix_nano = START_NS, START_NS + 10**9
        for key, text in TEXTS.items():
            span.attributes.add(key=key).value.string_value = text
        for key, number in USAGE.items():
            span.attributes.add(key=key).value.int_value = number
    return request


def dubious() -> dict[str, bytes]:
    """Spans that are valid and of which a receiver may warn."""
    old, later, plain = traces(), traces(), traces()
    for request, second in ((old, 1), (later, 2**33)):
        for one in request.resource_spans[0].scope_spans[0].spans:
            one.start_time_unix_nano = one.end_time_unix_nano = second * 10**9
    for one in plain.resource_spans[0].scope_spans[0].spans:
        one.ClearField("attributes")
    made = {"of 1970": old, "of 2242": later, "without attributes": plain}
    return {what: request.SerializeToString() for what, request in made.items()}


def protobuf(signal: str) -> bytes:
    """A small valid request."""
    match signal:
        case "traces":
            return traces().SerializeToString()
        case "logs":
            logs = ExportLogsServiceRequest()
            logs.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=START_NS, severity_number=9)
            return logs.SerializeToString()
        case _:
            metrics = ExportMetricsServiceRequest()
            metric = metrics.resource_metrics.add().scope_metrics.add().metrics.add(name="m")
            metric.gauge.data_points.add(time_unix_nano=START_NS, as_int=1)
            return metrics.SerializeToString()


def span(**more: Any) -> dict[str, Any]:
    """The same call for OTLP/JSON; a value of None takes the key out."""
    made = {
        "traceId": os.urandom(16).hex(),
        "spanId": os.urandom(8).hex(),
        "name": "chat m-small",
        "kind": 3,
        "startTimeUnixNano": str(START_NS),
        "endTimeUnixNano": str(START_NS + 10**9),
        "attributes": [
            *({"key": key, "value": {"stringValue": text}} for key, text in TEXTS.items()),
            *({"key": key, "value": {"intValue": str(number)}} for key, number in USAGE.items()),
        ],
    } | more
    return {key: value for key, value in made.items() if value is not None}


def attribute(**value: Any) -> dict[str, Any]:
    """An attribute no one knows, with an AnyValue of these members."""
    return {"key": "conformance.value", "value": value}


def with_value(**value: Any) -> dict[str, Any]:
    """A call that has `attribute` too."""
    made = span()
    made["attributes"] = [*made["attributes"], attribute(**value)]
    return made


def spans_json(*spans: dict[str, Any]) -> bytes:
    return dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]})


def logs_json(**record: Any) -> bytes:
    made = {"timeUnixNano": str(START_NS), "severityNumber": 9, "body": {"stringValue": "x"}} | record
    return dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [made]}]}]})


def metric_json(**metric: Any) -> bytes:
    return dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "m", **metric}]}]}]})


def dumps(document: Any) -> bytes:
    return json.dumps(document).encode()


def json_body(signal: str) -> bytes:
    """A small valid request."""
    match signal:
        case "traces":
            return spans_json(span())
        case "logs":
            return logs_json()
        case _:
            return metric_json(gauge={"dataPoints": [{"timeUnixNano": str(START_NS), "asInt": "1"}]})


def partial_success(signal: str, response: bytes) -> tuple[int, str]:
    """(rejected, message) of an export response; (0, "") where partial_success is unset."""
    stated = RESPONSES[signal].FromString(response).partial_success
    return getattr(stated, REJECTED[signal][0]), stated.error_message


def nested(depth: int) -> bytes:
    """A span's attribute of arrays within arrays."""
    value = AnyValue(int_value=1).SerializeToString()
    for _ in range(depth):
        value = field(5, field(1, value))  # AnyValue.array_value of ArrayValue.values
    attribute = field(9, field(1, b"k") + field(2, value))
    span = field(1, bytes(range(16))) + field(2, bytes(range(1, 9))) + attribute
    return field(1, field(2, field(2, span)))
