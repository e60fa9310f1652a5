"""A request over HTTP: its body is read whole, or not at all. Of one that is taken piece by piece
see `gateway.receiver.sources`.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from gateway.receiver.body import INLINE_BYTES, Hold, read_body
from gateway.receiver.content_encoding import decoder_for
from gateway.receiver.receiver import Receiver
from gateway.receiver.routes import BodyRoute, Route
from gateway.receiver.steps import Exchange, Waits

KNOWN_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"})


class HttpExchange(Exchange):
    """*parameter*: the route's, or empty."""

    __slots__ = ("cors", "limits", "media", "parameter", "request", "response", "route")

    request: web.BaseRequest

    def __init__(self, receiver: Receiver, request: web.BaseRequest, route: Route, parameter: str) -> None:
        super().__init__(
            request, route.path, route.scope, receiver.admission, Hold(receiver.budget), receiver.sampled()
        )
        self.route, self.parameter = route, parameter
        self.limits, self.cors = receiver.limits, receiver.cors
        self.media = "json"
        """Its encoding, as the route's manner names it."""
        self.response: web.StreamResponse | None = None

    def answer(self) -> None:
        if self.receipt is not None and self.response is None:
            self.response = self.route.manner.success(self.request, self.media, self.receipt)

    def span_of(self, status: int) -> tuple[str, dict[str, str]]:
        """A method that HTTP does not know is not repeated."""
        method = self.request.method if self.request.method in KNOWN_METHODS else "_OTHER"
        attributes = {"http.request.method": method, "http.route": self.path, "http.response.status_code": str(status)}
        return f"{method} {self.path}", attributes


class HeadExchange(HttpExchange):
    """Its head decides the answer: no key is asked for, and no body read."""

    __slots__ = ()

    def admit(self) -> None:
        pass

    def read_body(self) -> Waits:
        self.is_read = True
        return None

    def call(self) -> Waits:
        return None


class BodyExchange(HttpExchange):
    """A request of a `BodyRoute`."""

    __slots__ = ("_came_at_once", "_decode")

    route: BodyRoute

    @property
    def shown(self) -> list[str] | None:
        return None if self.route.shown is None else self.route.shown(self.request, self.parameter)

    def admit(self) -> None:
        if self.route.takes_any_type:
            self.cors.refuse_pages(self.request)
        super().admit()
        headers = self.request.headers
        self.media = self.route.manner.media(headers.get("Content-Type", ""))
        self._decode = decoder_for(headers.get("Content-Encoding", ""))
        self._came_at_once = self.request.content.is_eof()

    async def read_body(self) -> None:
        self.body = await read_body(self.request, self._decode, self.limits, self.hold)

    def ask_again(self) -> None:
        if not self._came_at_once or len(self.body or b"") > INLINE_BYTES:  # else no time has passed
            super().ask_again()

    async def call(self) -> None:
        assert self.body is not None and self.sender is not None  # noqa: S101, PT018 since `admit` and `read`
        self.receipt = await self.route.call(self.body, self.media, self.sender, self.parameter)


Act = Callable[[HttpExchange], Awaitable[web.StreamResponse]]


class BodilessExchange(HttpExchange):
    """A request without a body; *act* makes its answer."""

    __slots__ = ("_act",)

    def __init__(self, act: Act, receiver: Receiver, request: web.BaseRequest, route: Route, parameter: str) -> None:
        super().__init__(receiver, request, route, parameter)
        self._act = act

    def read_body(self) -> Waits:
        self.body = b""
        return None

    def ask_again(self) -> None:
        """No time has passed."""

    async def call(self) -> None:
        self.response = await self._act(self)


def begun(receiver: Receiver, request: web.BaseRequest, route: Route, parameter: str) -> HttpExchange:
    """The exchange of a request of *route*."""
    if isinstance(route, BodyRoute):
        return BodyExchange(receiver, request, route, parameter)
    exchange: HttpExchange = route.begin(receiver, request, route, parameter)
    return exchange
