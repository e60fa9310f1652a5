"""The admin listener's `/openapi.json`. The listener's guard covers it: the admin token, or a session."""

import asyncio
from typing import Final

from aiohttp import web

from gateway.admin.json_body import encoded_answer
from gateway.admin.openapi.document import gateway_openapi

OPENAPI_PATH: Final = "/openapi.json"


def add_description_route(app: web.Application) -> None:
    app.add_routes([web.get(OPENAPI_PATH, describe)])


async def describe(request: web.Request) -> web.Response:
    """Made at the first request, beside the loop: it takes a tenth of a second."""
    return encoded_answer(await asyncio.to_thread(gateway_openapi))
