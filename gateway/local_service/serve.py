"""Serves a request once it is read: key and scope, repeat, operation, response. Runs inside one
transaction, without sockets.

The key is read again in that transaction. So nothing is done for a key that was disabled, deleted
or edited while the request was under way, however long its body took.
"""

import sqlite3
from functools import partial
from typing import NamedTuple

from gateway.access.record import KeyRecord
from gateway.common.contract.scopes import Denied, Grant, decide
from gateway.local_service.call import ServiceAnswer, ServiceCall
from gateway.local_service.errors import Forbidden, ServiceError, Unauthorized
from gateway.local_service.idempotency import first_answer, keep_answer
from gateway.local_service.misbehave import Failure
from gateway.local_service.routes import Route
from gateway.stores.sql.keys import enabled_grant


class Request(NamedTuple):
    route: Route
    key: KeyRecord
    call: ServiceCall
    unreadable: ServiceError | None = None
    """Why the body is not in `call`; raised after the check of the key."""
    failure: Failure | None = None


def refuse_grant(grant: Grant, route: Route) -> None:
    """Raises Forbidden where *grant* lacks the route's scope."""
    if isinstance(decide(grant, route.scope), Denied):
        raise Forbidden


def refuse_revoked(request: Request, connection: sqlite3.Connection) -> None:
    """Raises Unauthorized, Forbidden: by what the key is in this transaction."""
    grant = enabled_grant(connection, request.key.key_id)
    if grant is None:
        raise Unauthorized
    refuse_grant(grant, request.route)


def serve_write(request: Request, connection: sqlite3.Connection) -> ServiceAnswer:
    """The response, its data stored. A repeated idempotency key gets its first response before
    anything but the check of the key. Raises Unauthorized, Forbidden.
    """
    refuse_revoked(request, connection)
    call = request.call
    if call.idempotency_key is None:
        return _answer(request, connection)
    answer = first_answer(connection, call)
    if answer is None:
        answer = _answer(request, connection)
        keep_answer(connection, call, answer)
    return answer


def serve_read(request: Request, connection: sqlite3.Connection) -> ServiceAnswer:
    """Raises Unauthorized, Forbidden."""
    refuse_revoked(request, connection)
    return _answer(request, connection)


def _answer(request: Request, connection: sqlite3.Connection) -> ServiceAnswer:
    failure = request.failure
    if failure is not None and failure.when == "before":
        return failure.answer
    answer = _kept_or_undone(partial(_operate, request), connection)
    return answer if failure is None else failure.answer


def _operate(request: Request, connection: sqlite3.Connection) -> ServiceAnswer:
    if request.unreadable is not None:
        raise request.unreadable
    return request.route.operation(connection, request.call)


def _kept_or_undone(operate: "partial[ServiceAnswer]", connection: sqlite3.Connection) -> ServiceAnswer:
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
