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
from typing import Any, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from gateway.common.http2_refusal import Http2Refusal

FIRST_REQUEST_S = 30.0
"""Until the headers of a connection's first request are whole, and from the first byte of any later
one. aiohttp has no such limit: clients without a key could take every connection and keep it."""
HANDSHAKE_S = 10.0
"""Of TLS. A connection counts only behind it, and asyncio waits a minute."""
KEEP_ALIVE_S: Final = 900.0
"""Without a request; longer than clients and proxies keep a connection. aiohttp waits an hour."""

Malformed = Callable[[web.BaseRequest, int], web.Response]
"""The answer to a request that cannot be parsed, and aiohttp's status for it; the
connection is closed behind it."""


Handle = Callable[[Any], Awaitable[web.StreamResponse]]

ForGrpc = Callable[[str | None], str]
"""The text for a client that speaks gRPC here; given its address."""
HTTP2_BEGINS = b"PRI "
"""No method of HTTP/1.1."""
MAX_UNREAD_BYTES: Final = 64 * 1024
"""Of answers over HTTP/2 that the client has not read."""


IsFull = Callable[[int, str | None], bool]
"""Whether a connection is one too many; given how many there are with it, and its peer."""
FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def never_full(_: int, __: str | None) -> bool:
    return False


def peer_of(transport: asyncio.BaseTransport | None) -> str | None:
    """Address without port; None on a Unix socket."""
    peer = None if transport is None else transport.get_extra_info("peername")
    return peer[0] if isinstance(peer, tuple) else None


def not_here(_: str | None) -> str:
    return "this port speaks HTTP/1.1, and no gRPC"


class QuietServer(web.Server):
    """*options* are aiohttp's."""

    def __init__(
        self,
        handler: Callable[[Any], Any],
        malformed: Malformed,
        *,
        for_grpc: ForGrpc = not_here,
        is_full: IsFull = never_full,
        **options: Any,
    ) -> None:
        super().__init__(handler, **options)
        self._malformed = malformed
        self._for_grpc = for_grpc
        self._is_full = is_full
        self._open = 0
        """Connections."""

    def __call__(self) -> RequestHandler:
        return _Connection(self, self._malformed, self._for_grpc, loop=self._loop, **self._kwargs)

    def opened(self, peer: str | None) -> bool:
        """Note one more connection; whether it is one too many."""
        self._open += 1
        return self._is_full(self._open, peer)

    def closed(self) -> None:
        """Note one less."""
        self._open -= 1


class _Connection(RequestHandler):
    def __init__(self, server: QuietServer, malformed: Malformed, for_grpc: ForGrpc, **options: Any) -> None:
        super().__init__(server, **options)
        self._server = server
        self._malformed = malformed
        self._for_grpc = for_grpc
        self._http2: Http2Refusal | None = None
        self._is_begun = False
        self._silence: asyncio.TimerHandle | None = None
        self._partial: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._server.opened(peer_of(transport)) and isinstance(transport, asyncio.Transport):
            transport.write(FULL)
            transport.close()
        self._silence = self._loop.call_later(FIRST_REQUEST_S, self._end_silence)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._silence is not None:
            self._silence.cancel()
        if self._partial is not None:
            self._partial.cancel()
        self._server.closed()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._is_begun:
            self._is_begun = True
            if data.startswith(HTTP2_BEGINS):
                self._http2 = Http2Refusal(self._for_grpc(peer_of(self.transport)))
        if self._http2 is None:
            super().data_received(data)
            self._watch_head()
        elif self.transport is not None:
            self._answer_http2(self._http2, self.transport, data)

    def _answer_http2(self, refusal: Http2Refusal, transport: asyncio.Transport, data: bytes) -> None:
        transport.write(refusal.feed(data))
        if transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            transport.abort()
        elif refusal.is_over:
            transport.close()

    def _watch_head(self) -> None:
        """Headers that began must become whole."""
        is_partial = self._waiter is not None and not self._waiter.done()
        if is_partial and self._partial is None:
            self._partial = self._loop.call_later(FIRST_REQUEST_S, self.force_close)
        elif not is_partial and self._partial is not None:
            self._partial.cancel()
            self._partial = None

    def _end_silence(self) -> None:
        if self._request_count or not isinstance(self.transport, asyncio.Transport):
            return
        if self.transport.get_write_buffer_size():  # `close` would wait until the client reads it
            self.transport.abort()
        else:
            self.transport.close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to a request that is no HTTP, which quotes none of its bytes."""
        if request.writer.output_size > 0:
            raise ConnectionError("an answer is under way already")
        response = self._malformed(request, status)
        response.force_close()
        return response


class Site(web.BaseSite, ABC):
    """Where a server listens. A TLS handshake has `HANDSHAKE_S`, which aiohttp's sites cannot
    bound.
    """

    def __init__(self, runner: web.BaseRunner, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(runner, backlog=1024, ssl_context=tls)

    async def start(self) -> None:
        await super().start()
        server = self._runner.server
        assert server is not None  # noqa: S101 the base class asks for it
        options: dict[str, Any] = {"backlog": self._backlog}
        if self._ssl_context is not None:
            options |= {"ssl": self._ssl_context, "ssl_handshake_timeout": HANDSHAKE_S}
        self._server = await self.listen(server, options)

    @abstractmethod
    async def listen(self, server: web.Server, options: dict[str, Any]) -> asyncio.Server:
        """Begin, with *options* of asyncio's servers. Raises OSError."""


class TcpSite(Site):
    """Serves on a port."""

    def __init__(self, runner: web.BaseRunner, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(runner, tls)
        self._host = host
        self._port = port

    @property
    def name(self) -> str:
        return f"{'http' if self._ssl_context is None else 'https'}://{self._host}:{self._port}"

    async def listen(self, server: web.Server, options: dict[str, Any]) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(server, self._host, self._port, **options)


class UnixSocketSite(Site):
    """Serves on a Unix socket that is bound already, and that is its own from then on."""

    def __init__(self, runner: web.BaseRunner, bound: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(runner, tls)
        self._bound = bound

    @property
    def name(self) -> str:
        return f"http://unix:{self._bound.getsockname()}:"

    async def listen(self, server: web.Server, options: dict[str, Any]) -> asyncio.Server:
        return await asyncio.get_running_loop().create_unix_server(server, sock=self._bound, **options)


class QuietRunner(web.AppRunner):
    """Runs an application on a QuietServer."""

    def __init__(self, app: web.Application, malformed: Malformed, **options: Any) -> None:
        super().__init__(app, access_log=None, **options)
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
