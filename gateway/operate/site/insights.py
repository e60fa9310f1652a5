"""Insights: the list, and each one with its meaning, its status and its comments."""

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from gateway.operate import insights as operations
from gateway.operate.parts import stores_of
from gateway.operate.site.listing import listing
from gateway.operate.site.operating import ask, change, query_of
from gateway.operate.site.view import Action, View, form_fields, see
from gateway.operate.site.words import words
from gateway.usage.insights.changes import COMMENT_MAX_CHARS
from gateway.usage.insights.explanations import EXPLANATIONS
from gateway.usage.insights.finding import STATUSES, InsightDetail

LIST: Final = "/insights"
ONE: Final = LIST + "/{insight_id}"
COMMENTS: Final = (("limit", "10"),)
"""A comment may have 10,000 characters."""


async def load(request: web.Request) -> dict[str, Any]:
    return insights(await ask(request, operations.LIST, stores_of(request).insights))


def insights(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The template's context of an answer of the list."""
    return {"list": listing(LIST, answer, shown=("status",))}


async def load_one(request: web.Request) -> dict[str, Any]:
    store = stores_of(request).insights
    found = (await ask(request, operations.SHOW, store, query=()))["insight"]
    comments = await ask(request, operations.COMMENTS, store, query=query_of(request) or COMMENTS)
    return {**insight(found), "comments": listing(path_of(found["id"]), comments)}


def insight(found: InsightDetail) -> dict[str, Any]:
    """The template's context, without the comments."""
    return {
        "insight": found,
        "explained": EXPLANATIONS.get(found["cause"] or ""),
        "others": [status for status in STATUSES if status != found["status"]],
        "comment_max_chars": COMMENT_MAX_CHARS,
    }


async def set_status(request: web.Request) -> web.Response:
    fields = form_fields(request)
    changed = await change(request, operations.CHANGE, stores_of(request).insights, fields)
    status = words(changed["insight"]["status"])
    return see(request, path_of(changed["insight"]["id"]), f"The status is “{status}” now.")


async def add_comment(request: web.Request) -> web.Response:
    fields = form_fields(request)
    text = fields.get("text", "").replace("\r\n", "\n")
    store = stores_of(request).insights
    await change(request, operations.ADD_COMMENT, store, {"text": text}, typed={"text": text})
    return see(request, path_of(request.match_info["insight_id"]), "The comment was added.")


async def change_comment(request: web.Request) -> web.Response:
    text = form_fields(request).get("text", "").replace("\r\n", "\n")
    await change(request, operations.CHANGE_COMMENT, stores_of(request).insights, {"text": text})
    return see(request, path_of(request.match_info["insight_id"]), "The comment was changed.")


def path_of(insight_id: str) -> str:
    return ONE.format(insight_id=insight_id)


VIEW: Final = View(path=LIST, title="Insights", template="insights.html", load=load, honours_limits=True)
DETAIL: Final = View(
    path=ONE,
    title="Insight",
    template="insight.html",
    load=load_one,
    in_navigation=False,
    below=LIST,
    honours_limits=True,
)
VIEWS: Final = (VIEW, DETAIL)
ACTIONS: Final = (
    Action(path=ONE + "/status", title="Set the status of an insight", handler=set_status, view=DETAIL),
    Action(path=ONE + "/comments", title="Comment on an insight", handler=add_comment, view=DETAIL),
    Action(
        path=ONE + "/comments/{comment_id}", title="Change a comment on an insight", handler=change_comment, view=DETAIL
    ),
)
