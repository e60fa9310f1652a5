"""A request over HTTP. Of one that is taken piece by piece see `gateway.serve.http.sources`."""

from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from gateway.serve.body import INLINE_BYTES, body_at_hand, read_body
from gateway.serve.content_encoding import decoder_for
from gateway.serve.receiver import Receiver
from gateway.serve.routes import BodyRoute, Route
from gateway.serve.steps import Exchange, Waits

KNOWN_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"})

Act = Callable[["HttpExchange"], Awaitable[web.StreamResponse]]


class HttpExchange(Exchange):
    """A request without a body; *act* makes its answer."""

    request: web.BaseRequest
    media = "json"
    """Its encoding, as the route's manner names it."""
    response: web.StreamResponse | None = None

    def __init__(
        self, receiver: Receiver, request: web.BaseRequest, route: Route, parameter: str, act: Act | None = None
    ) -> None:
        """*parameter*: the route's, or empty."""
        super().__init__(receiver, request, route.path, route.scope, receiver.admission)
        self.route, self.parameter, self._act = route, parameter, act
        self.limits, self.cors = receiver.limits, receiver.cors

    def read_body(self) -> Waits:
        self.body = b""
        return None

    def ask_again(self) -> None:
        """No time has passed."""

    async def call(self) -> None:
        if self._act is not None:
            self.response = await self._act(self)

    def answer(self) -> None:
        if self.receipt is not None:
            self.response = self.route.manner.success(self.request, self.media, self.receipt)

    def span_name(self) -> tuple[float, str, dict[str, str]]:
        """A method that HTTP does not know is not repeated."""
        method = self.request.method if self.request.method in KNOWN_METHODS else "_OTHER"
        status = str(0 if self.response is None else self.response.status)
        attributes = {"http.request.method": method, "http.route": self.path, "http.response.status_code": status}
        return self.began_s, f"{method} {self.path}", attributes


class BodyExchange(HttpExchange):
    """A request whose body is read whole."""

    def admit(self) -> None:
        super().admit()
        self.media = self.encoding()
        self._decode = decoder_for(self.request.headers.get("Content-Encoding", ""))
        self._came_at_once = self.request.content.is_eof()

    def encoding(self) -> str:
        """As its headers name it, in the word of the route's manner. Raises UnsupportedMedia."""
        return self.route.manner.media(self.request.headers.get("Content-Type", ""))

    def read_body(self) -> Waits:
        if self._decode is not None or not self._came_at_once:
            return self._read_body()
        self.body = body_at_hand(self.request, self.limits, self.hold)
        return None

    async def _read_body(self) -> None:
        self.body = await read_body(self.request, self._decode, self.limits, self.hold)

    def ask_again(self) -> None:
        if not self._came_at_once or len(self.body or b"") > INLINE_BYTES:  # else no time has passed
            Exchange.ask_again(self)


class CallExchange(BodyExchange):
    """A request of a `BodyRoute`."""

    route: BodyRoute

    def admit(self) -> None:
        route = self.route
        if route.takes_any_type:
            self.cors.refuse_pages(self.request)
        if route.shown is not None:
            self.shown = route.shown(self.request, self.parameter)
        super().admit()

    async def call(self) -> None:
        assert self.body is not None and self.sender is not None  # noqa: S101, PT018 since `admit` and `read`
        self.receipt = await self.route.call(self.body, self.media, self.sender, self.parameter)


def begun(receiver: Receiver, request: web.BaseRequest, route: Route, parameter: str) -> HttpExchange:
    """The exchange of a request of *route*."""
    begin: Callable[..., HttpExchange] = CallExchange if isinstance(route, BodyRoute) else route.begin
    return begin(receiver, request, route, parameter)
