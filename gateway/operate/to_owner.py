"""The admin listener of a gateway of a cell: its own probes and metrics, and everything else from
the owner, which has the page and the API.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from collections.abc import Set as AbstractSet
from http import HTTPStatus
from typing import Final

import aiohttp
from aiohttp import web
from aiohttp.typedefs import Handler
from multidict import CIMultiDict
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from gateway.common.contract.errors import Unauthenticated
from gateway.common.http.arriving_body import has_left
from gateway.common.http.http_connection import note_admitted
from gateway.config.model import OperatorIdentity
from gateway.operate.guard import host_guard
from gateway.operate.header_sign_in import groups_reader
from gateway.operate.identity import identity_reader
from gateway.operate.pages import healthz
from gateway.operate.parts import KeyGate
from gateway.operate.relayed_person import HEADER, RelayedPerson
from gateway.operate.session import SAFE_METHODS, AdminAccess
from gateway.operate.site.assets import ROUTE as ASSETS_ROUTE
from gateway.operate.site.assets import is_asset, serve_asset
from gateway.operate.site.shell import error_page, wants_html
from gateway.serve.answers import answer_for, kind_of
from gateway.serve.authenticator import is_loopback_host, not_divisible
from gateway.serve.http.to_owner import RETRY_AFTER_S, OwnerClient, end_to_end, no_owner
from gateway.serve.ready_response import SERVER
from gateway.serve.responses import json_error

JSON: Final = "application/json"
LOOK_S: Final = 0.5
"""How often a silent answer asks whether its client is still there."""
REFUSALS: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})


class Passing:
    """What changes in a request that is passed on, and in its answer."""

    def __init__(self, options: OperatorIdentity, person: RelayedPerson, groups_header: str | None = None) -> None:
        self._dropped = [name for name in (HEADER, options.header, groups_header) if name is not None]
        self._identity, self._groups = identity_reader(options), groups_reader(options, groups_header)
        self._person = person

    def headers(self, request: web.Request) -> CIMultiDict[str]:
        """With the person whom the connection names. What the client says of that is not passed
        on: the owner would take it for ours. Raises Unauthenticated.
        """
        headers, person = end_to_end(request.headers.items()), self._identity(request)
        for name in self._dropped:
            headers.popall(name, None)
        if person is not None:
            headers[HEADER] = self._person.stated(person, self._groups(request))
        return headers

    @staticmethod
    def response(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        """Its head. Of a session that began over TLS, the cookie stays there."""
        headers = end_to_end(answer.headers.items())
        cookies = headers.popall("Set-Cookie", [])
        for cookie in cookies:
            is_secure = not request.secure or "; secure" in cookie.lower()
            headers.add("Set-Cookie", cookie if is_secure else f"{cookie}; Secure")
        return web.StreamResponse(status=answer.status, headers=headers)


async def passed_on(request: web.Request, owner: OwnerClient, passing: Passing) -> web.StreamResponse:
    """The owner's answer, piece by piece, for some are streams. Raises SpoolError."""
    body = request.content if request.can_read_body else None
    response: web.StreamResponse | None = None
    try:
        async with owner.request(request, body, passing.headers(request)) as answer:
            if answer.status not in REFUSALS:  # by a key or a session, which the owner knows
                note_admitted(request)
            response = passing.response(request, answer)
            await response.prepare(request)
            async for piece in pieces(answer.content, request):
                await response.write(piece)
            await response.write_eof()
            return response
    except (aiohttp.ClientError, TimeoutError) as error:
        if response is None or request.transport is None:
            raise no_owner("it does not answer") from error
        request.transport.abort()  # an answer that is not whole must not look so
        return response


async def pieces(content: aiohttp.StreamReader, request: web.Request) -> AsyncIterator[bytes]:
    """Those of *content*. Raises ClientConnectionResetError soon after the client left: of a stream
    that is silent, no write would tell.
    """
    while True:
        look = asyncio.timeout(LOOK_S)
        try:
            async with look:
                piece = await content.readany()
        except TimeoutError:
            if not look.expired():
                raise
            if has_left(request):
                raise aiohttp.ClientConnectionResetError("the client left") from None
            continue
        if not piece:
            return
        yield piece


def member_app(
    owner: OwnerClient,
    access: AdminAccess,
    gate: KeyGate,
    registry: CollectorRegistry,
    not_ready: Callable[[], Awaitable[str | None]],
    passing: Passing,
    *,
    loopback: bool,
    host_names: AbstractSet[str] = frozenset(),
) -> web.Application:
    """*not_ready*: why this gateway cannot keep data now; None where it can. *loopback*,
    *host_names*: as `admin_app` has them.
    """

    async def readyz(request: web.Request) -> web.Response:
        reason = await not_ready()
        if reason is None:
            return web.Response(text="ready\n")
        return web.Response(text=f"not ready: {reason}\n", status=HTTPStatus.SERVICE_UNAVAILABLE)

    async def metrics(request: web.Request) -> web.Response:
        held = access.credential_of(request)
        if reach := gate.reach_of(request.headers) if held is None else held.reach:
            raise not_divisible(reach)
        is_open = loopback and all(map(is_loopback_host, request.headers.getall("Host", ("",))))
        if not is_open and held is None:
            raise Unauthenticated("a token is needed, in the Authorization header")
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(registry), headers={"Content-Type": content_type})

    async def from_owner(request: web.Request) -> web.StreamResponse:
        if access.role_of(request) is not None:
            note_admitted(request)
        return await passed_on(request, owner, passing)

    async def asset(request: web.Request) -> web.StreamResponse:
        """A page that says why the owner does not answer needs them too."""
        return await (serve_asset if is_asset(request.path) else from_owner)(request)

    app = web.Application(middlewares=[_answering, host_guard(loopback=loopback, host_names=host_names)])
    app.add_routes(
        [
            web.get("/healthz", healthz),
            web.get("/readyz", readyz),
            web.get("/metrics", metrics),
            web.get(ASSETS_ROUTE, asset),
            web.route("*", "/{path:.*}", from_owner),
        ]
    )
    return app


@web.middleware
async def _answering(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Errors of this gateway, not of the owner, become answers here."""
    try:
        return await handler(request)
    except web.HTTPException:
        raise
    except Exception as error:  # noqa: BLE001 - the one place where errors become answers; their text may quote data
        answer = answer_for(error)
        message = str(error) if answer.show_text else "an unforeseen error"
        response = _error(request, answer.status, message, kind_of(error))
        response.headers["Server"] = SERVER
        if answer.retry_after_s is not None:
            response.headers["Retry-After"] = str(answer.retry_after_s)
        return response


def _error(request: web.Request, status: int, message: str, kind: str) -> web.Response:
    """A browser shows a page, and asks again until there is an owner."""
    if request.method not in SAFE_METHODS or not wants_html(request):
        return web.Response(status=status, body=json_error(message, kind), headers={"Content-Type": JSON})
    page = error_page(status, message)
    page.headers["Refresh"] = str(RETRY_AFTER_S)
    return page
