"""What became of one lane's requests to its upstream: how long a batch took, how it ended, and with
which class of status each request was answered.

A batch may take several requests, or none. The pump names the attempts that a send belongs to in
`CURRENT`, a context variable; the client of the transport counts each answer there.
"""

from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

from exporters.base import Delivered, NotUnderstood, Outcome
from spool.histogram import SEND_S, Histogram
from spool.record import Batch

NO_ANSWER = "none"


@dataclass(slots=True)
class Attempts:
    """Since the gateway started."""

    seconds: Histogram = field(default_factory=lambda: Histogram(SEND_S))
    """Of each batch, from its send to its outcome."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """`delivered`, `retry`, `hold`, `refused`, `not_understood` -> batches."""
    answers: Counter[str] = field(default_factory=Counter)
    """`2xx` … `5xx`, gRPC's `OK` … `UNAUTHENTICATED`, or `none` -> requests."""

    last_delivered_s: float | None = None
    """When a batch was delivered last, by the clock of `ended`; None before the first."""
    last_took_s: float | None = None
    """How long the last batch took, however it ended."""

    on_end: Callable[[Batch, Outcome, float], None] | None = None
    """Called with each batch, its outcome and how long it took in seconds."""

    def ended(self, batch: Batch, outcome: Outcome, took_s: float, now_s: float) -> None:
        """*batch* came back; *now_s* is monotonic."""
        if self.on_end is not None:
            self.on_end(batch, outcome, took_s)
        self.seconds.observe(took_s)
        self.last_took_s = took_s
        if isinstance(outcome, Delivered):
            self.last_delivered_s = now_s
        self.outcomes[outcome_name(outcome)] += 1


def outcome_name(outcome: Outcome) -> str:
    """As metrics and spans have it."""
    return "not_understood" if isinstance(outcome, NotUnderstood) else type(outcome).__name__.lower()


CURRENT: ContextVar[Attempts | None] = ContextVar("attempts", default=None)


def count_answer(status: int | str) -> None:
    """Count a request of the present send by its HTTP status, the name of its gRPC status, or
    `NO_ANSWER`.
    """
    attempts = CURRENT.get()
    if attempts is not None:
        attempts.answers[status if isinstance(status, str) else f"{status // 100}xx"] += 1
