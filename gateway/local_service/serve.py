"""Serves a request once it is read: scope, repeat, operation, response. Runs inside one
transaction, without sockets.
"""

import sqlite3
from functools import partial
from typing import NamedTuple

from gateway.contract.scopes import Allowed, decide
from gateway.keys.record import KeyRecord
from gateway.local_service.call import Answer, Call
from gateway.local_service.errors import Forbidden, ServiceError
from gateway.local_service.idempotency import first_answer, keep_answer
from gateway.local_service.misbehave import Failure
from gateway.local_service.routes import Route


class Request(NamedTuple):
    route: Route
    key: KeyRecord
    call: Call
    unreadable: ServiceError | None = None
    """Why the body is not in `call`; raised after the check of the scope."""
    failure: Failure | None = None

    @property
    def is_allowed(self) -> bool:
        return isinstance(decide(self.key.grant, self.route.scope), Allowed)


def serve_write(request: Request, connection: sqlite3.Connection) -> Answer:
    """The response, its data stored. A repeated idempotency key gets its first response before
    anything but the check of the scope.
    """
    call = request.call
    if call.idempotency_key is None or not request.is_allowed:
        return _answer(request, connection)
    answer = first_answer(connection, call)
    if answer is None:
        answer = _answer(request, connection)
        keep_answer(connection, call, answer)
    return answer


def serve_read(request: Request, connection: sqlite3.Connection) -> Answer:
    return _answer(request, connection)


def _answer(request: Request, connection: sqlite3.Connection) -> Answer:
    failure = request.failure
    if failure is not None and failure.when == "before":
        return failure.answer
    answer = _kept_or_undone(partial(_operate, request), connection)
    return answer if failure is None else failure.answer


def _operate(request: Request, connection: sqlite3.Connection) -> Answer:
    if not request.is_allowed:
        raise Forbidden
    if request.unreadable is not None:
        raise request.unreadable
    return request.route.operation(connection, request.call)


def _kept_or_undone(operate: "partial[Answer]", connection: sqlite3.Connection) -> Answer:
    """An error is a response like any other and may be cached; the data stored before it are rolled
    back.
    """
    connection.execute("SAVEPOINT operation")
    try:
        answer = operate(connection)
    except ServiceError as error:
        connection.execute("ROLLBACK TO operation")
        answer = error.answer()
    connection.execute("RELEASE operation")
    return answer
