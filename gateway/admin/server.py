"""The admin listener: health, metrics, status as JSON and as a page, and the way in.

/healthz and /readyz tell nothing and are open to every probe. /metrics and /v2/status need no credential on loopback. Everything
else, and everything but the probes on another address, takes the admin token or a session opened with it; insights also an inbound
key with the scope (`gateway.admin.insight_routes`). Further routes can be added to the application; the guard covers them.
"""

from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from gateway.admin.insight_routes import BY, LIST_PATH, scope_of
from gateway.admin.json_body import encoded_answer, json_answer
from gateway.admin.page import CONTENT_SECURITY_POLICY, login_page, status_page
from gateway.admin.session import COOKIE, AdminAccess, set_cookie
from gateway.common.traceback_summary import places
from gateway.contract.errors import BadPayload, Forbidden, Unauthenticated
from gateway.delivery.embedded import Total
from gateway.insights.finding import INSIGHT_LIST, Insight
from gateway.lists.conventions import ListRequest, Page, envelope, read_request
from gateway.observability.metrics import Status
from gateway.observability.quarantine import degraded
from gateway.receiver.answers import answer_for, kind_of
from gateway.receiver.authenticator import Authenticator, credential, host_name, is_loopback_host
from gateway.receiver.ready_response import SERVER
from gateway.receiver.responses import json_error

log = structlog.get_logger()

PROBES = frozenset({"/healthz", "/readyz"})
FIGURES = frozenset({"/metrics", "/v2/status"})
DOORS = frozenset({"/login"})

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


@dataclass(frozen=True, slots=True)
class AdminParts:
    """What the listener shows, given in by `gateway.app`."""

    status: Callable[[], Status]
    totals: Callable[[], Awaitable[Sequence[Total]]]
    not_ready: Callable[[], Awaitable[str | None]]
    """Why the gateway cannot keep data now; None when it can."""
    registry: CollectorRegistry
    access: AdminAccess
    insights: Callable[[ListRequest], Awaitable[Page]]
    """A page of them, found a moment ago."""
    unsettled: Callable[[], Awaitable[Sequence[Insight]]]
    """Insights that somebody should still look at."""
    gate: Authenticator | None = None
    """Looks at inbound keys, for what they open here; None: nothing."""


PARTS = web.AppKey("parts", AdminParts)


def admin_app(parts: AdminParts, *, loopback: bool, host_names: AbstractSet[str] = frozenset()) -> web.Application:
    """*loopback*: bound to loopback or a unix socket. *host_names*: names beside IP addresses that others reach it by."""
    app = web.Application(
        middlewares=[answering, host_guard(loopback=loopback, host_names=host_names), access_guard(loopback=loopback)],
        client_max_size=MAX_BODY_BYTES,
    )
    app[PARTS] = parts
    app.add_routes([
        web.get("/healthz", healthz),
        web.get("/readyz", readyz),
        web.get("/metrics", metrics),
        web.get("/v2/status", status_json),
        web.get(LIST_PATH, insights),
        web.get("/", page),
        web.get("/login", login),
        web.post("/login", login_with_token),
        web.post("/logout", logout),
        web.post("/v2/login-links", login_link),
    ])  # fmt: skip
    return app


@web.middleware
async def answering(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every error of this listener becomes its answer here."""
    try:
        response = await handler(request)
    except web.HTTPException as error:
        headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
        body = json_error(error.reason, error.reason.lower().replace(" ", "_"))
        response = encoded_answer(body, error.status, headers)
    except Exception as error:  # noqa: BLE001 - an unforeseen error must not end in a traceback that quotes data
        answer = answer_for(error)
        if not answer.show_text:
            # Not `exception`: the error's text may quote data.
            log.error("unforeseen error", error=type(error).__name__, at=places(error))  # noqa: TRY400
        message = str(error) if answer.show_text else "an unforeseen error"
        response = encoded_answer(json_error(message, kind_of(error)), answer.status)
        if answer.retry_after_s is not None:
            response.headers["Retry-After"] = str(answer.retry_after_s)
    for name, value in SAFE_HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def host_guard(*, loopback: bool, host_names: AbstractSet[str]) -> Middleware:
    """Refuses names that are not ours: a page whose DNS name was turned to this address must not read from it."""

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


def access_guard(*, loopback: bool) -> Middleware:
    free = PROBES | DOORS | (FIGURES if loopback else frozenset())

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in free or request.app[PARTS].access.allows(request) or opened_by_key(request):
            return await handler(request)
        if request.path == "/" and request.method == "GET" and "text/html" in request.headers.get("Accept", ""):
            return html(login_page("This page needs the admin token, or a one-time link."), HTTPStatus.UNAUTHORIZED)
        raise Unauthenticated("the admin token is needed, in the Authorization header")

    return guard


def opened_by_key(request: web.Request) -> bool:
    """Whether an inbound key opens this; notes whose it is. Raises Unauthenticated, Forbidden, DatabaseUnavailable."""
    scope, gate = scope_of(request), request.app[PARTS].gate
    if scope is None or gate is None or credential(request.headers) is None:
        return False
    key = gate.admit(request.headers, scope)
    if key is None:
        return False
    request[BY] = key.name
    return True


async def healthz(request: web.Request) -> web.Response:
    """The process answers."""
    return web.Response(text="ok\n")


async def readyz(request: web.Request) -> web.Response:
    """Data sent now can be kept."""
    reason = await request.app[PARTS].not_ready()
    if reason is None:
        quarantine = request.app[PARTS].status().get("quarantine")
        why = None if quarantine is None else degraded(quarantine)
        return web.Response(text="ready\n" if why is None else f"ready, degraded: {why}\n")
    return web.Response(text=f"not ready: {reason}\n", status=HTTPStatus.SERVICE_UNAVAILABLE)


async def metrics(request: web.Request) -> web.Response:
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return web.Response(body=encode(request.app[PARTS].registry), headers={"Content-Type": content_type})


async def status_json(request: web.Request) -> web.Response:
    return json_answer(request.app[PARTS].status())


async def insights(request: web.Request) -> web.Response:
    """As service-interface part 4.1 has it. Raises BadListRequest."""
    asked = read_request(INSIGHT_LIST, request.query.items())
    found = await request.app[PARTS].insights(asked)
    return json_answer(envelope(INSIGHT_LIST, asked, found))


async def page(request: web.Request) -> web.Response:
    parts = request.app[PARTS]
    return html(status_page(parts.status(), await parts.totals(), await parts.unsettled()))


async def login(request: web.Request) -> web.Response:
    """With `?once=…` opens a session and goes on to the page; without, or when the link is used up, asks for the token."""
    code = request.query.get("once")
    if code is None:
        return html(login_page("Log in with the admin token."))
    session = request.app[PARTS].access.session_for_code(code)
    if session is None:
        return html(login_page("This link was used already, or is too old."), HTTPStatus.UNAUTHORIZED)
    return entered(session)


async def login_with_token(request: web.Request) -> web.Response:
    try:
        token = (await request.post()).get("token", "")
    except (LookupError, ValueError):  # a charset or a boundary that nobody knows
        raise BadPayload("the form cannot be read") from None
    session = request.app[PARTS].access.session_for_token(token) if isinstance(token, str) else None
    if session is None:
        return html(login_page("That is not the admin token."), HTTPStatus.UNAUTHORIZED)
    return entered(session)


async def logout(request: web.Request) -> web.Response:
    request.app[PARTS].access.end(request)
    response = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": "/login"})
    response.del_cookie(COOKIE, path="/")
    return response


async def login_link(request: web.Request) -> web.Response:
    """A one-time link for a browser, for whoever has the token."""
    return json_answer({"path": request.app[PARTS].access.login_path()}, HTTPStatus.CREATED)


def entered(session: str) -> web.Response:
    response = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": "/"})
    set_cookie(response, session)
    return response


def html(text: str, status: int = HTTPStatus.OK) -> web.Response:
    return web.Response(text=text, status=status, content_type="text/html")
