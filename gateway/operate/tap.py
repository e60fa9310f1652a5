"""`GET /v2/tap`: calls as they settle, one JSON object a line, for as long as the client reads."""

import time
from collections.abc import Sequence
from typing import Final

import orjson
from aiohttp import web

from gateway.common.contract.errors import BadPayload, NotFound
from gateway.observability.tap import FILTERS, Filters, Line
from gateway.operate.parts import PARTS, is_still_admitted
from gateway.usage.sums.tags import by_dimension

NDJSON: Final = "application/x-ndjson"
LOOK_S: Final = 1.0
"""Between two looks at whether the credential still admits, where no line comes."""
HEARTBEAT_S: Final = 15.0
"""After so long without a line an empty one is written: who left is noticed."""


async def tap(request: web.Request) -> web.StreamResponse:
    """Raises BadPayload for a filter that does not exist, Overloaded above `MAX_WATCHERS`."""
    found, filters = request.app[PARTS].tap, filters_of(request)
    if found is None:
        raise NotFound("this listener has no tap")
    async with found.watch(filters) as watcher:
        response = web.StreamResponse(headers={"Content-Type": NDJSON, "X-Accel-Buffering": "no"})
        await response.prepare(request)
        written_s = time.monotonic()
        while request.method != "HEAD" and not found.is_closed:
            lines, lost = await watcher.take(LOOK_S)
            if not is_still_admitted(request):
                break
            if lines or lost or time.monotonic() - written_s >= HEARTBEAT_S:
                await response.write(encoded(lines, lost))
                written_s = time.monotonic()
    return response


def encoded(lines: Sequence[Line], lost: int) -> bytes:
    stated = [{"lost": lost}, *lines] if lost else lines
    return b"".join(orjson.dumps(line) + b"\n" for line in stated) or b"\n"


def filters_of(request: web.Request) -> Filters:
    """Raises BadPayload, BadListRequest."""
    unknown = set(request.query) - set(FILTERS)
    if unknown:
        raise BadPayload(f"{min(unknown)} is not a filter: one of {', '.join(FILTERS)} is needed")
    given = {name: request.query.getall(name) for name in request.query}
    return {name: frozenset(values) for name, values in by_dimension(given).items()}


async def close_tap(app: web.Application) -> None:
    found = app[PARTS].tap
    if found is not None:
        await found.close()
