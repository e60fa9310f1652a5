"""Records of unit-cost streams: sum, replace, delete, post, and the list of a stream's records
(wire contract 2.1 and 6.3).

A stream is made by its first `sum` or `replace`, which fixes its kind, granularity and filter keys
(`unit_cost_streams`). A *post* is a `sum`, as earlier clients send it.
The key of a record is (bucket, element, filter): `sum` adds to its value, `replace` overwrites it,
`delete` marks it deleted; a later record of a deleted key starts from 0.
"""

import sqlite3
from functools import partial

import orjson

from gateway.common.contract.unit_cost import STREAM_IN_RECORD, kind_of_record
from gateway.common.lists.conventions import ListShape, Sort
from gateway.common.lists.table import ListTable
from gateway.local_service.call import Operation, ServiceAnswer, ServiceCall, json_answer
from gateway.local_service.checks import as_list, as_object, decoded_object, present
from gateway.local_service.errors import Invalid
from gateway.local_service.lists import list_answer
from gateway.local_service.unit_cost_records import UnitRecord, located_record, one_shape, unit_records
from gateway.local_service.unit_cost_streams import Stream, checked_name, existing, find, make, name_in
from spool.clock import rfc3339_ms
from spool.unit_cost import Kind, Shape
from spool.unit_cost import Operation as Action

_ON_CONFLICT = {
    "replace": "excluded.value",
    "sum": "iif(deleted, excluded.value, decimal_add(value, excluded.value))",
}


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
    numbers=("timestamp",),
)


def manage(kind: Kind, action: Action) -> Operation:
    """The operation of `/unit-cost/v1/telemetry/{kind}/{stream}/{action}`."""
    return partial(_manage, kind, action)


def post(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    """Sum records of several streams, each named in its record; whole or not at all."""
    records = as_list(present(decoded_object(call.body), "records"), "records")
    if not records:
        raise Invalid("invalid_records", "records: at least one is needed")
    by_stream: dict[tuple[str, Kind], list[UnitRecord]] = {}
    for index, record in enumerate(records):
        name, kind, read = _posted(record, index, call.now_ms)
        by_stream.setdefault((name, kind), []).append(read)
    for (name, kind), some in by_stream.items():
        _put(connection, _fitting(connection, name, kind, some, call.now_ms), "sum", some, call.now_ms)
    return json_answer(200, {"records": len(records)})


def stream_records(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    """The stream's current records. 404 when there is no such stream."""
    return _records_of(connection, existing(connection, name_in(call)), call)


def metric_records(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    """The same, of a metric stream only."""
    stream = existing(connection, name_in(call))
    if stream.kind != "metric":
        raise Invalid("stream_unknown", "no metric stream has this name", status=404)
    return _records_of(connection, stream, call)


def _records_of(connection: sqlite3.Connection, stream: Stream, call: ServiceCall) -> ServiceAnswer:
    table = RECORDS.of(stream.name)
    return list_answer(connection, table, call, only="stream_no = ? AND NOT deleted", params=(stream.stream_no,))


def _posted(value: object, index: int, now_ms: int) -> tuple[str, Kind, UnitRecord]:
    """(stream, kind, record): a record with an element or a filter is an allocation's."""
    fields = as_object(value, f"records[{index}]")
    name = checked_name(fields.get(STREAM_IN_RECORD))
    kind = kind_of_record(fields)
    rest = {field: each for field, each in fields.items() if field != STREAM_IN_RECORD}
    return name, kind, located_record(rest, index, kind, "sum", now_ms)


def _manage(kind: Kind, action: Action, connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    name = name_in(call)
    records = unit_records(decoded_object(call.body), kind, action, call.now_ms)
    if action == "delete":
        _delete(connection, _existing(connection, name, kind), records, call.now_ms)
    else:
        _put(connection, _fitting(connection, name, kind, records, call.now_ms), action, records, call.now_ms)
    status = 201 if (kind, action) == ("allocation", "delete") else 200  # as the service's pages list it
    return json_answer(status, {"records": len(records)})


def _put(
    connection: sqlite3.Connection, stream: Stream, action: Action, records: list[UnitRecord], now_ms: int
) -> None:
    connection.executemany(
        "INSERT INTO unit_cost_records (stream_no, bucket_ms, element_name, filter, value, deleted, updated_at_ms)"  # noqa: S608 - from _ON_CONFLICT
        " VALUES (?, ?, ?, ?, ?, 0, ?) ON CONFLICT DO UPDATE"
        f" SET value = {_ON_CONFLICT[action]}, deleted = 0, updated_at_ms = excluded.updated_at_ms",
        [(stream.stream_no, each.bucket_ms, each.element_name, each.filter, each.value, now_ms) for each in records],
    )


def _delete(connection: sqlite3.Connection, stream: Stream, records: list[UnitRecord], now_ms: int) -> None:
    """Mark the records that match the given properties; an absent property matches everything."""
    connection.executemany(
        "UPDATE unit_cost_records SET deleted = 1, updated_at_ms = ?1 WHERE stream_no = ?2 AND bucket_ms = ?3"
        " AND (?4 IS NULL OR element_name = ?4) AND (?5 IS NULL OR filter = ?5)",
        [(now_ms, stream.stream_no, each.bucket_ms, each.element_name, each.filter) for each in records],
    )


def _existing(connection: sqlite3.Connection, name: str, kind: Kind) -> Stream:
    stream = find(connection, name)
    if stream is None or stream.kind != kind:
        raise Invalid("stream_unknown", "the stream must exist")
    return stream


def _fitting(connection: sqlite3.Connection, name: str, kind: Kind, records: list[UnitRecord], now_ms: int) -> Stream:
    """The stream, made when it is new. Raises Invalid when the records are of another kind or
    shape than the stream, or its name is blocked.
    """
    shape = Shape(kind, *one_shape(records))
    stream = find(connection, name) or make(connection, name, shape, now_ms)
    if stream.kind != kind:
        raise Invalid("stream_mismatch", f"the stream is of kind {stream.kind}")
    if stream.granularity != shape.granularity:
        raise Invalid("stream_mismatch", f"granularity: the stream's is {stream.granularity}")
    if orjson.loads(stream.dimensions) != list(shape.dimensions):
        raise Invalid("stream_mismatch", "filter: the stream has another set of filter keys")
    return stream
