"""What is noted of a request, in one place: each ends as one `RequestOutcome`, which `Outcomes`
hands to all that count requests, senders and refusals.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import structlog

from gateway.common.traceback_summary import places
from gateway.contract.errors import GatewayError, Unauthenticated
from gateway.contract.intake import Receipt, Sender
from gateway.observability.refusals import Refused
from gateway.observability.telemetry.tracer import SpanContext, Tracer
from gateway.receiver.answers import Answer, answer_for, reason_of
from gateway.receiver.authenticator import Headers
from gateway.receiver.recent_senders import RecentSenders, product_of
from gateway.senders.activity import Senders, format_of
from spool.histogram import ANSWER_S, Histogram

log = structlog.get_logger()

NO_ROUTE: Final = "none"
QUOTAS: Final[Mapping[str, str]] = {"over_quota_requests": "requests", "over_quota_bytes": "bytes"}
"""Reason of a refusal -> the quota that it was over."""
UNFORESEEN_TEXT: Final = "an unforeseen error; send the same again later"


class Refusal(NamedTuple):
    """Why a request, or a connection, was refused."""

    status: int
    """HTTP's, or its counterpart."""
    reason: str
    key: str | None = None
    """Name of the key, where the error names it."""
    product: str | None = None
    """What the User-Agent begins with; None where no sender is known by it."""
    remedy: str | None = None
    """For the log."""
    unforeseen: Exception | None = None
    """What no one foresaw. It is logged by class and place: its text may quote the payload."""


class RequestSpan(NamedTuple):
    """The gateway's own span of a request that is sampled."""

    context: SpanContext
    began_s: float
    name: str
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RequestOutcome:
    """How a request ended, or several that were taken together."""

    path: str
    """The route's, as it is listed; `NO_ROUTE` for what belongs to none."""
    peer: str
    """Address without port, or `unix`."""
    status: int | None
    """HTTP's, or its counterpart; None where the sender went away before the answer."""
    took_s: Sequence[float] = ()
    """From the head of each request to its answer; empty for one that was not timed."""
    sender: Sender | None = None
    """None where it was not admitted."""
    receipt: Receipt | None = None
    """Of what is on disk, also where it was refused in the end."""
    refusal: Refusal | None = None
    span: RequestSpan | None = None


@dataclass(slots=True)
class WebCounts:
    """Plain ints, read by `gateway.observability.metrics`."""

    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    """(route's path, HTTP status) -> requests."""
    unforeseen: int = 0
    """Errors that no table entry foresaw."""
    gone: int = 0
    """Senders that went away before their body was whole."""
    over_quota: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(key's name, `requests` or `bytes`) -> requests refused."""
    seconds: defaultdict[str, Histogram] = field(default_factory=lambda: defaultdict(lambda: Histogram(ANSWER_S)))
    """Route's path -> from the headers of its requests to their answers."""

    def note_unforeseen(self) -> None:
        self.unforeseen += 1


class Outcomes:
    """Hands each outcome to counts, list of refusals, senders, open intake's senders and tracer."""

    def __init__(
        self, now_ms: Callable[[], int], senders: Senders | None, recent: RecentSenders | None, tracer: Tracer | None
    ) -> None:
        self.counts = WebCounts()
        self.refused = Refused(now_ms)
        self.senders = senders or Senders(now_ms)
        self.recent = recent or RecentSenders(now_ms)
        self.tracer = tracer

    def note(self, outcome: RequestOutcome) -> None:
        """Note one request, or several that were taken together."""
        path, status, sender, receipt = outcome.path, outcome.status, outcome.sender, outcome.receipt
        n_requests = len(outcome.took_s) or 1
        if status is None:
            self.counts.gone += n_requests
        else:
            self.counts.answers[path, status] += n_requests
            for took_s in outcome.took_s:
                self.counts.seconds[path].observe(took_s)
            if self.tracer is not None and outcome.span is not None:
                self.tracer.end(*outcome.span, status)
        if sender is not None:
            if sender.key is None:
                self.recent.note(sender.peer, sender.product, path, n_requests)
            if receipt is not None:
                self.senders.sent(sender.key, receipt.format, sender.product, receipt.sent)
        if outcome.refusal is not None:
            self._note_refusal(outcome.refusal, path, outcome.peer)

    def _note_refusal(self, refusal: Refusal, path: str, peer: str) -> None:
        status, reason, key, product, remedy, unforeseen = refusal
        if unforeseen is not None:
            self.counts.note_unforeseen()
            log.error("unforeseen error", error=type(unforeseen).__name__, at=places(unforeseen))
        self.refused.note(status, reason, path, peer, key, remedy)
        if product is not None:
            self.senders.refused(key, format_of(path), product, reason)
        if key is not None and reason in QUOTAS:
            self.counts.over_quota[key, QUOTAS[reason]] += 1


def refusal_for(error: Exception, headers: Headers) -> tuple[Answer, str, Refusal]:
    """The answer to *error*, its text, and what is noted of it; the same over each transport."""
    answer = answer_for(error)
    key = error.key if isinstance(error, GatewayError) else None  # another's may quote the request
    # Who shows no key that is known may write what it likes into its headers.
    product = "" if isinstance(error, Unauthenticated) else product_of(headers.get("User-Agent", ""))
    unforeseen = None if answer.show_text else error
    refusal = Refusal(answer.status, reason_of(error), key, product, None, unforeseen)
    return answer, str(error) if answer.show_text else UNFORESEEN_TEXT, refusal


def refused_unread(status: int, reason: str, peer: str | None, remedy: str | None = None) -> RequestOutcome:
    """The outcome of what was refused before it was a request of a route."""
    return RequestOutcome(NO_ROUTE, peer or "unix", status, refusal=Refusal(status, reason, remedy=remedy))
