"""A view of the page: where it is, who sees it, its template and what fills it.

A view is one module here and one template: `load` asks the parts of the gateway, a pure function
makes the template's context of that. A row in `registry.py` adds it to routes, guard, navigation
and OpenAPI.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aiohttp import web
from multidict import MultiMapping

from gateway.operate.parts import PARTS, ROLE
from gateway.operate.request_body import UnreadableForm, form_of
from gateway.operate.role import Role
from gateway.operate.session import Flash

Context = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A GET that answers HTML."""

    path: str
    """A template such as `/insights/{insight_id}`."""
    title: str
    """Also the text of its link in the navigation."""
    template: str
    load: Callable[[web.Request], Awaitable[Context]]
    """The context of the template. Raises what `gateway.common.contract.errors` knows."""
    role: Role = Role.VIEWER
    in_navigation: bool = True
    is_live: bool = True
    """Whether an open page is brought up to date by itself."""
    honours_limits: bool = False
    """Whether a caller whose credential is limited gets its own part; else it is refused."""
    below: str = ""
    """Path of the view whose link in the navigation is marked while this one is shown; its own
    where empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A POST of a form; answers with a redirect (`see`), or with *view* and the fault."""

    path: str
    title: str
    """What it does, for the description of the API."""
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    """Raises FormFault for what the person at the form can correct."""
    view: View
    """The form's view. Parameters of its path stand in the action's path too."""
    role: Role = Role.OPERATOR


@dataclass
class FormFault(Exception):
    """A form that is refused; nothing was changed."""

    message: str
    fields: Mapping[str, str] = field(default_factory=dict)
    """Name of a field -> what is wrong with it; shown beside it."""
    typed: Mapping[str, str] = field(default_factory=dict)
    """Name of a field -> what it holds again; never a secret."""
    status: int = 400


def posted(request: web.Request) -> MultiMapping[str]:
    """The fields of a form, each as often as it was sent. Raises FormFault."""
    try:
        return form_of(request)
    except UnreadableForm:
        raise FormFault("The form cannot be read: send it from its page.") from None


def form_fields(request: web.Request) -> dict[str, str]:
    """The fields of a form; of a repeated one the last. Raises FormFault."""
    return dict(posted(request).items())


SEE_OTHER: Final = 303


def see(request: web.Request, path: str, message: str = "", kind: str = "done") -> web.Response:
    """Redirect to *path* of this listener, where *message* is shown once; *kind* is `done` or
    `failed`.
    """
    if message:
        request.app[PARTS].access.flash(request, Flash(kind, message))
    return web.Response(status=SEE_OTHER, headers={"Location": path})


def can_change(request: web.Request) -> bool:
    """Whether buttons and forms are shown."""
    return request.get(ROLE) == Role.OPERATOR
