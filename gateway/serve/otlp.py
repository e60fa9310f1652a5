"""OTLP/HTTP: the three signals' routes, and how OTLP words its answers.

Success is a constant. A refusal is a google.rpc.Status in the encoding of the request,
JSON where that is unknown.
"""

from collections.abc import Awaitable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final, Protocol

from aiohttp import web

from gateway.common.contract.errors import BadPayload, UnsupportedMedia
from gateway.common.contract.intake import Intake, Receipt, Sender, TakenTogether
from gateway.common.contract.otlp import CONTENT_TYPES, Media, Signal, media_of, rejection_message
from gateway.common.contract.scopes import INGEST_SCOPE
from gateway.serve.answers import ErrorAnswer
from gateway.serve.authenticator import Headers
from gateway.serve.ready_response import SERVER, Ready
from gateway.serve.responses import EMPTY_MESSAGE, partial_success, rpc_status
from gateway.serve.routes import POST_ONLY, BodyRoute, Route, ShownIn

SUCCESS: Final[dict[str, Ready]] = {
    media: Ready(content_type, EMPTY_MESSAGE[media]) for media, content_type in CONTENT_TYPES.items()
}


class SignalIntake(Protocol):
    """One of the three OTLP methods of Intake."""

    def __call__(self, body: bytes, *, json: bool, sender: Sender) -> Awaitable[Receipt]: ...


class OtlpManner:
    """OTLP's answers for one signal; also the manner of everything that belongs to no route."""

    def __init__(self, signal: Signal) -> None:
        self._signal: Signal = signal

    def media(self, content_type: str) -> str:
        media = media_of(content_type)
        if media is None:
            raise UnsupportedMedia("Content-Type must be application/x-protobuf or application/json")
        return media

    def success(self, request: web.BaseRequest, media: str, receipt: Receipt) -> web.StreamResponse:
        """Raises BadPayload as `remark_on` does."""
        message = remark_on(receipt)
        if message is None:
            return SUCCESS[media].for_request(request)
        encoding: Media = "json" if media == "json" else "protobuf"
        body = partial_success(encoding, self._signal, len(receipt.rejected), message)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPES[encoding], "Server": SERVER})

    def failure(self, headers: Headers, answer: ErrorAnswer, message: str, kind: str) -> web.Response:
        media = media_of(headers.get("Content-Type", "")) or "json"
        sent = {"Content-Type": CONTENT_TYPES[media], "Server": SERVER}
        return web.Response(status=answer.status, body=rpc_status(media, answer.code, message), headers=sent)


def remark_on(receipt: Receipt) -> str | None:
    """The text of the partial success; None for a full one.

    Raises BadPayload when no item of the payload was valid: nothing of it was kept, and sending it
    again is of no use.
    """
    if not receipt.rejected:
        return receipt.warning
    message = rejection_message(receipt.items, receipt.rejected)
    if len(receipt.rejected) == receipt.items:
        raise BadPayload(message)
    return message


def otlp_routes(
    intake: Intake, prefix: str = "", methods: AbstractSet[str] = POST_ONLY, shown: ShownIn | None = None
) -> list[Route]:
    """`/v1/traces`, `/v1/logs` and `/v1/metrics`, behind *prefix*; *shown* as in `BodyRoute`."""

    def traces_together(bodies: Sequence[bytes], sender: Sender) -> TakenTogether | None:
        return intake.traces_together(bodies, sender=sender)

    return [
        replace(
            signal_route("traces", intake.traces, prefix, methods, shown),
            call_together=traces_together if intake.takes_together else None,
        ),
        signal_route("logs", intake.logs, prefix, methods, shown),
        signal_route("metrics", intake.metrics, prefix, methods, shown),
    ]


def signal_route(
    signal: Signal, receive: SignalIntake, prefix: str, methods: AbstractSet[str], shown: ShownIn | None
) -> BodyRoute:
    def call(body: bytes, media: str, sender: Sender, parameter: str) -> Awaitable[Receipt]:
        return receive(body, json=media == "json", sender=sender)

    return BodyRoute(f"{prefix}/v1/{signal}", INGEST_SCOPE, OtlpManner(signal), call, methods=methods, shown=shown)
