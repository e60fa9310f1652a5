"""OTLP protobuf bytes -> wire view. Pure.

Truncated input, invalid UTF-8 in a text and nesting beyond protobuf's own limit of 100 levels raise
BadPayload; unknown fields and enum numbers are accepted. A zero-length body is an empty request.
"""

from typing import cast

from google.protobuf.message import DecodeError, Message

from gateway.contract.errors import BadPayload
from gateway.decode import wire
from gateway.decode.view import Logs, LogsRequest, Metrics, MetricsRequest, Traces, TracesRequest


def decode_traces(body: bytes) -> Traces:
    """An ExportTraceServiceRequest. Raises BadPayload."""
    return Traces(cast("TracesRequest", _parse(wire.TRACES, body)))


def decode_logs(body: bytes) -> Logs:
    """An ExportLogsServiceRequest. Raises BadPayload."""
    return Logs(cast("LogsRequest", _parse(wire.LOGS, body)))


def decode_metrics(body: bytes) -> Metrics:
    """An ExportMetricsServiceRequest. Raises BadPayload."""
    return Metrics(cast("MetricsRequest", _parse(wire.METRICS, body)))


def _parse(message: type[Message], body: bytes) -> Message:
    try:
        return message.FromString(body)
    except DecodeError:
        # Its text may quote a field's value, so it is not passed on.
        raise BadPayload("the body is not a valid OTLP protobuf message") from None
