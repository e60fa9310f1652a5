"""`GET /v2/tap`: calls as they settle, one JSON object a line, for as long as the client reads."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import orjson
from aiohttp import web

from gateway.admin.parts import PARTS
from gateway.contract.errors import BadPayload, NotFound
from gateway.observability.tap import FILTERS, Filters, Line

NDJSON: Final = "application/x-ndjson"
HEARTBEAT_S: Final = 15.0
"""After so long without a line an empty one is written: who left is noticed."""


async def tap(request: web.Request) -> web.StreamResponse:
    """Raises BadPayload for a filter that does not exist, Overloaded above `MOST_WATCHERS`."""
    found, filters = request.app[PARTS].tap, filters_of(request)
    if found is None:
        raise NotFound("this listener has no tap")
    async with found.watch(filters) as watcher:
        response = web.StreamResponse(headers={"Content-Type": NDJSON, "X-Accel-Buffering": "no"})
        await response.prepare(request)
        with suppress(ConnectionResetError):  # the client left
            while request.method != "HEAD" and not found.is_closed:
                lines, lost = await watcher.take(HEARTBEAT_S)
                if not is_admitted(request):
                    break
                await response.write(encoded(lines, lost))
    return response


def is_admitted(request: web.Request) -> bool:
    """Also when the tap is open for long: a session ends."""
    return request.app[PARTS].access.role_of(request) is not None


def encoded(lines: Sequence[Line], lost: int) -> bytes:
    stated = [{"lost": lost}, *lines] if lost else lines
    return b"".join(orjson.dumps(line) + b"\n" for line in stated) or b"\n"


def filters_of(request: web.Request) -> Filters:
    unknown = set(request.query) - set(FILTERS)
    if unknown:
        raise BadPayload(f"{min(unknown)} is not a filter: one of {', '.join(FILTERS)} is needed")
    return {name: frozenset(request.query.getall(name)) for name in request.query}


async def close_tap(app: web.Application) -> None:
    found = app[PARTS].tap
    if found is not None:
        await found.close()
