"""JSON in and out of the admin listener."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import web

from gateway.contract.errors import BadPayload
from gateway.decode.loose_json import place_of

JSON_TYPE = "application/json"


async def json_body(request: web.Request) -> dict[str, Any]:
    """The object in the body; an empty body is an empty one. Raises BadPayload."""
    try:
        found = orjson.loads(await request.read() or b"{}")
    except orjson.JSONDecodeError as error:
        raise BadPayload(f"the body is not valid JSON ({place_of(error)})") from None
    if not isinstance(found, dict):
        raise BadPayload("the body must be a JSON object")
    return found


def json_answer(content: object, status: int = HTTPStatus.OK) -> web.Response:
    """*content* as orjson writes it."""
    return encoded_answer(orjson.dumps(content), status)


def encoded_answer(body: bytes, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> web.Response:
    """*body* is JSON already."""
    return web.Response(status=status, body=body, headers={"Content-Type": JSON_TYPE, **(headers or {})})
