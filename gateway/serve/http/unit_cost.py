"""Unit-cost records and streams: on the gateway's own paths, and on the service's, by which other
gateways forward.

Who lists, reads or deletes a stream needs a key also where intake is open: anyone may post, but not
anyone may read, or delete what others posted.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, get_args

import orjson
from aiohttp import web

from gateway.common.contract.errors import BadRecord, Unauthenticated
from gateway.common.contract.intake import Intake, Receipt, Sender
from gateway.common.contract.scopes import (
    CREATE_STREAM_SCOPE,
    DELETE_STREAM_SCOPE,
    READ_UNIT_COST_SCOPE,
    UNIT_COST_SCOPE,
)
from gateway.common.contract.unit_cost import FORCE, Target
from gateway.common.lists.conventions import envelope, read_request
from gateway.serve.http.http_exchange import HttpExchange
from gateway.serve.ready_response import JSON_HEADERS
from gateway.serve.routes import BodyRoute, Manner, RequestRoute, Route
from gateway.usage.events.faults import REMEDIES
from gateway.usage.events.streams import STREAMS, stream_named, stream_page
from spool.unit_cost import Kind, Operation

READS: Final = frozenset({"GET", "HEAD"})


def unit_cost_routes(intake: Intake, base: str, manner: Manner) -> list[Route]:
    """Of records and streams below *base*, `/v1/unit-cost` or as the service has it."""
    return [*_record_routes(intake, base, manner), *_stream_routes(intake, base, manner)]


def _record_routes(intake: Intake, base: str, manner: Manner) -> list[Route]:
    def taking(target: Callable[[str], Target | None]) -> Callable[[bytes, str, Sender, str], Awaitable[Receipt]]:
        def call(body: bytes, media: str, sender: Sender, stream: str) -> Awaitable[Receipt]:
            return intake.unit_cost(target(stream), body, sender=sender)

        return call

    def route(path: str, target: Callable[[str], Target | None]) -> Route:
        return BodyRoute(base + path, UNIT_COST_SCOPE, manner, taking(target))

    def at(kind: Kind, operation: Operation) -> Callable[[str], Target]:
        return lambda stream: Target(kind, stream, operation)

    kinds: tuple[Kind, ...] = get_args(Kind)
    operations: tuple[Operation, ...] = get_args(Operation)
    return [
        *(route(f"/{kind}/{{stream}}/{operation}", at(kind, operation)) for kind in kinds for operation in operations),
        *(route(f"/{kind}/{{stream}}", at(kind, "sum")) for kind in kinds),
        route("", lambda _: None),
    ]


class KeyedExchange(HttpExchange):
    """Needs a key also where intake is open."""

    def admit(self) -> None:
        super().admit()
        if self.sender is None or self.sender.key is None:
            raise Unauthenticated("an API key is needed, also where intake is open", reason="no_key")


def _stream_routes(intake: Intake, base: str, manner: Manner) -> list[Route]:
    one = base + "/{stream}"

    def create(body: bytes, media: str, sender: Sender, stream: str) -> Awaitable[Receipt]:
        return intake.create_stream(stream, body, sender=sender)

    async def listed(exchange: HttpExchange) -> web.StreamResponse:
        asked = read_request(STREAMS, list(exchange.request.query.items()))
        return _json(envelope(STREAMS, asked, stream_page(await intake.streams(), asked)))

    async def read(exchange: HttpExchange) -> web.StreamResponse:
        return _json({"stream": stream_named(await intake.streams(), exchange.parameter)})

    async def delete(exchange: HttpExchange) -> web.StreamResponse:
        assert exchange.sender is not None  # noqa: S101 since `admit`
        forced = _is_forced(exchange.request)
        exchange.receipt = receipt = await intake.delete_stream(
            exchange.parameter, forced=forced, sender=exchange.sender
        )
        return manner.success(exchange.request, "json", receipt)

    return [
        RequestRoute(base, READ_UNIT_COST_SCOPE, manner, partial(KeyedExchange, act=listed), READS),
        RequestRoute(one, READ_UNIT_COST_SCOPE, manner, partial(KeyedExchange, act=read), READS),
        BodyRoute(one, CREATE_STREAM_SCOPE, manner, create, frozenset({"PUT"})),
        RequestRoute(one, DELETE_STREAM_SCOPE, manner, partial(KeyedExchange, act=delete), frozenset({"DELETE"})),
    ]


def _is_forced(request: web.BaseRequest) -> bool:
    """Raises BadRecord."""
    values = set(request.query.getall(FORCE, ["false"]))
    if not values <= {"true", "false"} or len(values) > 1:
        raise BadRecord("invalid_force", REMEDIES["invalid_force"])
    return values == {"true"}


def _json(content: Any) -> web.Response:
    return web.Response(body=orjson.dumps(content), headers=JSON_HEADERS)
