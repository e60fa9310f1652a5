"""A connection that handles a request whose head repeats the one before it without a second look by
the HTTP parser, and without a task.

aiohttp parses each head anew, wakes the connection's own task, and starts another one for the
request. Here the handler runs at once, in the callback that brought the bytes, up to what it waits
for (the commit), and goes on when that is done. Whatever is not exactly one whole request with the
known head takes aiohttp's way: another head, a body that is still to come, requests in a pipeline.
While a request is handled, aiohttp's task finds no next one, as if it handled it itself.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, Final, cast

from aiohttp import StreamReader, web
from aiohttp.http import StreamWriter
from aiohttp.http_parser import RawRequestMessage

from gateway.common.http_connection import Connection
from gateway.common.repeated_head import RepeatedHead, learned, size_of

MAX_LEARNED: Final = 8
"""Heads of one connection. A sender whose heads all differ is not looked at for longer."""

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


class RepeatingConnection(Connection):
    """*is_direct*: whether requests for a raw target need no task of their own, as a timeout or a
    cancellation would.
    """

    def __init__(self, is_direct: Callable[[str], bool], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._is_direct = is_direct
        self._head: RepeatedHead | None = None
        self._learned = 0
        self._missing_bytes: int | None = 0
        """Of the request that the parser is at; 0 between two, None once that is not known."""
        self._handling: Handling | None = None
        self._context: Context | None = None
        self._idle: asyncio.Future[None] | None = None
        """On what aiohttp's task waits, while a request is handled here."""

    def data_received(self, data: bytes) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done() or self._missing_bytes != 0 or self._close or self._force_close:
            self._pass_on(data)
            return
        found = None if self._head is None else self._head.request_in(data)
        if found is None:
            self._pass_on(data)
        else:
            self._begin(waiter, *found)

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
            self._head = learned(data, message) if self._is_direct(message.path) else None

    def _begin(self, waiter: "asyncio.Future[None]", message: RawRequestMessage, body: bytes) -> None:
        """Handle a request up to what it waits for."""
        manager, factory, task = self._manager, self._request_factory, self._task_handler
        assert manager is not None  # noqa: S101 as long as the connection is open
        assert factory is not None  # noqa: S101 as above
        assert self._request_handler is not None  # noqa: S101 as above
        self._idle, self._waiter = waiter, None
        self._request_count += 1
        manager.requests_count += 1
        payload = cast("StreamReader", WholeBody(body))
        request = factory(message, payload, self, StreamWriter(self, self._loop), cast("asyncio.Task[None]", task))
        self._handling = self._handle_request(request, None, self._request_handler)
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
            self._end(*end.value)
        except (ConnectionError, asyncio.CancelledError):
            self._end(None, is_gone=True)
        except BaseException:
            self._end(None, is_gone=True)
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

    def _end(self, response: web.StreamResponse | None, is_gone: bool) -> None:  # noqa: FBT001 - aiohttp's own pair
        """Behind the answer: wait for the next request, or close, as aiohttp's task would."""
        idle, self._idle, self._handling, self._context = self._idle, None, None, None
        assert idle is not None  # noqa: S101 since `_begin`
        self._keepalive = response is not None and bool(response.keep_alive)
        if is_gone or not self._keepalive or self._close or self._force_close:
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
            self._end(None, is_gone=True)
