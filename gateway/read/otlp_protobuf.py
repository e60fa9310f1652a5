"""OTLP protobuf bytes -> wire view. Pure.

Truncated input, invalid UTF-8 in a text and nesting beyond protobuf's own limit of 100 levels raise
BadPayload; unknown fields and enum numbers are accepted. A zero-length body is an empty request.

A body above `SLICE_BYTES` is parsed while its view is read (`gateway.read.slices`), and raises
BadPayload and TooLarge then.
"""

from typing import Any

from google.protobuf.message import Message

from gateway.read import slices, wire
from gateway.read.fields import BYTES, MORE
from gateway.read.limits import DEFAULT_LIMITS, ParseLimits
from gateway.read.view import Faults, Logs, Metrics, Traces


def decode_traces(body: bytes, limits: ParseLimits = DEFAULT_LIMITS) -> Traces:
    """An ExportTraceServiceRequest. Raises BadPayload, TooLarge."""
    return Traces(*_decoded(wire.TRACES, slices.TRACES, body, limits))


def one_span(resource: bytes, scope: bytes, span: bytes) -> bytes:
    """The ExportTraceServiceRequest of one span, of the bytes of its three parts; b"" for a
    resource or scope that is missing.
    """
    scope_spans = (_field(1, scope) if scope else b"") + _field(2, span)
    return _field(1, (_field(1, resource) if resource else b"") + _field(2, scope_spans))


def _field(number: int, value: bytes) -> bytes:
    size, head = len(value), bytearray([number << 3 | BYTES])
    while size >= MORE:
        head.append(size & 0x7F | MORE)
        size >>= 7
    head.append(size)
    return bytes(head) + value


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
