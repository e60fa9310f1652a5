"""The admin listener's way to the devices. The listener's guard covers it: the admin token, or a session."""

from collections.abc import Callable

from aiohttp import web

from gateway.devices.operating import LIST_PATH, Operations, operate
from gateway.web.admin_json import json_answer, json_body

VERBS = ("block", "unblock", "enroll", "forget", "ping")


def add_device_routes(app: web.Application, devices: Operations, now_ms: Callable[[], int]) -> None:
    async def handle(request: web.Request) -> web.Response:
        body = await json_body(request) if request.method == "POST" else None
        query = list(request.query.items())
        answer = await operate(
            devices, request.method, request.raw_path.partition("?")[0], query=query, body=body, now_ms=now_ms
        )
        return json_answer(answer)

    app.add_routes([
        web.get(LIST_PATH, handle),
        web.post(LIST_PATH + "/enroll", handle),
        web.get(LIST_PATH + "/{id}", handle),
        web.delete(LIST_PATH + "/{id}", handle),
        *(web.post(f"{LIST_PATH}/{{id}}/{verb}", handle) for verb in VERBS),
    ])  # fmt: skip
