"""The admin listener's way to the devices. The listener's guard covers it: the admin token, or a session."""

from typing import Final

import structlog
from aiohttp import web

from gateway.admin.devices import LIST_PATH, Operations, operate
from gateway.admin.json_body import json_answer, json_body
from gateway.keys.requests import by_in

ONE = LIST_PATH + "/{id:[^/]+}"
"""aiohttp's own pattern knows no id with braces in it."""
VERBS = ("block", "unblock", "enroll", "forget", "ping")
NOTED: Final = frozenset({"block", "unblock", "forget"})
"""What decides whether a device is let in, or known at all: the log has a line for each."""

log = structlog.get_logger()


def add_device_routes(app: web.Application, devices: Operations) -> None:
    async def handle(request: web.Request) -> web.Response:
        body = await json_body(request) if request.method == "POST" else {}
        query = list(request.query.items())
        path = request.raw_path.partition("?")[0]
        what = "forget" if request.method == "DELETE" else path.rpartition("/")[2]
        is_noted = request.method != "GET" and what in NOTED
        by = by_in(body) if is_noted else ""  # a `by` that is none changes nothing
        answer = await operate(devices, request.method, path, query=query, body=body)
        if is_noted:
            log.info("device changed", what=what, device_id=answer["device_id"], by=by)
        return json_answer(answer)

    app.add_routes([
        web.get(LIST_PATH, handle),
        web.post(LIST_PATH + "/enroll", handle),
        web.get(ONE, handle),
        web.delete(ONE, handle),
        *(web.post(f"{ONE}/{verb}", handle) for verb in VERBS),
    ])  # fmt: skip
