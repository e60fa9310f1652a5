"""aiohttp's server without its words about requests that it cannot parse.

It quotes the bytes that it stumbled over, in the answer and with a traceback in the log; among them
may be a key. Here the answer is ours, and nothing is logged. Every listener is served by this.

Connections, listening and stopping are ours as well; of aiohttp only public names are used.
"""

import asyncio
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from gateway.common.http.http_connection import AiohttpHandler, Connection, ForGrpc, Handle, Malformed
from gateway.common.http.incoming import BACKLOG, ConnectionLimits, IncomingConnections
from gateway.common.http.repeated_requests import RepeatedRequests, Taker
from gateway.common.http.repeating_connection import RepeatingConnection

KEEP_ALIVE_S: Final = 900.0
"""Of senders, without a request; longer than clients and proxies keep a connection."""
OPERATORS_KEEP_ALIVE_S: Final = 3630.0
"""As aiohttp has it."""
NEVER_S: Final = 10 * 365 * 86_400.0
"""Given to aiohttp where a connection measures that time itself."""
LINGER_S: Final = 2.0
"""How long the rest of a refused body is read and thrown away, so that the client gets to read the
answer. aiohttp reads for 10 s."""

FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
"""For a connection that is one too many."""


def not_here(_: str | None) -> str:
    return "this port speaks HTTP/1.1, and no gRPC"


class QuietServer:
    """Makes connections whose requests *handler* answers. *options* are those of aiohttp's handler
    of a connection. With *is_direct*, requests whose head repeats the one before are handled as
    `RepeatingConnection` states, and with *taker* together. Needs a running loop.
    """

    def __init__(
        self,
        handler: Handle,
        malformed: Malformed,
        *,
        for_grpc: ForGrpc = not_here,
        is_direct: Callable[[str], bool] | None = None,
        taker: Taker | None = None,
        request_factory: Any = None,
        keepalive_timeout: float = OPERATORS_KEEP_ALIVE_S,
        **options: Any,
    ) -> None:
        self.connections: set[Connection] = set()
        """Those that are open, and those that are lost while a request of theirs is under way."""
        self._loop = asyncio.get_running_loop()
        self._aiohttp = web.Server(self._handle, request_factory=request_factory, loop=self._loop)
        self._handler = handler
        self._malformed = malformed
        self._for_grpc = for_grpc
        self._is_direct = is_direct
        self._together = None if taker is None else RepeatedRequests(taker, self._loop)
        self._keep_alive_s = keepalive_timeout
        self._options = {**options, "keepalive_timeout": keepalive_timeout if is_direct is None else NEVER_S}

    def __call__(self) -> Connection:
        parts = (self._make_handler, self.connections, self._for_grpc)
        if self._is_direct is None:
            return Connection(*parts)
        return RepeatingConnection(
            *parts,
            handler=self._handler,
            is_direct=self._is_direct,
            together=self._together,
            keep_alive_s=self._keep_alive_s,
        )

    def _make_handler(self, connection: Connection) -> AiohttpHandler:
        return AiohttpHandler(connection, self._malformed, self._aiohttp, loop=self._loop, **self._options)

    def _handle(self, request: Any) -> Awaitable[web.StreamResponse]:
        connection: Connection = request.protocol.connection
        return connection.handle(request, self._handler)

    def close(self) -> None:
        """Take no further request."""
        for connection in list(self.connections):
            connection.close()

    async def shutdown(self, timeout_s: float | None = None) -> None:
        """Close all connections; requests that are under way have *timeout_s* to end."""
        await asyncio.gather(*(connection.shutdown(timeout_s) for connection in list(self.connections)))


class Runner:
    """Runs a server at its sites. Requests that are under way have *shutdown_timeout* to end, in
    seconds.
    """

    def __init__(self, server: QuietServer | None, *, shutdown_timeout: float) -> None:
        self.server = server
        """None until it is set up."""
        self._shutdown_s = shutdown_timeout
        self._sites: list[Site] = []

    async def setup(self) -> None:
        """Make ready for sites. Raises what the application raises."""

    def add(self, site: "Site") -> QuietServer:
        """The server, which is closed with *site*."""
        if self.server is None:
            raise RuntimeError("the runner is not set up")
        self._sites.append(site)
        return self.server

    @property
    def addresses(self) -> list[Any]:
        """Of the sockets, as `socket.getsockname` has them."""
        return [each.getsockname() for site in self._sites for each in site.sockets]

    async def cleanup(self) -> None:
        """Close the sites, then the server. To be called once."""
        for site in self._sites:
            site.stop()
        self._sites.clear()
        if self.server is not None:
            for _ in range(3):  # what came before begins: in a task, which aiohttp's own one starts
                await asyncio.sleep(0)
            self.server.close()
            await self._end_streams()
            await self.server.shutdown(self._shutdown_s)

    async def _end_streams(self) -> None:
        """End answers that have no end of their own."""


class QuietRunner(Runner):
    """Runs an application. *options* are those of aiohttp's handler of a connection."""

    def __init__(self, app: web.Application, malformed: Malformed, *, shutdown_timeout: float, **options: Any) -> None:
        super().__init__(None, shutdown_timeout=shutdown_timeout)
        self._app = app
        self._malformed = malformed
        self._options = options

    async def setup(self) -> None:
        runner = web.AppRunner(self._app)
        await runner.setup()
        made = runner.server
        assert made is not None  # noqa: S101 since it is set up
        self.server = QuietServer(
            self._expecting(made.request_handler),
            self._malformed,
            request_factory=made.request_factory,
            access_log=None,
            lingering_time=LINGER_S,
            **self._options,
        )

    async def cleanup(self) -> None:
        await super().cleanup()
        await self._app.cleanup()

    async def _end_streams(self) -> None:
        await self._app.shutdown()

    def _expecting(self, handle: Handle) -> Handle:
        """An expectation that no one knows is refused here, since aiohttp's refusal quotes it."""

        async def handle_expected(request: web.BaseRequest) -> web.StreamResponse:
            if request.headers.get("Expect", "100-continue").lower() != "100-continue":
                return self._malformed(request, HTTPStatus.EXPECTATION_FAILED)
            return await handle(request)

        return handle_expected


class Site(ABC):
    """Where a server listens, for connections within *limits*."""

    def __init__(self, runner: Runner, limits: ConnectionLimits, tls: ssl.SSLContext | None = None) -> None:
        self._runner = runner
        self._limits = limits
        self._tls = tls
        self._connections: IncomingConnections | None = None
        self._listening: asyncio.Server | None = None

    async def start(self) -> None:
        """Raises OSError."""
        server = self._runner.add(self)
        self._connections = IncomingConnections(server, self._limits, full=FULL, tls=self._tls)
        self._listening = await self.listen(self._connections)

    @property
    def sockets(self) -> tuple[Any, ...]:
        return () if self._listening is None else tuple(self._listening.sockets)

    def stop(self) -> None:
        if self._listening is not None:
            self._listening.close()
        if self._connections is not None:
            self._connections.close()

    @abstractmethod
    async def listen(self, connections: IncomingConnections) -> asyncio.Server:
        """Raises OSError."""


class TcpSite(Site):
    """Serves on a port."""

    def __init__(
        self, runner: Runner, host: str, port: int, limits: ConnectionLimits, tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(runner, limits, tls)
        self._host = host
        self._port = port

    async def listen(self, connections: IncomingConnections) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(connections, self._host, self._port, backlog=BACKLOG)


class UnixSocketSite(Site):
    """Serves on a Unix socket that is bound already, and that is its own from then on."""

    def __init__(
        self, runner: Runner, bound: socket.socket, limits: ConnectionLimits, tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(runner, limits, tls)
        self._bound = bound

    async def listen(self, connections: IncomingConnections) -> asyncio.Server:
        return await asyncio.get_running_loop().create_unix_server(connections, sock=self._bound, backlog=BACKLOG)
