"""The steps of a request, in their one order.

HTTP, gRPC, streamed bodies and requests that are taken together all run `steps_of`. An `Exchange`
is what differs between them: how a body comes, what is called with it, how an answer is written.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Generator, Sequence
from time import perf_counter

from gateway.common.contract.intake import Receipt, Sender
from gateway.serve.admission import Admission, Request
from gateway.serve.answers import TO_COME_AGAIN, UNFORESEEN_TEXT, ErrorAnswer, answer_for
from gateway.serve.authenticator import sender_with
from gateway.serve.body import Hold
from gateway.serve.outcome import RequestOutcome
from gateway.serve.receiver import Receiver
from gateway.serve.recent_senders import product_of

Waits = Awaitable[object] | None
"""What a step has to wait for; None where it is done."""


def steps_of(exchange: "Exchange") -> Generator[Waits, None, None]:
    """Run the steps of *exchange*; what it gives is to be awaited before the next one is asked for.

    Raises what `gateway.serve.answers` maps; then no further step is run.
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

    body: bytes | None = None
    """Plain: the whole, or the piece that is at hand."""
    is_read = False
    """Nothing more of the body was found."""
    sender: Sender | None = None
    """Once it is admitted."""
    shown: Sequence[str] | None = None
    """The keys in the request, where others than those in its headers count."""
    receipt: Receipt | None = None
    """Of what is on disk."""

    def __init__(
        self, receiver: Receiver, request: Request, path: str, scope: str, admission: Admission, n_requests: int = 1
    ) -> None:
        """*path*: the route's."""
        self.began_s, self.hold = perf_counter(), Hold(receiver.budget, n_requests)
        self.receiver, self.request, self.path, self.scope = receiver, request, path, scope
        self.admission = admission
        self.span = None if receiver.tracer is None else receiver.tracer.begin()

    def admit(self) -> None:
        """By its key or on open intake, and against its key's quota of requests."""
        key = self.admission.admit(self.request, self.scope, self.hold, self.shown)
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
        self.admission.ask_again(self.request, self.scope, self.shown)

    def charge(self) -> None:
        """Take the body of its key's quota of bytes."""
        self.hold.take_of_quota(len(self.body or b""))

    @abstractmethod
    def call(self) -> Waits:
        """What the request is for; `receipt` has it when it is on disk."""

    @abstractmethod
    def answer(self) -> None:
        """All that was valid is on disk. Raises where nothing was."""

    def refuse(self, error: Exception) -> tuple[ErrorAnswer, str]:
        """The answer to *error* and its text; what it took of its quota is given back."""
        answer = answer_for(error)
        if answer.status in TO_COME_AGAIN:
            self.hold.give_back_quota()
        return answer, str(error) if answer.show_text else UNFORESEEN_TEXT

    def end(self, status: int | None, error: Exception | None = None) -> None:
        """Give up what it holds, and note how it ended, as `RequestOutcome` has it."""
        self.receiver.heap.freed(self.hold.release())
        product = "" if error is None else product_of(self.request.headers.get("User-Agent", ""))
        peer, span = self.request.remote or "unix", None if self.span is None else (self.span, *self.span_name())
        self.receiver.note(
            RequestOutcome(self.path, peer, status, self.took_s(), self.sender, self.receipt, error, product, span)
        )

    def took_s(self) -> Sequence[float]:
        """How long each request took until now."""
        return (perf_counter() - self.began_s,)

    def span_name(self) -> tuple[float, str, dict[str, str]]:
        """When its own span began, its name and attributes."""
        return self.began_s, self.path, {}
