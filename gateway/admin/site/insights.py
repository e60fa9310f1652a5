"""Insights that someone should still look at, with a button for each other status."""

from collections.abc import Sequence
from typing import Any, Final

from aiohttp import web

from gateway.admin.parts import PARTS, STORES
from gateway.admin.site.view import Action, FormFault, View, form_fields, see
from gateway.admin.site.words import words
from gateway.contract.errors import NotFound
from gateway.insights.changes import InsightError, NoSuchInsight
from gateway.insights.finding import STATUSES, Insight
from gateway.keys.requests import OPERATOR

MOST_INSIGHTS: Final = 50


def insights(found: Sequence[Insight]) -> dict[str, Any]:
    """The template's context."""
    return {
        "insights": found[:MOST_INSIGHTS],
        "further": max(0, len(found) - MOST_INSIGHTS),
        "choices": [status for status in STATUSES if status != "new"],
    }


async def load(request: web.Request) -> dict[str, Any]:
    return insights(await request.app[PARTS].unsettled())


async def set_status(request: web.Request) -> web.Response:
    """A button beside an insight."""
    store = request.app[STORES].insights
    if store is None:
        raise NotFound("no insight has this id")
    fields = await form_fields(request)
    try:
        changed = await store.store.change(request.match_info["insight_id"], fields, by=OPERATOR)
    except NoSuchInsight:
        raise
    except InsightError as error:
        raise FormFault(str(error)) from None
    return see(request, "/insights", f"“{changed['title']}” is {words(changed['status'])} now.")


VIEW: Final = View(path="/insights", title="Insights", template="insights.html", load=load)
SET_STATUS: Final = Action(
    path="/insights/{insight_id}/status", title="Set the status of an insight", handler=set_status, view=VIEW
)
