"""The admin listener's way to one insight and its comments; the list itself is `admin.insights`.

Beside the admin token and a session, an inbound key with the operation's own scope gets in here, and nowhere else on this listener.
"""

from collections.abc import Awaitable, Callable
from functools import wraps
from http import HTTPStatus
from typing import Final

from aiohttp import web

from gateway.admin.json_body import encoded_answer, json_answer, json_body
from gateway.admin.page import STATUS_FORM_PATH
from gateway.insights.changes import InsightError
from gateway.insights.listing import comments_list
from gateway.insights.store import InsightStore
from gateway.keys.requests import OPERATOR
from gateway.lists.conventions import envelope, read_request
from gateway.receiver.responses import json_error

LIST_PATH: Final = "/v2/insights"
INSIGHT_PATH: Final = "/v2/insights/{insight_id}"
COMMENTS_PATH: Final = "/v2/insights/{insight_id}/comments"
COMMENT_PATH: Final = "/v2/insights/{insight_id}/comments/{comment_id}"

SCOPES: Final = {
    ("GET", LIST_PATH): "insights:read_insights",
    ("POST", LIST_PATH): "insights:create_insight",
    ("GET", INSIGHT_PATH): "insights:read_insight",
    ("PATCH", INSIGHT_PATH): "insights:update_insight",
    ("DELETE", INSIGHT_PATH): "insights:delete_insight",
    ("GET", COMMENTS_PATH): "insights:read_insight_comments",
    ("POST", COMMENTS_PATH): "insights:create_insight_comment",
    ("PATCH", COMMENT_PATH): "insights:update_insight_comment",
}
"""Method and path -> the scope that opens it to an inbound key."""

BY: Final = web.RequestKey("by", str)
"""In a request: the name of the key it was made with."""

Handler = Callable[[web.Request], Awaitable[web.Response]]


def scope_of(request: web.Request) -> str | None:
    """The scope by which a key may make *request*; None where no key may."""
    resource = request.match_info.route.resource
    return None if resource is None else SCOPES.get((request.method, resource.canonical))


STORE: Final = web.AppKey("insights", InsightStore)


def add_insight_routes(app: web.Application, store: InsightStore) -> None:
    app[STORE] = store
    app.add_routes([
        web.post(LIST_PATH, create),
        web.get(INSIGHT_PATH, read),
        web.patch(INSIGHT_PATH, change),
        web.delete(INSIGHT_PATH, delete),
        web.get(COMMENTS_PATH, comments),
        web.post(COMMENTS_PATH, add_comment),
        web.patch(COMMENT_PATH, change_comment),
        web.post(STATUS_FORM_PATH, set_status),
    ])  # fmt: skip


def told(handler: Handler) -> Handler:
    """*handler* with what cannot be granted told as the service tells it."""

    @wraps(handler)
    async def answered(request: web.Request) -> web.Response:
        try:
            return await handler(request)
        except InsightError as error:
            return encoded_answer(json_error(str(error), error.code), error.status)

    return answered


@told
async def create(request: web.Request) -> web.Response:
    return one("insight", await request.app[STORE].create(await json_body(request)), HTTPStatus.CREATED)


@told
async def read(request: web.Request) -> web.Response:
    return one("insight", await request.app[STORE].read(request.match_info["insight_id"]))


@told
async def change(request: web.Request) -> web.Response:
    insight_id, content = request.match_info["insight_id"], await json_body(request)
    return one("insight", await request.app[STORE].change(insight_id, content, by=who(request)))


@told
async def delete(request: web.Request) -> web.Response:
    await request.app[STORE].delete(request.match_info["insight_id"])
    return web.Response(status=HTTPStatus.NO_CONTENT)


@told
async def comments(request: web.Request) -> web.Response:
    insight_id = request.match_info["insight_id"]
    shape = comments_list(insight_id).shape
    asked = read_request(shape, request.query.items())
    return json_answer(envelope(shape, asked, await request.app[STORE].comments(insight_id, asked)))


@told
async def add_comment(request: web.Request) -> web.Response:
    insight_id, content = request.match_info["insight_id"], await json_body(request)
    written = await request.app[STORE].add_comment(insight_id, content, by=who(request))
    return one("comment", written, HTTPStatus.CREATED)


@told
async def change_comment(request: web.Request) -> web.Response:
    of, content = request.match_info, await json_body(request)
    changed = await request.app[STORE].change_comment(of["insight_id"], of["comment_id"], content, by=who(request))
    return one("comment", changed)


@told
async def set_status(request: web.Request) -> web.Response:
    """A button of the status page; back to the page."""
    content = dict(await request.post())
    await request.app[STORE].change(request.match_info["insight_id"], content, by=who(request))
    return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": "/"})


def who(request: web.Request) -> str:
    """Name of the key; with the admin token or a session, the operator."""
    by: str = request.get(BY, OPERATOR)
    return by


def one(name: str, item: object, status: int = HTTPStatus.OK) -> web.Response:
    return json_answer({name: item}, status)
