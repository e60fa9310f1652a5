"""What the service checks of a usage event (wire contract 6.2), by the event's own fields. Pure."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import orjson

from gateway.common.json_bytes import json_bytes
from gateway.read.limits import DEFAULT_LIMITS, ParseLimits
from gateway.usage.events.json_items import UNREADABLE

MAX_TEXT = 256
MAX_EVENT_BYTES = 64 * 1024

FIELDS = frozenset({"title", "source", "timestamp", "filters", "metadata", "route", "event_id"})

Route = Literal["auto", "event", "record", "both"]
"""`auto`: `record` for what is metered, else `event`."""
ROUTES: tuple[Route, ...] = ("event", "record", "both")


class EventRules(NamedTuple):
    """What an operator sets."""

    route: Route = "auto"
    """Of metered events that do not state it; every other one goes to the lane of events."""
    replace_brackets: bool = False
    more_dimensions: AbstractSet[str] = frozenset()
    limits: ParseLimits = DEFAULT_LIMITS


class BadEvent(Exception):
    """Why one event is rejected."""

    def __init__(self, code: str, field: str = "") -> None:
        """*field*: the one that is meant, where the words of *code* do not name it."""
        super().__init__(code)
        self.code, self.field = code, field


def check_event(item: Any, rules: EventRules) -> None:
    """Raises BadEvent with the first fault."""
    if item is UNREADABLE:
        raise BadEvent("line_not_json")
    if not isinstance(item, dict):
        raise BadEvent("not_an_object")
    fault = next((fault for fault, is_so in event_faults(item, rules) if is_so), None)
    if fault is not None:
        raise BadEvent(fault, field_with_bracket(item, FIELDS) if fault == "angle_bracket_in_text" else "")


def event_faults(item: dict[str, Any], rules: EventRules) -> Iterator[tuple[str, bool]]:
    """Each fault an event may have, and whether it has it; in the order of the contract."""
    for name in ("title", "source"):
        yield from name_faults(item, name)
    stamp = item.get("timestamp")
    yield "timestamp_not_rfc3339", stamp is not None and not is_time(stamp)
    filters = item.get("filters")
    yield "filters_not_lists_of_texts", filters is not None and not is_filters(filters)
    metadata = item.get("metadata") or {}
    yield "metadata_not_an_object", not isinstance(metadata, dict)
    ids = (item.get("event_id"), metadata.get("event_id"))
    yield "event_id_not_text", not all(map(is_event_id, ids))
    yield "event_id_differs", len({str(each) for each in ids if each not in {None, ""}}) > 1
    yield "route_unknown", item.get("route") not in (None, *ROUTES)
    yield from text_faults(item, rules)


def name_faults(item: Mapping[str, Any], name: str) -> Iterator[tuple[str, bool]]:
    """Of a field that needs text of 1 to 256 characters."""
    value = item.get(name)
    yield f"{name}_missing", not isinstance(value, str) or not value
    yield f"{name}_longer_than_256", len(str(value)) > MAX_TEXT


def text_faults(item: dict[str, Any], rules: EventRules) -> Iterator[tuple[str, bool]]:
    """Of the event as a whole."""
    text = _dumped(item)
    yield "event_too_deep", text is None
    assert text is not None  # noqa: S101 - the first fault ends the event
    yield "event_larger_than_64_kib", len(text) > MAX_EVENT_BYTES
    yield "angle_bracket_in_text", not rules.replace_brackets and has_bracket(text)


def _dumped(item: dict[str, Any]) -> bytes | None:
    """None when it is nested deeper than can be written again: JSON is read
    some levels deeper than that.
    """
    try:
        return json_bytes(item)
    except orjson.JSONEncodeError:
        return None


def field_with_bracket(item: Mapping[str, Any], known: AbstractSet[str]) -> str:
    """The first of the event's fields that holds < or >; by its place where it is not *known*,
    since its name may be anything.
    """
    number, name = next(
        (number, name)
        for number, (name, value) in enumerate(item.items(), start=1)
        if has_bracket(orjson.dumps({name: value}))
    )
    return name if name in known else f"its field {number}"


def has_bracket(text: bytes) -> bool:
    return b"<" in text or b">" in text


def is_filters(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(values, list) and all(isinstance(x, str) for x in values) for values in value.values()
    )


def is_event_id(value: Any) -> bool:
    """Absent, empty (as absent), text of a sound length, or a whole number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return True
    return value is None or (isinstance(value, str) and len(value) <= MAX_TEXT)


def is_time(value: Any) -> bool:
    return isinstance(value, str) and parsed_time(value) is not None


def parsed_time(stamp: str) -> datetime | None:
    """The time in UTC; None when *stamp* is no RFC 3339 time with an offset."""
    try:
        time = datetime.fromisoformat(stamp)
        return None if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def is_metered(metadata: Mapping[str, Any]) -> bool:
    return metadata.get("stream") is not None and quantity_in(metadata) is not None


def quantity_in(metadata: Mapping[str, Any]) -> object:
    """`value`, or `quantity` as some senders have it."""
    return metadata.get("value") if metadata.get("value") is not None else metadata.get("quantity")
