"""The routes that are not JSON operations: probes, metrics, the status page and its
sessions, the description.

What they answer is described by hand, in `openapi/admin/`: it is HTML and plain text.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, NamedTuple

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from gateway.admin.json_body import encoded_answer, json_answer
from gateway.admin.openapi.document import gateway_openapi
from gateway.admin.operation import Method, Opened
from gateway.admin.page import MODELS_FROM, MOST_MODELS, STATUS_FORM_PATH, login_page, status_page
from gateway.admin.registry import AdminStores
from gateway.admin.session import COOKIE, AdminAccess, set_cookie
from gateway.contract.errors import BadPayload, NotFound
from gateway.delivery.embedded import TotalsPage
from gateway.insights.finding import Insight
from gateway.keys.requests import OPERATOR
from gateway.observability.lane_log import waiting_in_vain
from gateway.observability.metrics import Status
from gateway.observability.quarantine import degraded
from gateway.receiver.authenticator import Authenticator
from spool.record import AI_TELEMETRY

MAX_DIGITS: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminParts:
    """What the pages show and the guard asks."""

    status: Callable[[], Status]
    totals: Callable[[int, int], Awaitable[TotalsPage]]
    """Given the number of the first model, from 0, and how many at most."""
    not_ready: Callable[[], Awaitable[str | None]]
    """Why the gateway cannot keep data now; None when it can."""
    registry: CollectorRegistry
    access: AdminAccess
    unsettled: Callable[[], Awaitable[Sequence[Insight]]]
    """Insights that someone should still look at."""
    gate: Authenticator | None = None
    """Admits inbound keys to the operations that have a scope; None: no key opens anything."""


PARTS: Final = web.AppKey("parts", AdminParts)
STORES: Final = web.AppKey("stores", AdminStores)


async def healthz(request: web.Request) -> web.Response:
    """The process answers."""
    return web.Response(text="ok\n")


async def readyz(request: web.Request) -> web.Response:
    """Data sent now can be kept."""
    reason = await request.app[PARTS].not_ready()
    if reason is None:
        status = request.app[PARTS].status()
        quarantine = status.get("quarantine")
        lane = status["lanes"].get(AI_TELEMETRY)
        reasons = [
            None if quarantine is None else degraded(quarantine),
            lane["reason"] if lane is not None and lane["state"] == "behind" else None,
            *waiting_in_vain(status["lanes"]).values(),
        ]
        why = "; ".join(filter(None, reasons))
        return web.Response(text=f"ready, degraded: {why}\n" if why else "ready\n")
    return web.Response(text=f"not ready: {reason}\n", status=HTTPStatus.SERVICE_UNAVAILABLE)


async def metrics(request: web.Request) -> web.Response:
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return web.Response(body=encode(request.app[PARTS].registry), headers={"Content-Type": content_type})


async def page(request: web.Request) -> web.Response:
    parts = request.app[PARTS]
    text = request.query.get(MODELS_FROM, "")
    first = int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else 0
    return html(status_page(parts.status(), await parts.totals(first, MOST_MODELS), await parts.unsettled()))


async def login(request: web.Request) -> web.Response:
    """Open a session with `?once=…` and redirect to the page;
    else answer the form for the token.
    """
    code = request.query.get("once")
    if code is None:
        return html(login_page("Log in with the admin token."))
    access = request.app[PARTS].access
    if request.method == "HEAD" and access.opens_session(code):  # a chat's preview must not use the link up
        return to_page()
    session = access.session_for_code(code)
    if session is None:
        return html(login_page("This link was already used or has expired."), HTTPStatus.UNAUTHORIZED)
    return session_opened(session)


async def login_with_token(request: web.Request) -> web.Response:
    try:
        token = (await request.post()).get("token", "")
    except (LookupError, ValueError):  # an unknown charset or boundary
        raise BadPayload("the form cannot be read") from None
    session = request.app[PARTS].access.session_for_token(token) if isinstance(token, str) else None
    if session is None:
        return html(login_page("That is not the admin token."), HTTPStatus.UNAUTHORIZED)
    return session_opened(session)


async def logout(request: web.Request) -> web.Response:
    request.app[PARTS].access.end(request)
    response = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": "/login"})
    response.del_cookie(COOKIE, path="/")
    return response


async def login_link(request: web.Request) -> web.Response:
    """A one-time link for a browser."""
    return json_answer({"path": request.app[PARTS].access.login_path()}, HTTPStatus.CREATED)


def session_opened(session: str) -> web.Response:
    response = to_page()
    set_cookie(response, session)
    return response


def to_page() -> web.Response:
    return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": "/"})


def html(text: str, status: int = HTTPStatus.OK) -> web.Response:
    return web.Response(text=text, status=status, content_type="text/html")


async def description(request: web.Request) -> web.Response:
    """Made at the first request, off the loop: it takes a tenth of a second."""
    return encoded_answer(await asyncio.to_thread(gateway_openapi))


async def set_insight_status(request: web.Request) -> web.Response:
    """A button of the status page; redirects to the page."""
    insights = request.app[STORES].insights
    if insights is None:
        raise NotFound("no insight has this id")
    await insights.store.change(request.match_info["insight_id"], dict(await request.post()), by=OPERATOR)
    return to_page()


class PageRoute(NamedTuple):
    method: Method
    path: str
    handler: Callable[[web.Request], Awaitable[web.Response]]
    open: Opened = None


PAGES: Final = (
    PageRoute("GET", "/healthz", healthz, "everywhere"),
    PageRoute("GET", "/readyz", readyz, "everywhere"),
    PageRoute("GET", "/metrics", metrics, "loopback"),
    PageRoute("GET", "/", page),
    PageRoute("GET", "/login", login, "everywhere"),
    PageRoute("POST", "/login", login_with_token, "everywhere"),
    PageRoute("POST", "/logout", logout),
    PageRoute("POST", "/v2/login-links", login_link),
    PageRoute("POST", STATUS_FORM_PATH, set_insight_status),
    PageRoute("GET", "/openapi.json", description),
)
