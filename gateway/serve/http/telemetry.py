"""Usage events, unit-cost records and device heartbeats: JSON in, JSON out."""

from collections.abc import Awaitable
from functools import partial
from http import HTTPStatus

import orjson
from aiohttp import web

from gateway.common.contract.errors import NothingTaken, UnsupportedMedia
from gateway.common.contract.intake import Intake, Receipt, Sender
from gateway.common.contract.scopes import ENROLL_SCOPE, EVENT_SCOPE, HEARTBEAT_SCOPE, PING_SCOPE
from gateway.serve.answers import ErrorAnswer
from gateway.serve.authenticator import Headers
from gateway.serve.http.events import EventsExchange
from gateway.serve.http.unit_cost import unit_cost_routes
from gateway.serve.ready_response import JSON_HEADERS
from gateway.serve.responses import json_error
from gateway.serve.routes import POST_ONLY, BodyRoute, RequestRoute, Route


class JsonManner:
    """`{"accepted": n, "rejected": [{"reason", "position", "message"}]}`, and
    `{"error": {"message", "type"}}`.
    """

    def media(self, content_type: str) -> str:
        """Raises UnsupportedMedia; so no page in a browser gets here without a preflight."""
        if content_type.partition(";")[0].strip().lower() != "application/json":
            raise UnsupportedMedia("Content-Type must be application/json")
        return "json"

    def success(self, request: web.BaseRequest, media: str, receipt: Receipt) -> web.StreamResponse:
        """202: on disk here, and not yet where it is sent to.

        Raises NothingTaken when there was something to keep and none of it could be.
        """
        rejected = [
            {"reason": r.reason, "position": r.position, "message": r.message or r.reason} for r in receipt.rejected
        ]
        body: dict[str, object] = {"accepted": receipt.items - len(rejected), "rejected": rejected}
        if receipt.warning is not None:
            body["warning"] = receipt.warning
        body |= receipt.answer
        if rejected and len(rejected) == receipt.items:
            first = rejected[0]
            raise NothingTaken(first["reason"], f"{first['position']}: {first['message']}", body)
        return web.Response(status=HTTPStatus.ACCEPTED, body=orjson.dumps(body), headers=JSON_HEADERS)

    def failure(self, headers: Headers, answer: ErrorAnswer, message: str, kind: str) -> web.Response:
        return web.Response(status=answer.status, body=json_error(message, kind, answer.beside), headers=JSON_HEADERS)


class PingManner(JsonManner):
    """A ping has no body; whatever comes as one is read and means nothing."""

    def media(self, content_type: str) -> str:
        return "json"


def telemetry_routes(intake: Intake) -> list[Route]:
    """`/v1/events`, `/v1/unit-cost/…`, `/v1/devices`, and below it a
    device's heartbeat and ping.
    """

    def heartbeat(body: bytes, media: str, sender: Sender, device_id: str) -> Awaitable[Receipt]:
        return intake.heartbeat(device_id, body, sender=sender)

    def ping(body: bytes, media: str, sender: Sender, device_id: str) -> Awaitable[Receipt]:
        return intake.ping(device_id, body, sender=sender)

    def enroll(body: bytes, media: str, sender: Sender, parameter: str) -> Awaitable[Receipt]:
        return intake.enroll(body, sender=sender)

    return [
        *unit_cost_routes(intake, "/v1/unit-cost", JsonManner()),
        RequestRoute("/v1/events", EVENT_SCOPE, JsonManner(), partial(EventsExchange, intake), POST_ONLY),
        BodyRoute("/v1/devices", ENROLL_SCOPE, JsonManner(), enroll),
        BodyRoute("/v1/devices/{device_id}/heartbeat", HEARTBEAT_SCOPE, JsonManner(), heartbeat),
        BodyRoute("/v1/devices/{device_id}/ping", PING_SCOPE, PingManner(), ping, takes_any_type=True),
    ]
