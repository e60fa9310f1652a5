"""`GET /live`: server-sent events that state when the figures changed, so that an open page may ask
for itself again.

An event `change` comes at most once in `LOOK_S`, a comment as heartbeat at least every
`HEARTBEAT_S`. At most `MAX_STREAMS` are open. A stream ends with the gateway, and with the session
that opened it.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import orjson
from aiohttp import web

from gateway.common.contract.errors import Overloaded
from gateway.common.http.arriving_body import has_left
from gateway.operate.parts import is_still_admitted

LOOK_S: Final = 2.0
HEARTBEAT_S: Final = 15.0
MAX_STREAMS: Final = 32
RETRY_MS: Final = 5_000
"""After which a browser connects again."""

_MOVING: Final = frozenset({"oldest_pending_age_s", "telemetry_held_s", "disk_free_bytes"})
"""What changes by itself: a page that shows it is not old for that."""


class Live:
    """The open streams. Make one for each application."""

    def __init__(self, figures: Callable[[], object], monotonic_s: Callable[[], float] = time.monotonic) -> None:
        """*figures* is what the views show, as JSON."""
        self._figures = figures
        self._monotonic_s = monotonic_s
        self._looked_s = float("-inf")
        self._last = b""
        self._version = 0
        self._stopping = asyncio.Event()
        self._open: list[web.Request] = []

    @property
    def streams(self) -> int:
        """How many are open. One whose browser left is none, and ends within `LOOK_S`."""
        return sum(not has_left(request) for request in self._open)

    @contextmanager
    def place(self, request: web.Request) -> Iterator[None]:
        """For a stream. Raises Overloaded above `MAX_STREAMS`."""
        if self.streams >= MAX_STREAMS:
            raise Overloaded(f"{MAX_STREAMS} pages are live already: close one")
        self._open.append(request)
        try:
            yield
        finally:
            self._open.remove(request)

    def version(self) -> int:
        """Grows when the figures changed; looks at most once in `LOOK_S`, for all streams."""
        now_s = self._monotonic_s()
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            found = fingerprint(self._figures())
            if found != self._last:
                self._last, self._version = found, self._version + 1
        return self._version

    async def pause(self) -> bool:
        """Wait `LOOK_S`; return whether the gateway stops."""
        try:
            async with asyncio.timeout(LOOK_S):
                await self._stopping.wait()
        except TimeoutError:
            return False
        return True

    async def stop(self, app: web.Application) -> None:
        """End all streams."""
        self._stopping.set()


LIVE: Final = web.AppKey("live", Live)


async def live(request: web.Request) -> web.StreamResponse:
    """Raises Overloaded above `MAX_STREAMS`."""
    found = request.app[LIVE]
    with found.place(request):
        return await stream(request, found)


async def stream(request: web.Request, found: Live) -> web.StreamResponse:
    """Send events until the gateway stops, the credential ends or the browser leaves."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
    await response.prepare(request)
    if request.method == "HEAD":
        return response
    version = found.version()
    await response.write(f"retry: {RETRY_MS}\n\n".encode())
    written_s = time.monotonic()
    while not await found.pause() and not has_left(request) and is_still_admitted(request):
        now = found.version()
        if now != version:
            version, text = now, f"event: change\nid: {now}\ndata: {now}\n\n"
        elif time.monotonic() - written_s >= HEARTBEAT_S:
            text = ": still here\n\n"
        else:
            continue
        await response.write(text.encode())
        written_s = time.monotonic()
    return response


def fingerprint(figures: object) -> bytes:
    """Equal for equal figures, whatever moves by itself beside them."""
    return orjson.dumps(without_moving(figures), option=orjson.OPT_NON_STR_KEYS)


def without_moving(figures: object) -> Any:
    if isinstance(figures, Mapping):
        return {name: without_moving(value) for name, value in figures.items() if name not in _MOVING}
    return figures
