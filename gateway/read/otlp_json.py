"""OTLP/JSON bytes -> the same wire view that protobuf gives, so that both forms
share one normaliser. Pure.

The rules are those of the OTLP specification's JSON encoding: ids in hex, 64-bit integers as number
or decimal text, `NaN` and `Infinity` as text, bytes in base64, null for absent, enums as integers,
unknown keys ignored, of a repeated key the last one wins. A byte order mark is skipped; half a
surrogate pair (a text cut inside an emoji) becomes U+FFFD. Vercel's drains write the kind and the
status of a span as a word (`"kind": "server"`): those words are read too.

What is not JSON, or has a wrong JSON type, raises BadPayload; its text names the place, never the
content. An item (span, log record, data point) with an id that is not hex of the right length or
with an enum's name instead of its number is a fault of that item alone: an empty item stays in its
place, and the position is reported with the reason.
"""

from collections.abc import Callable
from typing import cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from gateway.common.contract.errors import BadPayload
from gateway.read import wire
from gateway.read.json_size import check_json
from gateway.read.json_values import (
    INT64,
    Json,
    boolean_of,
    double_of,
    entries_of,
    integer_of,
    load,
    read_any,
    read_attribute,
    text_of,
)
from gateway.read.limits import DEFAULT_LIMITS, TOO_MANY, Meter, ParseLimits, too_many_attributes
from gateway.read.view import Logs, LogsRequest, Metrics, MetricsRequest, Traces, TracesRequest

_ENUMS = frozenset({"kind", "code", "severity_number", "aggregation_temporality"})
_ENUM_WORDS = {
    "kind": {"unspecified": 0, "internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5},
    "code": {"unset": 0, "ok": 1, "error": 2},
}
"""Vercel's words, in lower case; the names of protobuf's enums
(`SPAN_KIND_SERVER`) are none of them."""
_ID_BYTES = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}
_CONTAINERS = frozenset(
    {
        "resource_spans",
        "scope_spans",
        "resource_logs",
        "scope_logs",
        "resource_metrics",
        "scope_metrics",
        "metrics",
    }
)
_ITEMS = frozenset({"spans", "log_records", "data_points"})
_INT_LIMITS = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_INT64: INT64,
    FieldDescriptor.TYPE_SFIXED64: INT64,
    FieldDescriptor.TYPE_FIXED64: (0, 2**64 - 1),
}


class _ItemFault(Exception):
    """One item cannot be read; the rest can."""


class Faults(dict[str, str]):
    """Position of an item -> reason, of one request while it is read; and what it may hold."""

    def __init__(self, limits: ParseLimits) -> None:
        super().__init__()
        self.meter = Meter(limits.max_items)
        self.max_attributes = limits.max_attributes


def decode_traces_json(body: bytes, limits: ParseLimits = DEFAULT_LIMITS) -> Traces:
    """An ExportTraceServiceRequest in JSON. Raises BadPayload, TooLarge."""
    request, faults = _decode(wire.TRACES, body, limits)
    return Traces(cast("TracesRequest", request), faults)


def decode_logs_json(body: bytes, limits: ParseLimits = DEFAULT_LIMITS) -> Logs:
    """An ExportLogsServiceRequest in JSON. Raises BadPayload, TooLarge."""
    request, faults = _decode(wire.LOGS, body, limits)
    return Logs(cast("LogsRequest", request), faults)


def decode_metrics_json(body: bytes, limits: ParseLimits = DEFAULT_LIMITS) -> Metrics:
    """An ExportMetricsServiceRequest in JSON. Raises BadPayload, TooLarge."""
    request, faults = _decode(wire.METRICS, body, limits)
    return Metrics(cast("MetricsRequest", request), faults)


def _decode(kind: type[Message], body: bytes, limits: ParseLimits) -> tuple[Message, Faults]:
    check_json(body, limits)
    document = load(body)
    if not isinstance(document, dict):
        raise BadPayload("the body is not a JSON object")
    request = kind()
    faults = Faults(limits)
    try:
        _read_message(request, document, "", faults)
    except _ItemFault as fault:  # of what is no item
        if str(fault) == TOO_MANY:
            raise too_many_attributes("a resource", limits.max_attributes) from None
        raise BadPayload(f"outside any item: {fault}") from None
    return request, faults


_Reader = Callable[[Message, str, Json, str, Faults], None]
"""(message, field, value, position, faults): set the field from its JSON value, or raise."""


class _Layout:
    """How a message's JSON keys map to its fields; made once a message type."""

    __slots__ = ("readers",)

    def __init__(self, descriptor: Descriptor) -> None:
        self.readers: dict[str, tuple[str, _Reader]] = {
            field.json_name: (field.name, _reader(field)) for field in descriptor.fields
        }


_LAYOUTS: dict[str, _Layout] = {}


def _layout(descriptor: Descriptor) -> _Layout:
    layout = _LAYOUTS.get(descriptor.full_name)
    if layout is None:
        layout = _LAYOUTS[descriptor.full_name] = _Layout(descriptor)
    return layout


def _read_message(message: Message, document: dict[str, Json], at: str, faults: Faults) -> None:
    readers = _layout(cast("Descriptor", message.DESCRIPTOR)).readers
    for key, value in document.items():
        if value is not None and key in readers:
            name, read = readers[key]
            read(message, name, value, f"{at}.{key}" if at else key, faults)


def _reader(field: FieldDescriptor) -> _Reader:
    """What reads one field's JSON value into its message."""
    if field.message_type is not None:
        return _message_reader(field, field.message_type)
    if field.name in _ID_BYTES:
        return _read_id
    if field.name in _ENUMS:
        return _read_enum
    scalar = _scalar(field)
    return lambda message, name, value, at, _: setattr(message, name, scalar(value, at))


def _message_reader(field: FieldDescriptor, message: Descriptor) -> _Reader:
    if message.GetOptions().map_entry:
        return read_attributes
    if message.name == "AnyValue":
        return _read_body
    if field.is_repeated:
        return _read_items if field.name in _ITEMS else _read_list
    return _read_one


def _scalar(field: FieldDescriptor) -> Callable[[Json, str], bool | float | str]:
    if field.type in _INT_LIMITS:
        low, high = _INT_LIMITS[field.type]
        return lambda value, at: integer_of(value, low, high, at)
    return {FieldDescriptor.TYPE_DOUBLE: double_of, FieldDescriptor.TYPE_BOOL: boolean_of}.get(field.type, text_of)


def _read_one(message: Message, name: str, value: Json, at: str, faults: Faults) -> None:
    if not isinstance(value, dict):
        raise BadPayload(f"{at}: an object is expected")
    child: Message = getattr(message, name)
    child.SetInParent()
    _read_message(child, value, at, faults)


def _read_list(message: Message, name: str, value: Json, at: str, faults: Faults) -> None:
    children = getattr(message, name)
    entries = entries_of(value, at)
    if name in _CONTAINERS:
        faults.meter.take(len(entries))
    for index, entry in enumerate(entries):
        child: Message = children.add()
        if entry is None:
            continue
        if not isinstance(entry, dict):
            raise BadPayload(f"{at}[{index}]: an object is expected")
        _read_message(child, entry, f"{at}[{index}]", faults)


def _read_items(message: Message, name: str, value: Json, at: str, faults: Faults) -> None:
    children = getattr(message, name)
    entries = entries_of(value, at)
    faults.meter.take(len(entries))
    for index, entry in enumerate(entries):
        child: Message = children.add()
        position = f"{at}[{index}]"
        if not isinstance(entry, dict):
            raise BadPayload(f"{position}: an object is expected")
        try:
            _read_message(child, entry, position, faults)
        except _ItemFault as fault:
            child.Clear()
            faults[position] = str(fault)


def _read_id(message: Message, name: str, value: Json, at: str, faults: Faults) -> None:
    if not isinstance(value, str):
        raise BadPayload(f"{at}: a hex text is expected")
    if not value:
        return
    try:
        raw = bytes.fromhex(value) if value.isascii() and " " not in value else b""
    except ValueError:
        raw = b""
    if len(raw) != _ID_BYTES[name]:
        raise _ItemFault(f"invalid_{name}")
    setattr(message, name, raw)


def _read_enum(message: Message, name: str, value: Json, at: str, faults: Faults) -> None:
    if isinstance(value, str):
        word = _ENUM_WORDS.get(name, {}).get(value)
        if word is None:
            raise _ItemFault("invalid_enum")
        value = word
    setattr(message, name, integer_of(value, -(2**31), 2**31 - 1, at))


def read_attributes(message: Message, name: str, value: Json, at: str, faults: Faults) -> None:
    attributes = getattr(message, name)
    entries = entries_of(value, at)
    if len(entries) > faults.max_attributes:
        raise _ItemFault(TOO_MANY)
    for index, entry in enumerate(entries):
        read_attribute(attributes, entry, f"{at}[{index}]", 0)


def _read_body(message: Message, name: str, value: Json, at: str, faults: Faults) -> None:
    target: Message = getattr(message, name)
    target.SetInParent()
    read_any(target, value, at, 0)
