"""How each AI gateway is answered: its own success, its own refusal. Pure but
for aiohttp's response type.

`json`: `{"accepted", "rejected"}` and `{"error": {"message", "type"}}`. The
others are what their senders read:

* `firehose`: `{"requestId", "timestamp"}`, with `errorMessage` on a refusal; anything but 200
  with the id is sent again.
* `langfuse`: 207 `{"successes": [{"id", "status"}], "errors": [{"id",
  "status", "message", "error"}]}`.
"""

import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import web

from gateway.common.contract.errors import UnsupportedMedia
from gateway.common.contract.intake import Receipt
from gateway.common.contract.otlp import media_of, rejection_message
from gateway.products.source import AnswerKind
from gateway.serve.answers import ErrorAnswer
from gateway.serve.authenticator import Headers
from gateway.serve.ready_response import JSON_HEADERS
from gateway.serve.responses import cut, json_error

FIREHOSE_REQUEST_HEADER = "X-Amz-Firehose-Request-Id"
MAX_REJECTED_SHOWN = 100


class SourceManner:
    """The answers of one source. *fixed* are headers that all of them carry."""

    def __init__(self, kind: AnswerKind, fixed: Mapping[str, str]) -> None:
        self._kind = kind
        self._headers = {**JSON_HEADERS, **fixed}

    def media(self, content_type: str) -> str:
        """Whatever it states, a gateway's body is JSON, unless it is OTLP's protobuf."""
        if content_type.partition(";")[0].strip().lower().startswith(("multipart/", "image/", "audio/", "video/")):
            raise UnsupportedMedia("the body must be JSON, one document a line, or OTLP")
        return "protobuf" if media_of(content_type) == "protobuf" else "json"

    def success(self, request: web.BaseRequest, media: str, receipt: Receipt) -> web.StreamResponse:
        """The answer to a body that was taken, in the form that the source's product reads."""
        match self._kind:
            case "firehose":
                request_id = receipt.answer.get("requestId") or request.headers.get(FIREHOSE_REQUEST_HEADER)
                return self._answer(HTTPStatus.OK, firehose(request_id, None))
            case "langfuse":
                return self._answer(HTTPStatus.MULTI_STATUS, langfuse(receipt))
            case _ if media == "protobuf":
                return web.Response(headers={**self._headers, "Content-Type": "application/x-protobuf"})
            case _:
                return self._answer(HTTPStatus.OK, accepted(receipt))

    def failure(self, headers: Headers, answer: ErrorAnswer, message: str, kind: str) -> web.Response:
        match self._kind:
            case "firehose":
                return self._answer(answer.status, firehose(headers.get(FIREHOSE_REQUEST_HEADER), message))
            case "langfuse":
                return self._answer(answer.status, {"message": cut(message), "error": kind})
            case _:
                return web.Response(status=answer.status, body=json_error(message, kind), headers=self._headers)

    def handshake(self) -> web.Response:
        """The answer to a GET or HEAD, with which some products try the address."""
        return self._answer(HTTPStatus.OK, {"ok": True})

    def _answer(self, status: int, body: Mapping[str, Any]) -> web.Response:
        return web.Response(status=status, body=orjson.dumps(body), headers=self._headers)


def accepted(receipt: Receipt) -> dict[str, Any]:
    """What was taken, how much of it is no AI usage, and of what was not taken the
    first with reason and position.
    """
    rejected = [{"reason": x.reason, "position": x.position} for x in receipt.rejected[:MAX_REJECTED_SHOWN]]
    body: dict[str, Any] = {"accepted": receipt.items - len(receipt.rejected), "rejected": rejected}
    if receipt.rejected:
        body["rejected_count"] = len(receipt.rejected)
        body["message"] = rejection_message(receipt.items, receipt.rejected)
    if receipt.ignored:
        body["ignored"] = receipt.ignored
        if receipt.ignored == receipt.items:
            body["message"] = "no call is in it: is it another product's, or is the usage not logged?"
    return body


def firehose(request_id: object, error: str | None) -> dict[str, Any]:
    """Firehose compares the id with the one that it sent, and takes any
    other answer for a failure.
    """
    body: dict[str, Any] = {"requestId": request_id, "timestamp": int(time.time() * 1000)}
    if error is not None:
        body["errorMessage"] = cut(error)
    return body


def langfuse(receipt: Receipt) -> dict[str, Any]:
    answer = receipt.answer
    return {"successes": answer.get("successes", []), "errors": answer.get("errors", [])}
