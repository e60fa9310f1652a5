"""The admin listener: one application from the registries, its errors, and its guards.

Probes, assets and the form to log in are open everywhere, metrics and status on loopback.
Everything else needs a token or a session of the role that the route's row names; an operation with
a scope also admits an inbound key that grants it.
"""

import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from http import HTTPStatus
from typing import Any, Final

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.access.operators import OPERATOR
from gateway.common.http.arriving_body import has_left, invited_by_reader
from gateway.common.traceback_summary import places
from gateway.operate.calling import perform
from gateway.operate.guard import AccessRules, Row, access_guard, host_guard, is_of_page
from gateway.operate.json_answer import encoded_answer, json_answer
from gateway.operate.mcp.route import MCP_ROUTES, add_mcp
from gateway.operate.operation import AnyOperation
from gateway.operate.pages import PAGES, PageRoute
from gateway.operate.parts import BY, PARTS, STORES, AdminParts, is_still_admitted, reach_of
from gateway.operate.registry import AdminStores
from gateway.operate.request_body import BodyReader, json_fields
from gateway.operate.session import SAFE_METHODS
from gateway.operate.site.explore import EXPLORED
from gateway.operate.site.live import LIVE, Live
from gateway.operate.site.overview import ANSWERS, VERDICT
from gateway.operate.site.registry import ACTIONS
from gateway.operate.site.registry import VIEWS as ALL_VIEWS
from gateway.operate.site.rendering import CONTENT_SECURITY_POLICY
from gateway.operate.site.shell import VIEWS, action_handler, error_page, view_handler, wants_html
from gateway.operate.site.usage_answers import SlowAnswers, UsageAnswers
from gateway.operate.tap import close_tap
from gateway.operate.verdict import VerdictSource
from gateway.serve.answers import answer_for, kind_of
from gateway.serve.ready_response import SERVER
from gateway.serve.responses import json_error
from gateway.usage.insights.changes import InsightError

log = structlog.get_logger()

BODY_TIMEOUT_S: Final = 60.0
"""From the end of the headers to the end of a body, where nothing else is configured."""

SAFE_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # not no-referrer: with that, browsers send a form's Origin as null
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Resource-Policy": "same-origin",
}

SITE: Final = (
    *(
        PageRoute("GET", view.path, view_handler(view), view.role, honours_limits=view.honours_limits)
        for view in ALL_VIEWS
    ),
    *(PageRoute("POST", action.path, action_handler(action), action.role) for action in ACTIONS),
)
"""The routes of the page: HTML, also for errors."""


def admin_app(
    parts: AdminParts,
    stores: AdminStores,
    *,
    loopback: bool,
    host_names: AbstractSet[str] = frozenset(),
    has_mcp: bool = False,
    body_timeout_s: Callable[[], float] = lambda: BODY_TIMEOUT_S,
) -> web.Application:
    """The listener's application: the pages, and each operation whose store is in *stores*.

    *loopback*: bound to loopback or a unix socket. *host_names*: names beside IP
    addresses that others reach it by. Raises CannotStart where MCP is wanted and not installed.
    """
    served = list(stores.bound())
    pages = (*PAGES, *SITE, *(MCP_ROUTES if has_mcp else ()))
    rows: list[Row] = [*pages, *(operation for operation, _ in served)]
    rules = AccessRules(rows, loopback=loopback)
    guards = [host_guard(loopback=loopback, host_names=host_names), access_guard(rules, BodyReader(body_timeout_s))]
    app = web.Application(middlewares=[answering, *guards])
    app[PARTS], app[STORES], app[VIEWS] = parts, stores, ALL_VIEWS
    app[LIVE] = streams = Live(parts.status)
    app[ANSWERS], app[EXPLORED] = UsageAnswers(stores.usage), SlowAnswers()
    app[VERDICT] = stores.verdict or VerdictSource(parts.status, stores.dead_letters, stores.senders, parts.now_ms)
    app.on_shutdown.extend([streams.stop, close_tap])
    app.on_response_prepare.append(add_safe_headers)
    if has_mcp:
        add_mcp(app, parts, served)
    app.add_routes([route(row, row.handler) for row in pages])
    app.add_routes([route(operation, endpoint(operation, store)) for operation, store in served])
    return app


def route(row: Row, handler: Handler) -> web.RouteDef:
    """A GET serves HEAD as well. A parameter is one segment of the path, braces included."""
    path = re.sub(r"\{(\w+)\}", r"{\1:[^/]+}", row.path)
    return web.route(row.method, path, handler, expect_handler=invited_by_reader)


def endpoint(operation: AnyOperation, store: Any) -> Handler:
    """*operation* on *store* over HTTP."""

    async def handle(request: web.Request) -> web.StreamResponse:
        """Answer one request by its operation; errors become the answers of
        `gateway.common.contract.errors`.
        """
        result = await perform(
            operation,
            store,
            path=request.match_info,
            query=list(request.query.items()),
            fields=None if operation.body is None else json_fields(request),
            by=request.get(BY, OPERATOR),
            is_admitted=lambda: is_still_admitted(request),
            reach=reach_of(request),
        )
        return web.Response(status=operation.status) if result is None else json_answer(result, operation.status)

    return handle


async def add_safe_headers(request: web.Request, response: web.StreamResponse) -> None:
    for name, value in SAFE_HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers["Server"] = SERVER


@web.middleware
async def answering(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every error of this listener becomes its answer here."""
    try:
        return await handler(request)
    except Exception as error:  # an unforeseen one must not end in a traceback that quotes data
        if isinstance(error, ConnectionError) and has_left(request):
            raise
        response = answer_to(error, request)
        if not request.content.is_eof():
            response.force_close()
        return response


def answer_to(error: Exception, request: web.Request) -> web.Response:
    """What no table entry foresaw is counted, and logged by class and place."""
    if isinstance(error, web.HTTPException):
        error.__traceback__ = None  # the request refers to it, and would wait for the garbage collector
        if error.status == HTTPStatus.NOT_FOUND and request.method in SAFE_METHODS and wants_html(request):
            return error_page(error.status, "There is no page at this address.")
        headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
        body = json_error(error.reason, error.reason.lower().replace(" ", "_"))
        return encoded_answer(body, error.status, headers)
    if isinstance(error, InsightError):
        return refused(request, error.status, str(error), error.code)
    answer = answer_for(error)
    if not answer.show_text:
        request.app[PARTS].note_unforeseen()
        log.error("unforeseen error", error=type(error).__name__, at=places(error))  # its text may quote data
    message = str(error) if answer.show_text else "an unforeseen error"
    response = refused(request, answer.status, message, kind_of(error), answer.beside)
    if answer.retry_after_s is not None:
        response.headers["Retry-After"] = str(answer.retry_after_s)
    return response


def refused(
    request: web.Request, status: int, message: str, code: str, beside: Mapping[str, object] | None = None
) -> web.Response:
    """An error as JSON; as a page where a browser asked for one."""
    if is_of_page(request) and wants_html(request):
        return error_page(status, message)
    return encoded_answer(json_error(message, code, beside or {}), status)
