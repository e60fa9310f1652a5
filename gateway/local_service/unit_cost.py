"""Unit-cost telemetry streams: sum, replace, delete, and the list of a stream's records (wire
contract 6.3).

A stream is made by its first `sum` or `replace`, which fixes its kind, granularity and filter keys.
The key of a record is (bucket, element, filter): `sum` adds to its value, `replace` overwrites it,
`delete` marks it deleted; a later record of a deleted key starts from 0.
"""

import sqlite3
from functools import partial
from typing import NamedTuple

import orjson

from gateway.lists.conventions import ListShape, Sort
from gateway.lists.table import ListTable
from gateway.local_service.call import Answer, Call, Operation, json_answer
from gateway.local_service.checks import decoded_object
from gateway.local_service.errors import Invalid
from gateway.local_service.lists import list_answer
from gateway.local_service.unit_cost_records import (
    STREAM_NAME,
    UnitRecord,
    one_shape,
    unit_records,
)
from spool.clock import rfc3339_ms
from spool.unit_cost import Kind
from spool.unit_cost import Operation as Action

_ON_CONFLICT = {
    "replace": "excluded.value",
    "sum": "iif(deleted, excluded.value, decimal_add(value, excluded.value))",
}


class _Stream(NamedTuple):
    stream_no: int
    kind: str
    granularity: str
    dimensions: str


def _item(row: tuple[object, ...]) -> dict[str, object]:
    kind, granularity, bucket_ms, element_name, filter_, value = row
    shared = {"timestamp": rfc3339_ms(bucket_ms), "granularity": granularity, "value": value}  # type: ignore[arg-type]  # an INTEGER column
    content: dict[str, list[str]] = orjson.loads(str(filter_))
    if kind == "metric":
        return shared | {"associated_cost": {name: values[0] for name, values in content.items()}}
    return shared | {"element_name": element_name, "filter": content}


RECORDS = ListTable(
    shape=ListShape(
        root="records",
        name="unit-cost",
        sort_keys=("element_name", "timestamp"),
        default_sort=Sort("timestamp", "asc"),
    ),
    source="unit_cost_records JOIN unit_cost_streams USING (stream_no)",
    row_id="record_no",
    expressions={"element_name": "element_name", "timestamp": "bucket_ms"},
    select="kind, granularity, bucket_ms, element_name, filter, value",
    item_of=_item,
)


def manage(kind: Kind, action: Action) -> Operation:
    """The operation of `/unit-cost/v1/telemetry/{kind}/{stream}/{action}`."""
    return partial(_manage, kind, action)


def stream_records(connection: sqlite3.Connection, call: Call) -> Answer:
    """The stream's current records. 404 when there is no such stream."""
    name = _stream_name(call)
    stream = _stream(connection, name)
    if stream is None:
        raise Invalid("stream_unknown", "no stream has this name", status=404)
    return list_answer(
        connection, RECORDS.of(name), call, only="stream_no = ? AND NOT deleted", params=(stream.stream_no,)
    )


def _manage(kind: Kind, action: Action, connection: sqlite3.Connection, call: Call) -> Answer:
    name = _stream_name(call)
    records = unit_records(decoded_object(call.body), kind, action, call.now_ms)
    if action == "delete":
        _delete(connection, _existing(connection, name, kind), records, call.now_ms)
    else:
        _put(connection, _fitting(connection, name, kind, records), action, records, call.now_ms)
    status = 201 if (kind, action) == ("allocation", "delete") else 200  # as the service's pages list it
    return json_answer(status, {"records": len(records)})


def _put(
    connection: sqlite3.Connection, stream: _Stream, action: Action, records: list[UnitRecord], now_ms: int
) -> None:
    connection.executemany(
        "INSERT INTO unit_cost_records (stream_no, bucket_ms, element_name, filter, value, deleted, updated_at_ms)"  # noqa: S608 - from _ON_CONFLICT
        " VALUES (?, ?, ?, ?, ?, 0, ?) ON CONFLICT DO UPDATE"
        f" SET value = {_ON_CONFLICT[action]}, deleted = 0, updated_at_ms = excluded.updated_at_ms",
        [(stream.stream_no, each.bucket_ms, each.element_name, each.filter, each.value, now_ms) for each in records],
    )


def _delete(connection: sqlite3.Connection, stream: _Stream, records: list[UnitRecord], now_ms: int) -> None:
    """Mark the records that match the given properties; an absent property matches everything."""
    connection.executemany(
        "UPDATE unit_cost_records SET deleted = 1, updated_at_ms = ?1 WHERE stream_no = ?2 AND bucket_ms = ?3"
        " AND (?4 IS NULL OR element_name = ?4) AND (?5 IS NULL OR filter = ?5)",
        [(now_ms, stream.stream_no, each.bucket_ms, each.element_name, each.filter) for each in records],
    )


def _existing(connection: sqlite3.Connection, name: str, kind: Kind) -> _Stream:
    stream = _stream(connection, name)
    if stream is None or stream.kind != kind:
        raise Invalid("stream_unknown", "the stream must exist")
    return stream


def _fitting(connection: sqlite3.Connection, name: str, kind: Kind, records: list[UnitRecord]) -> _Stream:
    """The stream, created when it is new. Raises Invalid when the records are of another kind or
    shape than the stream.
    """
    granularity, dimensions = one_shape(records)
    shape = (kind, granularity, orjson.dumps(dimensions).decode())
    stream = _stream(connection, name) or _made(connection, name, shape)
    if stream.kind != kind:
        raise Invalid("stream_mismatch", f"the stream is of kind {stream.kind}")
    if stream.granularity != granularity:
        raise Invalid("stream_mismatch", f"granularity: the stream's is {stream.granularity}")
    if stream[1:] != shape:
        raise Invalid("stream_mismatch", "filter: the stream has another set of filter keys")
    return stream


def _made(connection: sqlite3.Connection, name: str, shape: tuple[str, str, str]) -> _Stream:
    row = connection.execute(
        "INSERT INTO unit_cost_streams (name, kind, granularity, dimensions) VALUES (?, ?, ?, ?) RETURNING stream_no",
        (name, *shape),
    ).fetchone()
    return _Stream(row[0], *shape)


def _stream(connection: sqlite3.Connection, name: str) -> _Stream | None:
    row = connection.execute(
        "SELECT stream_no, kind, granularity, dimensions FROM unit_cost_streams WHERE name = ?", (name,)
    ).fetchone()
    return None if row is None else _Stream(*row)


def _stream_name(call: Call) -> str:
    name = call.params["stream"]
    if STREAM_NAME.fullmatch(name) is None:
        raise Invalid("invalid_stream", "stream: only letters, digits, _ . and - are allowed")
    return name
