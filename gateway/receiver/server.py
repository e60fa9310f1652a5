"""The receiver: every request of senders goes through `Receiver.receive`, and every
error becomes an answer there.

It is a bare aiohttp server, without Application, router or middlewares: those double the cost of a
small request. The order is route, method, key, Content-Type, Content-Encoding, body; so whatever
can be refused by the headers is refused unread.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from time import perf_counter

import structlog
from aiohttp import web
from multidict import CIMultiDict

from gateway.common.heap import Heap
from gateway.common.http_connection import note_rejected
from gateway.common.http_server import KEEP_ALIVE_S, LINGER_S, QuietServer
from gateway.common.repeated_requests import Handler
from gateway.common.traceback_summary import places
from gateway.common.wall_clock import wall_ms
from gateway.contract.errors import BadPayload, GatewayError, MethodNotAllowed, NotFound, Unauthenticated
from gateway.contract.headers import REPEAT_KEY_HEADERS
from gateway.contract.intake import Sender
from gateway.keys.record import KeyRecord
from gateway.observability.metrics import WebFigures
from gateway.observability.refusals import Refused
from gateway.observability.telemetry.tracer import Tracer
from gateway.receiver.admission import Admission
from gateway.receiver.answers import TO_COME_AGAIN, Answer, answer_for, kind_of, reason_of
from gateway.receiver.authenticator import Headers, sender_of
from gateway.receiver.body import INLINE_BYTES, Budget, Hold, Limits, read_body
from gateway.receiver.content_encoding import decoder_for
from gateway.receiver.cors import Cors
from gateway.receiver.otlp import OtlpManner
from gateway.receiver.recent_senders import product_of
from gateway.receiver.routes import POST_ONLY, BodyRoute, Manner, Route, RouteTable
from gateway.receiver.together import TogetherReceiver
from gateway.senders.activity import Senders, format_of
from spool.histogram import ANSWER_S, Histogram

log = structlog.get_logger()

BATCH_HEADERS = ("X-Gateway-Id", "X-Batch-Id")

MAX_LINE_BYTES = 8 * 1024
MAX_HEADER_BYTES = 16 * 1024
MAX_HEADERS = 100

READ_AHEAD_BYTES = 16 * 1024
"""A connection on which twice as much waits to be taken is read no further. One read of the loop
gives 256,000 bytes at most; aiohttp's own 256 KiB let 750 KB wait on each."""

UNROUTED: Manner = OtlpManner("traces")
"""How errors are reported that belong to no route."""

NO_ROUTE = "none"
KNOWN_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"})


@dataclass(slots=True)
class WebCounts:
    """Plain ints, read by `gateway.observability.metrics`."""

    answers: Counter[tuple[str, int]]
    """(route's path, HTTP status) -> requests."""
    unforeseen: int = 0
    """Errors that no table entry foresaw."""
    gone: int = 0
    """Senders that went away before their body was whole."""
    seconds: defaultdict[str, Histogram] = field(default_factory=lambda: defaultdict(lambda: Histogram(ANSWER_S)))
    """Route's path -> from the headers of its requests to their answers."""

    def note_unforeseen(self) -> None:
        self.unforeseen += 1


class Receiver:
    """Takes requests for *routes*; give `make_server()` to a runner."""

    def __init__(
        self,
        routes: RouteTable,
        admission: Admission,
        limits: Limits,
        cors: Cors,
        *,
        now_ms: Callable[[], int] = wall_ms,
        senders: Senders | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        """*senders* notes what is refused of each; *tracer* samples requests."""
        self.tracer = tracer
        self.counts = WebCounts(Counter())
        self.budget = Budget(limits.max_in_flight_bytes)
        self.admission = admission
        self.refused = Refused(now_ms)
        self.senders = senders or Senders(now_ms)
        self.routes = routes
        self.limits = limits
        self.heap = Heap()
        self.http_at: str | None = None
        self.grpc_at: str | None = None
        """The addresses of the two listeners; None where one is off."""
        self._cors = cors

    def use(self, routes: RouteTable, limits: Limits, cors: Cors) -> None:
        """Take requests by these from now on; those under way end by the ones they began with."""
        self.routes, self.limits, self._cors = routes, limits, cors
        self.budget.limit_bytes = limits.max_in_flight_bytes

    def make_server(self) -> web.Server:
        """Needs a running loop."""
        return QuietServer(
            self.receive,
            self.malformed,
            access_log=None,
            auto_decompress=False,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            max_headers=MAX_HEADERS,
            lingering_time=LINGER_S,
            keepalive_timeout=KEEP_ALIVE_S,
            read_bufsize=READ_AHEAD_BYTES,
            for_grpc=self.for_grpc,
            is_direct=self.is_direct,
            taker=TogetherReceiver(self),
        )

    def is_direct(self, target: str) -> bool:
        """Whether a request there, whose body came with its head, is handled without a task."""
        try:
            route, _ = self.routes.find(target)
        except NotFound:
            return False
        return self.tracer is None and isinstance(route, BodyRoute)

    def figures(self) -> WebFigures:
        """What `gateway.observability.metrics` shows."""
        return WebFigures(
            self.counts.answers,
            self.counts.unforeseen,
            self.counts.gone,
            self.budget.used_bytes,
            self.admission.quotas.refused,
        )

    async def receive(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request, from its headers to its answer; raises nothing but what states
        that the sender went away.
        """
        began_s = perf_counter()
        span = None if self.tracer is None else self.tracer.begin()
        route: Route | None = None
        hold = Hold(self.budget)
        try:
            route, parameter = self.routes.find(request.raw_path)
            if request.method not in route.methods:
                other = self.routes.beside(route, request.method)
                if other is None:
                    return self.not_a_post(request, route)
                route = other
            refuse_transfer_codings(request.headers)
            if isinstance(route, BodyRoute):
                response = await self.accept(request, route, parameter, hold)
            else:
                response = await route.take(request, parameter, hold)
        except (ConnectionError, asyncio.CancelledError):
            self.counts.gone += 1
            raise
        except Exception as error:  # noqa: BLE001 - the one place where errors become answers; unknown ones are retryable
            response = self.refuse(request, route, error)
            if response.status in TO_COME_AGAIN:
                hold.give_back_quota()
        finally:
            self.heap.freed(hold.release())
        path = route.path if route else NO_ROUTE
        self._count(path, response.status, began_s)
        if self.tracer is not None and span is not None:
            self.tracer.end(span, began_s, *http_span(request.method, path, response.status), response.status)
        return self._cors.allowing(request, response)

    def _count(self, path: str, status: int, began_s: float) -> None:
        self.counts.answers[path, status] += 1
        self.counts.seconds[path].observe(perf_counter() - began_s)

    def refusing(self, route: BodyRoute, error: Exception, began_s: float) -> Handler:
        """What answers a request of *route* with *error*, in place of `receive`."""

        async def refuse(request: web.BaseRequest) -> web.StreamResponse:
            response = self.refuse(request, route, error)
            self._count(route.path, response.status, began_s)
            return self._cors.allowing(request, response)

        return refuse

    async def accept(
        self, request: web.BaseRequest, route: BodyRoute, parameter: str, hold: Hold
    ) -> web.StreamResponse:
        """Take one request to its answer; raises what `gateway.contract.errors` maps."""
        headers = request.headers
        if route.takes_any_type:
            self._cors.refuse_pages(request)
        shown = None if route.shown is None else route.shown(request, parameter)
        key = self.admission.admit(request, route.path, route.scope, hold, shown)
        media = route.manner.media(headers.get("Content-Type", ""))
        decode = decoder_for(headers.get("Content-Encoding", ""))
        came_at_once = request.content.is_eof()
        body = await read_body(request, decode, self.limits, hold)
        if not came_at_once or len(body) > INLINE_BYTES:  # time has passed, in which the key may have been disabled
            self.admission.ask_again(request, route.scope, shown)
        hold.take_of_quota(len(body))
        sender = sender_with(key, headers, request.remote)
        receipt = await route.call(body, media, sender, parameter)
        return route.manner.success(request, media, receipt)

    def not_a_post(self, request: web.BaseRequest, route: Route) -> web.StreamResponse:
        """The answer to a browser's preflight. Raises MethodNotAllowed for everything else."""
        if request.method == "OPTIONS" and self._cors.is_preflight(request):
            return self._cors.preflight(request)
        raise MethodNotAllowed(f"this path takes {' or '.join(self.routes.methods(route))}")

    def refuse(self, request: web.BaseRequest, route: Route | None, error: Exception) -> web.Response:
        """The error's answer over HTTP."""
        path = route.path if route else NO_ROUTE
        answer, message = self.decide(error, path, request.headers, request.remote)
        manner = route.manner if route else UNROUTED
        response = manner.failure(request.headers, answer, message, kind_of(error))
        if answer.retry_after_s is not None:
            response.headers["Retry-After"] = str(answer.retry_after_s)
        if isinstance(error, Unauthenticated):
            note_rejected(request)
            response.headers["WWW-Authenticate"] = 'Bearer realm="telemetry-gateway"'
        if isinstance(error, MethodNotAllowed):
            response.headers["Allow"] = ", ".join(self.routes.methods(route) if route else POST_ONLY)
        if not request.content.is_eof():
            response.force_close()
        return response

    def decide(self, error: Exception, path: str, headers: Headers, peer: str | None) -> tuple[Answer, str]:
        """The answer to *error* and its text, whatever transport it goes out by; noted as refused.

        What no one foresaw is logged by class and place: its text may quote the payload.
        """
        answer = answer_for(error)
        message = str(error) if answer.show_text else "an unforeseen error; send the same again later"
        if not answer.show_text:
            self.counts.note_unforeseen()
            log.error("unforeseen error", error=type(error).__name__, at=places(error))
        key = error.key if isinstance(error, GatewayError) else None  # another's may quote the request
        reason = reason_of(error)
        self.refused.note(answer.status, reason, path, peer or "unix", key)
        # Who shows no key that is known may write what it likes into its headers.
        product = "" if isinstance(error, Unauthenticated) else product_of(headers.get("User-Agent", ""))
        self.senders.refused(key, format_of(path), product, reason)
        return answer, message

    def malformed(self, request: web.BaseRequest, status: int) -> web.Response:
        """What the HTTP parser refused.

        Its message quotes the bytes it stumbled over, which may be a key: not reported, not logged.
        """
        status = status if status < HTTPStatus.INTERNAL_SERVER_ERROR else HTTPStatus.SERVICE_UNAVAILABLE
        self.counts.answers[NO_ROUTE, status] += 1
        self.refused.note(status, "malformed_http", NO_ROUTE, request.remote or "unix")
        answer = Answer(status, answer_for(BadPayload()).code)
        text = "the HTTP request is malformed or its headers are too large"
        return UNROUTED.failure(CIMultiDict(), answer, text, "bad_request")

    def max_connections(self) -> int:
        """This and the next two are `gateway.common.incoming.ConnectionLimits`, of each listener of
        senders.
        """
        return self.limits.max_connections

    def too_many(self, peer: str | None) -> None:
        remedy = "limits.max_connections, or fewer connections a sender"
        self.note_refused(HTTPStatus.SERVICE_UNAVAILABLE, "too_many_connections", peer, remedy)

    def not_admitted(self, peer: str | None) -> None:
        remedy = "find who opens connections and shows no key; honest senders connect again"
        self.note_refused(HTTPStatus.SERVICE_UNAVAILABLE, "no_key_on_connection", peer, remedy)

    def for_grpc(self, peer: str | None) -> str:
        """What a sender reads that speaks gRPC to this port; noted as refused."""
        there = f"is on {self.grpc_at}" if self.grpc_at else "is off (listen.grpc)"
        status = HTTPStatus.HTTP_VERSION_NOT_SUPPORTED
        self.note_refused(status, "grpc_on_http_port", peer, f"OTLP/gRPC {there}")
        return f"this port speaks OTLP over HTTP; OTLP/gRPC {there}"

    def for_http(self, peer: str | None) -> str:
        """What a sender reads that speaks HTTP/1.1 to the gRPC port; noted as refused."""
        there = f"is on {self.http_at}" if self.http_at else "is off (listen.http)"
        status = HTTPStatus.HTTP_VERSION_NOT_SUPPORTED
        self.note_refused(status, "http_on_grpc_port", peer, f"OTLP over HTTP {there}")
        return f"this port speaks OTLP/gRPC; OTLP over HTTP {there}"

    def note_refused(self, status: HTTPStatus, reason: str, peer: str | None, remedy: str | None = None) -> None:
        """Count what was refused before it was a request of a route."""
        self.counts.answers[NO_ROUTE, status.value] += 1
        self.refused.note(status.value, reason, NO_ROUTE, peer or "unix", remedy=remedy)


def refuse_transfer_codings(headers: Headers) -> None:
    """Raise BadPayload for a transfer coding that the HTTP parser passes over."""
    if "Transfer-Encoding" in headers:
        codings = [coding.strip().lower() for coding in headers.getall("Transfer-Encoding")]
        if codings != ["chunked"]:
            raise BadPayload("Transfer-Encoding must be chunked alone; a coding of the body is a Content-Encoding")


def http_span(method: str, path: str, status: int) -> tuple[str, dict[str, str]]:
    """Name and attributes of a request's span; a method unknown to HTTP is not repeated."""
    known = method if method in KNOWN_METHODS else "_OTHER"
    attributes = {"http.request.method": known, "http.route": path, "http.response.status_code": str(status)}
    return f"{known} {path}", attributes


def sender_with(key: KeyRecord | None, headers: Headers, peer: str | None) -> Sender:
    """Who sends, and what marks the request as a repeat."""
    sender = sender_of(key, headers, peer)
    repeat_key = repeat_key_of(headers)
    return sender if repeat_key is None else sender._replace(repeat_key=repeat_key, batch=batch_of(headers))


def repeat_key_of(headers: Headers) -> str | None:
    """The request's idempotency key, if it has one."""
    for name in REPEAT_KEY_HEADERS:
        value = headers.get(name, "").strip()
        if value:
            return value
    return None


def batch_of(headers: Headers) -> tuple[str, str] | None:
    """The batch of another gateway that the request is, as that one names itself and it."""
    gateway_id, batch_id = (headers.get(name, "").strip() for name in BATCH_HEADERS)
    return (gateway_id, batch_id) if gateway_id and batch_id else None
