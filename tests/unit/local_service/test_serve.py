"""One request inside its transaction: an error undoes what the operation did, and is kept as the
answer all the same.
"""

import sqlite3
from dataclasses import replace

from gateway.access.record import KeyRecord
from gateway.common.contract.scopes import EVENT_SCOPE, Fixed
from gateway.local_service.call import ServiceAnswer, ServiceCall
from gateway.local_service.errors import Invalid
from gateway.local_service.routes import ROUTES
from gateway.local_service.serve import Request, serve_write

KEY = KeyRecord("id", "name", "", Fixed(frozenset({"events_v1:create_event"})), "Enabled", "", "", 0, "", 0, None)


def half_done(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    connection.execute("INSERT INTO things VALUES (1)")
    raise Invalid("too_late", "the second half is wrong")


def test_an_error_undoes_the_operation_and_is_replayed() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("CREATE TABLE things (thing)")
    connection.execute(
        "CREATE TABLE idempotency (key_id, method, path, idempotency_key, kept_at_ms, status, body, retry_after_s)"
    )
    connection.execute("CREATE TABLE keys (key_id, mode, grants, status)")
    connection.execute("INSERT INTO keys VALUES ('id', 'fixed', '[\"events_v1:create_event\"]', 'Enabled')")
    call = ServiceCall("POST", "/things", {}, (), b"", 0, "", idempotency_key="k1")
    route = replace(ROUTES[0], method="POST", path="/things", scope=EVENT_SCOPE, operation=half_done)
    connection.execute("BEGIN")
    first = serve_write(Request(route, KEY, call), connection)
    connection.execute("COMMIT")
    assert (first.status, connection.execute("SELECT count(*) FROM things").fetchone()) == (400, (0,))
    assert serve_write(Request(route, KEY, call), connection) == first
    connection.close()
