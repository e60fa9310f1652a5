"""What a normaliser gives: calls, links, and the outcome of every item that
became neither. Pure types.

One decoded payload gives one `Normalised`. Every item in it (span, log record, metric point)
has exactly one place: a call in `calls`, or a count under `suppressed`, `ignored` or a
`Rejection`. `items` is their sum.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gateway.common.contract.outcomes import Rejection
from spool.record import Attribution, Record

LINK_BYTES = 32
"""One link: trace id (16), span id (8), parent span id (8, zero when none)."""

LOG = 8
"""Mark of a report that a log record makes: `parent_span_id` is then
the span that it was emitted in."""
REPEAT = 16
"""Mark of a span that repeats the call of its parent span; it counts
only where the parent is no call."""
UNFINISHED = 32
"""Mark of a report that only states that the call began."""
STAMPED = 64
"""Mark of a report that came under a key with labels: what these fix stands, whatever other
reports of the call state."""
STREAM_PART = 128
"""Mark of a report of a streamed call's beginning (with UNFINISHED) or end (without), which its
library reports apart; `session` is then the fingerprint of what the request asked for."""
RANK_SHIFT = 8
RANK_MASK = 0x3
"""Marks from there on: the report's rank in its product's order of reports
(`gateway.rules.signal_precedence`); 0 for none."""
BASIS_SHIFT = 10
BASIS_MASK = 0x3
"""Marks from there on, where no table knows what the input holds: how it was read (`rules.usage`,
`ASSUMED` and those after it); 0 where it does not matter."""
STATES_SHIFT = 12
"""Marks from here on, one for each of `extract.PEOPLE`: the report states it, or its key fixes
it. What it does not state it may inherit."""


class Call(NamedTuple):
    """One report of an AI call: its record, and what the ledger compares that JSON does
    not hold in a handy form.
    """

    record: Record
    """JSON-ready; keys without a value are left out."""
    trace_id: bytes
    """16 bytes, or b"" when the report has none."""
    span_id: bytes
    """8 bytes, or b""."""
    parent_span_id: bytes
    """8 bytes, or b"" for a root."""
    start_ms: int
    end_ms: int
    source: int
    """63-bit fingerprint of the sender: the resource's service.name and
    instance, never the whole resource."""
    scope: int
    """63-bit fingerprint of the instrumentation scope's name: co-instrumented spans come from
    different scopes of one source."""
    event_id: str | None = None
    """The sender's own id of this report, for reports that have no span."""
    marks: int = 0
    """`LOG`, `REPEAT`, `UNFINISHED`, `STAMPED`, `STREAM_PART`, the rank and the basis."""
    group: int = 0
    """63-bit fingerprint of product and sender, within which one way of
    reporting counts; 0 for none."""
    session: int = 0
    """32-bit fingerprint of the session within the group; 0 where the report states none. Of a
    `STREAM_PART`, which is in no group, that of its request."""
    instance: int = 0
    """63-bit fingerprint of the service's instance (`Origin.instance`); 0 where
    the resource states none."""
    place: int = 0
    """32-bit fingerprint of where the service runs (`Origin.place`): co-instrumented spans run in
    one place, where both sides state it."""
    gateway: int = 0
    """32-bit fingerprint of the gateway that forwarded it; 0 where none states its id."""


@dataclass(slots=True)
class AiSpans:
    """Spans of one source that look like AI work and are no calls."""

    n: int = 0
    traces: set[bytes] = field(default_factory=set)
    """Of some of them."""


@dataclass(slots=True)
class Normalised:
    calls: list[Call] = field(default_factory=list)
    links: list[bytes] = field(default_factory=list)
    """`LINK_BYTES` each: every span that is no call but has ids, AI or not (agents, tools, HTTP),
    so that ancestors are found."""
    items: int = 0
    services: Counter[str | None] = field(default_factory=Counter)
    """Service name of a resource -> its items; empty where the format has no resources."""
    suppressed: Counter[str] = field(default_factory=Counter)
    """Reason -> count: AI items that never bill (`not_a_call`: agent, workflow,
    chain, tool, retrieval …)."""
    ignored: int = 0
    """Items that are no AI usage."""
    rejected: list[Rejection] = field(default_factory=list)
    stated: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Position and content of the records that another gateway stated as spans, unchecked;
    `gateway.products.records` makes calls of them."""
    stated_at: dict[str, str] = field(default_factory=dict)
    """Record id -> position, of those that became calls."""
    bearers: dict[bytes, Attribution] = field(default_factory=dict)
    """Trace and span id of spans that are no calls and state a user, session, team or project ->
    what calls below them inherit."""
    ai_spans: dict[tuple[str | None, str], AiSpans] = field(default_factory=dict)
    """Service and scope -> spans that look like AI work and are no calls."""
    unknown_conventions: Counter[str] = field(default_factory=Counter)
    """Scope name -> calls that only the generic table could read."""

    def note_position(self, position: str, reason: str = "", *reading: object) -> None:
        """Where the item stands that is counted with this, why it is suppressed, or what the call
        was read as. Only `gateway.pipeline.explain` notes it.
        """
