"""AI gateways that push in shapes of their own: the routes under `/v1/sources/{name}`, and the
paths that clients choose themselves.

A request is admitted by its key, by a token in its address or by its signature; its body goes
to the intake piece by piece, and the answer is in the sender's own shape. What can be read is
kept; what cannot is counted and stated where that shape has a place for it.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import NamedTuple

from aiohttp import web

from gateway.common.contract.errors import BadPayload, Unauthenticated
from gateway.common.contract.intake import Intake, Receipt, Sender
from gateway.common.contract.outcomes import Rejection
from gateway.common.contract.scopes import INGEST_SCOPE
from gateway.fleet.senders.repeats import sent_with
from gateway.products.source import TOKEN_PATH, Source
from gateway.serve.auth_methods import shown_by, signature_of
from gateway.serve.body import read_body
from gateway.serve.content_encoding import decoder_for
from gateway.serve.http.http_exchange import HttpExchange
from gateway.serve.http.source_responses import SourceManner
from gateway.serve.http.streaming import Piece, pieces
from gateway.serve.otlp import otlp_routes
from gateway.serve.receiver import Receiver
from gateway.serve.routes import RequestRoute, Route
from gateway.serve.steps import Exchange, Waits

VERIFY_HEADER = "x-vercel-verify"
PUSHED_BY = frozenset({"POST", "PUT"})
TRIED_BY = frozenset({"GET", "HEAD"})
MAX_REJECTIONS_KEPT = 1000
"""Of one streamed body; all are counted."""


class SourceAccess(NamedTuple):
    """What the configuration states of one source."""

    secret: str | None = None
    """What its signatures are made with."""
    url_token: bool = False
    verify: str | None = None

    def __repr__(self) -> str:
        return f"SourceAccess(url_token={self.url_token})"


NO_ACCESS = SourceAccess()


class SourceReceiver:
    """What all requests of one source share."""

    def __init__(self, source: Source, access: SourceAccess, intake: Intake) -> None:
        self.source, self.intake = source, intake
        self.signature = signature_of(source.ways_in, access.secret)
        self._shown_by = shown_by(source.ways_in, url_token=access.url_token)
        self.manner = SourceManner(source.answers, {VERIFY_HEADER: access.verify} if access.verify else {})
        self.methods = PUSHED_BY | TRIED_BY if access.verify else PUSHED_BY

    def begin(self, receiver: Receiver, request: web.BaseRequest, route: Route, token: str) -> HttpExchange:
        """The exchange of one request; *token*: the key in its path, or empty."""
        if request.method in TRIED_BY:
            return Handshake(receiver, request, route, token, self._shake_hands)
        return SourceExchange(self, receiver, request, route, token)

    async def _shake_hands(self, _: HttpExchange) -> web.StreamResponse:
        return self.manner.handshake()

    def shown(self, request: web.BaseRequest, token: str) -> list[str]:
        """Every key that the request shows; *token* is the one in its path, or empty."""
        return self._shown_by(request.headers, token, request.raw_path.partition("?")[2])


class Handshake(HttpExchange):
    def admit(self) -> None:
        """No key is asked for."""


class SourceExchange(HttpExchange):
    """A body that is read whole is signed, as a signature is over all of it, or protobuf. Of any
    other, each piece is on disk before the next is asked for. When one fails, the sender repeats
    all, and what is kept counts once.

    The key is asked for again with each piece: one that was disabled meanwhile takes no more.
    """

    def __init__(
        self, of: SourceReceiver, receiver: Receiver, request: web.BaseRequest, route: Route, token: str
    ) -> None:
        super().__init__(receiver, request, route, token)
        self._of, self.shown = of, of.shown(request, token)
        self._is_signed = of.signature is not None and of.signature.stands_in(request.headers)
        self._pieces: AsyncIterator[Piece] | None = None
        self._taken = 0
        """Items that were not rejected."""

    def admit(self) -> None:
        """A signed request needs no key; but a key that it shows must be right as well."""
        headers = self.request.headers
        self.cors.refuse_pages(self.request)
        if self._is_signed and not self.shown:
            self.sender = Sender(f"signed:{self._of.source.name}", self.request.remote or "unix")
            self.hold.belongs_to(f"signed:{self._of.source.name}")
        else:
            super().admit()
            if self._of.signature is not None and not self._is_signed and self.sender and self.sender.key is None:
                text = f"the request is not signed: {self._of.signature.header} is missing"
                raise Unauthenticated(text, reason="not_signed")
        self.media = self._of.manner.media(headers.get("Content-Type", ""))
        self._is_whole = self._is_signed or self.media == "protobuf"
        self._decode = decoder_for(headers.get("Content-Encoding", ""))
        if self._is_signed and self._decode is not None:
            raise Unauthenticated(
                "a signed body must come without Content-Encoding: the signature is over its bytes",
                reason="signature_wrong",
            )

    def read(self) -> Waits:
        return super().read() if self._is_whole else self._read_piece()

    async def read_body(self) -> None:
        self.body = await read_body(self.request, self._decode, self.limits, self.hold)
        signature = self._of.signature if self._is_signed else None
        if signature is not None and not signature.is_right(self.request.headers, self.body):
            raise Unauthenticated(
                "the signature does not fit the body and the configured secret", reason="signature_wrong"
            )

    async def _read_piece(self) -> None:
        if self._pieces is None:
            self._pieces = pieces(self.request, self._decode, self.limits, self.hold)
        self.body = None
        piece = await anext(self._pieces, None)
        if piece is None:
            self.is_read = True
        else:
            self.body, self._first_line = piece

    def ask_again(self) -> None:
        if self.shown or not self._is_signed:
            Exchange.ask_again(self)

    async def call(self) -> None:
        assert self.body is not None and self.sender is not None  # noqa: S101, PT018 since `admit` and `read`
        intake, name = self._of.intake, self._of.source.name
        if self.media == "protobuf":
            self.receipt = await intake.traces(self.body, json=False, sender=self.sender)
        elif self._is_whole:
            self.receipt = await intake.source(name, self.body, sender=self.sender)
        else:
            more = await intake.source(name, self.body, sender=self.sender, first_line=self._first_line)
            self.hold.spend_quota()
            self._taken += more.items - len(more.rejected)
            self.receipt = joined(self.receipt or Receipt(0, ()), more)

    def answer(self) -> None:
        if not self._is_whole and not self._taken and self.receipt is not None:
            self._refuse(self.receipt.rejected)
        super().answer()

    def _refuse(self, rejected: Sequence[Rejection]) -> None:
        """Raises BadPayload where all that a request holds is *rejected* for one reason for which
        this source refuses it: nothing of it was kept.
        """
        reasons, refusals = {rejection.reason for rejection in rejected}, self._of.source.refusals
        reason = reasons.pop() if len(reasons) == 1 else ""
        if reason in refusals:
            raise BadPayload(refusals[reason], reason=reason)


def joined(receipt: Receipt, more: Receipt) -> Receipt:
    """Of a body, with the *more* of its next piece."""
    room = max(0, MAX_REJECTIONS_KEPT - len(receipt.rejected))
    return Receipt(
        receipt.items + more.items,
        (*receipt.rejected, *more.rejected[:room]),
        answer={**receipt.answer, **more.answer},
        ignored=receipt.ignored + more.ignored,
        format=more.format,
        sent=sent_with(receipt.sent, more.sent),
    )


def source_routes(
    sources: Sequence[Source],
    access: Mapping[str, SourceAccess],
    intake: Intake,
) -> list[Route]:
    """The routes of all *sources*; *access* is what is configured of some, by name."""
    return [
        route
        for source in sources
        for route in routes_of(
            source,
            SourceReceiver(source, access.get(source.name, NO_ACCESS), intake),
            intake,
            url_token=access.get(source.name, NO_ACCESS).url_token,
        )
    ]


def routes_of(source: Source, receiver: SourceReceiver, intake: Intake, *, url_token: bool) -> Iterator[Route]:
    base = source.path
    tokens = [base + TOKEN_PATH] if url_token else []

    def without_token(gateway: Receiver, request: web.BaseRequest, route: Route, _: str) -> HttpExchange:
        """On a path that the client chooses: its parameter, as a connection's id, is no key."""
        return receiver.begin(gateway, request, route, "")

    for path in (base, *(base + path for path in source.native_paths), *source.native_paths, *tokens):
        begin = receiver.begin if path in tokens else without_token
        yield RequestRoute(path, INGEST_SCOPE, receiver.manner, begin, receiver.methods)
    for prefix in (base, *source.otlp_prefixes, *tokens):
        yield from otlp_routes(intake, prefix, PUSHED_BY, receiver.shown)
