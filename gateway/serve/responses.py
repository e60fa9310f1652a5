"""What a sender is reported, as bytes: OTLP's empty success, partial success and google.rpc.Status;
the JSON error of the rest. Pure.

The two protobuf messages are three fields each and are written here by hand: no
generated type is on this path.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import orjson

from exporters.otlp.protobuf import delimited, varint
from gateway.common.contract.otlp import REJECTED_FIELD, Media, Signal

EMPTY_MESSAGE: Final[dict[Media, bytes]] = {"protobuf": b"", "json": b"{}"}
"""Full success: the response message with `partial_success` unset."""

MAX_MESSAGE_BYTES = 1024
"""Of an error's text. The whole answer stays far below the 4 MiB that clients may refuse (B04)."""

INVALID_ARGUMENT = 3
"""google.rpc.Code; the answer then carries a BadRequest detail."""

BAD_REQUEST_TYPE = "type.googleapis.com/google.rpc.BadRequest"
RETRY_INFO_TYPE = "type.googleapis.com/google.rpc.RetryInfo"


def partial_success(media: Media, signal: Signal, rejected: int, message: str) -> bytes:
    """The response message with `partial_success` set; with 0 *rejected* it is a warning."""
    message = cut(message)
    if media == "json":
        return orjson.dumps({"partialSuccess": {REJECTED_FIELD[signal]: str(rejected), "errorMessage": message}})
    count = b"\x08" + varint(rejected) if rejected else b""
    return delimited(1, count + delimited(2, message.encode()))


def rpc_status(media: Media, code: int, message: str, retry_after_s: int | None = None) -> bytes:
    """A google.rpc.Status; an INVALID_ARGUMENT states in its details what was bad, and the
    protobuf when to come again where that is stated (HTTP has Retry-After for it).
    """
    message = cut(message)
    if media == "json":
        status: dict[str, object] = {"code": code, "message": message}
        if code == INVALID_ARGUMENT:
            violation = {"field": "body", "description": message}
            status["details"] = [{"@type": BAD_REQUEST_TYPE, "fieldViolations": [violation]}]
        return orjson.dumps(status)
    text = message.encode()
    body = b"\x08" + varint(code) + delimited(2, text)
    if code == INVALID_ARGUMENT:
        bad_request = delimited(1, delimited(1, b"body") + delimited(2, text))
        body += delimited(3, delimited(1, BAD_REQUEST_TYPE.encode()) + delimited(2, bad_request))
    if retry_after_s is not None:
        body += delimited(3, delimited(1, RETRY_INFO_TYPE.encode()) + delimited(2, retry_info(retry_after_s)))
    return body


def retry_info(retry_after_s: int) -> bytes:
    """A google.rpc.RetryInfo."""
    return delimited(1, b"\x08" + varint(retry_after_s))


def json_error(message: str, kind: str, beside: Mapping[str, object] = MappingProxyType({})) -> bytes:
    """The error of everything that is not OTLP; *kind* is a word such as `too_large`."""
    return orjson.dumps({**beside, "error": {"message": cut(message), "type": kind}})


def cut(text: str) -> str:
    """At most MAX_MESSAGE_BYTES of UTF-8, and nothing that is no Unicode (an unpaired
    surrogate of a JSON text).
    """
    data = text.encode(errors="replace")
    if len(data) > MAX_MESSAGE_BYTES:
        return data[: MAX_MESSAGE_BYTES - 3].decode(errors="ignore") + "..."
    return data.decode()
