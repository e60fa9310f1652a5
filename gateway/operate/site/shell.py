"""Around each view: navigation, messages, the time of the figures; and errors as pages."""

from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web

from gateway.common.contract.reach import reach_text
from gateway.operate.parts import PARTS, ROLE, reach_of
from gateway.operate.role import Role
from gateway.operate.site.rendering import html, render
from gateway.operate.site.view import Action, Context, FormFault, View

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
UPDATE: Final = "X-Live-Update"
"""Header of a request that brings an open page up to date: a message that is shown once waits."""
VIEWS: Final = web.AppKey("views", Sequence[View])


def view_handler(view: View) -> Handler:
    """*view* over HTTP."""

    async def handle(request: web.Request) -> web.Response:
        live = request.path_qs if view.is_live else ""
        return html(whole_page(request, view, await view.load(request), live=live))

    return handle


def action_handler(action: Action) -> Handler:
    """*action* over HTTP; a FormFault is shown in its form."""

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            return await action.handler(request)
        except FormFault as fault:
            context = await action.view.load(request)
            return html(whole_page(request, action.view, context, fault=fault), fault.status)

    return handle


def whole_page(
    request: web.Request, view: View, context: Context, *, live: str = "", fault: FormFault | None = None
) -> str:
    """*live*: path and query whose answer brings the figures up to date; empty for none."""
    return render(view.template, {**shell(request, view, live=live, fault=fault), **context})


def shell(request: web.Request, view: View, *, live: str, fault: FormFault | None) -> dict[str, Any]:
    """What the layout shows around *view*."""
    parts, role, reach = request.app[PARTS], request.get(ROLE, Role.VIEWER), reach_of(request)
    return {
        "title": view.title,
        "current": view.below or view.path,
        "navigation": navigation(request.app[VIEWS], role, is_limited=bool(reach)),
        "limited_to": reach_text(reach),
        "can_change": role == Role.OPERATOR,
        "role": role.name.lower(),
        "flashes": () if UPDATE in request.headers else parts.access.flashes(request),
        "version": parts.status().get("version", "unknown"),
        "made_ms": parts.now_ms(),
        "live": "" if reach else live,
        "fault": None if fault is None else fault.message,
        "errors": {} if fault is None else fault.fields,
        "typed": {} if fault is None else fault.typed,
    }


def navigation(views: Sequence[View], role: Role, *, is_limited: bool = False) -> list[View]:
    """The views that *role* may see."""
    return [
        view for view in views if view.in_navigation and view.role <= role and (view.honours_limits or not is_limited)
    ]


def login_page(
    message: str, status: int, *, then: str = "/", is_fault: bool = False, has_sign_in: bool = False
) -> web.Response:
    """Asks for a token; *then* is the path that follows. *has_sign_in*: an identity provider is
    configured.
    """
    sign_in = f"/login/oidc?{urlencode({'then': then})}" if has_sign_in else ""
    context = {"title": "Log in", "message": message, "then": then, "is_fault": is_fault, "sign_in": sign_in}
    return html(render("login.html", context), status)


def error_page(status: int, message: str) -> web.Response:
    """An error of a view or form, for a browser."""
    title = HTTPStatus(status).phrase
    return html(render("error.html", {"title": title, "message": message}), status)


def wants_html(request: web.Request) -> bool:
    """Whether a browser asks for a page or sends a form."""
    return "text/html" in request.headers.get("Accept", "")
