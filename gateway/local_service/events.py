"""Usage events: one or many, validated, deduplicated by `metadata.event_id` (wire contract 6.2)."""

import sqlite3

import orjson

from gateway.common.lists.conventions import ListShape, Sort
from gateway.common.lists.table import ListTable
from gateway.local_service.call import ServiceAnswer, ServiceCall, json_answer
from gateway.local_service.checks import Fields, as_list, as_object, decoded_object, optional_text, text, time_ms
from gateway.local_service.errors import Invalid, TooLarge
from gateway.local_service.lists import list_answer

MAX_EVENTS = 500
MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 20

EVENTS = ListTable(
    shape=ListShape(root="events", sort_keys=("source", "timestamp", "title"), default_sort=Sort("timestamp", "asc")),
    source="events",
    row_id="event_no",
    expressions={"timestamp": "timestamp_ms", "source": "source", "title": "title"},
    select="event",
    item_of=lambda row: orjson.Fragment(row[0]),  # type: ignore[arg-type]  # the column is a BLOB
    numbers=("timestamp",),
)

Row = tuple[str | None, int, int, str, str, bytes]


def create(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    """Store one event, or the valid ones of `{"events": […]}`. A known event id is accepted and not
    stored again.
    """
    body = decoded_object(call.body)
    if "events" not in body:
        _keep(connection, [event_row(body, call.now_ms)])
        return json_answer(202, {"accepted": 1, "rejected": []})
    events = as_list(body["events"], "events")
    if len(events) > MAX_EVENTS:
        raise TooLarge(f"{len(events)} events; {MAX_EVENTS} are the most")
    rows, rejected = [], []
    for index, event in enumerate(events):
        try:
            rows.append(event_row(event, call.now_ms))
        except Invalid as error:
            rejected.append({"index": index, "code": error.code, "message": str(error)})
    _keep(connection, rows)
    return json_answer(202, {"accepted": len(rows), "rejected": rejected})


def events(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    return list_answer(connection, EVENTS, call)


def event_row(value: object, now_ms: int) -> Row:
    """The event's row. An event without a time gets the service's. Raises Invalid."""
    event = as_object(value, "event")
    title, source = text(event, "title"), text(event, "source")
    timestamp_ms = now_ms if event.get("timestamp") is None else time_ms(event, "timestamp")
    metadata: Fields = as_object(event.get("metadata", {}), "metadata")
    for name, values in as_object(event.get("filters", {}), "filters").items():
        if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
            raise Invalid("invalid_filters", f"filters: {name[:64]!r} needs a list of texts")
    _refuse_markup(event, MAX_DEPTH)
    return optional_text(metadata, "event_id"), now_ms, timestamp_ms, title, source, orjson.dumps(event)


def _refuse_markup(value: object, depth: int) -> None:
    if depth == 0:
        raise Invalid("too_deep", f"the event is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, str):
        if "<" in value or ">" in value:
            raise Invalid("invalid_characters", "no text of an event may hold < or >")
    elif isinstance(value, dict):
        for key, each in value.items():
            _refuse_markup(key, depth - 1)
            _refuse_markup(each, depth - 1)
    elif isinstance(value, list):
        for each in value:
            _refuse_markup(each, depth - 1)


def _keep(connection: sqlite3.Connection, rows: list[Row]) -> None:
    connection.executemany(
        "INSERT INTO events (event_id, stored_at_ms, timestamp_ms, title, source, event) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (event_id) DO NOTHING",
        rows,
    )
