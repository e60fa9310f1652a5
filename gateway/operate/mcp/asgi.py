"""One request of aiohttp, answered by an ASGI application whose answers are whole: no streams.

The official MCP SDK speaks ASGI; the admin listener is aiohttp's.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final

from aiohttp import web

from gateway.operate.request_body import BODY

Message = MutableMapping[str, Any]
AsgiApp = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]

OWN_HEADERS: Final = frozenset({b"content-length", b"transfer-encoding", b"connection"})
"""Headers of the answer that aiohttp writes itself."""
CREDENTIAL_HEADERS: Final = frozenset({b"authorization", b"x-api-key", b"api-key", b"cookie"})


async def answer(app: AsgiApp, request: web.Request, state: Mapping[str, Any]) -> web.Response:
    """The answer of *app*; *state* is what its handlers find in the request's."""
    sent: list[Message] = []
    parts = [{"type": "http.request", "body": request[BODY], "more_body": False}]

    async def receive() -> Message:
        if parts:
            return parts.pop()
        await asyncio.get_running_loop().create_future()  # no disconnect is reported before the answer
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope_of(request, state), receive, send)
    start = next(message for message in sent if message["type"] == "http.response.start")
    response = web.Response(
        status=start["status"],
        body=b"".join(message.get("body", b"") for message in sent if message["type"] == "http.response.body"),
    )
    for name, value in start["headers"]:
        if name.lower() not in OWN_HEADERS:
            response.headers[name.decode("latin-1")] = value.decode("latin-1")
    return response


def scope_of(request: web.Request, state: Mapping[str, Any]) -> Message:
    """The connection scope of ASGI 3. The credential stays here: *app* has no use for it."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path,
        "raw_path": request.rel_url.raw_path.encode(),
        "query_string": request.query_string.encode(),
        "root_path": "",
        "headers": [
            (name.lower(), value) for name, value in request.raw_headers if name.lower() not in CREDENTIAL_HEADERS
        ],
        "client": None,
        "server": None,
        "state": dict(state),
    }
