"""Unit-cost records and streams: on the gateway's own paths, and on the service's, by which other
gateways forward.

Who lists, reads or deletes a stream needs a key also where intake is open: anyone may post, but not
anyone may read, or delete what others posted.
"""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final, get_args

import orjson
from aiohttp import web

from gateway.contract.errors import BadRecord, StreamUnknown, Unauthenticated
from gateway.contract.intake import Intake, Receipt, Sender
from gateway.contract.scopes import (
    CREATE_STREAM_SCOPE,
    DELETE_STREAM_SCOPE,
    READ_UNIT_COST_SCOPE,
    UNIT_COST_SCOPE,
)
from gateway.contract.unit_cost import FORCE, Target
from gateway.lists.conventions import Filterable, ListShape, Sort, envelope, read_request
from gateway.lists.memory import page_of
from gateway.receiver.admission import Admission
from gateway.receiver.body import Hold
from gateway.receiver.ready_response import SERVER
from gateway.receiver.routes import BodyRoute, Manner, RequestRoute, Route
from gateway.receiver.server import sender_with
from gateway.usage_events.faults import REMEDIES
from spool.unit_cost import Granularity, Kind, Operation, StreamState

READS: Final = frozenset({"GET", "HEAD"})
STREAMS: Final = ListShape(
    root="streams",
    name="unit-cost",
    sort_keys=("granularity", "kind", "name"),
    default_sort=Sort("name", "asc"),
    filters=(Filterable("granularity", get_args(Granularity)), Filterable("kind", get_args(Kind))),
)


def unit_cost_routes(intake: Intake, admission: Admission, base: str, manner: Manner) -> list[Route]:
    """Of records and streams below *base*, `/v1/unit-cost` or as the service has it."""
    return [*_record_routes(intake, base, manner), *_stream_routes(intake, admission, base, manner)]


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


def _stream_routes(intake: Intake, admission: Admission, base: str, manner: Manner) -> list[Route]:
    one = base + "/{stream}"

    def create(body: bytes, media: str, sender: Sender, stream: str) -> Awaitable[Receipt]:
        return intake.create_stream(stream, body, sender=sender)

    def admitted(request: web.BaseRequest, path: str, scope: str, hold: Hold) -> Sender:
        key = admission.admit(request, path, scope, hold)
        if key is None:
            raise Unauthenticated("an API key is needed, also where intake is open", reason="no_key")
        return sender_with(key, request.headers, request.remote)

    async def listed(request: web.BaseRequest, parameter: str, hold: Hold) -> web.StreamResponse:
        admitted(request, base, READ_UNIT_COST_SCOPE, hold)
        asked = read_request(STREAMS, list(request.query.items()))
        page = page_of(
            asked, await intake.streams(), field_of=_field, id_of=lambda stream: stream.stream_id, item_of=item_of
        )
        return _json(envelope(STREAMS, asked, page))

    async def read(request: web.BaseRequest, stream: str, hold: Hold) -> web.StreamResponse:
        admitted(request, one, READ_UNIT_COST_SCOPE, hold)
        for known in await intake.streams():
            if known.name == stream:
                return _json({"stream": item_of(known)})
        raise StreamUnknown("stream_unknown", REMEDIES["stream_unknown"])

    async def delete(request: web.BaseRequest, stream: str, hold: Hold) -> web.StreamResponse:
        sender = admitted(request, one, DELETE_STREAM_SCOPE, hold)
        receipt = await intake.delete_stream(stream, forced=_is_forced(request), sender=sender)
        return manner.success(request, "json", receipt)

    return [
        RequestRoute(base, READ_UNIT_COST_SCOPE, manner, listed, READS),
        RequestRoute(one, READ_UNIT_COST_SCOPE, manner, read, READS),
        BodyRoute(one, CREATE_STREAM_SCOPE, manner, create, frozenset({"PUT"})),
        RequestRoute(one, DELETE_STREAM_SCOPE, manner, delete, frozenset({"DELETE"})),
    ]


def item_of(stream: StreamState) -> dict[str, object]:
    """A stream as it is listed."""
    return {"name": stream.name, **stream.shape._asdict(), "pending": stream.pending}


def _field(stream: StreamState, name: str) -> str:
    return str(item_of(stream)[name])


def _is_forced(request: web.BaseRequest) -> bool:
    """Raises BadRecord."""
    values = set(request.query.getall(FORCE, ["false"]))
    if not values <= {"true", "false"} or len(values) > 1:
        raise BadRecord("invalid_force", REMEDIES["invalid_force"])
    return values == {"true"}


def _json(content: Any) -> web.Response:
    headers = {"Content-Type": "application/json", "Server": SERVER}
    return web.Response(status=HTTPStatus.OK, body=orjson.dumps(content), headers=headers)
