"""The admin listener's way to `spool verify` and `spool backup`. The listener's guard covers it: the admin token, or a session."""

from aiohttp import web

from gateway.admin.json_body import json_answer, json_body
from gateway.observability.quarantine import BACKUP_PATH, VERIFY_PATH, back_up_running, verify_running
from spool.store import StatusStore


def add_spool_file_routes(app: web.Application, spool: StatusStore) -> None:
    async def verify(_: web.Request) -> web.Response:
        return json_answer(await verify_running(spool))

    async def back_up(request: web.Request) -> web.Response:
        return json_answer(await back_up_running(spool, await json_body(request)))

    app.add_routes([web.post(VERIFY_PATH, verify), web.post(BACKUP_PATH, back_up)])
