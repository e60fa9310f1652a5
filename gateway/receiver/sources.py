"""AI gateways that push in shapes of their own: the routes under `/v1/sources/{name}`, and the
paths that clients choose themselves.

A request is admitted by its key, by a token in its address or by its signature; its body goes
to the intake piece by piece, and the answer is in the sender's own shape. What can be read is
kept; what cannot is counted and stated where that shape has a place for it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from aiohttp import web

from gateway.contract.errors import BadPayload, Unauthenticated
from gateway.contract.intake import Intake, Receipt, Sender
from gateway.contract.outcomes import Rejection
from gateway.contract.scopes import INGEST_SCOPE
from gateway.receiver.admission import Admission
from gateway.receiver.auth_methods import shown_by, signature_of
from gateway.receiver.authenticator import sender_of
from gateway.receiver.body import Hold, Limits, read_body
from gateway.receiver.content_encoding import decoder_for
from gateway.receiver.cors import Cors
from gateway.receiver.otlp import otlp_routes
from gateway.receiver.routes import RequestRoute, Route
from gateway.receiver.source_responses import SourceManner
from gateway.receiver.streaming import pieces
from gateway.sources.source import TOKEN_PATH, Source

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
    """Takes the requests of one source."""

    def __init__(
        self, source: Source, access: SourceAccess, intake: Intake, admission: Admission, limits: Limits, cors: Cors
    ) -> None:
        self.path = source.path
        self._source = source
        self._signature = signature_of(source.ways_in, access.secret)
        self._shown_by = shown_by(source.ways_in, url_token=access.url_token)
        self._intake, self._admission, self._limits, self._cors = intake, admission, limits, cors
        self.manner = SourceManner(source.answers, {VERIFY_HEADER: access.verify} if access.verify else {})
        self.methods = PUSHED_BY | TRIED_BY if access.verify else PUSHED_BY

    async def take(self, request: web.BaseRequest, token: str, hold: Hold) -> web.StreamResponse:
        """One request, to its answer. Raises what `gateway.contract.errors` names."""
        if request.method in TRIED_BY:
            return self.manner.handshake()
        self._cors.refuse_pages(request)
        signed = self._signature is not None and self._signature.stands_in(request.headers)
        shown = self.shown(request, token)
        sender = self._admit(request, shown, hold, signed=signed)
        media = self.manner.media(request.headers.get("Content-Type", ""))
        if signed or media == "protobuf":
            receipt = await self._take_whole(request, shown, media, sender, hold, signed=signed)
        else:
            receipt = await self._take_pieces(request, shown, sender, hold)
        return self.manner.success(request, media, receipt)

    def _refuse(self, rejected: Sequence[Rejection]) -> None:
        """Raises BadPayload where all that a request holds is *rejected* for one reason for which
        this source refuses it: nothing of it was kept.
        """
        reasons = {rejection.reason for rejection in rejected}
        reason = reasons.pop() if len(reasons) == 1 else ""
        if reason in self._source.refusals:
            raise BadPayload(self._source.refusals[reason], reason=reason)

    async def take_without_token(self, request: web.BaseRequest, _: str, hold: Hold) -> web.StreamResponse:
        """On a path that the client chooses: what stands in it, such as a
        connection's id, is no key.
        """
        return await self.take(request, "", hold)

    def shown(self, request: web.BaseRequest, token: str) -> list[str]:
        """Every key that the request shows; *token* is the one in its path, or empty."""
        return self._shown_by(request.headers, token, request.raw_path.partition("?")[2])

    def _admit(self, request: web.BaseRequest, shown: list[str], hold: Hold, *, signed: bool) -> Sender:
        """Who sends.

        A signed request needs no key; but a key that it shows must be right as well.
        """
        if signed and not shown:
            hold.belongs_to(f"signed:{self._source.name}")
            return Sender(f"signed:{self._source.name}", request.remote or "unix")
        key = self._admission.admit(request, self.path, INGEST_SCOPE, hold, shown)
        if key is None and not signed and self._signature is not None:
            raise Unauthenticated(
                f"the request is not signed: {self._signature.header} is missing", reason="not_signed"
            )
        return sender_of(key, request.headers, request.remote)

    async def _take_whole(
        self, request: web.BaseRequest, shown: list[str], media: str, sender: Sender, hold: Hold, *, signed: bool
    ) -> Receipt:
        """A body that is read to its end before anything of it is kept: a
        signature is over all of it.
        """
        decode = decoder_for(request.headers.get("Content-Encoding", ""))
        if signed and decode is not None:
            raise Unauthenticated(
                "a signed body must come without Content-Encoding: the signature is over its bytes",
                reason="signature_wrong",
            )
        body = await read_body(request, decode, self._limits, hold)
        if signed and self._signature is not None and not self._signature.is_right(request.headers, body):
            raise Unauthenticated(
                "the signature does not fit the body and the configured secret", reason="signature_wrong"
            )
        if shown or not signed:
            self._admission.ask_again(request, INGEST_SCOPE, shown)
        hold.take_of_quota(len(body))
        if media == "protobuf":
            return await self._intake.traces(body, json=False, sender=sender)
        return await self._intake.source(self._source.name, body, sender=sender)

    async def _take_pieces(self, request: web.BaseRequest, shown: list[str], sender: Sender, hold: Hold) -> Receipt:
        """Each piece is on disk before the next is asked for. When one fails, the sender
        repeats all, and what is kept counts once.

        A body may take long, so its key is asked for again with each piece: one that was
        disabled meanwhile takes no more.
        """
        decode = decoder_for(request.headers.get("Content-Encoding", ""))
        items = ignored = taken = 0
        rejected: list[Rejection] = []
        answer: Mapping[str, object] = {}
        async for piece in pieces(request, decode, self._limits, hold):
            self._admission.ask_again(request, INGEST_SCOPE, shown)
            hold.take_of_quota(len(piece.body))
            receipt = await self._intake.source(
                self._source.name, piece.body, sender=sender, first_line=piece.first_line
            )
            hold.spend_quota()
            items, ignored = items + receipt.items, ignored + receipt.ignored
            taken += receipt.items - len(receipt.rejected)
            rejected += receipt.rejected[: max(0, MAX_REJECTIONS_KEPT - len(rejected))]
            answer = {**answer, **receipt.answer}
        if not taken:
            self._refuse(rejected)
        return Receipt(items, tuple(rejected), answer=answer, ignored=ignored)


def source_routes(
    sources: Sequence[Source],
    access: Mapping[str, SourceAccess],
    intake: Intake,
    admission: Admission,
    limits: Limits,
    cors: Cors,
) -> list[Route]:
    """The routes of all *sources*; *access* is what is configured of some, by name."""
    return [
        route
        for source in sources
        for route in routes_of(
            source,
            SourceReceiver(source, access.get(source.name, NO_ACCESS), intake, admission, limits, cors),
            intake,
            url_token=access.get(source.name, NO_ACCESS).url_token,
        )
    ]


def routes_of(source: Source, receiver: SourceReceiver, intake: Intake, *, url_token: bool) -> Iterator[Route]:
    base = receiver.path
    tokens = [base + TOKEN_PATH] if url_token else []
    for path in (base, *(base + path for path in source.native_paths), *source.native_paths, *tokens):
        take = receiver.take if path in tokens else receiver.take_without_token
        yield RequestRoute(path, INGEST_SCOPE, receiver.manner, take, receiver.methods)
    for prefix in (base, *source.otlp_prefixes, *tokens):
        yield from otlp_routes(intake, prefix, PUSHED_BY, receiver.shown)
