"""One connection of aiohttp's server, with bounds that aiohttp does not have: on the time until the
first request and until a head is whole, and on the number of connections. A client of gRPC is
answered with the port of gRPC.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from gateway.common.http2_refusal import Http2Refusal

FIRST_REQUEST_S = 30.0
"""Until the headers of a connection's first request are whole, and from the first byte of any later
one. aiohttp has no such limit: clients without a key could take every connection and keep it."""
HTTP2_BEGINS = b"PRI "
"""No method of HTTP/1.1."""
MAX_UNREAD_BYTES: Final = 64 * 1024
"""Of answers over HTTP/2 that the client has not read."""
FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

Malformed = Callable[[web.BaseRequest, int], web.Response]
"""The answer to a request that cannot be parsed, and aiohttp's status for it; the
connection is closed behind it."""
ForGrpc = Callable[[str | None], str]
"""The text for a client that speaks gRPC here; given its address."""


class CountedServer(Protocol):
    """aiohttp's server, which counts its connections."""

    def opened(self, peer: str | None) -> bool:
        """Note one more connection; whether it is one too many."""

    def closed(self) -> None:
        """Note one less."""


def peer_of(transport: asyncio.BaseTransport | None) -> str | None:
    """Address without port; None on a Unix socket."""
    peer = None if transport is None else transport.get_extra_info("peername")
    return peer[0] if isinstance(peer, tuple) else None


class Connection(RequestHandler):
    """*options* are aiohttp's; *server* is aiohttp's too."""

    def __init__(self, server: Any, malformed: Malformed, for_grpc: ForGrpc, **options: Any) -> None:
        super().__init__(server, **options)
        self._server: CountedServer = server
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
