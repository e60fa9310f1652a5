"""The admin listener's way to `spool verify` and `spool backup`. The listener's guard covers it: the admin token, or a session."""

from http import HTTPStatus
from pathlib import Path

import orjson
from aiohttp import web

from gateway.quarantine import BACKUP_PATH, VERIFY_PATH, back_up_running, verify_running
from gateway.web.dead_letters import json_body


def add_spool_file_routes(app: web.Application, data_dir: Path) -> None:
    async def verify(_: web.Request) -> web.Response:
        return _json(await verify_running(data_dir))

    async def back_up(request: web.Request) -> web.Response:
        return _json(await back_up_running(data_dir, await json_body(request)))

    app.add_routes([web.post(VERIFY_PATH, verify), web.post(BACKUP_PATH, back_up)])


def _json(answer: object) -> web.Response:
    return web.Response(status=HTTPStatus.OK, body=orjson.dumps(answer), headers={"Content-Type": "application/json"})
