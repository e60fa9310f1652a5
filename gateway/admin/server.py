"""The admin listener: one application from the registry, its errors, and its guards.

Probes are open everywhere, metrics and status on loopback. Everything else needs
the admin token or a session opened with it; an operation with a scope also admits
an inbound key that grants it.
"""

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, Final

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from gateway.admin.json_body import encoded_answer, json_answer, json_body
from gateway.admin.operation import AnyOperation, Call, Note
from gateway.admin.page import CONTENT_SECURITY_POLICY, login_page
from gateway.admin.pages import PAGES, PARTS, STORES, AdminParts, PageRoute, html
from gateway.admin.registry import AdminStores
from gateway.common.traceback_summary import places
from gateway.contract.errors import Forbidden, Unauthenticated
from gateway.insights.changes import InsightError
from gateway.keys.requests import OPERATOR
from gateway.receiver.answers import answer_for, kind_of
from gateway.receiver.authenticator import credential, host_name, is_loopback_host
from gateway.receiver.ready_response import SERVER
from gateway.receiver.responses import json_error

log = structlog.get_logger()

MAX_BODY_BYTES = 256 * 1024
"""The longest comment fits, also with each character escaped."""

SAFE_HEADERS = {
    "Server": SERVER,
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # not no-referrer: with that, browsers send a form's Origin as null
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
}


BY: Final = web.RequestKey("by", str)
"""In a request: the name of the inbound key that admitted it."""

Row = PageRoute | AnyOperation


def admin_app(
    parts: AdminParts, stores: AdminStores, *, loopback: bool, host_names: AbstractSet[str] = frozenset()
) -> web.Application:
    """The listener's application: the pages, and each operation whose store is in *stores*.

    *loopback*: bound to loopback or a unix socket. *host_names*: names beside IP
    addresses that others reach it by.
    """
    served = list(stores.bound())
    rows: list[Row] = [*PAGES, *(operation for operation, _ in served)]
    guards = [host_guard(loopback=loopback, host_names=host_names), access_guard(rows, loopback=loopback)]
    app = web.Application(middlewares=[answering, *guards], client_max_size=MAX_BODY_BYTES)
    app[PARTS], app[STORES] = parts, stores
    app.add_routes([route(row, row.handler) for row in PAGES])
    app.add_routes([route(operation, endpoint(operation, store)) for operation, store in served])
    return app


def route(row: Row, handler: Handler) -> web.RouteDef:
    """A GET serves HEAD as well. A parameter is one segment of the path, braces included."""
    return web.route(row.method, re.sub(r"\{(\w+)\}", r"{\1:[^/]+}", row.path), handler)


def endpoint(operation: AnyOperation, store: Any) -> Handler:
    """*operation* on *store* over HTTP."""

    async def handle(request: web.Request) -> web.StreamResponse:
        """Answer one request by its operation; errors become the answers of
        `gateway.contract.errors`.
        """
        call = operation.call(
            path=request.match_info,
            query=list(request.query.items()),
            fields=None if operation.body is None else await json_body(request),
            by=request.get(BY, OPERATOR),
        )
        result = await operation.handler(store, call)
        if result is None:
            return web.Response(status=operation.status)
        if operation.note is not None:
            log_change(operation.note, call, result)
        return json_answer(result, operation.status)

    return handle


def log_change(note: Note, call: Call[Any], result: Mapping[str, Any]) -> None:
    """The id and who asked; no name, which is free text of an operator."""
    changed = call.path.get("id") or result["id"]
    by = getattr(call.body, "by", None) or OPERATOR
    log.info(note.event, what=note.what, by=by, **{note.id_name: changed})


@web.middleware
async def answering(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every error of this listener becomes its answer here."""
    try:
        response = await handler(request)
    except web.HTTPException as error:
        headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
        body = json_error(error.reason, error.reason.lower().replace(" ", "_"))
        response = encoded_answer(body, error.status, headers)
    except InsightError as error:
        response = encoded_answer(json_error(str(error), error.code), error.status)
    except Exception as error:  # noqa: BLE001 - an unforeseen error must not end in a traceback that quotes data
        answer = answer_for(error)
        if not answer.show_text:
            # Not `exception`: the error's text may quote data.
            log.error("unforeseen error", error=type(error).__name__, at=places(error))  # noqa: TRY400
        message = str(error) if answer.show_text else "an unforeseen error"
        response = encoded_answer(json_error(message, kind_of(error), answer.beside), answer.status)
        if answer.retry_after_s is not None:
            response.headers["Retry-After"] = str(answer.retry_after_s)
    for name, value in SAFE_HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def host_guard(*, loopback: bool, host_names: AbstractSet[str]) -> Middleware:
    """Refuses names that are not ours: a page whose DNS name was turned to this
    address must not read from it.
    """

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        hosts = request.headers.getall("Host", ("",))
        if not all(is_loopback_host(host) or (not loopback and is_own_host(host, host_names)) for host in hosts):
            raise Forbidden("the Host header is not a name of this listener")
        return await handler(request)

    return guard


def is_own_host(host: str, host_names: AbstractSet[str]) -> bool:
    """An address, which no DNS name can stand for, or a configured name."""
    name, port_ok = host_name(host)
    try:
        ip_address(name)
    except ValueError:
        return port_ok and name.lower() in host_names
    return port_ok


def access_guard(rows: Sequence[Row], *, loopback: bool) -> Middleware:
    """The middleware that admits requests of loopback or with the admin token."""
    open_paths = {row.path for row in rows if row.open == "everywhere" or (loopback and row.open)}
    scopes: dict[tuple[str, str], str | None] = {
        (row.method, row.path): row.scope for row in rows if not isinstance(row, PageRoute)
    }

    def is_opened_by_key(request: web.Request) -> bool:
        """Raises Unauthenticated, Forbidden, DatabaseUnavailable."""
        resource, gate = request.match_info.route.resource, request.app[PARTS].gate
        scope = None if resource is None else scopes.get((read_as_get(request), resource.canonical))
        if scope is None or gate is None or credential(request.headers) is None:
            return False
        key = gate.admit(request.headers, scope)
        if key is None:
            return False
        request[BY] = key.name
        return True

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in open_paths or request.app[PARTS].access.allows(request) or is_opened_by_key(request):
            return await handler(request)
        is_page = request.path == "/" and read_as_get(request) == "GET"
        if is_page and "text/html" in request.headers.get("Accept", ""):
            return html(login_page("This page needs the admin token, or a one-time link."), HTTPStatus.UNAUTHORIZED)
        raise Unauthenticated("the admin token is needed, in the Authorization header")

    return guard


def read_as_get(request: web.Request) -> str:
    """The method; HEAD is the GET without its body."""
    return "GET" if request.method == "HEAD" else request.method
