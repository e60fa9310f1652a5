"""A connection that handles a request whose head repeats the one before it without a second look by
the HTTP parser, and without a task.

aiohttp parses each head anew, wakes the connection's own task, and starts another one for the
request. Here small requests are taken together with those that other connections brought in the
same iteration of the loop (`repeated_requests`). Of others the handler runs at once, in the
callback that brought the bytes, up to what it waits for (the commit), and goes on when that is
done. Whatever is not exactly one whole request with the known head takes aiohttp's way: another
head, a body that is still to come, requests in a pipeline. While a request is handled, aiohttp's
task finds no next one, as if it handled it itself.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, copy_context
from time import perf_counter
from typing import Any, Final, NamedTuple, cast

from aiohttp import StreamReader, web
from aiohttp.http import StreamWriter
from aiohttp.http_parser import RawRequestMessage

from gateway.common.http_connection import Connection
from gateway.common.incoming import peer_of
from gateway.common.repeated_head import RepeatedHead, learned, size_of
from gateway.common.repeated_requests import MAX_BODY_BYTES, Handler, HeadKey, RepeatedRequests

MAX_LEARNED: Final = 8
"""Heads of one connection. A sender whose heads all differ is not looked at for longer."""
MAX_UNSENT_BYTES: Final = 64 * 1024
"""Of answers on one connection: with more, the next one waits for the client to read."""

Handling = Coroutine[Any, Any, tuple[web.StreamResponse, bool]]
"""aiohttp's handling of one request, to the end of its answer; and whether the sender went away."""


class WholeBody:
    """What a handler and aiohttp ask of a `StreamReader` whose body is whole."""

    __slots__ = ("_body",)

    def __init__(self, body: bytes) -> None:
        self._body = body

    def is_eof(self) -> bool:
        return True

    def read_nowait(self) -> bytes:
        return self._body

    def set_exception(self, *_: object) -> None:
        """Nothing waits for more of it."""


class _Waiting(NamedTuple):
    """A request that is to be taken with others."""

    head: RepeatedHead
    peer: str | None
    digits: bytes
    body: bytes
    began_s: float


class RepeatingConnection(Connection):
    """*is_direct*: whether requests for a raw target need no task of their own, as a timeout or a
    cancellation would. *together*: takes those that come at the same time, where that is.
    """

    def __init__(
        self, is_direct: Callable[[str], bool], together: RepeatedRequests | None, *args: Any, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self._is_direct = is_direct
        self._together = together
        self._head: RepeatedHead | None = None
        self._key: HeadKey | None = None
        """Of requests with that head; None where they are not taken together."""
        self._learned = 0
        self._missing_bytes: int | None = 0
        """Of the request that the parser is at; 0 between two, None once that is not known."""
        self._waiting: _Waiting | None = None
        self._handling: Handling | None = None
        self._context: Context | None = None
        self._idle: asyncio.Future[None] | None = None
        """On what aiohttp's task waits, while a request is handled here."""

    def data_received(self, data: bytes) -> None:
        waiter, head = self._waiter, self._head
        if (
            head is None
            or waiter is None
            or waiter.done()
            or self._missing_bytes != 0
            or self._close
            or self._force_close
        ):
            self._pass_on(data)
            return
        found = head.request_in(data)
        if found is None:
            self._pass_on(data)
        else:
            self._begin(waiter, head, *found)

    def _pass_on(self, data: bytes) -> None:
        """To the parser; note where it then stands, and the head that it read."""
        known = len(self._messages)
        super().data_received(data)
        if self._missing_bytes is None or (not data and len(self._messages) == known):  # aiohttp asks for buffered ones
            return
        if self._missing_bytes:
            missing = self._missing_bytes - len(data)
            self._missing_bytes = missing if missing >= 0 else None
            return
        message = self._messages[0][0] if known == 0 and len(self._messages) == 1 else None
        size = size_of(data, message) if isinstance(message, RawRequestMessage) else None
        self._missing_bytes = None if size is None or size < len(data) else size - len(data)
        if size == len(data) and self._learned < MAX_LEARNED and isinstance(message, RawRequestMessage):
            self._learned += 1
            self._learn(learned(data, message) if self._is_direct(message.path) else None)

    def _learn(self, head: RepeatedHead | None) -> None:
        self._head, self._key = head, None
        if head is not None and self._together is not None and self._together.takes(head.message):
            self._key = HeadKey(head.before, head.after, peer_of(self.transport))

    def _begin(self, waiter: "asyncio.Future[None]", head: RepeatedHead, digits: bytes, body: bytes) -> None:
        """Take a request with others, or handle it up to what it waits for."""
        manager = self._manager
        assert manager is not None  # noqa: S101 as long as the connection is open
        self._idle, self._waiter = waiter, None
        self._request_count += 1
        manager.requests_count += 1
        if self._together is None or self._key is None or len(body) > MAX_BODY_BYTES:
            self._handle(head.message_with(digits), body, self._request_handler)
        else:
            self._waiting = _Waiting(head, self._key.peer, digits, body, perf_counter())
            self._together.add(self, self._key, len(body))

    # ---- a request that is taken with others

    @property
    def message(self) -> RawRequestMessage:
        assert self._waiting is not None  # noqa: S101 `RepeatedRequest` ends with its answer
        return self._waiting.head.message

    @property
    def body(self) -> bytes:
        assert self._waiting is not None  # noqa: S101 as above
        return self._waiting.body

    @property
    def peer(self) -> str | None:
        assert self._waiting is not None  # noqa: S101 as above
        return self._waiting.peer

    @property
    def began_s(self) -> float:
        assert self._waiting is not None  # noqa: S101 as above
        return self._waiting.began_s

    def answer(self, answer: bytes) -> bool:
        transport = self.transport
        is_there = transport is not None and not transport.is_closing()
        if transport is not None and is_there:
            if transport.get_write_buffer_size() >= MAX_UNSENT_BYTES:
                return False
            transport.write(answer)
        self._waiting = None
        if self._idle is not None:  # else it took longer than a shutdown may
            self._end(keeps_alive=is_there)
        return True

    def handle(self, handler: Handler | None = None) -> bool:
        waiting, self._waiting = self._waiting, None
        if self._idle is None:
            return False
        if waiting is None or self._manager is None:
            self._end(keeps_alive=False)
            return False
        self._handle(waiting.head.message_with(waiting.digits), waiting.body, handler or self._request_handler)
        return True

    # ---- a request that is handled by itself

    def _handle(self, message: RawRequestMessage, body: bytes, handler: Handler | None) -> None:
        """Handle a request up to what it waits for."""
        factory, task = self._request_factory, self._task_handler
        assert factory is not None  # noqa: S101 as long as the connection is open
        assert handler is not None  # noqa: S101 as above
        payload = cast("StreamReader", WholeBody(body))
        request = factory(message, payload, self, StreamWriter(self, self._loop), cast("asyncio.Task[None]", task))
        self._handling = self._handle_request(request, None, handler)
        self._context = copy_context()
        self._context.run(self._go_on)

    def _go_on(self, _: object = None) -> None:
        """The next step of the handling; *_* is what it waited for."""
        handling = self._handling
        if handling is None:  # cancelled
            return
        try:
            waits_for = handling.send(None)
        except StopIteration as end:
            response, is_gone = end.value
            self._end(keeps_alive=bool(response.keep_alive) and not is_gone)
        except (ConnectionError, asyncio.CancelledError):
            self._end(keeps_alive=False)
        except BaseException:
            self._end(keeps_alive=False)
            raise
        else:
            self._wait_for(waits_for)

    def _wait_for(self, awaited: "asyncio.Future[Any] | None") -> None:
        """Go on when *awaited* is done; None is the next turn of the loop."""
        if awaited is None:
            self._loop.call_soon(self._go_on, context=self._context)
        else:
            awaited._asyncio_future_blocking = False  # noqa: SLF001 as a task does: it was yielded to be awaited
            awaited.add_done_callback(self._go_on, context=self._context)

    def _end(self, *, keeps_alive: bool) -> None:
        """Behind the answer: wait for the next request, or close, as aiohttp's task would."""
        idle, self._idle, self._handling, self._context = self._idle, None, None, None
        assert idle is not None  # noqa: S101 since `_begin`
        self._keepalive = keeps_alive
        if not keeps_alive or self._close or self._force_close:
            idle.cancel()
            if self.transport is not None and not self._force_close:
                self.transport.close()
            return
        self._waiter = idle
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        if self._keepalive_handle is None:
            self._keepalive_handle = self._loop.call_at(self._next_keepalive_close_time, self._process_keepalive)
        if self._messages:
            idle.set_result(None)

    async def shutdown(self, timeout: float | None = 15.0) -> None:  # noqa: ASYNC109 - aiohttp's signature
        await super().shutdown(timeout)
        handling = self._handling
        if handling is not None:  # it took longer than the shutdown may
            with suppress(asyncio.CancelledError, Exception):
                handling.throw(asyncio.CancelledError())
        if self._idle is not None:
            self._end(keeps_alive=False)
