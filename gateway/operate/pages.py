"""The routes that are neither JSON operations nor views: probes, metrics, the way in and out, the
description.

What they answer is described by hand, in `openapi/admin/`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final, NamedTuple

from aiohttp import web
from prometheus_client.exposition import choose_encoder

from gateway.common.contract.errors import BadPayload
from gateway.common.own_path import own_path
from gateway.config.sign_in import CALLBACK
from gateway.observability.lane_log import waiting_in_vain
from gateway.observability.quarantine import degraded
from gateway.operate.json_answer import encoded_answer, json_answer
from gateway.operate.oidc.route import BEGIN, begin, finish, has_sign_in
from gateway.operate.openapi.document import gateway_openapi
from gateway.operate.operation import Method, Opened
from gateway.operate.parts import PARTS
from gateway.operate.request_body import json_fields
from gateway.operate.role import Role
from gateway.operate.session import COOKIE, set_cookie
from gateway.operate.site.assets import ROUTE as ASSETS_ROUTE
from gateway.operate.site.assets import serve_asset
from gateway.operate.site.explore_files import file_handler
from gateway.operate.site.live import live
from gateway.operate.site.shell import login_page
from gateway.operate.site.view import FormFault, form_fields
from gateway.operate.tap import tap
from spool.record import AI_TELEMETRY

LINK_ROLES: Final = {"operator": Role.OPERATOR, "viewer": Role.VIEWER}


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


async def login(request: web.Request) -> web.Response:
    """Open a session with `?once=…` and redirect to the page;
    else answer the form for the token.
    """
    code = request.query.get("once")
    if code is None:
        then = own_path(request.query.get("then", "/"))
        message = "Log in with a token of this gateway."
        return login_page(message, HTTPStatus.OK, then=then, has_sign_in=has_sign_in(request))
    access = request.app[PARTS].access
    if request.method == "HEAD" and access.opens_session(code):  # a chat's preview must not use the link up
        return redirect("/")
    session = access.session_for_code(code)
    if session is None:
        return login_page(
            "This link was already used or has expired.", HTTPStatus.UNAUTHORIZED, has_sign_in=has_sign_in(request)
        )
    return session_opened(request, session, "/")


async def login_with_token(request: web.Request) -> web.Response:
    try:
        fields = form_fields(request)
    except FormFault:
        raise BadPayload("the form cannot be read") from None
    then = own_path(fields.get("then", "/"))
    session = request.app[PARTS].access.session_for_token(fields.get("token", ""))
    if session is None:
        message = "That is no token of this gateway: it is the text of admin-token or viewer-token."
        return login_page(message, HTTPStatus.UNAUTHORIZED, then=then, is_fault=True, has_sign_in=has_sign_in(request))
    return session_opened(request, session, then)


async def logout(request: web.Request) -> web.Response:
    request.app[PARTS].access.end(request)
    response = redirect("/login")
    response.del_cookie(COOKIE, path="/")
    return response


async def login_link(request: web.Request) -> web.Response:
    """A one-time link for a browser; `{"role": "viewer"}` for one that changes nothing."""
    asked = json_fields(request).get("role", "operator")
    role = LINK_ROLES.get(asked) if isinstance(asked, str) else None
    if role is None:
        raise BadPayload(f"role: one of {', '.join(LINK_ROLES)} is needed")
    return json_answer({"path": request.app[PARTS].access.login_path(role)}, HTTPStatus.CREATED)


def session_opened(request: web.Request, session: str, then: str) -> web.Response:
    response = redirect(then)
    set_cookie(response, session, over_tls=request.secure)
    return response


def redirect(path: str) -> web.Response:
    return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": path})


async def description(request: web.Request) -> web.Response:
    """Made at the first request, off the loop: it takes a tenth of a second."""
    return encoded_answer(await asyncio.to_thread(gateway_openapi))


class PageRoute(NamedTuple):
    method: Method
    path: str
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    role: Role
    """The least that may call it."""
    open: Opened = None
    scope: str | None = None
    """Lets an inbound key in beside the tokens."""
    honours_limits: bool = False
    """A caller whose credential is limited gets its own part; else it is refused."""

    @property
    def only_reads(self) -> bool:
        return self.method == "GET"


PAGES: Final = (
    PageRoute("GET", "/healthz", healthz, Role.METRICS, "everywhere"),
    PageRoute("GET", "/readyz", readyz, Role.METRICS, "everywhere"),
    PageRoute("GET", "/metrics", metrics, Role.METRICS, "loopback"),
    PageRoute("GET", "/login", login, Role.METRICS, "everywhere"),
    PageRoute("POST", "/login", login_with_token, Role.METRICS, "everywhere"),
    PageRoute("GET", BEGIN, begin, Role.METRICS, "everywhere"),
    PageRoute("GET", CALLBACK, finish, Role.METRICS, "everywhere"),
    PageRoute("GET", ASSETS_ROUTE, serve_asset, Role.METRICS, "everywhere"),
    PageRoute("GET", "/live", live, Role.VIEWER),
    PageRoute("GET", "/usage.csv", file_handler("csv"), Role.VIEWER, honours_limits=True),
    PageRoute("GET", "/usage.parquet", file_handler("parquet"), Role.VIEWER, honours_limits=True),
    PageRoute("GET", "/v2/tap", tap, Role.OPERATOR),
    PageRoute("POST", "/logout", logout, Role.VIEWER, honours_limits=True),
    PageRoute("POST", "/v2/login-links", login_link, Role.OPERATOR),
    PageRoute("GET", "/openapi.json", description, Role.VIEWER, honours_limits=True),
)
