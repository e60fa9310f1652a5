"""Billing connections: established once, then the address of billing drops.

The published interface names the operations and their scopes, and no body: the fields here are the
gateway's. A connection is `active`, or `paused`, and then takes no drop.
"""

import sqlite3
from typing import Final, NamedTuple

from gateway.common.contract.billing import CONNECTION_ID
from gateway.common.lists.conventions import Filterable, ListShape, Sort
from gateway.common.lists.table import ListTable, cut
from gateway.local_service.call import ServiceAnswer, ServiceCall, json_answer
from gateway.local_service.checks import Fields, choice, decoded_object, text
from gateway.local_service.errors import Invalid
from gateway.local_service.lists import list_answer
from spool.clock import rfc3339_ms

STATUSES: Final = ("active", "paused")
NAME_MIN_CHARS: Final = 3
_RESERVED: Final = frozenset({"anycost", "external"})
"""Names of a kind of connection, in paths of drops."""


class Connection(NamedTuple):
    connection_no: int
    connection_id: str
    name: str
    status: str
    created_at_ms: int
    created_by: str
    last_updated_ms: int

    def item(self) -> dict[str, object]:
        return {
            "id": self.connection_id,
            "name": self.name,
            "status": self.status,
            "created_at": rfc3339_ms(self.created_at_ms),
            "created_by": self.created_by or None,
            "last_updated": rfc3339_ms(self.last_updated_ms),
        }


_COLUMNS: Final = ", ".join(Connection._fields)

CONNECTIONS: Final = ListTable(
    shape=ListShape(
        root="connections",
        sort_keys=("created_at", "last_updated", "name", "status"),
        default_sort=Sort("name", "asc"),
        filters=(Filterable("status", STATUSES),),
    ),
    source="billing_connections",
    row_id="connection_no",
    expressions={
        "created_at": "created_at_ms",
        "last_updated": "last_updated_ms",
        "name": cut("name"),
        "status": "status",
    },
    select=_COLUMNS,
    item_of=lambda row: Connection._make(row).item(),
    numbers=("created_at", "last_updated"),
)


def connections(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    return list_answer(connection, CONNECTIONS, call)


def create(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    """Establish one: 201 with it. Its id is the body's `id`, or a new one."""
    body = decoded_object(call.body)
    _only(body, "id", "name")
    connection_id = call.request_id if body.get("id") is None else _checked_id(text(body, "id"))
    name = _name(body)
    _refuse_taken(connection, "connection_id = ?", connection_id, "id")
    _refuse_taken(connection, "name = ?", name, "name")
    establish(connection, connection_id, name=name, by=call.key_name, now_ms=call.now_ms)
    return json_answer(201, {"connection": find(connection, connection_id).item()})


def read(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    return json_answer(200, {"connection": find(connection, call.params["connection_id"]).item()})


def change(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    """Its name or status."""
    body = decoded_object(call.body)
    _only(body, "name", "status")
    found = find(connection, call.params["connection_id"])
    if not body:
        raise Invalid("invalid_body", "body: name or status is needed")
    name = _name(body) if "name" in body else found.name
    status = choice(body, "status", STATUSES) if "status" in body else found.status
    if name != found.name:
        _refuse_taken(connection, "name = ?", name, "name")
    connection.execute(
        "UPDATE billing_connections SET name = ?, status = ?, last_updated_ms = ? WHERE connection_no = ?",
        (name, status, call.now_ms, found.connection_no),
    )
    return json_answer(200, {"connection": find(connection, found.connection_id).item()})


def delete(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    """With all that was dropped to it."""
    found = find(connection, call.params["connection_id"])
    for table in ("billing_parts", "billing_days", "billing_rows", "billing_connections"):
        connection.execute(f"DELETE FROM {table} WHERE connection_no = ?", (found.connection_no,))  # noqa: S608 - own SQL
    connection.execute("DELETE FROM billing_drops WHERE connection_id = ?", (found.connection_id,))
    return ServiceAnswer(204)


def establish(connection: sqlite3.Connection, connection_id: str, *, name: str, by: str, now_ms: int) -> None:
    """Add the connection, unless it is there."""
    connection.execute(
        "INSERT INTO billing_connections (connection_id, name, status, created_at_ms, created_by, last_updated_ms)"
        " VALUES (?, ?, 'active', ?, ?, ?) ON CONFLICT DO NOTHING",
        (connection_id, name, now_ms, by, now_ms),
    )


def find(connection: sqlite3.Connection, connection_id: str) -> Connection:
    """Raises Invalid (404) where none is established under this id."""
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM billing_connections WHERE connection_id = ?",  # noqa: S608 - own SQL
        (connection_id,),
    ).fetchone()
    if row is None:
        raise Invalid("connection_unknown", "no billing connection has this id: establish it first", status=404)
    return Connection._make(row)


def _checked_id(value: str) -> str:
    if CONNECTION_ID.fullmatch(value) is None or value in _RESERVED:
        raise Invalid("invalid_id", "id: 1 to 64 letters, digits, _ . and - are allowed, and not anycost or external")
    return value


def _name(body: Fields) -> str:
    name = text(body, "name").strip()
    if len(name) < NAME_MIN_CHARS:
        raise Invalid("invalid_name", f"name: {NAME_MIN_CHARS} characters or more are needed")
    return name


def _only(body: Fields, *names: str) -> None:
    if unknown := sorted(body.keys() - set(names)):
        raise Invalid("unknown_field", f"{unknown[0][:64]!r}: only {', '.join(names)} can be stated")


def _refuse_taken(connection: sqlite3.Connection, condition: str, value: str, field: str) -> None:
    if connection.execute(f"SELECT 1 FROM billing_connections WHERE {condition}", (value,)).fetchone():  # noqa: S608 - own SQL
        raise Invalid("connection_exists", f"{field}: another connection has it", status=409)
