"""Usage events as senders post them -> what goes to the lane of events, and
what to a unit-cost stream. Pure.

The checks are those of the service (wire contract 6.2), made here so that a fault names its field
while the sender can still remedy it: `title` and `source` 1 to 256 characters, no `<` or `>` in any
text, `timestamp` RFC 3339, `filters` an object of lists of texts, `metadata` an object. The id
stands in `metadata.event_id` or beside the title as `event_id`; an event without one gets one from
its content.

An event is *metered* when its metadata names a `stream` and a `value` (or `quantity`): that
quantity belongs into a total, and what a total states is worth more than ten thousand events.
`route` states where an event goes.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import orjson

from gateway.common.contract.outcomes import Rejection
from gateway.common.json_bytes import json_bytes
from gateway.read.json_size import check_json
from gateway.read.limits import DEFAULT_LIMITS, Meter, ParseLimits, too_many_values
from gateway.usage.events.faults import RecordFault, event_mend
from gateway.usage.events.json_items import UNREADABLE, json_items
from gateway.usage.events.unit_cost import BadUnitCost, check_dimensions, check_stream, read_record
from spool.clock import rfc3339_ms
from spool.unit_cost import Kind, Metered

MAX_TEXT = 256
MAX_EVENT_BYTES = 64 * 1024
BRACKETS = str.maketrans({"<": "\u2039", ">": "\u203a"})
"""Single angle quotation marks."""

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


class Event(NamedTuple):
    position: str
    event_id: str
    content: bytes
    """32 bytes that differ for whatever the sender states differently."""
    record: bytes | None
    """Ready JSON for the lane of events; None when it does not go there."""
    metered: Metered | None
    line: int | None = None
    """Of NDJSON, from 1."""


@dataclass(slots=True)
class Events:
    items: int = 0
    events: list[Event] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)


def decode_events(body: bytes, now_ms: int, rules: EventRules = EventRules(), *, nonce: bytes = b"") -> Events:  # noqa: B008 - immutable
    """The events of *body*; one that lacks a timestamp gets *now_ms*. Raises BadPayload
    when the body is not JSON, TooLarge when it is over the limits.

    *nonce* differs with each request: without an id and a time two equal events are two, for
    nothing states that they are one.
    """
    check_json(body, rules.limits)
    if body.count(b"\n") + body.count(b"\r") > rules.limits.max_json_values:
        raise too_many_values(rules.limits.max_json_values)
    items = json_items(body, "events")
    Meter(rules.limits.max_items).take(len(items))
    events = Events(items=len(items))
    for i, (item, line) in enumerate(items):
        position = f"events[{i}]"
        fault = event_fault(item, rules)
        if fault is None:
            try:
                event = _event(item, position, now_ms, rules, nonce)
                events.events.append(event._replace(line=line))
            except BadUnitCost as error:
                fault = error.fault.code
        if fault is not None:
            events.rejected.append(Rejection(fault, position, at_line(line, _mend(fault, item))))
    return events


def at_line(line: int | None, mend: str) -> str:
    """*remedy*, with the line that it is for: of NDJSON the position leaves out empty ones."""
    return mend if line is None else f"line {line}: {mend}"


def _mend(fault: str, item: Any) -> str:
    mend = event_mend(fault)
    return f"{field_with_bracket(item)}: {mend}" if fault == "angle_bracket_in_text" else mend


def field_with_bracket(item: Mapping[str, Any]) -> str:
    """The first of the event's fields that holds < or >; by its place where the name is none of
    ours, since it may be anything.
    """
    number, name = next(
        (number, name)
        for number, (name, value) in enumerate(item.items(), start=1)
        if has_bracket(orjson.dumps({name: value}))
    )
    return name if name in FIELDS else f"its field {number}"


def has_bracket(text: bytes) -> bool:
    return b"<" in text or b">" in text


def event_fault(item: Any, rules: EventRules) -> str | None:
    """What is wrong with an event: `<field>_<fault>`; None when nothing is."""
    if item is UNREADABLE:
        return "line_not_json"
    if not isinstance(item, dict):
        return "not_an_object"
    return next((fault for fault, is_so in event_faults(item, rules) if is_so), None)


def event_faults(item: dict[str, Any], rules: EventRules) -> Iterator[tuple[str, bool]]:
    """Each fault an event may have, and whether it has it; in the order of the contract."""
    for name in ("title", "source"):
        value = item.get(name)
        yield f"{name}_missing", not isinstance(value, str) or not value
        yield f"{name}_longer_than_256", len(str(value)) > MAX_TEXT
    stamp = item.get("timestamp")
    yield "timestamp_not_rfc3339", stamp is not None and (not isinstance(stamp, str) or parsed_time(stamp) is None)
    filters = item.get("filters")
    yield "filters_not_lists_of_texts", filters is not None and not is_filters(filters)
    metadata = item.get("metadata") or {}
    yield "metadata_not_an_object", not isinstance(metadata, dict)
    ids = (item.get("event_id"), metadata.get("event_id"))
    yield "event_id_not_text", not all(map(is_event_id, ids))
    yield "event_id_differs", len({str(each) for each in ids if each not in {None, ""}}) > 1
    yield "route_unknown", item.get("route") not in (None, *ROUTES)
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


def is_filters(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(values, list) and all(isinstance(x, str) for x in values) for values in value.values()
    )


def is_event_id(value: Any) -> bool:
    """Absent, empty (as absent), text of a sound length, or a whole number."""
    if isinstance(value, int) and not isinstance(value, bool):
        return True
    return value is None or (isinstance(value, str) and len(value) <= MAX_TEXT)


def parsed_time(stamp: str) -> datetime | None:
    """The time in UTC; None when *stamp* is no RFC 3339 time with an offset."""
    try:
        time = datetime.fromisoformat(stamp)
        return None if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _event(item: dict[str, Any], position: str, now_ms: int, rules: EventRules, nonce: bytes) -> Event:
    """The event, and where it goes. Raises BadUnitCost when the record in it cannot be one."""
    if rules.replace_brackets:
        item = without_brackets(item)
    item = with_id_in_metadata(item)
    content = hashlib.sha256(orjson.dumps(item, option=orjson.OPT_SORT_KEYS)).digest()
    record = event_record(item, content, f"{position}|{now_ms}".encode() + nonce, now_ms)
    metadata = record["metadata"]
    route = item.get("route") or (rules.route if is_metered(metadata) else "event")
    if route == "auto":
        route = "record"
    metered = metered_in(record, rules.more_dimensions, now_ms) if route != "event" else None
    kept = json_bytes(record) if route != "record" else None
    return Event(position, metadata["event_id"], content, kept, metered)


def with_id_in_metadata(item: dict[str, Any]) -> dict[str, Any]:
    """*item* with its own `event_id` where `metadata` states none: one event, either way."""
    own = item.get("event_id")
    rest = {name: value for name, value in item.items() if name != "event_id"}
    metadata = item.get("metadata") or {}
    if own in {None, ""} or metadata.get("event_id") not in {None, ""}:
        return rest
    return {**rest, "metadata": {**metadata, "event_id": own}}


def event_record(item: dict[str, Any], content: bytes, unlike: bytes, now_ms: int) -> dict[str, Any]:
    """The event as it is kept and sent. Its id is the sender's, or made of what the sender stated.

    Without an id and a time *unlike* keeps it apart from others that state the same.
    """
    metadata = dict(item.get("metadata") or {})
    event_id = metadata.get("event_id")
    if event_id in {None, ""}:
        stamp = b"" if item.get("timestamp") else unlike
        event_id = f"evt-{hashlib.sha256(content + stamp).hexdigest()[:32]}"
    metadata["event_id"] = str(event_id)
    time = parsed_time(item["timestamp"]) if item.get("timestamp") else None
    stamp_text = rfc3339_ms(now_ms) if time is None else rfc3339_ms(int(time.timestamp() * 1000))
    return {
        "title": item["title"],
        "source": item["source"],
        "timestamp": stamp_text,
        "filters": item.get("filters") or {},
        "metadata": metadata,
    }


def is_metered(metadata: Mapping[str, Any]) -> bool:
    return metadata.get("stream") is not None and quantity_in(metadata) is not None


def quantity_in(metadata: Mapping[str, Any]) -> object:
    """`value`, or `quantity` as some senders have it."""
    return metadata.get("value") if metadata.get("value") is not None else metadata.get("quantity")


def metered_in(record: dict[str, Any], more_dimensions: AbstractSet[str], now_ms: int) -> Metered:
    """What the event adds to its stream. An `element_name` in its metadata makes it an allocation
    record, else it is a metric's.

    Raises BadUnitCost.
    """
    metadata = record["metadata"]
    stream = metadata.get("stream")
    if stream is None or quantity_in(metadata) is None:
        raise BadUnitCost(RecordFault("stream_missing" if stream is None else "value_missing"))
    check_stream(stream if isinstance(stream, str) else "")
    kind: Kind = "metric" if metadata.get("element_name") is None else "allocation"
    unit_record = {
        "timestamp": record["timestamp"],
        "granularity": metadata.get("granularity") or ("DAILY" if kind == "metric" else "HOURLY"),
        "value": quantity_in(metadata),
    }
    filters: dict[str, Sequence[str]] = record["filters"]
    if kind == "allocation":
        unit_record |= {"element_name": metadata["element_name"], "filter": filters}
    else:
        check_dimensions(filters, more_dimensions)
        if any(len(values) != 1 for values in filters.values()):
            raise BadUnitCost(RecordFault("filters_not_one_value"))
        unit_record["associated_cost"] = {name: values[0] for name, values in filters.items()}
    shape, change = read_record(unit_record, kind, "sum", now_ms, more_dimensions)
    return Metered(stream, shape, change)


def without_brackets(value: Any) -> Any:
    """*value* with `BRACKETS` in place of < and >, in keys too."""
    if isinstance(value, str):
        return value.translate(BRACKETS)
    if isinstance(value, dict):
        return {without_brackets(key): without_brackets(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_brackets(each) for each in value]
    return value
