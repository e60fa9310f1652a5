"""The body of a request to the admin listener. The guard reads it before the handler is called, so
no handler waits for one, and the credential is checked again when it is there.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import parse_qsl

import orjson
from aiohttp import web
from multidict import MultiDict

from gateway.common.contract.errors import BadPayload, TooLarge
from gateway.read.loose_json import place_of
from gateway.serve.body import BodyLimits, Budget, Hold, read_body
from gateway.serve.content_encoding import decoder_for

MAX_BODY_BYTES: Final = 256 * 1024
"""Before and after decompression. The longest comment fits, also with each character escaped."""
MAX_IN_FLIGHT_BYTES: Final = 64 * MAX_BODY_BYTES
"""Of all bodies whose requests have no answer yet."""
MAX_FIELDS: Final = 1000
"""Of one form."""
FORM_TYPE: Final = "application/x-www-form-urlencoded"
BODY: Final = web.RequestKey("body", bytes)
"""In a request: its body, decompressed."""


class UnreadableForm(ValueError):
    """The body is no form as the page's own forms are sent."""


class BodyReader:
    """Reads the bodies of one listener."""

    def __init__(self, timeout_s: Callable[[], float]) -> None:
        """*timeout_s*: from the end of the headers to the end of the body."""
        self._timeout_s = timeout_s
        self._budget = Budget(MAX_IN_FLIGHT_BYTES)

    @asynccontextmanager
    async def reading(self, request: web.Request, owner: str) -> AsyncIterator[None]:
        """Put the whole body into *request*. Its bytes are in flight until the end of the block.

        Raises BadPayload, HTTPRequestEntityTooLarge, UnsupportedMedia, Overloaded; ConnectionError
        when the client left.
        """
        hold = Hold(self._budget)
        try:
            hold.belongs_to(owner)
            request[BODY] = await self._read(request, hold)
            yield
        finally:
            request.pop(BODY, None)  # an idle connection keeps its last request
            hold.release()

    async def _read(self, request: web.Request, hold: Hold) -> bytes:
        limits = BodyLimits(MAX_BODY_BYTES, MAX_BODY_BYTES, body_timeout_s=self._timeout_s())
        decode = decoder_for(request.headers.get("Content-Encoding", "")) if request.body_exists else None
        try:
            return await read_body(request, decode, limits, hold)
        except TooLarge:  # its text names an option of the senders' port
            raise web.HTTPRequestEntityTooLarge(MAX_BODY_BYTES) from None


def json_fields(request: web.Request) -> dict[str, Any]:
    """The object in the body; an empty body is an empty one. Raises BadPayload."""
    try:
        found = orjson.loads(request[BODY] or b"{}")
    except orjson.JSONDecodeError as error:
        raise BadPayload(f"the body is not valid JSON ({place_of(error)})") from None
    if not isinstance(found, dict):
        raise BadPayload("the body must be a JSON object")
    return found


def form_of(request: web.Request) -> MultiDict[str]:
    """The fields of a form; of a body with another Content-Type none. Raises UnreadableForm."""
    if request.content_type == "multipart/form-data":
        raise UnreadableForm
    if request.content_type != FORM_TYPE:
        return MultiDict()
    charset = request.charset or "utf-8"
    try:
        text = request[BODY].rstrip().decode(charset)
        return MultiDict(parse_qsl(text, keep_blank_values=True, encoding=charset, max_num_fields=MAX_FIELDS))
    except (LookupError, ValueError) as error:  # an unknown charset, bytes that are none of it, too many fields
        raise UnreadableForm from error
