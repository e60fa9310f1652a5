"""What senders ask of an edge that only the owner of its cell knows: usage events, unit cost,
devices, and what other gateways ask. Each request goes to the owner as it came, with its key; what
the owner answers is the answer.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, Self

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from gateway.common.contract.scopes import INGEST_SCOPE
from gateway.common.http.http_connection import note_admitted
from gateway.serve.answers import TO_COME_AGAIN
from gateway.serve.authenticator import Authenticator
from gateway.serve.body import decompressed, read_body
from gateway.serve.content_encoding import decoder_for
from gateway.serve.http.http_exchange import HttpExchange
from gateway.serve.receiver import Receiver
from gateway.serve.routes import RequestRoute, Route
from gateway.serve.steps import Waits
from spool.errors import SpoolError

ANSWER_S: Final = 60.0
CONNECT_S: Final = 3.0
LOOK_S: Final = 0.5
NO_OWNER: Final = "the owner of the cell cannot take it now"
RETRY_AFTER_S: Final = 5
"""An owner that died has a follower within a lease, by default."""
HOP_BY_HOP: Final = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding",
        "upgrade", "content-length", "expect",
    }
)  # fmt: skip
"""Headers that are of one connection, or that the next one has of its own."""
KEPT: Final = frozenset({"authorization", "host", "cookie", "origin", "content-type", "content-encoding"})
"""What a request is judged by: no client drops them on the way."""


class OwnerClient:
    """Asks the owner. Used on the event loop's thread; close it."""

    def __init__(self, address: Callable[[], str | None], total_s: float | None = ANSWER_S) -> None:
        """*address*: `host:port` where the owner listens now; None while there is none. *total_s*:
        of one request; None for streams.
        """
        self._address = address
        self._timeout = aiohttp.ClientTimeout(total=total_s, connect=CONNECT_S, sock_connect=CONNECT_S)
        self._session = self._new_session()
        self._asked: str | None = None
        """Where the session's requests go."""

    def _new_session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            timeout=self._timeout, auto_decompress=False, trust_env=False, cookie_jar=aiohttp.DummyCookieJar()
        )

    def request(
        self,
        request: web.BaseRequest,
        body: bytes | aiohttp.StreamReader | None,
        headers: "CIMultiDict[str] | None" = None,
    ) -> "aiohttp.client._RequestContextManager":
        """*request* with *body*, to the owner; *headers* in place of its own, where they are given.
        Raises SpoolError where there is no owner.
        """
        address = self._asked = self._address()
        if address is None:
            raise no_owner("no gateway owns the cell now")
        return self._session.request(
            request.method,
            url_at(address, request),
            headers=end_to_end(request.headers.items()) if headers is None else headers,
            data=body,
            allow_redirects=False,
            skip_auto_headers=("User-Agent", "Content-Type", "Accept", "Accept-Encoding"),
        )

    async def run(self) -> None:
        """End what an owner of the past still has to answer, until cancelled: it may be stopped, or
        cut off, and answer never.
        """
        while True:
            await asyncio.sleep(LOOK_S)
            address = self._address()
            if address is not None and self._asked not in {None, address}:
                ended, self._session, self._asked = self._session, self._new_session(), None
                await ended.close()

    async def close(self) -> None:
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def url_at(address: str, request: web.BaseRequest) -> URL:
    """Of *request*, there. A client may state a whole URL, or none: its host is never asked."""
    path = request.rel_url.raw_path_qs
    return URL(f"http://{address}{path if path.startswith('/') else '/'}", encoded=True)


def end_to_end(headers: Iterable[tuple[str, str]]) -> "CIMultiDict[str]":
    """*headers* without those of one connection, and those that it calls its own."""
    headers = list(headers)
    own = {word.strip().lower() for name, value in headers if name.lower() == "connection" for word in value.split(",")}
    dropped = HOP_BY_HOP | (own - KEPT)
    return CIMultiDict((name, value) for name, value in headers if name.lower() not in dropped)


def no_owner(why: str) -> SpoolError:
    error = SpoolError(f"{NO_OWNER}: {why}")
    error.retry_after_s = RETRY_AFTER_S
    return error


class OwnerExchange(HttpExchange):
    """A request that the owner answers."""

    _plain_bytes = 0
    """Of the body."""

    def __init__(
        self,
        owner: OwnerClient,
        refuse_if_unwritten: Callable[[], None],
        receiver: Receiver,
        request: web.BaseRequest,
        route: Route,
        parameter: str,
    ) -> None:
        super().__init__(receiver, request, route, parameter)
        self._owner, self._refuse_if_unwritten = owner, refuse_if_unwritten

    def admit(self) -> None:
        """Raises SpoolError for what would wait for a commit that the database does not answer."""
        gate = gate_of(self.route)
        if gate is None:
            super().admit()
            self._refuse_if_unwritten()
            return
        gate.admit(self.request.headers, self.scope)
        note_admitted(self.request)

    def read_body(self) -> Waits:
        return self._read_body()

    async def _read_body(self) -> None:
        self.body = body = await read_body(self.request, None, self.limits, self.hold)
        self._plain_bytes = len(body) if self.hold.charge is None else await self._plain_size(body)

    async def _plain_size(self, body: bytes) -> int:
        """What a quota is charged; the body goes on as it came."""
        decode = decoder_for(self.request.headers.get("Content-Encoding", ""))
        if decode is None or not body:
            return len(body)
        size = len(await decompressed(body, decode, self.limits, self.hold))
        self.hold.give(size)
        return size

    def charge(self) -> None:
        """The owner charges nothing."""
        self.hold.take_of_quota(self._plain_bytes)

    async def call(self) -> None:
        try:
            async with self._owner.request(self.request, self.body or None) as answer:
                content = await answer.read()
                headers = end_to_end(answer.headers.items())
                self.response = web.Response(status=answer.status, body=content, headers=headers)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise no_owner("it does not answer") from error
        if answer.status in TO_COME_AGAIN:
            self.hold.give_back_quota()


def gate_of(route: Route) -> Authenticator | None:
    return route.gate if isinstance(route, RequestRoute) else None


def routes_of_edge(routes: Sequence[Route], owner: OwnerClient, refuse_if_unwritten: Callable[[], None]) -> list[Route]:
    """*routes* of a gateway, as an edge has them: it takes AI telemetry itself.
    *refuse_if_unwritten* raises SpoolError while the database takes nothing.
    """
    exchange = partial(OwnerExchange, owner, refuse_if_unwritten)
    return [
        route
        if route.scope == INGEST_SCOPE
        else RequestRoute(route.path, route.scope, route.manner, exchange, route.methods, gate_of(route))
        for route in routes
    ]
