"""Usage events as senders post them -> what goes to the lane of events, and
what to a unit-cost stream. Pure.

The checks are those of the service (wire contract 6.2), made here so that a fault names its field
while the sender can still remedy it: `title` and `source` 1 to 256 characters, no `<` or `>` in any
text, `timestamp` RFC 3339, `filters` an object of lists of texts, `metadata` an object. The id
stands in `metadata.event_id` or beside the title as `event_id`; an event without one gets one from
its content. A CloudEvent is first brought into this form (`cloud_events.py`).

An event is *metered* when its metadata names a `stream` and a `value` (or `quantity`): that
quantity belongs into a total, and what a total states is worth more than ten thousand events.
`route` states where an event goes.
"""

import hashlib
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, NamedTuple, assert_never

import orjson

from gateway.common.contract.event_form import OWN_FORM, EventForm
from gateway.common.contract.outcomes import Rejection
from gateway.common.json_bytes import json_bytes
from gateway.read.json_size import check_json
from gateway.read.limits import Meter, too_many_values
from gateway.usage.events.checks import BadEvent, EventRules, check_event, is_metered, parsed_time, quantity_in
from gateway.usage.events.cloud_events import binary_event, cloud_items, is_cloud_event, service_event
from gateway.usage.events.faults import RecordFault, cloud_event_mend, event_mend
from gateway.usage.events.json_items import Item, json_items
from gateway.usage.events.unit_cost import BadUnitCost, check_dimensions, check_stream, read_record
from spool.clock import rfc3339_ms
from spool.unit_cost import Kind, Metered

BRACKETS = str.maketrans({"<": "\u2039", ">": "\u203a"})
"""Single angle quotation marks."""


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
    is_cloud: bool = False
    """Whether it came as a CloudEvent: then a fault names the fields of one."""


@dataclass(slots=True)
class Events:
    items: int = 0
    events: list[Event] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)


def decode_events(
    body: bytes,
    now_ms: int,
    rules: EventRules = EventRules(),  # noqa: B008 - immutable
    *,
    form: EventForm = OWN_FORM,
    nonce: bytes = b"",
) -> Events:
    """The events of *body*; one that lacks a timestamp gets *now_ms*. Raises BadPayload
    when the body is not JSON, TooLarge when it is over the limits.

    *nonce* differs with each request: without an id and a time two equal events are two, for
    nothing states that they are one.
    """
    check_json(body, rules.limits)
    if body.count(b"\n") + body.count(b"\r") > rules.limits.max_json_values:
        raise too_many_values(rules.limits.max_json_values)
    items = items_in(body, form)
    Meter(rules.limits.max_items).take(len(items))
    events = Events(items=len(items))
    for i, (item, line) in enumerate(items):
        position = f"events[{i}]"
        is_cloud = form.mode != "own" or is_cloud_event(item)
        try:
            stated = in_service_form(item, form, rules, is_cloud=is_cloud)
            event = _event(stated, position, now_ms, rules, nonce)
            events.events.append(event._replace(line=line, is_cloud=is_cloud))
        except (BadEvent, BadUnitCost) as error:
            code, text = fault_of(error, is_cloud=is_cloud)
            events.rejected.append(Rejection(code, position, at_line(line, text)))
    return events


def items_in(body: bytes, form: EventForm) -> list[Item]:
    """The items of *body*, unchecked. Raises BadPayload when none can be read."""
    match form.mode:
        case "own":
            return json_items(body, "events")
        case "binary":
            return [Item(body, None)]
        case "structured" | "batched":
            return [Item(item, None) for item in cloud_items(body, is_batch=form.mode == "batched")]
        case never:
            assert_never(never)


def in_service_form(item: Any, form: EventForm, rules: EventRules, *, is_cloud: bool) -> dict[str, Any]:
    """*item*, checked, with the fields that the service's events have. Raises BadEvent."""
    if is_cloud:
        return service_event(binary_event(form, item) if form.mode == "binary" else item, rules)
    check_event(item, rules)
    stated: dict[str, Any] = item
    return stated


def fault_of(error: BadEvent | BadUnitCost, *, is_cloud: bool) -> tuple[str, str]:
    """Its code, and what to do about it by the fields that the event has."""
    code, field_ = (error.code, error.field) if isinstance(error, BadEvent) else (error.fault.code, "")
    mend = cloud_event_mend(code) if is_cloud else event_mend(code)
    return code, f"{field_}: {mend}" if field_ else mend


def at_line(line: int | None, mend: str) -> str:
    """*remedy*, with the line that it is for: of NDJSON the position leaves out empty ones."""
    return mend if line is None else f"line {line}: {mend}"


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
