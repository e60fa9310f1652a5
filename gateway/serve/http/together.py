"""Small OTLP requests that came at the same time with the same head: admitted once, read, counted
and committed together, and answered one by one with the same bytes.

The head decides route, key, encodings and answer for all of them. A request whose body is too large
or damaged takes the way of a single request (`HttpServer.receive`). So do all of them where quota,
budget or spool have no room for the whole, so that each gets the answer that it would get alone;
and each is refused as it would be alone where their commit fails.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from http import HTTPStatus
from io import BytesIO
from time import perf_counter
from typing import Any, Final, NamedTuple

from aiohttp import web

from gateway.access.record import KeyRecord
from gateway.common.contract.errors import BadPayload, NotFound, TooLarge, UnsupportedMedia
from gateway.common.contract.headers import REPEAT_KEY_HEADERS
from gateway.common.contract.otlp import media_of
from gateway.common.futures import failure_of
from gateway.common.http.repeated_head import RepeatedHead
from gateway.common.http.repeated_requests import MAX_BYTES, RepeatedRequest
from gateway.serve.answers import answer_for
from gateway.serve.authenticator import Headers, sender_of
from gateway.serve.body import INLINE_S, BodyLimits
from gateway.serve.content_encoding import Decode, decoder_for
from gateway.serve.decompression import Decompression
from gateway.serve.otlp import SUCCESS
from gateway.serve.outcome import NO_ROUTE, RequestOutcome
from gateway.serve.receiver import Receiver
from gateway.serve.routes import BodyRoute
from gateway.serve.steps import Exchange, Waits, steps_of

SINGLE_HEADERS: Final = ("Origin", *REPEAT_KEY_HEADERS)
"""A request with one of them is never taken with others: its answer may differ."""
MAX_PLAIN_BYTES: Final = 64 * 1024
"""Of a compressed body, once it is decompressed."""
UNREAD: Final = b"\xff"
"""Stands for a body that is left to a single request: no protobuf message begins so."""
ANSWER: Final = SUCCESS["protobuf"]


RefuseOne = Callable[..., Awaitable[web.StreamResponse]]
"""`gateway.serve.http.server.HttpServer.refuse_one`."""


class EachAlone(Exception):
    """The requests are to be taken one by one; nothing of them was done."""


class _Head(NamedTuple):
    """`gateway.serve.admission.Request` of all that share it."""

    headers: Headers
    remote: str | None
    content_length: int | None = None
    protocol: Any = None


class GroupExchange(Exchange):
    """Requests that are taken together. Nothing is waited for but their commit."""

    def __init__(self, receiver: Receiver, route: BodyRoute, requests: Sequence[RepeatedRequest]) -> None:
        head = _Head(requests[0].head.headers, requests[0].peer)
        super().__init__(receiver, head, route.path, route.scope, receiver.admission, len(requests))
        self.route, self.requests = route, requests
        self.left: Sequence[RepeatedRequest] = ()
        """Those that are to be taken by themselves, no longer among `requests`."""
        self._key: KeyRecord | None = None
        self._bodies: list[bytes] = []

    def admit(self) -> None:
        head = self.request
        self._key = self.admission.key_of(head.headers, self.scope)
        self.sender = sender_of(self._key, head.headers, head.remote)
        self.hold.belongs_to(self.sender.peer if self._key is None else self._key.key_id)
        self._decode = decoder_for(head.headers.get("Content-Encoding", ""))

    def read(self) -> None:
        self.is_read = self.receipt is not None
        if not self.is_read:
            self.read_body()

    def read_body(self) -> None:
        self._bodies = plain_bodies([request.body for request in self.requests], self._decode, self.receiver.limits)
        raw_bytes = 0 if self._decode is None else sum(len(request.body) for request in self.requests)
        self.hold.take(raw_bytes + sum(map(len, self._bodies)))
        self.hold.give(raw_bytes)

    def ask_again(self) -> None:
        """No time has passed."""

    def charge(self) -> None:
        """Raises EachAlone where the quota has no room for the sum."""
        if self._key is not None:
            n_requests, n_bytes = len(self._bodies), sum(map(len, self._bodies))
            if not self.admission.quotas.have(self._key, n_requests, n_bytes):
                raise EachAlone
            self.hold.charge = self.admission.quotas.charge_together(self._key, n_requests, n_bytes)

    def call(self) -> "asyncio.Future[object]":
        """Raises EachAlone."""
        together, sender = self.route.call_together, self.sender
        taken = None if together is None or sender is None else together(self._bodies, sender)
        if taken is None:
            raise EachAlone
        self.receipt, left, requests = taken.receipt, frozenset(taken.left), self.requests
        self.hold.let_go(len(left), sum(len(self._bodies[place]) for place in left))
        self._bodies = []
        self.left = [requests[place] for place in taken.left]
        self.requests = [request for place, request in enumerate(requests) if place not in left]
        for request in self.requests:
            request.admitted()
        return taken.kept

    def answer(self) -> None:
        answer = ANSWER.bytes_now()
        for request in self.requests:
            request.answer(answer)

    def took_s(self) -> Sequence[float]:
        now_s = perf_counter()
        return [now_s - request.began_s for request in self.requests]


class TogetherReceiver:
    """`gateway.common.http.repeated_requests.Taker` of *receiver*."""

    def __init__(self, receiver: Receiver, refuse_one: RefuseOne) -> None:
        self._receiver = receiver
        self._refuse_one = refuse_one

    def takes(self, head: RepeatedHead) -> bool:
        """Whether requests with this head may differ in nothing but their bodies."""
        receiver, headers = self._receiver, head.headers
        if receiver.tracer is not None or not receiver.admission.asks_headers_alone:
            return False
        if any(name in headers for name in SINGLE_HEADERS) or media_of(headers.get("Content-Type", "")) != "protobuf":
            return False
        try:
            decoder_for(headers.get("Content-Encoding", ""))
            return self._route(head) is not None
        except UnsupportedMedia:
            return False

    def _route(self, head: RepeatedHead) -> BodyRoute | None:
        """None for one that takes no requests together."""
        try:
            route, _ = self._receiver.routes.find(head.target)
        except NotFound:
            return None
        if not isinstance(route, BodyRoute) or route.takes_any_type or route.shown is not None:
            return None
        return None if route.call_together is None else route

    def take(self, requests: Sequence[RepeatedRequest]) -> None:
        route, peer = self._route(requests[0].head), requests[0].peer or "unix"
        for request in requests if route is None else self._begin(route, requests):
            if not request.handle_alone():
                self._receiver.note(RequestOutcome(NO_ROUTE, peer, None))

    def _begin(self, route: BodyRoute, requests: Sequence[RepeatedRequest]) -> Sequence[RepeatedRequest]:
        """Begin to take *requests*; those that are left to the way of a single request."""
        group = GroupExchange(self._receiver, route, requests)
        steps = steps_of(group)
        try:
            kept = next(waits_for for waits_for in steps if waits_for is not None)
        except Exception as error:  # noqa: BLE001 - as in `HttpServer.receive`, whose answers these are
            if not isinstance(error, EachAlone) and not answer_for(error).show_text:
                self._refuse(group, error)  # unforeseen: something may have been done already
                return ()
            group.hold.give_back_quota()
            group.hold.release()
            return requests
        asyncio.ensure_future(kept).add_done_callback(lambda done: self._end(group, steps, failure_of(done)))
        return group.left

    def _end(self, group: GroupExchange, steps: Iterator[Waits], failure: Exception | None) -> None:
        """The commit of *group* ended: answer its requests."""
        if failure is None:
            group.end(HTTPStatus.OK)
            deque(steps, maxlen=0)
        else:
            self._refuse(group, failure)

    def _refuse(self, group: GroupExchange, error: Exception) -> None:
        group.refuse(error)
        self._receiver.heap.freed(group.hold.release())
        refused = partial(self._refuse_one, route=group.route, sender=group.sender, error=error)
        for request in group.requests:
            request.handle_alone(partial(refused, began_s=request.began_s))


def plain_bodies(raw: Sequence[bytes], decode: Decode | None, limits: BodyLimits) -> list[bytes]:
    """*raw*, decompressed; `UNREAD` for one that is too large or damaged."""
    raw = [body if len(body) <= limits.max_body_bytes else UNREAD for body in raw]
    if decode is None:
        return raw
    bodies, left_bytes, began_s = [], MAX_BYTES, time.thread_time()
    for body in raw:
        max_bytes = min(MAX_PLAIN_BYTES, left_bytes, limits.max_decompressed_bytes)
        left_s = began_s + INLINE_S - time.thread_time()
        bodies.append(decompressed_at_once(body, decode, max_bytes, left_s))
        left_bytes -= len(bodies[-1])
    return bodies


def decompressed_at_once(raw: bytes, decode: Decode, max_bytes: int, max_s: float) -> bytes:
    """The plain body; `UNREAD` where it is damaged, or has or takes more than it may."""
    undone, plain = Decompression(raw, decode), BytesIO()
    try:
        n_bytes = undone.write(plain, max_bytes + 1, max_s)
    except (BadPayload, TooLarge):
        return UNREAD
    return plain.getvalue() if undone.is_done and n_bytes <= max_bytes else UNREAD
