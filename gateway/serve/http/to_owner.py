"""What senders ask of an edge that only the owner of its cell knows: usage events, unit cost,
devices, and what other gateways ask. Each request goes to the owner as it came, with its key; what
the owner answers is the answer.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, Self

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from gateway.common.contract.scopes import INGEST_SCOPE
from gateway.serve.body import read_body
from gateway.serve.http.http_exchange import HttpExchange
from gateway.serve.receiver import Receiver
from gateway.serve.routes import RequestRoute, Route
from gateway.serve.steps import Waits
from spool.errors import SpoolError

ANSWER_S: Final = 60.0
CONNECT_S: Final = 3.0
RETRY_AFTER_S: Final = 5
"""An owner that died has a follower within a lease, by default."""
HOP_BY_HOP: Final = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding",
        "upgrade", "content-length", "expect",
    }
)  # fmt: skip
"""Headers that are of one connection, or that the next one has of its own."""


class OwnerClient:
    """Asks the owner. Used on the event loop's thread; close it."""

    def __init__(self, address: Callable[[], str | None], total_s: float | None = ANSWER_S) -> None:
        """*address*: `host:port` where the owner listens now; None while there is none. *total_s*:
        of one request; None for streams.
        """
        self._address = address
        timeout = aiohttp.ClientTimeout(total=total_s, connect=CONNECT_S, sock_connect=CONNECT_S)
        self._session = aiohttp.ClientSession(
            timeout=timeout, auto_decompress=False, trust_env=False, cookie_jar=aiohttp.DummyCookieJar()
        )

    def request(
        self, request: web.BaseRequest, body: bytes | aiohttp.StreamReader | None
    ) -> "aiohttp.client._RequestContextManager":
        """*request* with *body*, to the owner. Raises SpoolError where there is none."""
        address = self._address()
        if address is None:
            raise no_owner("no gateway owns the cell yet")
        return self._session.request(
            request.method,
            URL(f"http://{address}{request.raw_path}", encoded=True),
            headers=end_to_end(request.headers.items()),
            data=body,
            allow_redirects=False,
            skip_auto_headers=("User-Agent", "Content-Type", "Accept", "Accept-Encoding"),
        )

    async def close(self) -> None:
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def end_to_end(headers: Iterable[tuple[str, str]]) -> "CIMultiDict[str]":
    """*headers* without those of one connection."""
    return CIMultiDict((name, value) for name, value in headers if name.lower() not in HOP_BY_HOP)


def no_owner(why: str) -> SpoolError:
    error = SpoolError(f"the owner of the cell cannot take it now: {why}")
    error.retry_after_s = RETRY_AFTER_S
    return error


class OwnerExchange(HttpExchange):
    """A request that the owner answers."""

    def __init__(
        self, owner: OwnerClient, receiver: Receiver, request: web.BaseRequest, route: Route, parameter: str
    ) -> None:
        super().__init__(receiver, request, route, parameter)
        self._owner = owner

    def read_body(self) -> Waits:
        return self._read_body()

    async def _read_body(self) -> None:
        self.body = await read_body(self.request, None, self.limits, self.hold)

    async def call(self) -> None:
        try:
            async with self._owner.request(self.request, self.body or None) as answer:
                content = await answer.read()
                headers = end_to_end(answer.headers.items())
                self.response = web.Response(status=answer.status, body=content, headers=headers)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise no_owner("it does not answer") from error


def routes_of_edge(routes: Sequence[Route], owner: OwnerClient) -> list[Route]:
    """*routes* of a gateway, as an edge has them: it takes AI telemetry itself."""
    return [
        route
        if route.scope == INGEST_SCOPE
        else RequestRoute(route.path, route.scope, route.manner, partial(OwnerExchange, owner), route.methods)
        for route in routes
    ]
