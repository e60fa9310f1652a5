"""Recommendations: what could be saved, and what is decided about it."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from aiohttp import web

from gateway.operate import recommendations as operations
from gateway.operate.parts import stores_of
from gateway.operate.site import words
from gateway.operate.site.listing import listing
from gateway.operate.site.operating import ask, change
from gateway.operate.site.view import Action, View, form_fields, see

PATH: Final = "/recommendations"


async def load(request: web.Request) -> dict[str, Any]:
    return recommendations(await ask(request, operations.LIST, stores_of(request).recommendations))


def recommendations(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The template's context of an answer of the list."""
    return {"list": listing(PATH, answer, shown=("state", "kind")), "acts": ACTS, "amount": amount}


def amount(text: str) -> str:
    return words.money(Decimal(text))


ACTS: Final = {
    "open": (("accepted", "Accept"), ("dismissed", "Dismiss")),
    "accepted": (("open", "Open again"),),
    "dismissed": (("open", "Open again"),),
}
"""State -> those that follow, and their buttons."""


async def set_state(request: web.Request) -> web.Response:
    changed = await change(request, operations.CHANGE, stores_of(request).recommendations, form_fields(request))
    return see(request, PATH, f"The recommendation is {words.words(changed['recommendation']['state'])} now.")


VIEW: Final = View(path=PATH, title="Recommendations", template="recommendations.html", load=load)
ACTIONS: Final = (
    Action(
        path=PATH + "/{recommendation_id}/state",
        title="Accept or dismiss a recommendation",
        handler=set_state,
        view=VIEW,
    ),
)
