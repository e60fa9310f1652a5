"""Requests with one head that came in one iteration of the event loop, and are taken together when
that ends: what is the same of all of them is decided once. While requests keep coming, they wait
for more as their commit would (`spool.commit_delay`): to take them costs more than to commit them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, Protocol

from aiohttp import web
from aiohttp.http_parser import RawRequestMessage

from spool.commit_delay import CommitDelay

MAX_BODY_BYTES: Final = 16 * 1024
"""A larger body costs so much by itself that company saves it little."""
MAX_REQUESTS: Final = 128
MAX_BYTES: Final = 256 * 1024
"""Of the bodies that are taken together: other work of the loop waits no longer for more."""

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
    def message(self) -> RawRequestMessage:
        """The head of a request that this one repeats: `Content-Length` may differ."""

    @property
    def peer(self) -> str | None:
        """As `HeadKey` has it."""

    @property
    def body(self) -> bytes:
        """As it came."""

    @property
    def began_s(self) -> float:
        """When it came, of `time.perf_counter`."""

    def answer(self, answer: bytes) -> bool:
        """Send the whole *answer*; False, with nothing sent, where the client reads too little."""

    def handle(self, handler: Handler | None = None) -> bool:
        """Let *handler* answer it, by default the server's; False where the client went away."""


class Taker(Protocol):
    """What takes requests together."""

    def takes(self, message: RawRequestMessage) -> bool:
        """Whether it takes requests with this head."""

    def take(self, requests: Sequence[RepeatedRequest]) -> None:
        """Answer or handle each of *requests*, which have one key."""


class _Company:
    __slots__ = ("n_bytes", "requests")

    def __init__(self) -> None:
        self.requests: list[RepeatedRequest] = []
        self.n_bytes = 0


class RepeatedRequests:
    """Of all connections of one server."""

    def __init__(self, taker: Taker, loop: asyncio.AbstractEventLoop) -> None:
        self.takes = taker.takes
        self._taker = taker
        self._loop = loop
        self._delay = CommitDelay()
        self._timer: asyncio.TimerHandle | None = None
        """Until when those that are here wait for more."""
        self._n = 0
        self._open: dict[HeadKey, _Company] = {}
        self._full: list[_Company] = []

    def add(self, request: RepeatedRequest, key: HeadKey, n_bytes: int) -> None:
        """*request*, with a body of *n_bytes*, came in this iteration."""
        opened, self._n = self._open, self._n + 1
        if self._n == 1:
            self._begin()
        elif self._timer is not None and self._n >= self._delay.enough:
            self._take_soon()
        company = opened.get(key)
        if company is None:
            company = opened[key] = _Company()
        elif company.n_bytes + n_bytes > MAX_BYTES or len(company.requests) >= MAX_REQUESTS:
            self._full.append(company)
            company = opened[key] = _Company()
        company.requests.append(request)
        company.n_bytes += n_bytes

    def _begin(self) -> None:
        now_s = time.monotonic()
        wait_s = self._delay.until_s(now_s) - now_s
        if wait_s > 0:
            self._timer = self._loop.call_later(wait_s, self._take_soon)
        else:
            self._loop.call_soon(self._take)

    def _take_soon(self) -> None:
        """When this iteration ends: what else it brings comes along."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._loop.call_soon(self._take)

    def _take(self) -> None:
        companies = [*self._full, *self._open.values()]
        n, self._n, self._open, self._full = self._n, 0, {}, []
        for company in companies:
            self._taker.take(company.requests)
        self._delay.committed(n, time.monotonic())
