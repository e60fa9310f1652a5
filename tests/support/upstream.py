"""An upstream on loopback that records what came and answers as a test states: status,
headers, body, latency, resets.

Replies are taken from `script` in order; when it is empty, `respond` decides, by default 202 for
everything. A reply is recorded in `seen` before it is given. A fault of the test's own (a handler
that raises) fails the test at `stop`.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Literal

from aiohttp import web


@dataclass(frozen=True, slots=True)
class Seen:
    method: str
    path: str
    """With the query, as it stood on the wire."""
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    status: int = 202
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    reset: Literal["before_reading", "after_reading", "mid_body", "closed"] | None = None
    """Cut the connection: with the request unread, after it was read and recorded, or halfway
    through the answer; or close it in order, unanswered."""
    until: asyncio.Event | None = None
    """Answer only when this is set."""


Respond = Callable[[Seen], Reply]


def accept_all(seen: Seen) -> Reply:
    return Reply(202)


class Upstream:
    def __init__(self) -> None:
        self.seen: list[Seen] = []
        """Requests that were read whole."""
        self.script: deque[Reply] = deque()
        self.respond: Respond = accept_all
        self.cut_unread = 0
        self.cut_share: Callable[[], bool] | None = None
        """Asked of each request that the script does not speak of: whether it is cut unread."""
        self.faults: list[BaseException] = []
        self.base_url = ""
        self._arrived = asyncio.Condition()

    async def seen_at_least(self, count: int) -> None:
        """Return when *count* requests were read."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.seen) >= count)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        reply = self.script.popleft() if self.script else None
        cut = self.cut_share() if reply is None and self.cut_share else False
        if cut or (reply is not None and reply.reset == "before_reading"):
            self.cut_unread += 1
            _cut(request)
        body = await request.read()
        seen = Seen(request.method, request.raw_path, request.headers.copy(), body)
        if reply is None:
            try:
                reply = self.respond(seen)
            except Exception as error:
                self.faults.append(error)
                raise
        async with self._arrived:
            self.seen.append(seen)
            self._arrived.notify_all()
        if reply.until is not None:
            await reply.until.wait()
        if reply.reset == "after_reading":
            _cut(request)
        if reply.reset == "closed" and request.transport is not None:
            request.transport.close()
            raise ConnectionResetError("closed by the test")
        if reply.reset == "mid_body":
            return await _half_answer(request, reply)
        return web.Response(status=reply.status, headers=reply.headers, body=reply.body)


def _cut(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
    raise ConnectionResetError("cut by the test")


async def _half_answer(request: web.Request, reply: Reply) -> web.StreamResponse:
    response = web.StreamResponse(status=reply.status, headers={"Content-Length": str(len(reply.body) + 100)})
    await response.prepare(request)
    await response.write(reply.body)
    _cut(request)
    return response


@asynccontextmanager
async def running_upstream(tls: SSLContext | None = None) -> AsyncIterator[Upstream]:
    upstream = Upstream()
    application = web.Application(client_max_size=64 * 1024 * 1024)
    application.router.add_route("*", "/{path:.*}", upstream.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    upstream.base_url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield upstream
    finally:
        await runner.cleanup()
    assert upstream.faults == [], "the upstream itself failed"
