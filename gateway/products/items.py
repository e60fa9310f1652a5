"""What several sources need of a body's items: the objects among its documents, and what a
request's path and time state. Pure.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus

from gateway.common.contract.outcomes import Rejection
from gateway.common.operations import like, note_read
from gateway.products.documents import Document, ReadLine
from gateway.products.fields import count_of, number_of
from gateway.products.source import SourceRead
from gateway.rules.texts import Json, json_object

_SPOKEN_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)(ns|us|µs|ms|s|m)")
_MS = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}


def objects(documents: Iterable[Document], out: SourceRead) -> Iterator[tuple[str, dict[str, Json]]]:
    """Position and value of each object; whatever else stands there is
    rejected, counted as an item.
    """
    for document in documents:
        if isinstance(document.value, dict):
            yield document.position, document.value
        else:
            reject(out, "not_an_object", document.position)


def reject(out: SourceRead, reason: str, position: str) -> None:
    """Count one more item, which is no call and cannot be read."""
    out.calls.items += 1
    out.calls.rejected.append(Rejection(reason, position))


def ignore(out: SourceRead, position: str = "") -> None:
    """Count one more item, which is no AI usage."""
    out.calls.items += 1
    out.calls.ignored += 1
    out.calls.note_position(position)


def suppress(out: SourceRead, reason: str, position: str = "") -> None:
    """Count one more item, which is AI but no call of its own."""
    out.calls.items += 1
    out.calls.suppressed[reason] += 1
    out.calls.note_position(position, reason)


def unwrapped(value: dict[str, Json], read_line: ReadLine | None = None) -> dict[str, Json]:
    """The line inside what a shipper made of it (`log` of Fluent Bit, `message` of Vector and
    Filebeat); *value* itself where there is none.
    """
    for name in ("log", "message"):
        text = value.get(name)
        if not isinstance(text, str):
            continue
        found = dict(json_object(text))
        if not found and read_line is not None:
            with contextlib.suppress(ValueError):
                line = read_line(text.strip())
                found = line if isinstance(line, dict) else {}
        if found:
            return found
    return value


def at(position: str, part: str) -> str:
    """A place inside a document: `[2].records[0]`, or `records[0]` where
    the body is the document.
    """
    return f"{position}.{part}" if position else part


def spoken_ms(value: Json) -> float | None:
    """Milliseconds of a duration: a number of them, or a text with its unit (`1526ms`, `1.5s`)."""
    if isinstance(value, str):
        match = _SPOKEN_DURATION.fullmatch(value.strip())
        if match is not None:
            return like(float(match[1]) * _MS[match[2]], value)
    return None if isinstance(value, bool) else number_of(value)


def http_status(value: Json) -> int | None:
    """The status of an answer, 100 to 599; None for any other value."""
    status = count_of(value)
    if status is None or not HTTPStatus.CONTINUE <= status < 600:  # noqa: PLR2004 - the last class
        return None
    note_read(status)
    return status


def is_failure(status: int | None) -> bool:
    return status is not None and status >= HTTPStatus.BAD_REQUEST


def scalars(value: Mapping[str, Json], names: Mapping[str, str], into: dict[str, str]) -> None:
    """Of a free map that users fill, the entries whose names are in *names* (lower case ->
    field); the first one a field counts.
    """
    for key in value:
        field = names.get(key.lower()) if len(key) <= _MAX_KEY_CHARS else None
        found = None if field is None else value[str(key)]
        if field is not None and isinstance(found, str) and found:
            into.setdefault(field, found[:_MAX_VALUE_CHARS])


_MAX_KEY_CHARS = 64
_MAX_VALUE_CHARS = 256

WHO: dict[str, str] = {
    "user": "user",
    "user_id": "user",
    "userid": "user",
    "end_user": "label.customer",
    "customer": "label.customer",
    "customer_id": "label.customer",
    "session": "session",
    "session_id": "session",
    "sessionid": "session",
    "conversation_id": "session",
    "team": "team",
    "team_id": "team",
    "teamid": "team",
    "project": "project",
    "project_id": "project",
    "projectid": "project",
    "environment": "environment",
    "env": "environment",
    "application": "label.application",
    "app": "label.application",
    "cost_center": "label.cost_center",
    "costcenter": "label.cost_center",
    "department": "label.department",
}
"""Names under which people state who a call belongs to, in the maps that a product lets them
fill. A closed list: whatever else stands there may be content."""
