"""OTLP protobuf bytes -> wire view. Pure.

Truncated input, invalid UTF-8 in a text and nesting beyond protobuf's own limit of 100 levels raise
BadPayload; unknown fields and enum numbers are accepted. A zero-length body is an empty request.

A body above `SLICE_BYTES` is parsed while its view is read (`gateway.decode.slices`), and raises
BadPayload and TooLarge then.
"""

from typing import Any

from google.protobuf.message import Message

from gateway.decode import slices, wire
from gateway.decode.limits import DEFAULT_LIMITS, ParseLimits
from gateway.decode.view import Faults, Logs, Metrics, Traces


def decode_traces(body: bytes, limits: ParseLimits = DEFAULT_LIMITS) -> Traces:
    """An ExportTraceServiceRequest. Raises BadPayload, TooLarge."""
    return Traces(*_decoded(wire.TRACES, slices.TRACES, body, limits))


def decode_raw_traces(body: bytes, limits: ParseLimits = DEFAULT_LIMITS) -> Any:
    """The same request as `RawTraces` (`gateway.decode.wire`). Raises as above."""
    return _decoded(wire.RAW_TRACES, slices.RAW_TRACES, body, limits)[0]


def decode_logs(body: bytes, limits: ParseLimits = DEFAULT_LIMITS) -> Logs:
    """An ExportLogsServiceRequest. Raises BadPayload, TooLarge."""
    return Logs(*_decoded(wire.LOGS, slices.LOGS, body, limits))


def decode_metrics(body: bytes, limits: ParseLimits = DEFAULT_LIMITS) -> Metrics:
    """An ExportMetricsServiceRequest. Raises BadPayload, TooLarge."""
    return Metrics(*_decoded(wire.METRICS, slices.METRICS, body, limits))


def _decoded(message: type[Message], level: slices.Level, body: bytes, limits: ParseLimits) -> tuple[Any, Faults]:
    if len(body) <= slices.SLICE_BYTES:
        return slices.parse(message, body), {}
    faults: dict[str, str] = {}
    return slices.sliced(level, body, limits, faults), faults
