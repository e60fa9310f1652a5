"""A connection that handles a request whose head repeats the one before it by itself: without the
HTTP parser, and without a task.

aiohttp parses each head again, wakes the connection's own task, and starts another one for the
request. Here small requests are taken together with those that other connections brought in the
same iteration of the loop (`repeated_requests`). Of others the handler runs at once, in the
callback that brought the bytes, up to what it waits for (the commit), and goes on when that is
done. Whatever is not exactly one whole request with the known head goes to aiohttp: another head, a
body that is still to come, requests in a pipeline.

aiohttp is left out only between two requests: all that it was given was one whole request, whose
answer it wrote. Of the requests that are handled here it knows nothing, so the time without a
request is measured here too.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, copy_context
from time import perf_counter
from typing import Any, Final, NamedTuple, cast

from aiohttp import HttpVersion11, web
from multidict import CIMultiDictProxy

from gateway.common.http.http_connection import Connection, Handle
from gateway.common.http.incoming import peer_of
from gateway.common.http.repeated_head import RepeatedHead, learned, size_of
from gateway.common.http.repeated_requests import MAX_BODY_BYTES, Handler, HeadKey, RepeatedRequests
from gateway.common.response_bytes import bytes_of

MAX_LEARNED: Final = 8
"""Heads of one connection. A sender whose heads all differ is not looked at for longer."""
MAX_UNSENT_BYTES: Final = 64 * 1024
"""Of answers on one connection: with more, the next one waits for the client to read."""


class WholeBody:
    """What a handler asks of a `StreamReader` whose body is whole."""

    __slots__ = ("_body",)

    def __init__(self, body: bytes) -> None:
        self._body = body

    def is_eof(self) -> bool:
        return True

    def read_nowait(self) -> bytes:
        return self._body


class RepeatedMessage:
    """A request whose head repeats one that is known: what handlers ask of aiohttp's."""

    __slots__ = ("content", "content_length", "headers", "protocol", "raw_path", "remote")
    method: Final = "POST"
    version: Final = HttpVersion11
    keep_alive: Final = True

    def __init__(
        self, connection: Connection, target: str, headers: CIMultiDictProxy[str], peer: str | None, body: bytes
    ) -> None:
        self.protocol = connection
        self.raw_path, self.headers, self.remote = target, headers, peer
        self.content, self.content_length = WholeBody(body), len(body)

    @property
    def transport(self) -> asyncio.Transport | None:
        return self.protocol.transport


class _Waiting(NamedTuple):
    """A request that is to be taken with others."""

    head: RepeatedHead
    digits: bytes
    body: bytes
    began_s: float


class RepeatingConnection(Connection):
    """*handler* answers requests. *is_direct*: whether those for a raw target need no task of their
    own, as a timeout or a cancellation would. *together*: takes those that come at the same time,
    where that is. *keep_alive_s*: until it is closed without a request.
    """

    def __init__(
        self,
        *args: Any,
        handler: Handle,
        is_direct: Callable[[str], bool],
        together: RepeatedRequests | None,
        keep_alive_s: float,
    ) -> None:
        super().__init__(*args)
        self._direct = handler
        self._is_direct = is_direct
        self._together = together
        self._head: RepeatedHead | None = None
        self._key: HeadKey | None = None
        """Of requests with that head; None where they are not taken together."""
        self._learned = 0
        self._is_between = True
        """aiohttp has nothing to do, and the next byte begins a request."""
        self._piece = b""
        """With which the request began that aiohttp reads the head of."""
        self._passed_bytes = 0
        """To aiohttp, since it had nothing to do."""
        self._size: int | None = None
        """Of that request; None where it is not known."""
        self._waiting: _Waiting | None = None
        self._handling: Coroutine[Any, Any, web.StreamResponse] | None = None
        self._context: Context | None = None
        self._is_unread = False
        """The client does not read what is written."""
        self._keeps_alive: bool | None = None
        """Set behind an answer that it is still to read: whether the connection stays open."""
        self._keep_alive_s = keep_alive_s
        self._idle_s = 0.0
        """Since when it waits for a request."""
        self._idle: asyncio.TimerHandle | None = None

    # ---- asyncio's

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._note_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._idle is not None:
            self._idle.cancel()
        super().connection_lost(exc)
        self._read_by_client()  # no one waits for that any longer

    def data_received(self, data: bytes) -> None:
        head = self._head
        if self._is_between and head is not None and not self._is_closing and not self._behind:
            found = head.request_in(data)
            if found is not None:
                self._begin(head, *found)
                return
        super().data_received(data)

    def pause_writing(self) -> None:
        self._is_unread = True
        super().pause_writing()

    def resume_writing(self) -> None:
        self._is_unread = False
        super().resume_writing()
        self._read_by_client()

    # ---- what aiohttp reads

    @property
    def _is_alone(self) -> bool:
        return self._size == self._passed_bytes

    def _pass_on(self, data: bytes) -> None:
        if self._is_between:
            self._is_between, self._piece, self._passed_bytes = False, data, len(data)
        else:
            self._passed_bytes += len(data)
        if self._handler is not None:
            self._handler.data_received(data)

    def began(self, request: web.BaseRequest) -> None:
        super().began(request)
        piece, self._piece = self._piece, b""
        self._size = size_of(piece, request)
        if self._size == len(piece) == self._passed_bytes and self._learned < MAX_LEARNED:
            self._learned += 1
            self._learn(learned(piece, request) if self._is_direct(request.raw_path) else None)

    def _learn(self, head: RepeatedHead | None) -> None:
        self._head, self._key = head, None
        if head is not None and self._together is not None and self._together.takes(head):
            self._key = HeadKey(head.before, head.after, peer_of(self.transport))

    def ended(self, *, keeps_alive: bool) -> None:
        self._is_between = keeps_alive and self._is_alone
        self._note_idle()
        super().ended(keeps_alive=keeps_alive)

    # ---- the time without a request

    def _note_idle(self) -> None:
        self._idle_s = self._loop.time()
        if self._idle is None and self.transport is not None:
            self._idle = self._loop.call_later(self._keep_alive_s, self._look)

    def _look(self) -> None:
        self._idle = None
        left_s = self._idle_s + self._keep_alive_s - self._loop.time()
        if self.is_busy:
            return  # it is noted again when that ends
        if left_s > 0:
            self._idle = self._loop.call_later(left_s, self._look)
        else:
            self.force_close()

    # ---- what is handled here

    def _begin(self, head: RepeatedHead, digits: bytes, body: bytes) -> None:
        """Take a request with others, or handle it up to what it waits for."""
        self._is_between, self.is_busy, self._size = False, True, self._passed_bytes
        if self._together is None or self._key is None or len(body) > MAX_BODY_BYTES:
            self._handle(head, digits, body, self._direct)
        else:
            self._waiting = _Waiting(head, digits, body, perf_counter())
            self._together.add(self, self._key, len(body))

    def _end(self, *, keeps_alive: bool) -> None:
        """Behind the answer: wait for the next request, or close."""
        if not self.is_busy:  # it took longer than a shutdown may
            return
        if keeps_alive and self._is_unread and self.transport is not None:
            self._keeps_alive = True
            return
        self._handling = self._context = None
        is_closing = self._is_closing or not keeps_alive
        self.ended(keeps_alive=not is_closing)
        if is_closing and self.transport is not None:
            self.transport.close()

    def _read_by_client(self) -> None:
        if self._keeps_alive is not None:
            self._keeps_alive = None
            self._end(keeps_alive=self.transport is not None)

    def _write(self, answer: bytes) -> bool:
        """False where the client went away."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return False
        transport.write(answer)
        return True

    def cancel(self) -> None:
        handling = self._handling
        if handling is not None:
            with suppress(asyncio.CancelledError, Exception):
                handling.throw(asyncio.CancelledError())
        self._keeps_alive = None
        if handling is not None or self._waiting is not None:
            self._end(keeps_alive=False)

    # ---- a request that is taken with others

    @property
    def head(self) -> RepeatedHead:
        assert self._waiting is not None  # noqa: S101 `RepeatedRequest` ends with its answer
        return self._waiting.head

    @property
    def body(self) -> bytes:
        assert self._waiting is not None  # noqa: S101 as above
        return self._waiting.body

    @property
    def peer(self) -> str | None:
        assert self._key is not None  # noqa: S101 as above
        return self._key.peer

    @property
    def began_s(self) -> float:
        assert self._waiting is not None  # noqa: S101 as above
        return self._waiting.began_s

    def answer(self, answer: bytes) -> None:
        self._waiting = None
        self._end(keeps_alive=self._write(answer))

    def handle_alone(self, handler: Handler | None = None) -> bool:
        waiting, self._waiting = self._waiting, None
        if waiting is None or not self.is_busy:  # the latter as in `_end`
            return False
        if self.transport is None:
            self._end(keeps_alive=False)
            return False
        self._handle(waiting.head, waiting.digits, waiting.body, handler or self._direct)
        return True

    # ---- a request that is handled by itself

    def _handle(self, head: RepeatedHead, digits: bytes, body: bytes, handler: Handler) -> None:
        """Handle a request up to what it waits for."""
        peer = peer_of(self.transport) if self._key is None else self._key.peer
        message = RepeatedMessage(self, head.target, head.headers_with(digits), peer, body)
        self._handling = cast("Coroutine[Any, Any, web.StreamResponse]", handler(cast("web.BaseRequest", message)))
        self._context = copy_context()
        self._context.run(self._step)

    def _step(self, _: object = None) -> None:
        """The next step of the handling; *_* is what it waited for."""
        handling = self._handling
        if handling is None:  # cancelled
            return
        try:
            waits_for = handling.send(None)
        except StopIteration as end:
            self._answer(end.value)
        except (ConnectionError, asyncio.CancelledError):
            self._end(keeps_alive=False)
        except BaseException:
            self._end(keeps_alive=False)
            raise
        else:
            self._wait_for(waits_for)

    def _answer(self, response: web.StreamResponse) -> None:
        keeps_alive = False
        try:
            keeps_alive = self._write(bytes_of(response)) and response.keep_alive is not False
        finally:
            self._end(keeps_alive=keeps_alive)

    def _wait_for(self, awaited: "asyncio.Future[Any] | None") -> None:
        """Go on when *awaited* is done; None is the next turn of the loop."""
        if awaited is None:
            self._loop.call_soon(self._step, context=self._context)
        else:
            awaited._asyncio_future_blocking = False  # noqa: SLF001 as a task does: it was yielded to be awaited
            awaited.add_done_callback(self._step, context=self._context)
