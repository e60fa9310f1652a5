"""The steps of a request, in their one order.

HTTP, gRPC, streamed bodies and requests that are taken together all run `steps_of`. An `Exchange`
is what differs between them: how a body comes, what is called with it, how an answer is written.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Generator, Sequence
from time import perf_counter

from gateway.contract.intake import Receipt, Sender
from gateway.observability.telemetry.tracer import SpanContext
from gateway.receiver.admission import Admission, Request
from gateway.receiver.authenticator import sender_with
from gateway.receiver.body import Hold
from gateway.receiver.outcome import Refusal, RequestOutcome, RequestSpan

Waits = Awaitable[object] | None
"""What a step has to wait for; None where it is done."""


def steps_of(exchange: "Exchange") -> Generator[Waits, None, None]:
    """Run the steps of *exchange*; what it gives is to be awaited before the next one is asked for.

    Raises what `gateway.receiver.answers` maps; then no further step is run.
    """
    exchange.admit()
    while True:
        yield exchange.read()
        if exchange.is_read:
            break
        exchange.ask_again()
        exchange.charge()
        yield exchange.call()
    exchange.answer()


class Exchange(ABC):
    """A request from its head to its answer, or several that are taken together."""

    __slots__ = (
        "_admission",
        "began_s",
        "body",
        "context",
        "hold",
        "is_read",
        "path",
        "receipt",
        "request",
        "scope",
        "sender",
    )

    def __init__(
        self, request: Request, path: str, scope: str, admission: Admission, hold: Hold, context: SpanContext | None
    ) -> None:
        """*path*: the route's. *context*: of its own span, where it is sampled."""
        self.began_s = perf_counter()
        self.request, self.path, self.scope, self.hold, self.context = request, path, scope, hold, context
        self._admission = admission
        self.sender: Sender | None = None
        """Once it is admitted."""
        self.body: bytes | None = None
        """Plain: the whole, or the piece that is at hand."""
        self.is_read = False
        """Nothing more of it was found."""
        self.receipt: Receipt | None = None
        """Of what is on disk."""

    @property
    def shown(self) -> list[str] | None:
        """The keys in the request, where others than those in its headers count."""
        return None

    def admit(self) -> None:
        """By its key or on open intake, and against its key's quota of requests."""
        key = self._admission.admit(self.request, self.scope, self.hold, self.shown)
        self.sender = sender_with(key, self.request.headers, self.request.remote)

    def read(self) -> Waits:
        """The body, or its next piece; `is_read` where there is no more."""
        if self.body is None:
            return self.read_body()
        self.body, self.is_read = None, True
        return None

    @abstractmethod
    def read_body(self) -> Waits:
        """The whole body, within limits and budget."""

    def ask_again(self) -> None:
        """Whether it would be admitted now as well: its key may have been disabled meanwhile."""
        self._admission.ask_again(self.request, self.scope, self.shown)

    def charge(self) -> None:
        """Take the body of its key's quota of bytes."""
        self.hold.take_of_quota(len(self.body or b""))

    @abstractmethod
    def call(self) -> Waits:
        """What the request is for; `receipt` has it when it is on disk."""

    @abstractmethod
    def answer(self) -> None:
        """All that was valid is on disk. Raises where nothing was."""

    @abstractmethod
    def span_of(self, status: int) -> tuple[str, dict[str, str]]:
        """Name and attributes of its own span."""

    def outcome(self, status: int | None, refusal: Refusal | None = None) -> RequestOutcome:
        """How it ended; *status* as `RequestOutcome` has it."""
        peer, receipt, span = self.request.remote or "unix", self.receipt, None
        if self.context is not None and status is not None:
            span = RequestSpan(self.context, self.began_s, *self.span_of(status))
        return RequestOutcome(self.path, peer, status, self.took_s(), self.sender, receipt, refusal, span)

    def took_s(self) -> Sequence[float]:
        """How long each request took until now."""
        return (perf_counter() - self.began_s,)
