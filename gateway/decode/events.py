"""Usage events as senders post them -> records of the `usage_events` lane. Pure.

The checks are those of the service (wire contract 6.2), made here so that a fault names its field while the sender can
still mend it: `title` and `source` 1 to 256 characters, no `<` or `>` in any text, `timestamp` RFC 3339, `filters` an
object of lists of texts, `metadata` an object. An event without `metadata.event_id` gets one from its content.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson

from gateway.decode.json_items import json_items
from gateway.normalise.call import Rejection
from spool.clock import rfc3339_ms

MAX_TEXT = 256
MAX_EVENT_BYTES = 64 * 1024


@dataclass(slots=True)
class Events:
    items: int = 0
    records: list[bytes] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)


def decode_events(body: bytes, now_ms: int) -> Events:
    """The events of *body*; one that lacks a timestamp gets *now_ms*. Raises BadPayload when the body is not JSON."""
    items = json_items(body, "events")
    events = Events(items=len(items))
    for i, item in enumerate(items):
        fault = event_fault(item)
        if fault is None:
            events.records.append(orjson.dumps(event_record(item, now_ms)))
        else:
            events.rejected.append(Rejection(fault, f"events[{i}]"))
    return events


def event_fault(item: Any) -> str | None:
    """What is wrong with an event: `<field>_<fault>`; None when nothing is."""
    if not isinstance(item, dict):
        return "not_an_object"
    return next((fault for fault, is_so in event_faults(item) if is_so), None)


def event_faults(item: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Each fault an event may have, and whether it has it; in the order of the contract."""
    for name in ("title", "source"):
        value = item.get(name)
        yield f"{name}_missing", not isinstance(value, str) or not value
        yield f"{name}_longer_than_256", len(str(value)) > MAX_TEXT
    stamp = item.get("timestamp")
    yield "timestamp_not_rfc3339", stamp is not None and (not isinstance(stamp, str) or parsed_time(stamp) is None)
    filters = item.get("filters")
    yield "filters_not_lists_of_texts", filters is not None and not is_filters(filters)
    yield "metadata_not_an_object", not isinstance(item.get("metadata") or {}, dict)
    text = orjson.dumps(item)
    yield "event_larger_than_64_kib", len(text) > MAX_EVENT_BYTES
    yield "angle_bracket_in_text", b"<" in text or b">" in text


def is_filters(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(values, list) and all(isinstance(x, str) for x in values) for values in value.values()
    )


def parsed_time(stamp: str) -> datetime | None:
    """The time in UTC; None when *stamp* is no RFC 3339 time with an offset."""
    try:
        time = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return None if time.tzinfo is None else time.astimezone(UTC)


def event_record(item: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """The event as it is kept and sent. Its id is the sender's, or made of what the sender said."""
    metadata = dict(item.get("metadata") or {})
    if not isinstance(metadata.get("event_id"), str) or not metadata["event_id"]:
        canonical = orjson.dumps(item, option=orjson.OPT_SORT_KEYS)
        # Without an id and a time two equal events cannot be told from one that was sent twice.
        stamp = b"" if item.get("timestamp") else str(now_ms).encode()
        metadata["event_id"] = f"evt-{hashlib.sha256(canonical + stamp).hexdigest()[:32]}"
    time = parsed_time(item["timestamp"]) if item.get("timestamp") else None
    stamp_text = rfc3339_ms(now_ms) if time is None else rfc3339_ms(int(time.timestamp() * 1000))
    return {
        "title": item["title"],
        "source": item["source"],
        "timestamp": stamp_text,
        "filters": item.get("filters") or {},
        "metadata": metadata,
    }
