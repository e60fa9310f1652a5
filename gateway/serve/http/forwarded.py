"""What other gateways forward: the service's own paths, bodies and answers (wire
contract 6), served to senders.

So a gateway's `upstream` may be another gateway, with nothing else set but its address and a key of
it. Whatever is answered 2xx is on disk here. What cannot be kept is reported by its place among
what was sent, and ends as a dead letter there; an error asks for all of it again.

Three things differ from what senders post of themselves. Of events none goes into a total: whoever
forwards an event has put it there already. A heartbeat enrols no one: its gateway is asked to enrol
the device, for then it states what the device is. A batch of unit cost is known by its own id,
under whatever key it comes.
"""

import re
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import Any, Final

import orjson
from aiohttp import web

from gateway.common.contract.errors import DeviceQuarantined, EnrolmentRefused, UnsupportedMedia
from gateway.common.contract.intake import Intake, Receipt, Sender
from gateway.common.contract.outcomes import Rejection
from gateway.common.contract.reach import EVERYTHING, Reach
from gateway.common.contract.scopes import (
    ENROLL_SCOPE,
    EVENT_SCOPE,
    HEARTBEAT_SCOPE,
    INGEST_SCOPE,
    PING_SCOPE,
)
from gateway.common.http.http_connection import note_admitted
from gateway.fleet.devices.states import KNOWN
from gateway.operate import budgets, insights
from gateway.operate.calling import perform
from gateway.operate.operation import AnyOperation
from gateway.serve.answers import ErrorAnswer
from gateway.serve.authenticator import Authenticator, Headers
from gateway.serve.http.http_exchange import HttpExchange
from gateway.serve.http.unit_cost import unit_cost_routes
from gateway.serve.otlp import otlp_routes
from gateway.serve.ready_response import JSON_HEADERS
from gateway.serve.responses import json_error
from gateway.serve.routes import BodyRoute, RequestRoute, Route
from gateway.usage.budgets.book import Budgets

RECORDS_PATH: Final = "/v2/ai-telemetry/records"
OTLP_PREFIX: Final = "/v2/ai-telemetry/otlp"
"""Before OTLP's own paths; the answers are OTLP's."""
EVENTS_PATH: Final = "/events/v1/events"
UNIT_COST_PATH: Final = "/unit-cost/v1/telemetry"
DEVICES_PATH: Final = "/v2/ai-control-plane/devices"

_INDEX: Final = re.compile(r"\[(\d+)\]")
Success = Callable[[Receipt], web.Response]


class ServiceManner:
    """JSON in and out, as the service words it; errors are `{"error": {"message", "type"}}`."""

    def __init__(self, success: Success) -> None:
        self._success = success

    def media(self, content_type: str) -> str:
        """Raises UnsupportedMedia; so no page in a browser gets here without a preflight."""
        if content_type.partition(";")[0].strip().lower() != "application/json":
            raise UnsupportedMedia("Content-Type must be application/json")
        return "json"

    def success(self, request: web.BaseRequest, media: str, receipt: Receipt) -> web.StreamResponse:
        return self._success(receipt)

    def failure(self, headers: Headers, answer: ErrorAnswer, message: str, kind: str) -> web.Response:
        return json_response(json_error(message, kind), answer.status)


class PingManner(ServiceManner):
    def media(self, content_type: str) -> str:
        """A ping has no body, and no header that describes one."""
        return "json"


def json_response(body: bytes, status: int) -> web.Response:
    return web.Response(status=status, body=body, headers=JSON_HEADERS)


def taken(receipt: Receipt) -> web.Response:
    """202 `{"accepted", "rejected": [{"index", "code", "message"}]}`."""
    rejected = [rejection_json(each) for each in receipt.rejected]
    body = {"accepted": receipt.items - len(rejected), "rejected": rejected, **receipt.answer}
    return json_response(orjson.dumps(body), HTTPStatus.ACCEPTED)


def rejection_json(rejection: Rejection) -> dict[str, object]:
    """*rejection* by its index; the message names the field, never its value."""
    found = _INDEX.search(rejection.position)
    message = rejection.message or f"{rejection.position}: {rejection.reason}"
    return {"index": 0 if found is None else int(found[1]), "code": rejection.reason, "message": message}


def device_taken(receipt: Receipt) -> web.Response:
    """200 with what the service would state: `pending` while that has not
    enrolled the device itself.
    """
    status = "active" if receipt.answer["state"] in KNOWN else "pending"
    body = {"status": status, "heartbeat_interval_s": receipt.answer["heartbeat_interval_s"]}
    return json_response(orjson.dumps(body), HTTPStatus.OK)


def ping_taken(receipt: Receipt) -> web.Response:
    return web.Response(status=HTTPStatus.NO_CONTENT)


def forwarded_routes(intake: Intake) -> list[Route]:
    """The paths of the preset `document`, but for the records of a unit-cost stream: a gateway does
    not know what others sent to it.
    """

    def records(body: bytes, media: str, sender: Sender, parameter: str) -> Awaitable[Receipt]:
        return intake.forwarded(body, sender=sender)

    def events(body: bytes, media: str, sender: Sender, parameter: str) -> Awaitable[Receipt]:
        return intake.events(body, sender=sender, are_metered=False)

    async def enroll(body: bytes, media: str, sender: Sender, parameter: str) -> Receipt:
        try:
            return await intake.enroll(body, sender=sender)
        except DeviceQuarantined as error:
            raise EnrolmentRefused(str(error)) from error

    def heartbeat(body: bytes, media: str, sender: Sender, device_id: str) -> Awaitable[Receipt]:
        return intake.heartbeat(device_id, body, sender=sender, enrolls=False)

    def ping(body: bytes, media: str, sender: Sender, device_id: str) -> Awaitable[Receipt]:
        return intake.ping(device_id, body, sender=sender, enrolls=False)

    return [
        BodyRoute(RECORDS_PATH, INGEST_SCOPE, ServiceManner(taken), records),
        *otlp_routes(intake, OTLP_PREFIX),
        BodyRoute(EVENTS_PATH, EVENT_SCOPE, ServiceManner(taken), events),
        *unit_cost_routes(intake, UNIT_COST_PATH, ServiceManner(taken)),
        BodyRoute(DEVICES_PATH, ENROLL_SCOPE, ServiceManner(device_taken), enroll),
        BodyRoute(DEVICES_PATH + "/{device_id}/heartbeat", HEARTBEAT_SCOPE, ServiceManner(device_taken), heartbeat),
        BodyRoute(DEVICES_PATH + "/{device_id}/ping", PING_SCOPE, PingManner(ping_taken), ping, takes_any_type=True),
    ]


def liveness_route(store: insights.Insights, gate: Authenticator) -> Route:
    """`GET /v2/insights` of the admin listener, by which a forwarding gateway
    checks that this one is alive.
    """
    return reading_route(insights.LIST, store, gate)


def budget_state_route(store: Budgets, gate: Authenticator) -> Route:
    """`GET /v2/budgets/{budget_id}/state` of the admin listener, for the hooks of AI gateways."""
    return reading_route(budgets.STATE, store, gate, parameter_name="budget_id")


def reading_route(operation: AnyOperation, store: Any, gate: Authenticator, parameter_name: str = "") -> Route:
    """A GET of the admin listener, served to keys with its scope.

    *gate* needs a key also where intake is open: anyone may post, but not anyone may read.
    *parameter_name*: of the path's one parameter, if it has one.
    """
    scope = operation.scope or ""

    class ReadingExchange(HttpExchange):
        """Is not charged to a quota."""

        reach: Reach = EVERYTHING

        def admit(self) -> None:
            key = gate.admit(self.request.headers, scope)
            self.reach = EVERYTHING if key is None else key.reach
            note_admitted(self.request)

    async def read(exchange: HttpExchange) -> web.StreamResponse:
        assert isinstance(exchange, ReadingExchange)  # noqa: S101 - `begin` makes it
        path = {parameter_name: exchange.parameter} if parameter_name else {}
        query = list(exchange.request.query.items())
        answer = await perform(operation, store, path=path, query=query, reach=exchange.reach)
        return json_response(orjson.dumps(answer), HTTPStatus.OK)

    begin = partial(ReadingExchange, act=read)
    return RequestRoute(operation.path, scope, ServiceManner(taken), begin, frozenset({"GET", "HEAD"}), gate)
