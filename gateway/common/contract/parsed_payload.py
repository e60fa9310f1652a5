"""The calls of a payload after parsing: what is left to count and keep, in
plain types for a worker process.
"""

from typing import NamedTuple

Used = tuple[str | None, str | None, int, str | None, str | None, int]
"""Service name, device, instance, session, model, and the tokens that calls of these used."""

Caller = tuple[int, str, str, str, str, str]
"""A gateway, and whose calls it forwarded: the fields of a `MetricSource`."""

Reported = tuple[str | None, int, int, int]
"""Service name, its items in the payload, its calls among them, and those of the calls that should
state tokens and do not; of calls that failed none should."""

Sent = tuple[str | None, int, int, int, int, int]
"""Service name, and of several payloads those that name it, its items, its calls, those of the
calls that should state tokens and do not, and bytes."""


class ParsedPayload(NamedTuple):
    """Plain types only."""

    items: int
    ignored: int
    suppressed: dict[str, int]
    """Reason -> items."""
    rejected: list[tuple[str, str]]
    """Reason and position."""
    records: list[bytes]
    """Ready JSON of each call."""
    rows: bytes
    """The ledger's row of each call, `DIGEST_BYTES` each."""
    links: bytes
    """`LINK_BYTES` each."""
    used: list[Used]
    stated: dict[str, str]
    """Record id -> position, of the records that another gateway stated as spans."""
    bearers: list[tuple[bytes, dict[str, str]]]
    """Trace and span id of spans that state whose calls are below them, and what they state."""
    ai_spans: list[tuple[str | None, str, int, list[bytes]]]
    """Service and scope of spans that look like AI work and are no calls, their number, and the
    traces of some of them."""
    reported: list[Reported]
    forwarded: list[Caller]
    """Whose calls came from which gateway; of those that state no gateway nothing."""
