"""Faults of a JSON-RPC message that the SDK would not answer, or not in words. Pure."""

from typing import Any, Final

import orjson

INVALID_REQUEST: Final = -32600


def fault_of(body: bytes) -> str | None:
    """Why *body* is no message, for the client; None where the SDK can judge it.

    The SDK takes a request with an id of another type for a notification, and does not answer it.
    """
    try:
        message: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if isinstance(message, list):
        return "a batch is not taken: one message is needed in each request"
    if not isinstance(message, dict):
        return "a JSON object is needed"
    if "id" in message and "method" in message and not _is_id(message["id"]):
        return "id: text or a whole number is needed; a notification has none"
    return None


def _is_id(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def error_body(text: str) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": text}})
