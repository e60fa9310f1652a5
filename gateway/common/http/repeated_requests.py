"""Requests with one head that came in one iteration of the event loop, and are taken together when
it ends, so that what they share is decided once. While requests keep coming, they wait for more, as
their commit would (`spool.commit_delay`): taking them costs more than committing them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, Protocol

from aiohttp import web

from gateway.common.http.repeated_head import RepeatedHead
from spool.commit_delay import CommitDelay

MAX_BODY_BYTES: Final = 16 * 1024
"""Taking a larger body costs so much that sharing the rest saves little."""
MAX_REQUESTS: Final = 128
MAX_BYTES: Final = 256 * 1024
"""Of the bodies that are taken together, which bounds how long the event loop is busy with them."""

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class HeadKey(NamedTuple):
    """Equal for requests that differ in nothing but their bodies."""

    before: bytes
    """The head up to the digits of `Content-Length`."""
    after: bytes
    peer: str | None
    """Address without port; None on a Unix socket."""


class RepeatedRequest(Protocol):
    """One request that is to be taken with others, until it is answered or handled."""

    @property
    def head(self) -> RepeatedHead:
        """Of a request that this one repeats: `Content-Length` may differ."""

    @property
    def peer(self) -> str | None:
        """As `HeadKey` has it."""

    @property
    def body(self) -> bytes:
        """As it came."""

    @property
    def began_s(self) -> float:
        """When it came, of `time.perf_counter`."""

    def admitted(self) -> None:
        """Note that its key was accepted."""

    def answer(self, answer: bytes) -> None:
        """Send the whole *answer*."""

    def handle_alone(self, handler: Handler | None = None) -> bool:
        """Let *handler* answer it, by default the server's; False where the client went away."""


class Taker(Protocol):
    """What takes requests together."""

    def takes(self, head: RepeatedHead) -> bool:
        """Whether it takes requests with this head."""

    def take(self, requests: Sequence[RepeatedRequest]) -> None:
        """Answer or handle each of *requests*, which have one key."""


class _Group:
    __slots__ = ("n_bytes", "requests")

    def __init__(self) -> None:
        self.requests: list[RepeatedRequest] = []
        self.n_bytes = 0


class RepeatedRequests:
    """The requests that wait to be taken, of all connections of one server."""

    def __init__(self, taker: Taker, loop: asyncio.AbstractEventLoop) -> None:
        self.takes = taker.takes
        self._taker = taker
        self._loop = loop
        self._delay = CommitDelay()
        self._timer: asyncio.TimerHandle | None = None
        """Set while they wait for more than this iteration brings."""
        self._n = 0
        """Requests in `_open` and `_full`."""
        self._open: dict[HeadKey, _Group] = {}
        self._full: list[_Group] = []

    def add(self, request: RepeatedRequest, key: HeadKey, n_bytes: int) -> None:
        """*request*, with a body of *n_bytes*, came in this iteration."""
        opened, self._n = self._open, self._n + 1
        if self._n == 1:
            self._begin()
        elif self._timer is not None and self._n >= self._delay.enough:
            self._take_soon()
        group = opened.get(key)
        if group is None:
            group = opened[key] = _Group()
        elif group.n_bytes + n_bytes > MAX_BYTES or len(group.requests) >= MAX_REQUESTS:
            self._full.append(group)
            group = opened[key] = _Group()
        group.requests.append(request)
        group.n_bytes += n_bytes

    def _begin(self) -> None:
        now_s = time.monotonic()
        wait_s = self._delay.until_s(now_s) - now_s
        if wait_s > 0:
            self._timer = self._loop.call_later(wait_s, self._take_soon)
        else:
            self._loop.call_soon(self._take)

    def _take_soon(self) -> None:
        """Take them when this iteration ends, with what else it brings."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._loop.call_soon(self._take)

    def _take(self) -> None:
        groups = [*self._full, *self._open.values()]
        n, self._n, self._open, self._full = self._n, 0, {}, []
        for group in groups:
            self._taker.take(group.requests)
        self._delay.committed(n, time.monotonic())
