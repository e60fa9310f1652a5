"""One connection of a listener: our protocol, with aiohttp's handler behind it.

aiohttp reads and answers the requests, by its public interface alone. Here is what it does not
have: a bound on the time until a head is whole, an end to reading behind what is no HTTP, and a
body that goes on to arrive while the server stops. A client of gRPC is answered with the port of
gRPC.

Where the end of a request is known, what comes behind it waits here for its answer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import StreamReader, web

from gateway.common.http.arriving_body import has_left
from gateway.common.http.http2_refusal import Http2Refusal
from gateway.common.http.incoming import IncomingConnection, peer_of
from gateway.common.http.repeated_head import END

HEAD_S = 30.0
"""From the first byte of a request until its headers are whole. aiohttp has no such limit."""
HTTP2_BEGINS = b"PRI "
"""No method of HTTP/1.1."""
MAX_UNREAD_BYTES: Final = 64 * 1024
"""Of answers over HTTP/2 that the client has not read."""
MAX_BEHIND_BYTES: Final = 32 * 1024
"""With more behind a request, nothing is read until that is answered."""
CANCEL_S: Final = 0.5
"""For a request that outlasts a shutdown, to end once it is cancelled."""
MAX_FRUITLESS: Final = 32
"""Pieces of a body of which nothing reaches the body, one after the other: their coding is damaged,
and aiohttp notes an error for each.
"""

MAX_CHUNKS: Final = 4_096
CHUNK_BYTES: Final = 32
"""A body may have so many chunks, and one more for each 32 bytes: reading one costs about 1 µs,
however small it is.
"""
CHUNK_ENDS: Final = 2
"""Ends of lines in a chunk. Those within its data are counted too, which are few in any format that
is taken."""

Handle = Callable[[Any], Awaitable[web.StreamResponse]]
Malformed = Callable[[web.BaseRequest, int], web.Response]
"""The answer to a request that cannot be parsed, and aiohttp's status for it; the
connection is closed behind it."""
ForGrpc = Callable[[str | None], str]
"""The text for a client that speaks gRPC here; given its address."""
MakeHandler = Callable[["Connection"], "AiohttpHandler"]


class AiohttpHandler(web.RequestHandler):
    """aiohttp's handler of *connection*. *options* are aiohttp's; *server* is aiohttp's too."""

    __slots__ = ("connection", "malformed")

    def __init__(self, connection: "Connection", malformed: Malformed, server: web.Server, **options: Any) -> None:
        super().__init__(server, **options)
        self.connection, self.malformed = connection, malformed

    def admitted(self) -> None:
        """A request was admitted."""
        self.connection.admitted()

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
        self.connection.ends_reading()
        if request.writer.output_size > 0:
            raise ConnectionError("an answer is under way already")
        response = self.malformed(request, status)
        response.force_close()
        return response


class Written(web.StreamResponse):
    """What aiohttp is handed for an answer that was written already."""

    def __init__(self, *, keeps_alive: bool) -> None:
        super().__init__()
        self.stays_open = keeps_alive

    @property
    def keep_alive(self) -> bool:
        return self.stays_open

    async def prepare(self, request: web.BaseRequest) -> None:
        """Nothing is left to write."""

    async def write_eof(self, data: bytes = b"") -> None:
        """As `prepare`."""


WRITTEN: Final = {keeps_alive: Written(keeps_alive=keeps_alive) for keeps_alive in (True, False)}


class Connection(asyncio.Protocol):
    """*make_handler* makes aiohttp's handler of it; *opened* is where it is noted while it is open
    or a request of it is under way.
    """

    incoming: IncomingConnection | None = None
    """None where a test makes a connection of its own."""

    def __init__(self, make_handler: MakeHandler, opened: "set[Connection]", for_grpc: ForGrpc) -> None:
        self.transport: asyncio.Transport | None = None
        self.is_busy = False
        """A request is under way."""
        self._loop = asyncio.get_running_loop()
        self._handler: AiohttpHandler | None = make_handler(self)
        """None when the connection is lost, and its last request ended."""
        self._opened = opened
        self._for_grpc = for_grpc
        self._http2: Http2Refusal | None = None
        self._is_begun = self._is_closing = False
        self._is_over = False
        """What came is no HTTP: nothing behind it is read."""
        self._content: StreamReader | None = None
        """The body that aiohttp is at, until it is whole and its request answered."""
        self._fruitless = 0
        """Pieces of that body, since the last one of which something reached it."""
        self.has_small_chunks = False
        """The body that is under way has so many that the rest of it is not read."""
        self._is_chunked = False
        self._chunk_bytes = self._line_ends = 0
        """Of that body so far, as it was sent."""
        self._behind = b""
        """What came behind the request that is under way."""
        self._is_paused = False
        self._partial: asyncio.TimerHandle | None = None
        self._finished: asyncio.Future[None] | None = None

    # ---- asyncio's

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._opened.add(self)
        if self._handler is not None:
            self._handler.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over, self.transport, self._behind = True, None, b""
        self._stop_watch()
        if self._handler is not None:
            self._handler.connection_lost(exc)
        if not self.is_busy:
            if self._content is not None:
                self._content.feed_eof()  # aiohttp would wait for the rest of it, with all that the request holds
            self._forget()

    def _forget(self) -> None:
        """Else it would wait for the garbage collector: these refer to it."""
        self._opened.discard(self)
        self._handler = self._content = None

    def data_received(self, data: bytes) -> None:
        if not self._is_begun:
            self._is_begun = True
            if data.startswith(HTTP2_BEGINS):
                self._http2 = Http2Refusal(self._for_grpc(peer_of(self.transport)))
        if self._is_over:
            return
        if self._http2 is not None:
            self._answer_http2(self._http2, data)
        elif self._behind:
            self._wait(data)
        elif self._content is not None and not self._content.is_eof():
            self._receive_body(self._content, data)
        elif self.is_busy and self._is_alone:
            self._wait(data)
        elif not self._is_closing:
            self._pass_on(data)
            if self._partial is None and not self.is_busy and not begins_with_a_head(data):
                self._watch_head()

    def eof_received(self) -> bool | None:
        return None

    def pause_writing(self) -> None:
        if self._handler is not None:
            self._handler.pause_writing()

    def resume_writing(self) -> None:
        if self._handler is not None:
            self._handler.resume_writing()

    # ---- what comes

    @property
    def _is_alone(self) -> bool:
        """aiohttp was given nothing behind the request that is under way. Else what comes is given
        to aiohttp, which bounds how many it reads ahead.
        """
        return False

    def _pass_on(self, data: bytes) -> None:
        if self._handler is not None:
            self._handler.data_received(data)

    def _receive_body(self, content: StreamReader, data: bytes) -> None:
        """More of a body that is under way, also while the server stops."""
        if self._is_closing and not self.is_busy:
            return
        had_bytes = content.total_bytes
        self._pass_on(data)
        if not content.is_eof():
            self._fruitless = 0 if content.total_bytes > had_bytes else self._fruitless + 1
            self._is_over = self._fruitless >= MAX_FRUITLESS
            if self._is_chunked:
                self._count_chunks(data)
        elif not self.is_busy:
            self._content = None
        elif self._is_closing:
            self._close_handler()

    def _count_chunks(self, data: bytes) -> None:
        self._chunk_bytes += len(data)
        self._line_ends += data.count(b"\r\n")
        if self._line_ends > CHUNK_ENDS * (MAX_CHUNKS + self._chunk_bytes // CHUNK_BYTES):
            self._is_over = self.has_small_chunks = True

    def _wait(self, data: bytes) -> None:
        self._behind += data
        if len(self._behind) > MAX_BEHIND_BYTES and self.transport is not None:
            self._is_paused = True
            self.transport.pause_reading()

    def _go_on(self) -> None:
        """With what came behind a request that is answered now."""
        if self._is_paused and self.transport is not None:
            self._is_paused = False
            self.transport.resume_reading()
        data, self._behind = self._behind, b""
        if data:
            self.data_received(data)

    def _answer_http2(self, refusal: Http2Refusal, data: bytes) -> None:
        transport = self.transport
        if transport is None:
            return
        transport.write(refusal.feed(data))
        if transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            transport.abort()
        elif refusal.is_over:
            transport.close()

    def _watch_head(self) -> None:
        """Headers that began must become whole."""
        if self.transport is not None:
            self._partial = self._loop.call_later(HEAD_S, self.force_close)

    def _stop_watch(self) -> None:
        if self._partial is not None:
            self._partial.cancel()
            self._partial = None

    # ---- its requests

    async def handle(self, request: web.BaseRequest, handler: Handle) -> web.StreamResponse:
        """Answer a request that aiohttp read."""
        self.began(request)
        keeps_alive = False
        try:
            response = await handler(request)
            await response.prepare(request)
            await response.write_eof()
            keeps_alive = bool(response.keep_alive)
        except ConnectionError as error:
            if not has_left(request):
                raise
            error.__traceback__ = None  # the body keeps the error, which would keep the connection
        finally:
            self.ended(keeps_alive=keeps_alive)
        return WRITTEN[keeps_alive]

    def began(self, request: web.BaseRequest) -> None:
        """A request's head is whole."""
        self._stop_watch()
        self.is_busy, self._content, self._fruitless = True, request.content, 0
        self._is_chunked = "Transfer-Encoding" in request.headers
        self._chunk_bytes = self._line_ends = 0

    def ended(self, *, keeps_alive: bool) -> None:
        """The answer was written, and the connection stays open where that *keeps_alive*."""
        self.is_busy = False
        if self._finished is not None and not self._finished.done():
            self._finished.set_result(None)
        if self._content is not None and self._content.is_eof():
            self._content = None
        if self._is_closing or not keeps_alive:
            self._behind = b""
        if self.transport is None:
            self._forget()
        elif self._is_closing:
            self._close_handler()
        elif self._behind:
            self._loop.call_soon(self._go_on)

    def ends_reading(self) -> None:
        """What came is no HTTP, or made the server fail."""
        self._is_over, self._behind = True, b""
        self._stop_watch()

    def admitted(self) -> None:
        """A request was admitted."""
        if self.incoming is not None and not self.incoming.is_admitted:
            self.incoming.admitted()

    def rejected(self) -> None:
        """A request showed no key that is accepted."""
        if self.incoming is not None:
            self.incoming.rejected()

    # ---- its end

    def close(self) -> None:
        """Take no further request; the one that is under way is answered."""
        self._is_closing = True
        if not self.is_busy or self._content is None or self._content.is_eof():
            self._close_handler()

    async def shutdown(self, timeout_s: float | None) -> None:
        """Close it; a request that is under way has *timeout_s* to end."""
        self.close()
        if self.is_busy:
            self._finished = self._loop.create_future()
            await asyncio.wait([self._finished], timeout=timeout_s)
        is_late, self._finished = self.is_busy, None
        if is_late:
            self.cancel()
        if self._handler is not None:
            await self._handler.shutdown(CANCEL_S if is_late else timeout_s)

    def cancel(self) -> None:
        """End a request that is under way, and that aiohttp knows nothing of."""

    def force_close(self) -> None:
        """Close it without an answer."""
        if self._handler is not None:
            self._handler.force_close()

    def _close_handler(self) -> None:
        if self._handler is not None:
            self._handler.close()


def begins_with_a_head(data: bytes) -> bool:
    """Whether *data*, with which a request begins, has its whole head or is no HTTP. Empty lines
    may stand before a head.
    """
    return data[:1].isalpha() and END in data


def connection_of(request: web.BaseRequest) -> Connection | None:
    """None for a request of no listener of ours."""
    protocol: object = request.protocol
    if isinstance(protocol, AiohttpHandler):
        return protocol.connection
    return protocol if isinstance(protocol, Connection) else None


def note_admitted(request: web.BaseRequest) -> None:
    """*request* showed a key or a session that is accepted."""
    connection = connection_of(request)
    if connection is not None:
        connection.admitted()


def note_rejected(request: web.BaseRequest) -> None:
    """*request* showed no key that is accepted."""
    connection = connection_of(request)
    if connection is not None:
        connection.rejected()
