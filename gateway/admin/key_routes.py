"""The admin listener's way to the senders' keys. The listener's guard covers it: the admin token, or a session."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

import structlog
from aiohttp import web

from gateway.admin.json_body import json_answer, json_body
from gateway.admin.keys import INBOUND_PATH, SendersWouldBeRefused, Store, operate
from gateway.keys.errors import OpenIntakeInUse
from gateway.keys.requests import by_in
from gateway.receiver.answers import ANSWERS, kind_of

log = structlog.get_logger()

WRITING: Final = frozenset({"POST", "PATCH", "DELETE"})


def add_key_routes(app: web.Application, store: Store, list_path: str = INBOUND_PATH) -> None:
    async def handle(request: web.Request) -> web.Response:
        body = await json_body(request) if request.method in WRITING else {}
        query, below = list(request.query.items()), request.path.removeprefix(list_path)
        try:
            answer = await operate(store, request.method, below, query=query, body=body)
        except SendersWouldBeRefused as error:
            return refusal(error)
        if request.method in WRITING:
            note(request.method, request.path, answer, body)
        is_new = (request.method, below) == ("POST", "")
        return json_answer(answer, HTTPStatus.CREATED if is_new else HTTPStatus.OK)

    one = list_path + "/{id}"
    app.add_routes([
        web.get(list_path, handle),
        web.post(list_path, handle),
        web.get(one, handle),
        web.patch(one, handle),
        web.delete(one, handle),
        web.post(one + "/disable", handle),
        web.post(one + "/enable", handle),
    ])  # fmt: skip


def note(method: str, path: str, answer: Mapping[str, Any], body: Mapping[str, Any]) -> None:
    """Who changed which key; by id, since a name is anything that people type."""
    what = {"POST": path.rpartition("/")[2], "PATCH": "edit", "DELETE": "delete"}[method]
    what = "create" if what == "keys" else what
    log.info("key changed", what=what, key_id=answer.get("id") or answer.get("deleted"), by=by_in(body))


def refusal(error: SendersWouldBeRefused) -> web.Response:
    """Beside the error, the senders that it is about."""
    content = {"error": {"message": str(error), "type": kind_of(error)}, "senders": error.senders}
    return json_answer(content, ANSWERS[OpenIntakeInUse].status)
