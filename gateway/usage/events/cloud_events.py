"""CloudEvents 1.0 -> usage events as the service has them. Pure.

| CloudEvent | event |
|---|---|
| `source` with `id` | `event_id`: a digest of both, for only together are they unique |
| `type` | `title` |
| `source`, `time` | `source`, `timestamp` |
| `data.filters` | `filters` |
| the rest of `data` | `metadata` |
| `subject` | `element_name` of a metered event, unless `data` has one |
| the extension `route` | `route` |
| `id`, `subject`, `dataschema`, other extensions | `metadata.cloudevent`, as texts |

Specifications: CloudEvents 1.0.2, its JSON format and its HTTP protocol binding.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import orjson

from gateway.common.contract.errors import BadPayload
from gateway.common.contract.event_form import BATCHED, STRUCTURED, EventForm
from gateway.read.loose_json import loads, place_of
from gateway.usage.events.checks import (
    ROUTES,
    BadEvent,
    EventRules,
    field_with_bracket,
    is_filters,
    is_metered,
    is_time,
    name_faults,
    text_faults,
)
from gateway.usage.events.json_items import BOM

VERSION: Final = "1.0"
REQUIRED: Final = ("specversion", "id", "source", "type")
OPTIONAL: Final = ("time", "subject", "datacontenttype", "dataschema")
DATA: Final = frozenset({"data", "data_base64"})
"""Members of the JSON format that are no attributes."""
KNOWN: Final = frozenset({*REQUIRED, *OPTIONAL, *DATA, "route"})
ATTRIBUTES: Final = "cloudevent"
"""Field of the metadata for what an event has no field for."""
MAPPED: Final = frozenset({"specversion", "source", "type", "time", "datacontenttype", "route", *DATA})
"""What is not kept there."""

_NAME: Final = re.compile(r"[a-z0-9]+")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def is_cloud_event(item: Any) -> bool:
    """Whether an object that came as `application/json` is meant as one."""
    return isinstance(item, dict) and "specversion" in item and "title" not in item


def cloud_items(body: bytes, *, is_batch: bool) -> list[Any]:
    """The CloudEvents of *body*, unchecked. Raises BadPayload."""
    try:
        value = loads(body.removeprefix(BOM))
    except orjson.JSONDecodeError as error:
        raise BadPayload(f"the body is not valid JSON ({place_of(error)})") from error
    if is_batch == isinstance(value, list):
        return value if isinstance(value, list) else [value]
    if is_batch:
        raise BadPayload(f"{BATCHED} is an array of events: put one event into it, too, or send it as {STRUCTURED}")
    raise BadPayload(f"{STRUCTURED} is one event: send an array as {BATCHED}")


def binary_event(form: EventForm, body: bytes) -> dict[str, Any]:
    """The event of the mode `binary`, as its JSON format has it. Raises BadEvent."""
    event: dict[str, Any] = {}
    for number, (name, value) in enumerate(form.attributes, start=1):
        field = field_of(name, number)
        if name in event:
            raise BadEvent("attribute_repeated", field)
        if name in DATA:
            raise BadEvent("attribute_name_invalid", field)
        event[name] = header_text(value, field)
    if not body:
        return event
    if not is_json_type(form.content_type or None):
        raise BadEvent("datacontenttype_not_json")
    try:
        return {**event, "data": loads(body.removeprefix(BOM))}
    except orjson.JSONDecodeError as error:
        raise BadEvent("data_not_json") from error


def header_text(value: str, field: str) -> str:
    """A header's value, unquoted and percent-decoded (HTTP binding 3.1.3.2). Raises BadEvent."""
    if len(value) > 1 and value.startswith('"') and value.endswith('"'):
        value = _ESCAPED.sub(r"\1", value[1:-1])
    try:
        return unquote_to_bytes(value.encode("utf-8", "surrogateescape")).decode()
    except UnicodeError as error:
        raise BadEvent("attribute_not_utf8", field) from error


def field_of(name: str, number: int) -> str:
    """What a fault calls an attribute: the name of an extension may be anything."""
    return name if name in KNOWN - DATA else f"its attribute {number}"


def service_event(item: Any, rules: EventRules) -> dict[str, Any]:
    """The event of the service that *item* is. Raises BadEvent."""
    if not isinstance(item, dict):
        raise BadEvent("cloud_event_not_an_object")
    fault = next(((code, field) for code, field, is_so in cloud_faults(item, rules) if is_so), None)
    if fault == ("angle_bracket_in_text", ""):
        fault = ("angle_bracket_in_text", field_with_bracket(item, KNOWN))
    if fault is not None:
        raise BadEvent(*fault)
    data, subject, route = dict(item.get("data") or {}), item.get("subject"), item.get("route")
    filters = data.pop("filters", None)
    metadata = {**data, "event_id": event_id_of(item["source"], item["id"]), ATTRIBUTES: dict(_kept(item))}
    if subject and "element_name" not in data and (is_metered(metadata) or route in {"record", "both"}):
        metadata["element_name"] = subject
    return {
        "title": item["type"],
        "source": item["source"],
        "timestamp": item.get("time"),
        "filters": filters,
        "route": route,
        "metadata": metadata,
    }


def event_id_of(source: str, id_: str) -> str:
    """The same for the same pair alone, however long both are."""
    return f"ce-{hashlib.sha256(orjson.dumps([source, id_])).hexdigest()[:32]}"


def _kept(item: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Attributes that a usage event has no field for, in their canonical texts: the same in every
    mode.
    """
    for name, value in item.items():
        if name not in MAPPED and value is not None:
            yield name, str(value).lower() if isinstance(value, bool) else str(value)


Faults = Iterator[tuple[str, str, bool]]
"""Code, the field that the code does not name, and whether the event has the fault."""


def cloud_faults(item: dict[str, Any], rules: EventRules) -> Faults:
    """Each fault that a CloudEvent may have."""
    yield from _unnamed(_attribute_faults(item))
    yield from _extension_faults(item)
    yield from _unnamed(_data_faults(item))
    yield from _unnamed(text_faults(item, rules))


def _unnamed(faults: Iterable[tuple[str, bool]]) -> Faults:
    for code, is_so in faults:
        yield code, "", is_so


def _attribute_faults(item: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    version, id_, time = item.get("specversion"), item.get("id"), item.get("time")
    yield "specversion_missing", version is None
    yield "specversion_not_1_0", version != VERSION
    yield "id_missing", not isinstance(id_, str) or not id_
    for name in ("source", "type"):
        yield from name_faults(item, name)
    yield "time_not_rfc3339", time is not None and not is_time(time)
    yield "subject_not_text", not isinstance(item.get("subject"), str | None)
    yield "dataschema_not_text", not isinstance(item.get("dataschema"), str | None)
    yield "datacontenttype_not_json", not is_json_type(item.get("datacontenttype"))
    yield "route_unknown", item.get("route") not in (None, *ROUTES)


def _extension_faults(item: Mapping[str, Any]) -> Faults:
    for number, (name, value) in enumerate(item.items(), start=1):
        if name not in KNOWN:
            yield "attribute_name_invalid", field_of(name, number), _NAME.fullmatch(name) is None
            yield "attribute_not_text", field_of(name, number), not isinstance(value, str | int | None)


def _data_faults(item: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    yield "data_base64_not_read", item.get("data_base64") is not None
    data = {} if item.get("data") is None else item["data"]
    yield "data_not_an_object", not isinstance(data, dict)
    yield "data_event_id_differs", data.get("event_id") not in (None, "", item["id"])
    yield "data_cloudevent_reserved", ATTRIBUTES in data
    yield "data_filters_not_lists_of_texts", data.get("filters") is not None and not is_filters(data["filters"])


def is_json_type(content_type: Any) -> bool:
    """`*/json` and `*/*+json`, with any parameters (JSON format 3.1.1); absent, it is JSON."""
    if not isinstance(content_type, str):
        return content_type is None
    subtype = content_type.partition(";")[0].strip().lower().partition("/")[2]
    return subtype == "json" or subtype.endswith("+json")
