"""The admin listener's way to dead letters and resends. The listener's guard covers it: the admin token, or a session."""

from collections.abc import Callable

from aiohttp import web

from gateway.admin.dead_letters import DROP_PATH, LIST_PATH, REPLAY_DELIVERED_PATH, REPLAY_PATH, operate
from gateway.admin.json_body import json_answer, json_body
from spool.store import DeadLetterStore


def add_operator_routes(app: web.Application, operator: DeadLetterStore, now_ms: Callable[[], int]) -> None:
    async def handle(request: web.Request) -> web.Response:
        body = await json_body(request) if request.method == "POST" else None
        query = list(request.query.items())
        answer = await operate(operator, request.method, request.path, query=query, body=body, now_ms=now_ms)
        return json_answer(answer)

    app.add_routes([
        web.get(LIST_PATH, handle),
        web.get(LIST_PATH + "/{id}", handle),
        web.post(REPLAY_PATH, handle),
        web.post(DROP_PATH, handle),
        web.post(REPLAY_DELIVERED_PATH, handle),
    ])  # fmt: skip
