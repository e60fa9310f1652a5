"""Records -> an OTLP ExportTraceServiceRequest, one span a record (`spool.span_form`). Pure; a
retry has the same bytes.

The messages are written field by field: generated types take four times as long for a span of
thirty attributes, and every record goes through here.
"""

import gzip
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple

import orjson

from exporters.otlp.protobuf import delimited, varint
from spool.fields import Path
from spool.span_form import (
    DURATION_UNKNOWN,
    LISTS,
    OF_ENVELOPE,
    OF_RESOURCE,
    SCOPE,
    attribute_name,
    span_ids,
    span_record_id,
)

NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000
COST: Final = "gen_ai.usage.cost"
"""US dollars as a double, as backends read it; the exact amount travels beside it."""
GZIP_LEVEL: Final = 6

_FIXED64: Final = Struct("<Q")
_DOUBLE: Final = Struct("<d")
_INT64_MASK: Final = (1 << 64) - 1
_KIND_CLIENT: Final = b"\x30\x03"
_STATUS_ERROR: Final = b"\x7a\x02\x18\x02"
_LISTED: Final = frozenset(path[-1] for path in LISTS)
_MAX_KEYS: Final = 512
_TRUE, _FALSE = b"\x10\x01", b"\x10\x00"


class Encoded(NamedTuple):
    """A request body, and which record each of its spans is."""

    body: bytes
    positions: Mapping[str, int]
    """`resourceSpans[0].scopeSpans[0].spans[3]` -> index in the batch."""
    order: Sequence[int]
    """The index in the batch of each span of the request."""
    is_packed: bool
    """gzip."""


def encode_spans(records: Sequence[bytes], *, packs: bool) -> Encoded:
    """One resource for each service, environment and device, in the order in which they first come.

    *packs*: gzip, with the same bytes each time.
    """
    spans_by_resource: dict[tuple[str | None, ...], tuple[int, list[bytes], list[int]]] = {}
    positions: dict[str, int] = {}
    for index, data in enumerate(records):
        record: dict[str, Any] = orjson.loads(data)
        who = record.get("attribution") or {}
        key = tuple(who.get(path[-1]) for path in OF_RESOURCE)
        number, spans, indexes = spans_by_resource.setdefault(key, (len(spans_by_resource), [], []))
        positions[f"resourceSpans[{number}].scopeSpans[0].spans[{len(spans)}]"] = index
        spans.append(delimited(2, span_of(record)))
        indexes.append(index)
    scope = delimited(1, delimited(1, SCOPE.encode()))
    body = b"".join(
        delimited(1, delimited(1, _resource(key)) + delimited(2, scope + b"".join(spans)))
        for key, (_, spans, _) in spans_by_resource.items()
    )
    order = [index for _, _, indexes in spans_by_resource.values() for index in indexes]
    return Encoded(gzip.compress(body, GZIP_LEVEL, mtime=0) if packs else body, positions, order, packs)


def span_of(record: Mapping[str, Any]) -> bytes:
    """The record as a Span message; what its resource holds is left out."""
    start_ns = _unix_ns(record.get("started_at"))
    duration_ms = record.get("duration_ms")
    trace_id, span_id, parent_id, is_own = _ids(record)
    parts = [
        delimited(1, trace_id),
        delimited(2, span_id),
        delimited(4, parent_id) if parent_id else b"",
        delimited(5, _name(record).encode()),
        _KIND_CLIENT,
        b"\x39" + _FIXED64.pack(start_ns),
        b"\x41" + _FIXED64.pack(start_ns + (duration_ms or 0) * NS_PER_MS),
    ]
    _add_fields(parts, record, (), "trace" if is_own else "")
    if duration_ms is None:
        parts.append(_attribute(delimited(1, DURATION_UNKNOWN.encode()), _TRUE))
    cost = record.get("cost") or {}
    if cost.get("currency") == "USD":
        parts.append(_attribute(delimited(1, COST.encode()), b"\x21" + _DOUBLE.pack(float(cost["amount"]))))
    if record.get("status") == "error":
        parts.append(_STATUS_ERROR)
    return b"".join(parts)


def _add_fields(parts: list[bytes], value: Mapping[str, Any], above: Path, left_out: str) -> None:
    """The attributes of the fields of *value*, which stands at *above*, but for the part
    *left_out*.
    """
    keys = _keys_below(above)
    for name, inner in value.items():
        if inner is None or name == left_out:
            continue
        if type(inner) is dict:
            _add_fields(parts, inner, (*above, name), "")
            continue
        key = keys[name]
        if key:
            parts.append(
                _attribute(key, _texts(inner) if not above and name in _LISTED else _VALUES[type(inner)](inner))
            )


class _Keys(dict[str, bytes]):
    """Field of one part of the record -> the `key` of its attribute; empty where the span or its
    resource holds it. Made when first asked for, within bounds.
    """

    def __init__(self, above: Path) -> None:
        super().__init__()
        self._above = above

    def __missing__(self, name: str) -> bytes:
        path = (*self._above, name)
        is_held = path in OF_ENVELOPE or path in OF_RESOURCE
        key = b"" if is_held else delimited(1, attribute_name(path).encode())
        if len(self) < _MAX_KEYS:
            self[name] = key
        return key


@lru_cache(maxsize=64)
def _keys_below(above: Path) -> _Keys:
    return _Keys(above)


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


def _resource(key: Iterable[str | None]) -> bytes:
    return b"".join(
        delimited(1, delimited(1, name.encode()) + delimited(2, _text(text)))
        for name, text in zip(OF_RESOURCE.values(), key, strict=True)
        if text is not None
    )


def _attribute(key: bytes, value: bytes) -> bytes:
    """`Span.attributes`: a KeyValue of the two fields."""
    return delimited(9, key + delimited(2, value))


def _texts(value: Any) -> bytes:
    """The AnyValue of a list; of one text a list of that."""
    texts = value if isinstance(value, list) else [value]
    return delimited(5, b"".join(delimited(1, _text(text)) for text in texts))


def _text(text: str) -> bytes:
    return delimited(1, text.encode())


_VALUES: Final[Mapping[type, Callable[[Any], bytes]]] = {
    str: _text,
    bool: lambda value: _TRUE if value else _FALSE,
    int: lambda value: b"\x18" + varint(value & _INT64_MASK),
    float: lambda value: b"\x21" + _DOUBLE.pack(value),
    list: _texts,
}
"""Type of a field -> its AnyValue; JSON has no others."""


def _unix_ns(stamp: str | None) -> int:
    """Of RFC 3339 with milliseconds; exact, which a float of seconds would not be."""
    if stamp is None:
        return 0
    time = datetime.fromisoformat(stamp)
    return int(time.replace(microsecond=0).timestamp()) * NS_PER_S + time.microsecond * 1000
