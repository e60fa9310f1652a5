"""Unit-cost streams: listed, read, made before their first record, and deleted.

A stream is made by its first `sum` or `replace` too. Either way its kind, granularity and
dimensions are fixed from then on. A deleted stream is gone with its records, and its name is
blocked for `BLOCKED_MS` (wire contract 2.1: for minutes); its next use makes a new stream.
"""

import sqlite3
from typing import Final, NamedTuple, get_args

import orjson

from gateway.common.contract.unit_cost import (
    BLOCKED_MS,
    DIMENSIONS,
    FORCE,
    FREE_DIMENSION,
    MAX_DIMENSIONS,
    STREAM_FIELDS,
)
from gateway.common.lists.conventions import Filterable, ListShape, Sort
from gateway.common.lists.table import ListTable, cut
from gateway.local_service.call import ServiceAnswer, ServiceCall, json_answer
from gateway.local_service.checks import Fields, as_list, choice, decoded_object
from gateway.local_service.errors import Invalid, StreamBlocked
from gateway.local_service.lists import list_answer
from gateway.local_service.unit_cost_records import STREAM_NAME, granularity_of
from spool.unit_cost import Granularity, Kind, Shape

KINDS: Final[tuple[str, ...]] = get_args(Kind)


class Stream(NamedTuple):
    stream_no: int
    name: str
    kind: str
    granularity: str
    dimensions: str
    """JSON array, sorted."""
    records: int
    """How many it holds, without deleted ones."""

    def item(self) -> dict[str, object]:
        shape = {"name": self.name, "kind": self.kind, "granularity": self.granularity}
        return shape | {"dimensions": orjson.loads(self.dimensions), "records": self.records}


_COLUMNS: Final = (
    "stream_no, name, kind, granularity, dimensions,"
    " (SELECT count(*) FROM unit_cost_records AS r WHERE r.stream_no = unit_cost_streams.stream_no AND NOT deleted)"
)
_IN_USE: Final = "deleted_at_ms IS NULL"

STREAMS: Final = ListTable(
    shape=ListShape(
        root="streams",
        name="unit-cost",
        sort_keys=("granularity", "kind", "name"),
        default_sort=Sort("name", "asc"),
        filters=(Filterable("granularity", get_args(Granularity)), Filterable("kind", KINDS)),
    ),
    source="unit_cost_streams",
    row_id="stream_no",
    expressions={"granularity": "granularity", "kind": "kind", "name": cut("name")},
    select=_COLUMNS,
    item_of=lambda row: Stream._make(row).item(),
)


def streams(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    return list_answer(connection, STREAMS, call, only=_IN_USE)


def read(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    return json_answer(200, {"stream": existing(connection, name_in(call)).item()})


def create(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    """Make the stream: 201, or 200 where it is there with this shape. 409 where its shape is
    another, or its name is blocked.
    """
    name, shape = name_in(call), _shape(decoded_object(call.body))
    stream = find(connection, name)
    if stream is None:
        return json_answer(201, {"stream": make(connection, name, shape, call.now_ms).item()})
    if stream[2:5] != _columns(shape):
        raise Invalid("stream_exists", "a stream of this name has another shape", status=409)
    return json_answer(200, {"stream": stream.item()})


def delete(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    """204. A stream that holds records is deleted with them by `force=true`; 409 without it."""
    stream = existing(connection, name_in(call))
    if stream.records and not _is_forced(call):
        raise Invalid("stream_holds_records", f"the stream holds records: {FORCE}=true deletes them too", status=409)
    connection.execute(
        "UPDATE unit_cost_streams SET deleted_at_ms = ? WHERE stream_no = ?", (call.now_ms, stream.stream_no)
    )
    return ServiceAnswer(204)


def name_in(call: ServiceCall) -> str:
    """The stream that the path names. Raises Invalid."""
    return checked_name(call.params["stream"])


def checked_name(name: object) -> str:
    if not isinstance(name, str) or STREAM_NAME.fullmatch(name) is None:
        raise Invalid("invalid_stream", "stream: only letters, digits, _ . and - are allowed")
    return name


def find(connection: sqlite3.Connection, name: str) -> Stream | None:
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM unit_cost_streams WHERE name = ? AND {_IN_USE}",  # noqa: S608 - own SQL
        (name,),
    ).fetchone()
    return None if row is None else Stream._make(row)


def existing(connection: sqlite3.Connection, name: str) -> Stream:
    """Raises Invalid (404) when no stream has this name."""
    stream = find(connection, name)
    if stream is None:
        raise Invalid("stream_unknown", "no stream has this name", status=404)
    return stream


def make(connection: sqlite3.Connection, name: str, shape: Shape, now_ms: int) -> Stream:
    """A stream without records, in the place of a deleted one. Raises StreamBlocked soon after
    that was deleted.
    """
    row = connection.execute("SELECT deleted_at_ms FROM unit_cost_streams WHERE name = ?", (name,)).fetchone()
    if row is not None:
        if (left_ms := row[0] + BLOCKED_MS - now_ms) > 0:
            raise StreamBlocked(-(-left_ms // 1000))
        connection.execute("DELETE FROM unit_cost_streams WHERE name = ?", (name,))  # its records go with it
    made = connection.execute(
        "INSERT INTO unit_cost_streams (name, kind, granularity, dimensions) VALUES (?, ?, ?, ?)",
        (name, *_columns(shape)),
    )
    return Stream(made.lastrowid or 0, name, *_columns(shape), records=0)


def _columns(shape: Shape) -> tuple[str, str, str]:
    return shape.kind, shape.granularity, orjson.dumps(shape.dimensions).decode()


def _shape(body: Fields) -> Shape:
    if unknown := sorted(body.keys() - STREAM_FIELDS):
        raise Invalid("unknown_field", f"{unknown[0][:64]!r}: only {', '.join(sorted(STREAM_FIELDS))} can be stated")
    kind: Kind = "metric" if choice(body, "kind", KINDS) == "metric" else "allocation"
    return Shape(kind, granularity_of(body, kind), _dimensions(body))


def _dimensions(body: Fields) -> tuple[str, ...]:
    names = as_list(body.get("dimensions") or [], "dimensions")
    texts = sorted({name for name in names if isinstance(name, str)})
    if len(names) > MAX_DIMENSIONS or len(texts) < len(names):
        raise Invalid("invalid_dimensions", f"dimensions: up to {MAX_DIMENSIONS} different names are needed")
    if not all(name in DIMENSIONS or FREE_DIMENSION.fullmatch(name) for name in texts):
        raise Invalid("unrecognized_filter", "dimensions: one of them is not known")
    return tuple(texts)


def _is_forced(call: ServiceCall) -> bool:
    values = {value for name, value in call.query if name == FORCE}
    if not values <= {"true", "false"} or len(values) > 1:
        raise Invalid("invalid_force", f"{FORCE}: true or false is needed")
    return values == {"true"}
