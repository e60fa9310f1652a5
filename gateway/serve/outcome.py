"""What is noted of a request, in one place: each ends as one `RequestOutcome`, which `Outcomes`
hands to all that count requests, senders and refusals.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import structlog

from gateway.common.contract.errors import GatewayError, Unauthenticated
from gateway.common.contract.intake import Receipt, Sender
from gateway.common.traceback_summary import places
from gateway.fleet.senders.activity import Senders, format_of
from gateway.observability.metrics import WebFigures
from gateway.observability.refusals import RefusedRequests
from gateway.observability.telemetry.tracer import SpanContext, Tracer
from gateway.serve.answers import answer_for, reason_of
from gateway.serve.recent_senders import RecentSenders

log = structlog.get_logger()

NO_ROUTE: Final = "none"
QUOTAS: Final[Mapping[str, str]] = {"over_quota_requests": "requests", "over_quota_bytes": "bytes"}
"""Reason of a refusal -> the quota that it was over."""


class RequestOutcome(NamedTuple):
    """How a request ended, or several that were taken together. A frozen dataclass takes four times
    as long to make.
    """

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
    error: Exception | None = None
    """Why it was refused."""
    product: str = ""
    """What the User-Agent of a refused request begins with."""
    span: tuple[SpanContext, float, str, Mapping[str, str]] | None = None
    """Its own span, where it is sampled: context, begin, name and attributes."""


class Outcomes:
    """Hands each outcome to counts, list of refusals, senders, open intake's senders and tracer."""

    def __init__(
        self, now_ms: Callable[[], int], senders: Senders | None, recent: RecentSenders | None, tracer: Tracer | None
    ) -> None:
        self.counts, self.refused, self._tracer = WebFigures(), RefusedRequests(now_ms), tracer
        self.senders, self.recent = senders or Senders(now_ms), recent or RecentSenders(now_ms)

    def note(self, outcome: RequestOutcome) -> None:
        """Note one request, or several that were taken together."""
        path, _, status, took_s, sender, receipt, error, _, span = outcome
        n_requests = len(took_s) or 1
        if status is None:
            self.counts.gone += n_requests
        else:
            self.counts.answers[path, status] += n_requests
            for each_s in took_s:
                self.counts.seconds[path].observe(each_s)
            if self._tracer is not None and span is not None:
                self._tracer.end(*span, status)
        if sender is not None:
            if sender.key is None:
                self.recent.note(sender.peer, sender.product, path, n_requests)
            if receipt is not None:
                self.senders.sent(sender.key, receipt.format, sender.product, receipt.sent)
        if error is not None:
            self._note_error(error, outcome)

    def _note_error(self, error: Exception, outcome: RequestOutcome) -> None:
        """What no one foresaw is logged by class and place: its text may quote the payload."""
        path, answer, reason = outcome.path, answer_for(error), reason_of(error)
        if not answer.show_text:
            self.counts.note_unforeseen()
            log.error("unforeseen error", error=type(error).__name__, at=places(error))
        key = error.key if isinstance(error, GatewayError) else None  # another's may quote the request
        self.refused.note(answer.status, reason, path, outcome.peer, key)
        # Who shows no key that is known may write what it likes into its headers.
        product = "" if isinstance(error, Unauthenticated) else outcome.product
        self.senders.refused(key, format_of(path), product, reason)
        if key is not None and reason in QUOTAS:
            self.counts.over_quota[key, QUOTAS[reason]] += 1

    def refused_unread(self, status: int, reason: str, peer: str | None, remedy: str | None = None) -> None:
        """Note what was refused before it was a request of a route; *remedy* stands in the log."""
        self.note(RequestOutcome(NO_ROUTE, peer or "unix", int(status)))
        self.refused.note(int(status), reason, NO_ROUTE, peer or "unix", remedy=remedy)
