"""The service's HTTP layer: authenticate, read a bounded body, serve, respond."""

import asyncio
import re
import socket
import struct
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from random import Random

import structlog
from aiohttp import web
from aiohttp.web_exceptions import HTTPException

from gateway.access.key import RandomBytes
from gateway.access.record import KeyRecord
from gateway.access.store import KeyStore
from gateway.common.contract.headers import REPEAT_KEY_HEADERS
from gateway.common.contract.otlp import CONTENT_TYPES, media_of
from gateway.common.http.arriving_body import has_left, invite, invited_by_reader, next_bytes
from gateway.common.http.http_connection import note_admitted
from gateway.common.http.http_server import QuietRunner
from gateway.common.storage.database import Database
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.local_service.call import ServiceAnswer, ServiceCall, json_answer
from gateway.local_service.errors import Invalid, ServiceError, TooLarge, TooSlow, Unauthorized
from gateway.local_service.gzipped import NotGzip, TooLong, gunzip
from gateway.local_service.misbehave import GOOD, Misbehave, plan
from gateway.local_service.openapi.document import service_openapi
from gateway.local_service.otlp import Taken, encoded
from gateway.local_service.routes import ROUTES, Route
from gateway.local_service.serve import Request, refuse_grant, serve_read, serve_write

_log = structlog.get_logger()

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

OPENAPI_PATH = "/openapi.json"
SHUTDOWN_TIMEOUT_S = 5
IDEMPOTENCY_KEY_MAX_CHARS = 255
GATEWAY_ID_MAX_CHARS = 256
UNAVAILABLE_RETRY_AFTER_S = 5
_UNAVAILABLE = json_answer(503, {"message": "Service Unavailable"})._replace(retry_after_s=UNAVAILABLE_RETRY_AFTER_S)
_UNFORESEEN = json_answer(500, {"message": "Internal Server Error"})
_LINGER_0_S = struct.pack("ii", 1, 0)


@dataclass(slots=True)
class Context:
    """Shared by all requests; opened with the application."""

    database: Database
    keys: KeyStore
    now_ms: Callable[[], int]
    random: Random
    random_bytes: RandomBytes
    misbehave: Misbehave | None
    body_timeout_s: float
    """From the end of the headers to the end of the body."""


CONTEXT = web.AppKey("context", Context)


def runner_of(app: web.Application) -> QuietRunner:
    """The runner of the application: no access log, and bodies are not decompressed by aiohttp,
    since they are bounded here.
    """
    return QuietRunner(app, _malformed, shutdown_timeout=SHUTDOWN_TIMEOUT_S, auto_decompress=False)


def _malformed(request: web.BaseRequest, status: int) -> web.Response:
    """A request that the HTTP parser refused."""
    return _response(json_answer(status, {"message": "Bad Request"}))


_PARAMETER = re.compile(r"\{(\w+)\}")
"""aiohttp's own parameters exclude braces; a device's id may contain them."""


def add_routes(app: web.Application) -> None:
    for route in ROUTES:
        for method in _methods(route):
            path = _PARAMETER.sub(r"{\1:[^/]+}", route.path)
            app.router.add_route(method, path, partial(_handle, route), expect_handler=invited_by_reader)
    app.router.add_get(OPENAPI_PATH, _describe)


def _methods(route: Route) -> tuple[str, ...]:
    """A GET route answers HEAD as well."""
    return (route.method,) if route.writes else (route.method, "HEAD")


@web.middleware
async def answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """The one place where an exception becomes a response. What is left of a body is not read."""
    response = await _answered(request, handler)
    if not request.content.is_eof():
        response.force_close()
    return response


async def _answered(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except ServiceError as error:
        return _response(error.answer())
    except HTTPException as error:  # the router's 404 and 405
        error.__traceback__ = None  # the request refers to it, and would wait for the garbage collector
        allow = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
        return _response(json_answer(error.status, {"message": error.reason}), allow)
    except DatabaseUnavailable:
        return _response(_UNAVAILABLE)
    except Exception as error:  # the last place before the socket: a bug becomes a 500, logged without its text
        if isinstance(error, ConnectionError) and has_left(request):
            raise
        _log.error("unforeseen error", of="local service", error=type(error).__name__, at=_where(error))
        return _response(_UNFORESEEN)


async def _handle(route: Route, request: web.Request) -> web.StreamResponse:
    if route.signal is not None:
        return await _handle_otlp(route, route.signal, request)
    answer = await _served(route, request)
    return _cut(request) if answer is None else _response(answer)


async def _handle_otlp(route: Route, signal: Taken, request: web.Request) -> web.StreamResponse:
    """Errors, too, are OTLP's, in the encoding of the request."""
    try:
        answer = await _served(route, request)
    except ServiceError as error:
        answer = error.answer()
    except DatabaseUnavailable:
        answer = _UNAVAILABLE
    if answer is None:
        return _cut(request)
    media = media_of(request.headers.get("Content-Type", "")) or "json"
    response = web.Response(
        status=answer.status, body=encoded(signal, media, answer), content_type=CONTENT_TYPES[media]
    )
    if answer.retry_after_s is not None:
        response.headers["Retry-After"] = str(answer.retry_after_s)
    return response


async def _served(route: Route, request: web.Request) -> ServiceAnswer | None:
    """The answer; None where the connection is to be cut instead."""
    context = request.app[CONTEXT]
    planned = plan(context.misbehave, context.random) if route.misbehaves else GOOD
    if planned.latency_ms:
        await asyncio.sleep(planned.latency_ms / 1000)
    if planned.reset == "before":
        return None
    key = _authenticate(context.keys, request)
    refuse_grant(key.grant, route)
    body, unreadable = await _body(request, route.max_bytes, context.body_timeout_s) if route.writes else (b"", None)
    served = Request(route, key, _call(context, key, request, body), unreadable, planned.failure)
    if route.writes:
        answer = await context.database.write(partial(serve_write, served))
    else:
        answer = await context.database.read(partial(serve_read, served))
    return None if planned.reset == "after" else answer


async def _describe(request: web.Request) -> web.StreamResponse:
    """For every enabled key, whatever its scopes. Built at the first request, off the loop."""
    _authenticate(request.app[CONTEXT].keys, request)
    return _response(ServiceAnswer(200, await asyncio.to_thread(service_openapi)))


def _authenticate(keys: KeyStore, request: web.Request) -> KeyRecord:
    """The key that is the entire value of the one Authorization header; a value with a scheme is
    refused.
    """
    values = request.headers.getall("Authorization", [])
    key = keys.authenticate(values[0]) if len(values) == 1 else None
    if key is None:
        raise Unauthorized
    note_admitted(request)
    return key


async def _body(request: web.Request, max_bytes: int, timeout_s: float) -> tuple[bytes, ServiceError | None]:
    """The decompressed body, or the error of reading it. Raises TooSlow, which is no answer to
    repeat; ConnectionError when the client left.
    """
    invite(request)
    try:
        async with asyncio.timeout(timeout_s):
            raw = await _arrived(request, max_bytes)
        return _decoded(raw, request.headers.get("Content-Encoding", ""), max_bytes), None
    except TimeoutError:
        raise TooSlow("The body did not arrive in time") from None
    except ServiceError as error:
        return b"", error


async def _arrived(request: web.Request, max_bytes: int) -> bytes:
    """Raises TooLarge, Invalid."""
    body = BytesIO()
    try:
        while chunk := await next_bytes(request):
            if body.tell() + len(chunk) > max_bytes:
                raise _too_large(max_bytes)
            body.write(chunk)
    except web.RequestPayloadError:
        raise Invalid(
            "invalid_encoding", "the body's transfer coding is damaged, or its chunks are too small"
        ) from None
    return body.getvalue()


def _decoded(body: bytes, encoding: str, max_bytes: int) -> bytes:
    match encoding.strip().lower():
        case "" | "identity":
            return body
        case "gzip":
            try:
                return gunzip(body, max_bytes)
            except NotGzip as error:
                raise Invalid("invalid_encoding", str(error)) from error
            except TooLong as error:
                raise _too_large(max_bytes) from error
        case _:
            raise Invalid("unsupported_encoding", "Content-Encoding: only gzip is read", status=415)


def _too_large(max_bytes: int) -> TooLarge:
    return TooLarge(f"The body is larger than {max_bytes} bytes")


def _call(context: Context, key: KeyRecord, request: web.Request, body: bytes) -> ServiceCall:
    keys = (request.headers.get(name, "").strip() for name in REPEAT_KEY_HEADERS)
    return ServiceCall(
        method=request.method,
        path=request.path,
        params=request.match_info,
        query=tuple(request.query.items()),
        body=body,
        now_ms=context.now_ms(),
        request_id=context.random_bytes(16).hex(),
        idempotency_key=next((key[:IDEMPOTENCY_KEY_MAX_CHARS] for key in keys if key), None),
        key_name=key.name,
        key_id=key.key_id,
        content_type=request.headers.get("Content-Type", ""),
        gateway_id=request.headers.get("X-Gateway-Id", "")[:GATEWAY_ID_MAX_CHARS],
    )


def _response(answer: ServiceAnswer, headers: dict[str, str] | None = None) -> web.Response:
    headers = dict(headers or {})
    if answer.retry_after_s is not None:
        headers["Retry-After"] = str(answer.retry_after_s)
    if not answer.body:
        return web.Response(status=answer.status, headers=headers)
    return web.Response(status=answer.status, body=answer.body, content_type="application/json", headers=headers)


def _where(error: BaseException) -> str:
    """`file:line` of the innermost frame: the text of an error may quote the payload."""
    *_, frame = traceback.extract_tb(error.__traceback__)
    return f"{Path(frame.filename).name}:{frame.lineno}"


def _cut(request: web.Request) -> web.Response:
    """Reset the connection (RST, by a linger of 0 s); the response is not sent."""
    transport = request.transport
    if transport is not None:
        raw: socket.socket = transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_0_S)
        transport.abort()
    return web.Response(status=503)
