"""Spans that another gateway made of its records (`spool.span_form`) -> the records as it stated
them, still unchecked. Pure.
"""

from typing import Any, Final

from gateway.common.operations import rfc3339
from gateway.read.view import AnyValue, Attributes, Span
from gateway.rules import times
from gateway.rules.texts import Json
from spool.fields import Path
from spool.record import SCHEMA
from spool.span_form import (
    DURATION_UNKNOWN,
    LISTS,
    OF_ONE,
    OF_RESOURCE,
    path_of,
    put,
    span_record_id,
)

_STATUS_ERROR: Final = 2


def stated_record(span: Span, resource: Attributes) -> dict[str, Json]:
    """The record that *span* is, as far as it states one: `gateway.products.records` checks it."""
    record: dict[str, Any] = {"schema": SCHEMA, "status": "error" if span.status.code == _STATUS_ERROR else "ok"}
    for path, name in OF_RESOURCE.items():
        if name in resource:
            _put(record, path, resource[name])
    for name in span.attributes:
        stated = path_of(name)
        if stated is not None and stated not in OF_RESOURCE:
            _put(record, stated, span.attributes[name])
    start_ms = span.start_time_unix_nano // times.NS_PER_MS
    record["started_at"] = rfc3339(start_ms) if is_time(span.start_time_unix_nano) else None
    if not record.pop(DURATION_UNKNOWN_FIELD, None):
        record["duration_ms"] = span.end_time_unix_nano // times.NS_PER_MS - start_ms
    if span_record_id(span.trace_id, span.span_id) == record.get("record_id"):
        record["trace"] = {
            "trace_id": span.trace_id.hex(),
            "span_id": span.span_id.hex(),
            "parent_span_id": span.parent_span_id.hex() if any(span.parent_span_id) else None,
        }
    return record


(DURATION_UNKNOWN_FIELD,) = path_of(DURATION_UNKNOWN) or ("",)


def is_time(unix_ns: int) -> bool:
    return times.FIRST_NS <= unix_ns < times.LAST_NS


def _put(record: dict[str, Any], path: Path, value: AnyValue) -> None:
    found = _texts(value) if path in LISTS else _scalar(value)
    if path in OF_ONE:
        found = found[0] if isinstance(found, list) and found else None
    if found is not None:
        put(record, path, found)


def _scalar(value: AnyValue) -> Json:
    if value.HasField("bool_value"):
        return value.bool_value
    if value.HasField("int_value"):
        return value.int_value
    if value.HasField("double_value"):
        return value.double_value
    return value.string_value or None


def _texts(value: AnyValue) -> list[Json]:
    return [entry.string_value for entry in value.array_value.values]
