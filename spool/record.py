"""The canonical record and the batch: what is kept, and what travels. Pure.

A record is a JSON object of schema `inference/1` (one AI call, or the delta of a metric). It
is built once as a dict, serialised once, and from then on moves as ready JSON bytes.
`docs/formats.md` lists every field.
"""

from dataclasses import dataclass
from typing import Final, Literal, NotRequired, TypedDict, get_args

SCHEMA = "inference/1"

Lane = str
"""One queue to one destination. The four own lanes are below; every extra
exporter adds one of its own name."""

AI_TELEMETRY = "ai_telemetry"
USAGE_EVENTS = "usage_events"
UNIT_COST = "unit_cost"
DEVICES = "devices"
OWN_LANES = (AI_TELEMETRY, USAGE_EVENTS, UNIT_COST, DEVICES)

UsageStatus = Literal["reported", "partial", "estimated", "missing", "none", "aggregate"]

Flag = Literal[
    "received_time",  # no time was reported: `started_at` is the time of receipt
    "unfinished",  # the start of the call, or a part of it, was reported, and no end
    "start_unknown",  # only the end was reported: `started_at` is that; with `unfinished`, the time of the report
    "clock_skew",  # its time is ahead of ours, or it ends before it begins
    "late",  # older than a day at receipt
    "inconsistent_usage",  # the parts are more than the whole; kept as sent
    "unpriced",  # no price is known for the model, or none is looked up
    "conflict",  # another observation shares the response id or the place in the trace, and differs
    "gateway_cache_hit",  # a gateway's cache answered
    "unknown_convention",  # only the generic table could read it
]
FLAGS: Final[tuple[Flag, ...]] = get_args(Flag)
"""All flags of a record, in the order of `docs/formats.md`."""


class Source(TypedDict):
    """Who reported it, in which form."""

    format: str
    """`otlp.traces`, `otlp.logs`, `otlp.metrics`, or a gateway format's name."""
    convention: str
    """The table that read it: `gen_ai`, `openinference`, `openllmetry`, `vercel_ai`, …"""
    library: str | None
    """Instrumentation scope name."""
    library_version: str | None


class Usage(TypedDict, total=False):
    """Token counts. A key that is absent or null is unknown; unknown is never 0."""

    status: UsageStatus
    input_tokens: int | None
    """Includes cache reads and cache writes."""
    cache_read_input_tokens: int | None
    cache_creation_input_tokens: int | None
    cache_creation_1h_input_tokens: int | None
    output_tokens: int | None
    """Includes reasoning."""
    reasoning_output_tokens: int | None
    audio_input_tokens: int | None
    audio_output_tokens: int | None
    other: dict[str, int | float]
    """Numbers under `*.usage.*` names that no table knows, by the name they came with."""


class Cost(TypedDict):
    amount: str
    """Decimal string."""
    currency: str
    source: Literal["reported", "estimated"]
    price_version: str | None


class Attribution(TypedDict, total=False):
    service_name: str | None
    environment: str | None
    user: str | None
    session: str | None
    team: str | None
    project: str | None
    device_id: str | None
    key: str | None
    """Name of the inbound key."""
    labels: dict[str, str]


class Trace(TypedDict):
    trace_id: str | None
    span_id: str | None
    parent_span_id: str | None


class Period(TypedDict):
    """The time that an aggregate covers, RFC 3339 UTC with milliseconds."""

    start: str
    end: str


class Record(TypedDict):
    """One AI call, or one aggregate; see the module's docstring.

    Keys with no value may be absent.
    """

    schema: str
    record_id: str
    """32 hex digits, from the report's own identity; the same on every
    retry, replica and restart."""
    kind: Literal["call", "aggregate"]
    billed: bool
    source: Source
    operation: str | None
    provider: str | None
    request_model: str | None
    response_model: str | None
    response_id: str | None
    request_id: NotRequired[str | None]
    deployment: NotRequired[str | None]
    region: NotRequired[str | None]
    finish_reason: NotRequired[str | None]
    started_at: str
    """RFC 3339 UTC with milliseconds."""
    duration_ms: int | None
    time_to_first_token_ms: NotRequired[int | None]
    stream: NotRequired[bool | None]
    usage: Usage
    cost: NotRequired[Cost | None]
    service_tier: NotRequired[str | None]
    batch: NotRequired[bool]
    status: Literal["ok", "error"]
    error_type: NotRequired[str | None]
    attribution: Attribution
    trace: NotRequired[Trace]
    calls: NotRequired[int | None]
    """Of an aggregate: how many calls it sums up, where the metric states it."""
    period: NotRequired[Period]
    """Of an aggregate."""
    received_at: str
    flags: list[Flag]


@dataclass(frozen=True, slots=True)
class Batch:
    """An ordered tuple of records that travels together; the same after a
    restart until it is acked.
    """

    batch_id: str
    """UUIDv7, fixed when the batch was frozen."""
    lane: Lane
    generation: int
    """Goes up by one on each answered failure; not when no answer
    came (wire contract, idempotency)."""
    attempts: int
    sent_at: str
    """RFC 3339 UTC; fixed when the batch was frozen, so that a retry has identical bytes."""
    records: tuple[bytes, ...]
    """Ready JSON, one object each."""
