"""Tokens of viewers: the list with the form of a new one, whose secret is shown once; revoking."""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from gateway.access.record import NAME_MAX_CHARS, NAME_MIN_CHARS
from gateway.common.contract.reach import NAMED, reach_of, reach_text
from gateway.operate import viewer_tokens as operations
from gateway.operate.parts import BY
from gateway.operate.role import Role
from gateway.operate.site.key_form import names_in, tags_in
from gateway.operate.site.keys import LIST as KEYS
from gateway.operate.site.keys import by_in, store_of
from gateway.operate.site.listing import listing
from gateway.operate.site.operating import ask, change
from gateway.operate.site.rendering import html
from gateway.operate.site.shell import whole_page
from gateway.operate.site.view import Action, View, form_fields, see

LIST: Final = "/viewer-tokens"
REVOKE: Final = LIST + "/{id}/revoke"
FIELDS: Final = ("name", *NAMED, "tags")
EMPTY: Final[Mapping[str, str]] = dict.fromkeys(FIELDS, "")


async def load(request: web.Request) -> dict[str, Any]:
    answer = await ask(request, operations.LIST, store_of(request))
    tokens = [{**each, "sees": reach_text(reach_of(each["limits"]))} for each in answer["viewer_tokens"]]
    return {
        "list": listing(LIST, {**answer, "viewer_tokens": tokens}),
        "values": EMPTY,
        "name_min": NAME_MIN_CHARS,
        "name_max": NAME_MAX_CHARS,
        "operators": () if BY in request else store_of(request).operators.emails,
    }


async def create(request: web.Request) -> web.Response:
    """Answers with the page that shows the secret; sent again, the form is refused, as the name is
    taken.
    """
    fields = form_fields(request)
    typed = {name: fields.get(name, "").replace("\r\n", "\n") for name in FIELDS}
    limits = {name: names for name in NAMED if (names := names_in(typed[name])) is not None}
    body = {"name": typed["name"], "limits": {**limits, **tags_in(typed)}, **by_in(fields)}
    made = await change(request, operations.CREATE, store_of(request), body, typed)
    sees = reach_text(reach_of(made["limits"]))
    return html(whole_page(request, CREATED, {"token": made, "secret": made["secret"], "sees": sees}))


async def revoke(request: web.Request) -> web.Response:
    await change(request, operations.REVOKE, store_of(request), {})
    return see(request, LIST, "The token is revoked. Whoever used it is logged out.")


async def never(request: web.Request) -> dict[str, Any]:
    """The page with a secret has no address of its own."""
    raise NotImplementedError


VIEW: Final = View(
    path=LIST, title="Viewer tokens", template="viewer_tokens.html", load=load, role=Role.OPERATOR,
    in_navigation=False, below=KEYS,
)  # fmt: skip
CREATED: Final = View(
    path=LIST, title="New viewer token", template="viewer_token_created.html", load=never, role=Role.OPERATOR,
    in_navigation=False, below=KEYS,
)  # fmt: skip
ACTIONS: Final = (
    Action(path=LIST, title="Make a viewer's token", handler=create, view=VIEW),
    Action(path=REVOKE, title="Revoke a viewer's token", handler=revoke, view=VIEW),
)
