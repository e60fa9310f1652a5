"""A record as an OTLP span: which attribute holds which field. Pure; shared by the exporter that
writes such spans and by the intake that reads them back. `docs/otlp-export.md` shows the table.

What OpenTelemetry's semantic conventions name travels under their names; every other field under
`telemetry_gateway.` and its own path in the record. The span itself holds the times, the ids and
the status.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from spool.fields import IN_SPAN, Path
from spool.record import FIELDS

SCOPE: Final = "ai-telemetry-gateway"
"""Name of the instrumentation scope by which such spans are known."""
NAMESPACE: Final = "telemetry_gateway."
RECORD_ID: Final = NAMESPACE + "record_id"
DURATION_UNKNOWN: Final = NAMESPACE + "duration_unknown"
"""True where the span ends when it begins only because a span needs an end."""

OF_RESOURCE: Final = {field.path: field.row.resource for field in FIELDS if field.row.resource}
OF_SPAN: Final = {field.path: field.row.attribute for field in FIELDS if field.row.attribute not in {"", IN_SPAN}}
LISTS: Final = frozenset(field.path for field in FIELDS if field.row.is_list or field.form == "flags")
"""Fields that are a list of texts in the span."""
OF_ONE: Final = frozenset(field.path for field in FIELDS if field.row.is_list)
"""Those of them that are one text in the record."""
FREE: Final = tuple(field.path for field in FIELDS if field.is_free)
"""Fields whose own names are the sender's, and may have dots."""
OF_ENVELOPE: Final = frozenset(field.path for field in FIELDS if field.row.attribute == IN_SPAN)
"""Fields that the span holds itself, with its ids."""

_FIELDS: Final[Mapping[str, Path]] = {name: path for path, name in (*OF_RESOURCE.items(), *OF_SPAN.items())}
_SPAN_DOMAIN = sha256(b"span\x00")
"""A digest begun; a copy of it is made faster than another."""
_ID_HEX: Final = 32
_TRACE_BYTES: Final = 16
_SPAN_BYTES: Final = 8


def span_record_id(trace_id: bytes, span_id: bytes) -> str:
    """The id of a span's record: 32 hex digits, the same on every retry, replica and restart."""
    digest = _SPAN_DOMAIN.copy()
    digest.update(trace_id + span_id)
    return digest.hexdigest()[:_ID_HEX]


def attribute_name(path: Path) -> str:
    """The attribute that holds the field at *path*."""
    return OF_RESOURCE.get(path) or OF_SPAN.get(path) or NAMESPACE + ".".join(path)


def path_of(name: str) -> Path | None:
    """The field that the attribute *name* holds; None for an attribute that holds none."""
    known = _FIELDS.get(name)
    if known is not None or not name.startswith(NAMESPACE):
        return known
    path = tuple(name.removeprefix(NAMESPACE).split("."))
    for free in FREE:
        if path[: len(free)] == free and len(path) > len(free):
            return (*free, ".".join(path[len(free) :]))
    return path


def put(record: dict[str, Any], path: Path, value: Any) -> None:
    """Set the field at *path*; nothing where a part above it is no object."""
    *above, last = path
    node: Any = record
    for name in above:
        node = node.setdefault(name, {}) if isinstance(node, dict) else None
    if isinstance(node, dict):
        node[last] = value


def span_ids(record_id: str, trace_id: bytes, span_id: bytes, parent_id: bytes) -> tuple[bytes, bytes, bytes]:
    """(trace, span, parent) of the record's span; empty bytes where there is none.

    A record that was made of a span keeps its ids. Any other gets a span of its own, derived from
    its id, below the span that it names: several records may name one span.
    """
    derived = sha256(record_id.encode()).digest()
    if not trace_id:
        return derived[:_TRACE_BYTES], derived[:_SPAN_BYTES], b""
    if span_id and span_record_id(trace_id, span_id) == record_id:
        return trace_id, span_id, parent_id
    return trace_id, derived[:_SPAN_BYTES], span_id
