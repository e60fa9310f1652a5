"""The idempotency cache: every repeat of a request's key gets the first response, success or error.

Responses are kept by API key, method, path and idempotency key; the body is not checked again. A
response is stored in the transaction of its data, so a crash keeps both or neither. The API key and
its scope are checked first: what one key was answered is no business of another.
"""

import sqlite3
from typing import Final

from gateway.local_service.call import ServiceAnswer, ServiceCall
from gateway.local_service.times import DAY_MS

KEPT_MS = 7 * DAY_MS
"""The service's own retention is not published; a spool gives a batch up after 7 days."""
ANY_KEY: Final = ""
"""Of responses from before they were kept by key."""


def first_answer(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer | None:
    row = connection.execute(
        "SELECT status, body, retry_after_s FROM idempotency"
        " WHERE method = ? AND path = ? AND idempotency_key = ? AND key_id IN (?, ?)",
        (call.method, call.path, call.idempotency_key, call.key_id, ANY_KEY),
    ).fetchone()
    return None if row is None else ServiceAnswer(*row)


def keep_answer(connection: sqlite3.Connection, call: ServiceCall, answer: ServiceAnswer) -> None:
    connection.execute("DELETE FROM idempotency WHERE kept_at_ms < ?", (call.now_ms - KEPT_MS,))
    connection.execute(
        "INSERT INTO idempotency (key_id, method, path, idempotency_key, kept_at_ms, status, body, retry_after_s)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (call.key_id, call.method, call.path, call.idempotency_key, call.now_ms, *answer),
    )
