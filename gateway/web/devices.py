"""The admin listener's way to the devices. The listener's guard covers it: the admin token, or a session."""

from aiohttp import web

from gateway.devices.operating import LIST_PATH, Operations, operate
from gateway.web.admin_json import json_answer, json_body

ONE = LIST_PATH + "/{id:[^/]+}"
"""aiohttp's own pattern knows no id with braces in it."""
VERBS = ("block", "unblock", "enroll", "forget", "ping")


def add_device_routes(app: web.Application, devices: Operations) -> None:
    async def handle(request: web.Request) -> web.Response:
        body = await json_body(request) if request.method == "POST" else None
        query = list(request.query.items())
        path = request.raw_path.partition("?")[0]
        return json_answer(await operate(devices, request.method, path, query=query, body=body))

    app.add_routes([
        web.get(LIST_PATH, handle),
        web.post(LIST_PATH + "/enroll", handle),
        web.get(ONE, handle),
        web.delete(ONE, handle),
        *(web.post(f"{ONE}/{verb}", handle) for verb in VERBS),
    ])  # fmt: skip
