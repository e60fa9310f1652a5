"""Small OTLP requests that came at the same time with the same head: admitted once, read, counted
and committed together, and answered one by one with the same bytes.

The head decides route, key, encodings and answer for all of them. A request whose body is too large
or damaged takes the way of a single request (`Receiver.receive`). So do all of them where quota,
budget or spool have no room for the whole, so that each gets the answer that it would get alone;
and each is refused as it would be alone where their commit fails.
"""

import time
from collections.abc import Sequence
from http import HTTPStatus
from io import BytesIO
from time import perf_counter
from typing import TYPE_CHECKING, Final, NamedTuple

from aiohttp import web
from aiohttp.http_parser import RawRequestMessage

from gateway.common.futures import failure_of
from gateway.common.repeated_requests import MAX_BYTES, RepeatedRequest
from gateway.contract.errors import BadPayload, NotFound, TooLarge, UnsupportedMedia
from gateway.contract.headers import REPEAT_KEY_HEADERS
from gateway.contract.intake import TakenTogether
from gateway.contract.otlp import media_of
from gateway.receiver.answers import TO_COME_AGAIN, answer_for
from gateway.receiver.authenticator import sender_of
from gateway.receiver.body import INLINE_S, Hold
from gateway.receiver.content_encoding import Decode, decoder_for
from gateway.receiver.decompression import Decompression
from gateway.receiver.otlp import SUCCESS
from gateway.receiver.routes import BodyRoute

if TYPE_CHECKING:
    from gateway.receiver.server import Receiver

SINGLE_HEADERS: Final = ("Origin", *REPEAT_KEY_HEADERS)
"""A request with one of them is never taken with others: its answer may differ."""
MAX_PLAIN_BYTES: Final = 64 * 1024
"""Of a compressed body, once it is decompressed."""
UNREAD: Final = b"\xff"
"""Stands for a body that is left to a single request: no protobuf message begins so."""
ANSWER: Final = SUCCESS["protobuf"]


class _Begun(NamedTuple):
    """Requests that wait for one commit."""

    requests: Sequence[RepeatedRequest]
    route: BodyRoute
    hold: Hold


class TogetherReceiver:
    """`gateway.common.repeated_requests.Taker` of *receiver*."""

    def __init__(self, receiver: "Receiver") -> None:
        self._receiver = receiver

    def takes(self, message: RawRequestMessage) -> bool:
        """Whether requests with this head may differ in nothing but their bodies."""
        receiver, headers = self._receiver, message.headers
        if receiver.tracer is not None or not receiver.admission.asks_headers_alone:
            return False
        if any(name in headers for name in SINGLE_HEADERS) or media_of(headers.get("Content-Type", "")) != "protobuf":
            return False
        try:
            decoder_for(headers.get("Content-Encoding", ""))
            return self._route(message) is not None
        except UnsupportedMedia:
            return False

    def _route(self, message: RawRequestMessage) -> BodyRoute | None:
        """None for one that takes no requests together."""
        try:
            route, _ = self._receiver.routes.find(message.path)
        except NotFound:
            return None
        if not isinstance(route, BodyRoute) or route.takes_any_type or route.shown is not None:
            return None
        return None if route.call_together is None else route

    def take(self, requests: Sequence[RepeatedRequest]) -> None:
        for request in self._begin(requests):
            if not request.handle():
                self._receiver.counts.gone += 1

    def _begin(self, requests: Sequence[RepeatedRequest]) -> Sequence[RepeatedRequest]:
        """Begin to take *requests*; those that are left to the way of a single request."""
        receiver, route = self._receiver, self._route(requests[0].message)
        if route is None:
            return requests
        hold = Hold(receiver.budget, len(requests))
        begun = _Begun(requests, route, hold)
        try:
            taken = self._take_bodies(begun)
        except Exception as error:  # noqa: BLE001 - as in `Receiver.receive`, whose answers these are
            if not answer_for(error).show_text:  # unforeseen: something may have been done already
                self._end(begun, error)
                return ()
            taken = None
        if taken is None:
            hold.release()
            return requests
        left = frozenset(taken.left)
        kept = [request for place, request in enumerate(requests) if place not in left]
        begun = begun._replace(requests=kept)
        taken.kept.add_done_callback(lambda done: self._end(begun, failure_of(done)))
        for request in kept:
            request.admitted()
        return [requests[place] for place in taken.left]

    def _take_bodies(self, begun: _Begun) -> TakenTogether | None:
        """Admit them by the head that they share, and hand their bodies on; None where each is to
        be taken by itself.
        """
        requests, route, hold = begun
        headers, peer = requests[0].message.headers, requests[0].peer or "unix"
        admission = self._receiver.admission
        key = admission.key_of(headers, route.scope)
        decode = decoder_for(headers.get("Content-Encoding", ""))
        bodies = self._plain(requests, decode)
        sizes = list(map(len, bodies))
        n_bytes = sum(sizes)
        if key is not None and not admission.quotas.have(key, len(sizes), n_bytes):
            return None
        hold.belongs_to(peer if key is None else key.key_id)
        raw_bytes = 0 if decode is None else sum(len(request.body) for request in requests)
        hold.take(raw_bytes + n_bytes)
        hold.give(raw_bytes)
        taken = route.call_together and route.call_together(bodies, sender_of(key, headers, peer))
        if taken is None:
            return None
        left_bytes = sum(sizes[place] for place in taken.left)
        hold.let_go(len(taken.left), left_bytes)
        n_kept = len(sizes) - len(taken.left)
        hold.charge = admission.admitted(
            key, headers, peer, route.path, n_requests=n_kept, n_bytes=n_bytes - left_bytes
        )
        return taken

    def _plain(self, requests: Sequence[RepeatedRequest], decode: Decode | None) -> list[bytes]:
        """The bodies of *requests*, decompressed; `UNREAD` for one that is too large or damaged."""
        limits = self._receiver.limits
        raw = [request.body if len(request.body) <= limits.max_body_bytes else UNREAD for request in requests]
        if decode is None:
            return raw
        bodies, left_bytes, began_s = [], MAX_BYTES, time.thread_time()
        for body in raw:
            max_bytes = min(MAX_PLAIN_BYTES, left_bytes, limits.max_decompressed_bytes)
            left_s = began_s + INLINE_S - time.thread_time()
            bodies.append(decompressed_at_once(body, decode, max_bytes, left_s))
            left_bytes -= len(bodies[-1])
        return bodies

    def _end(self, begun: _Begun, failure: Exception | None) -> None:
        """Answer the requests of *begun*, whose commit ended, with *failure* where it failed."""
        counts = self._receiver.counts
        if failure is not None and answer_for(failure).status in TO_COME_AGAIN:
            begun.hold.give_back_quota()
        self._receiver.heap.freed(begun.hold.release())
        if failure is not None:
            for request in begun.requests:
                request.handle(self._receiver.refusing(begun.route, failure, request.began_s))
            return
        counts.answers[begun.route.path, HTTPStatus.OK] += len(begun.requests)
        observe, now_s, answer = counts.seconds[begun.route.path].observe, perf_counter(), ANSWER.bytes_now()
        for request in begun.requests:
            observe(now_s - request.began_s)
            if not request.answer(answer):
                request.handle(_ordinary)


def decompressed_at_once(raw: bytes, decode: Decode, max_bytes: int, max_s: float) -> bytes:
    """The plain body; `UNREAD` where it is damaged, or has or takes more than it may."""
    undone, plain = Decompression(raw, decode), BytesIO()
    try:
        n_bytes = undone.write(plain, max_bytes + 1, max_s)
    except (BadPayload, TooLarge):
        return UNREAD
    return plain.getvalue() if undone.is_done and n_bytes <= max_bytes else UNREAD


async def _ordinary(_: web.BaseRequest) -> web.StreamResponse:
    return ANSWER.ordinary()
