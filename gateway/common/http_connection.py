"""One connection of aiohttp's server, with a bound that aiohttp does not have, on the time until a
head is whole. A client of gRPC is answered with the port of gRPC.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from aiohttp import web
from aiohttp.http import HttpProcessingError
from aiohttp.web_protocol import RequestHandler, _ErrInfo

from gateway.common.http2_refusal import Http2Refusal
from gateway.common.incoming import IncomingConnection, peer_of

HEAD_S = 30.0
"""From the first byte of a request until its headers are whole. aiohttp has no such limit."""
HTTP2_BEGINS = b"PRI "
"""No method of HTTP/1.1."""
MAX_UNREAD_BYTES: Final = 64 * 1024
"""Of answers over HTTP/2 that the client has not read."""

Malformed = Callable[[web.BaseRequest, int], web.Response]
"""The answer to a request that cannot be parsed, and aiohttp's status for it; the
connection is closed behind it."""
ForGrpc = Callable[[str | None], str]
"""The text for a client that speaks gRPC here; given its address."""


class Connection(RequestHandler):
    """*options* are aiohttp's; *server* is aiohttp's too."""

    incoming: IncomingConnection | None = None
    """None where a test makes a connection of its own."""

    def __init__(self, server: Any, malformed: Malformed, for_grpc: ForGrpc, **options: Any) -> None:
        super().__init__(server, **options)
        self._malformed = malformed
        self._for_grpc = for_grpc
        self._http2: Http2Refusal | None = None
        self._is_begun = False
        self._is_malformed = False
        """What came is no HTTP: nothing behind it is read. aiohttp would note an error for each
        further piece, and keep them all while it waits for the end of a request.
        """
        self._partial: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._partial is not None:
            self._partial.cancel()
        task, is_answered = self._task_handler, self._current_request is None
        super().connection_lost(exc)
        if task is not None and is_answered:
            task.cancel()  # it would wait for the rest of a body that no one sends, with all it holds

    def admitted(self) -> None:
        """A request was admitted."""
        if self.incoming is not None and not self.incoming.is_admitted:
            self.incoming.admitted()

    def rejected(self) -> None:
        """A request showed no key that is accepted."""
        if self.incoming is not None:
            self.incoming.rejected()

    def data_received(self, data: bytes) -> None:
        if not self._is_begun:
            self._is_begun = True
            if data.startswith(HTTP2_BEGINS):
                self._http2 = Http2Refusal(self._for_grpc(peer_of(self.transport)))
        if self._is_malformed:
            return
        if self._http2 is None and (self._close or self._force_close):
            self._receive_rest(data)
        elif self._http2 is None:
            super().data_received(data)
            self._is_malformed = bool(self._messages) and isinstance(self._messages[-1][0], _ErrInfo)
            self._watch_head()
        elif self.transport is not None:
            self._answer_http2(self._http2, self.transport, data)

    def _receive_rest(self, data: bytes) -> None:
        """Of a body that is under way while the server stops: aiohttp passes over what comes."""
        request = self._current_request
        if request is None or self._parser is None or request.content.is_eof():
            return
        try:
            self._parser.feed_data(data)
        except HttpProcessingError:
            self.force_close()

    def _answer_http2(self, refusal: Http2Refusal, transport: asyncio.Transport, data: bytes) -> None:
        transport.write(refusal.feed(data))
        if transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            transport.abort()
        elif refusal.is_over:
            transport.close()

    def _watch_head(self) -> None:
        """Headers that began must become whole."""
        is_partial = not self._request_count if self._waiter is None else not self._waiter.done()
        if is_partial and self._partial is None:
            self._partial = self._loop.call_later(HEAD_S, self.force_close)
        elif not is_partial and self._partial is not None:
            self._partial.cancel()
            self._partial = None

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to a request that is no HTTP, which quotes none of its bytes."""
        if exc is not None:
            exc.__traceback__ = None  # it refers to this connection, and would wait for the garbage collector
        if request.writer.output_size > 0:
            raise ConnectionError("an answer is under way already")
        response = self._malformed(request, status)
        response.force_close()
        return response


def note_admitted(request: web.BaseRequest) -> None:
    """*request* showed a key or a session that is accepted."""
    if isinstance(request.protocol, Connection):
        request.protocol.admitted()


def note_rejected(request: web.BaseRequest) -> None:
    """*request* showed no key that is accepted."""
    if isinstance(request.protocol, Connection):
        request.protocol.rejected()
