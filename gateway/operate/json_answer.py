"""Answers of the admin listener in JSON."""

from collections.abc import Mapping
from http import HTTPStatus

import orjson
from aiohttp import web

JSON_TYPE = "application/json"


def json_answer(content: object, status: int = HTTPStatus.OK) -> web.Response:
    """*content* as orjson writes it."""
    return encoded_answer(orjson.dumps(content), status)


def encoded_answer(body: bytes, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> web.Response:
    """*body* is JSON already."""
    return web.Response(status=status, body=body, headers={"Content-Type": JSON_TYPE, **(headers or {})})
