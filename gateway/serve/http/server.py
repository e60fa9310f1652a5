"""HTTP of senders: every request goes through `HttpServer.receive`, and every error becomes an
answer there.

It is a bare aiohttp server, without Application, router or middlewares: those double the cost of a
small request. The order is route, method, key, Content-Type, Content-Encoding, body
(`gateway.serve.steps`); so whatever can be refused by the headers is refused unread.
"""

import asyncio
from http import HTTPStatus

from aiohttp import web
from multidict import CIMultiDict

from gateway.common.contract.errors import BadPayload, MethodNotAllowed, NotFound, Unauthenticated
from gateway.common.contract.intake import Sender
from gateway.common.http.http_connection import note_rejected
from gateway.common.http.http_server import KEEP_ALIVE_S, LINGER_S, QuietServer
from gateway.serve.answers import ErrorAnswer, answer_for, kind_of
from gateway.serve.authenticator import Headers
from gateway.serve.http.http_exchange import HttpExchange, begun
from gateway.serve.http.together import TogetherReceiver
from gateway.serve.otlp import OtlpManner
from gateway.serve.outcome import NO_ROUTE
from gateway.serve.receiver import Receiver
from gateway.serve.routes import BodyRoute, RequestRoute, Route
from gateway.serve.steps import steps_of

MAX_LINE_BYTES = 8 * 1024
MAX_HEADER_BYTES = 16 * 1024
MAX_HEADERS = 100

READ_AHEAD_BYTES = 16 * 1024
"""A connection on which twice as much waits to be taken is read no further. One read of the loop
gives 256,000 bytes at most; aiohttp's own 256 KiB let 750 KB wait on each."""

UNROUTED: Route = RequestRoute(NO_ROUTE, "", OtlpManner("traces"), HttpExchange, frozenset({"POST"}))
"""How errors are reported that belong to no route."""


def make_server(receiver: Receiver) -> QuietServer:
    """Needs a running loop."""
    server = HttpServer(receiver)
    return QuietServer(
        server.receive,
        server.malformed,
        access_log=None,
        auto_decompress=False,
        max_line_size=MAX_LINE_BYTES,
        max_field_size=MAX_HEADER_BYTES,
        max_headers=MAX_HEADERS,
        lingering_time=LINGER_S,
        keepalive_timeout=KEEP_ALIVE_S,
        read_bufsize=READ_AHEAD_BYTES,
        for_grpc=receiver.for_grpc,
        is_direct=server.is_direct,
        taker=TogetherReceiver(receiver, server.refuse_one),
    )


class HttpServer:
    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def is_direct(self, target: str) -> bool:
        """Whether a request there, whose body came with its head, is handled without a task."""
        try:
            route, _ = self._receiver.routes.find(target)
        except NotFound:
            return False
        return self._receiver.tracer is None and isinstance(route, BodyRoute)

    async def receive(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request, from its headers to its answer; raises nothing but what states
        that the sender went away.
        """
        receiver, route = self._receiver, UNROUTED
        exchange: HttpExchange | None = None
        try:
            route, parameter = receiver.routes.find(request.raw_path)
            if request.method not in route.methods:
                other = receiver.routes.beside(route, request.method)
                if other is None:
                    return self._not_a_post(request, route)
                route = other
            refuse_transfer_codings(request.headers)
            exchange = begun(receiver, request, route, parameter)
            for waits_for in steps_of(exchange):
                if waits_for is not None:
                    await waits_for
        except (ConnectionError, asyncio.CancelledError, GeneratorExit):
            if exchange is not None:
                exchange.end(None)
            raise
        except Exception as error:  # noqa: BLE001 - the one place where errors become answers; unknown ones are retryable
            return self._refused(exchange or HttpExchange(receiver, request, route, ""), error)
        return self._answered(exchange)

    async def refuse_one(
        self, request: web.BaseRequest, *, route: Route, began_s: float, sender: Sender | None, error: Exception
    ) -> web.StreamResponse:
        """Answer one of the requests that were taken together with *error*."""
        exchange = HttpExchange(self._receiver, request, route, "")
        exchange.began_s, exchange.sender = began_s, sender
        return self._refused(exchange, error)

    def _answered(self, exchange: HttpExchange, error: Exception | None = None) -> web.StreamResponse:
        response = exchange.response
        assert response is not None  # noqa: S101 since its last step
        exchange.end(response.status, error)
        return self._receiver.cors.allowing(exchange.request, response)

    def _not_a_post(self, request: web.BaseRequest, route: Route) -> web.StreamResponse:
        """The answer to a browser's preflight. Raises MethodNotAllowed for everything else."""
        receiver = self._receiver
        if request.method == "OPTIONS" and receiver.cors.is_preflight(request):
            return receiver.cors.preflight(request)
        raise MethodNotAllowed(f"this path takes {' or '.join(receiver.routes.methods(route))}")

    def _refused(self, exchange: HttpExchange, error: Exception) -> web.StreamResponse:
        """The error's answer over HTTP."""
        request, route = exchange.request, exchange.route
        answer, message = exchange.refuse(error)
        exchange.response = response = route.manner.failure(request.headers, answer, message, kind_of(error))
        if answer.retry_after_s is not None:
            response.headers["Retry-After"] = str(answer.retry_after_s)
        if isinstance(error, Unauthenticated):
            note_rejected(request)
            response.headers["WWW-Authenticate"] = 'Bearer realm="telemetry-gateway"'
        if isinstance(error, MethodNotAllowed):
            response.headers["Allow"] = ", ".join(self._receiver.routes.methods(route))
        if not request.content.is_eof():
            response.force_close()
        return self._answered(exchange, error)

    def malformed(self, request: web.BaseRequest, status: int) -> web.Response:
        """What the HTTP parser refused.

        Its message quotes the bytes it stumbled over, which may be a key: not reported, not logged.
        """
        status = status if status < HTTPStatus.INTERNAL_SERVER_ERROR else HTTPStatus.SERVICE_UNAVAILABLE
        self._receiver.refused_unread(status, "malformed_http", request.remote)
        answer = ErrorAnswer(status, answer_for(BadPayload()).code)
        text = "the HTTP request is malformed or its headers are too large"
        return UNROUTED.manner.failure(CIMultiDict(), answer, text, "bad_request")


def refuse_transfer_codings(headers: Headers) -> None:
    """Raise BadPayload for a transfer coding that the HTTP parser passes over."""
    if "Transfer-Encoding" in headers:
        codings = [coding.strip().lower() for coding in headers.getall("Transfer-Encoding")]
        if codings != ["chunked"]:
            raise BadPayload("Transfer-Encoding must be chunked alone; a coding of the body is a Content-Encoding")
