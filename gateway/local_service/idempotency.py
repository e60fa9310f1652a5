"""The idempotency cache: every repeat of a key gets the first response, success or error.

Responses are kept by method, path and key; neither the body nor the caller's scopes are checked
again. A response is stored in the transaction of its data, so a crash keeps both or neither. Only
the API key is checked first: the cache is the organization's, which the key identifies.
"""

import sqlite3

from gateway.local_service.call import Answer, Call
from gateway.local_service.times import DAY_MS

KEPT_MS = 7 * DAY_MS
"""The service's own retention is not published; a spool gives a batch up after 7 days."""


def first_answer(connection: sqlite3.Connection, call: Call) -> Answer | None:
    row = connection.execute(
        "SELECT status, body, retry_after_s FROM idempotency WHERE method = ? AND path = ? AND idempotency_key = ?",
        (call.method, call.path, call.idempotency_key),
    ).fetchone()
    return None if row is None else Answer(*row)


def keep_answer(connection: sqlite3.Connection, call: Call, answer: Answer) -> None:
    connection.execute("DELETE FROM idempotency WHERE kept_at_ms < ?", (call.now_ms - KEPT_MS,))
    connection.execute(
        "INSERT INTO idempotency (method, path, idempotency_key, kept_at_ms, status, body, retry_after_s)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (call.method, call.path, call.idempotency_key, call.now_ms, *answer),
    )
