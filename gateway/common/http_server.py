"""aiohttp's server without its words about requests that it cannot parse.

It quotes the bytes that it stumbled over, in the answer and with a traceback in the log; among them
may be a key. Here the answer is ours, and nothing is logged. Every listener is served by this.
"""

import asyncio
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from gateway.common.http_connection import Connection, ForGrpc, Malformed
from gateway.common.incoming import BACKLOG, ConnectionLimits, IncomingConnections, Served
from gateway.common.repeated_requests import RepeatedRequests, Taker
from gateway.common.repeating_connection import RepeatingConnection

KEEP_ALIVE_S: Final = 900.0
"""Without a request; longer than clients and proxies keep a connection. aiohttp waits an hour."""
LINGER_S: Final = 2.0
"""How long the rest of a refused body is read and thrown away, so that the client gets to read the
answer. aiohttp reads for 10 s."""

Handle = Callable[[Any], Awaitable[web.StreamResponse]]

FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
"""For a connection that is one too many."""


def not_here(_: str | None) -> str:
    return "this port speaks HTTP/1.1, and no gRPC"


class QuietServer(web.Server):
    """*options* are aiohttp's. With *is_direct*, requests whose head repeats the one before are
    handled as `RepeatingConnection` states, and with *taker* together.
    """

    def __init__(
        self,
        handler: Callable[[Any], Any],
        malformed: Malformed,
        *,
        for_grpc: ForGrpc = not_here,
        is_direct: Callable[[str], bool] | None = None,
        taker: Taker | None = None,
        **options: Any,
    ) -> None:
        super().__init__(handler, **options)
        self._malformed = malformed
        self._for_grpc = for_grpc
        self._is_direct = is_direct
        self._together = None if taker is None else RepeatedRequests(taker, self._loop)

    def __call__(self) -> RequestHandler:
        options = {"loop": self._loop, **self._kwargs}
        if self._is_direct is None:
            return Connection(self, self._malformed, self._for_grpc, **options)
        return RepeatingConnection(self._is_direct, self._together, self, self._malformed, self._for_grpc, **options)


class Site(web.BaseSite, ABC):
    """Where a server listens, for connections within *limits*."""

    def __init__(self, runner: web.BaseRunner, limits: ConnectionLimits, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(runner, backlog=BACKLOG, ssl_context=tls)
        self._limits = limits
        self._connections: IncomingConnections | None = None

    async def start(self) -> None:
        await super().start()
        server = self._runner.server
        assert server is not None  # noqa: S101 the base class asks for it
        self._connections = IncomingConnections(
            cast("Callable[[], Served]", server), self._limits, full=FULL, tls=self._ssl_context
        )
        self._server = await self.listen(self._connections)

    async def stop(self) -> None:
        await super().stop()
        if self._connections is not None:
            self._connections.close()

    @abstractmethod
    async def listen(self, connections: IncomingConnections) -> asyncio.Server:
        """Raises OSError."""


class TcpSite(Site):
    """Serves on a port."""

    def __init__(
        self,
        runner: web.BaseRunner,
        host: str,
        port: int,
        limits: ConnectionLimits,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(runner, limits, tls)
        self._host = host
        self._port = port

    @property
    def name(self) -> str:
        return f"{'http' if self._ssl_context is None else 'https'}://{self._host}:{self._port}"

    async def listen(self, connections: IncomingConnections) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(connections, self._host, self._port, backlog=BACKLOG)


class UnixSocketSite(Site):
    """Serves on a Unix socket that is bound already, and that is its own from then on."""

    def __init__(
        self, runner: web.BaseRunner, bound: socket.socket, limits: ConnectionLimits, tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(runner, limits, tls)
        self._bound = bound

    @property
    def name(self) -> str:
        return f"http://unix:{self._bound.getsockname()}:"

    async def listen(self, connections: IncomingConnections) -> asyncio.Server:
        return await asyncio.get_running_loop().create_unix_server(connections, sock=self._bound, backlog=BACKLOG)


class QuietRunner(web.AppRunner):
    """Runs an application on a QuietServer."""

    def __init__(self, app: web.Application, malformed: Malformed, **options: Any) -> None:
        super().__init__(app, access_log=None, lingering_time=LINGER_S, **options)
        self._malformed = malformed

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return QuietServer(
            self._expecting(made.request_handler),
            self._malformed,
            request_factory=made.request_factory,
            loop=asyncio.get_running_loop(),
            **made._kwargs,  # noqa: SLF001 what the application asks of it
        )

    def _expecting(self, handle: Handle) -> Handle:
        """An expectation that no one knows is refused here, since aiohttp's refusal quotes it."""

        async def handle_expected(request: web.BaseRequest) -> web.StreamResponse:
            if request.headers.get("Expect", "100-continue").lower() != "100-continue":
                return self._malformed(request, HTTPStatus.EXPECTATION_FAILED)
            return await handle(request)

        return handle_expected
