"""The canonical record and the batch: what is kept, and what travels. Pure.

A record is a JSON object of schema `inference/1` (one AI call, or the delta of a metric). It
is built once as a dict, serialised once, and from then on moves as ready JSON bytes.
`docs/formats.md` lists every field.
"""

from dataclasses import dataclass
from typing import Annotated, Final, Literal, NotRequired, TypedDict, get_args

from spool.fields import IN_SPAN, Row, table_of

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
    "unknown_convention",  # only the generic table could read it, or its usage was found by its shape
    "basis_assumed",  # nothing shows whether its input holds the cache: it is taken to
    "basis_learnt",  # its input is read as other calls of the same instrumentation proved it
]
FLAGS: Final[tuple[Flag, ...]] = get_args(Flag)
"""All flags of a record, in the order of `docs/formats.md`."""


Name = Annotated[str, "name"]
"""An id or a name, one word."""
Model = Annotated[str, "model"]
"""The name of a model, a deployment or a library: one word, or a few."""
Who = Annotated[str, "who"]
"""A text of at most 256 characters."""
Time = Annotated[str, "time"]
"""RFC 3339 UTC with milliseconds."""
TraceId = Annotated[str, "trace_id"]
SpanId = Annotated[str, "span_id"]
Count = Annotated[int, "count"]
Tokens = Annotated[int, "tokens"]
Milliseconds = Annotated[int, "ms"]

# fmt: off
# The table of the fields; `spool.fields.Row` describes its columns. A field without a value is
# absent or null: unknown, which is never 0.


class Source(TypedDict):
    """Who reported it, in which form."""

    format: Annotated[Name, Row("`otlp.traces`, `otlp.logs`, `otlp.metrics`, or a gateway format's name", "together")]
    convention: Annotated[Name, Row("the table that read it: `gen_ai`, `openinference`, `openllmetry`, …", "together")]
    library: Annotated[Model | None, Row("name of the instrumentation scope", "together")]
    library_version: Annotated[Model | None, Row("version of the instrumentation scope", "together")]


class Usage(TypedDict, total=False):
    """Token counts."""

    status: Annotated[UsageStatus, Row(
        "`reported`, `partial`, `estimated` (by a tokenizer of the library), `missing` (the call used tokens and nothing reports"
        " them), `none` (a failed call that used nothing), `aggregate`", "own", is_needed=True)]
    input_tokens: Annotated[Tokens | None, Row("includes cache reads and cache writes", "whole", ("input",), "gen_ai.usage.input_tokens")]
    cache_read_input_tokens: Annotated[Tokens | None, Row(
        "part of the input", "part", ("cache_read",), "gen_ai.usage.cache_read.input_tokens", whole="input_tokens")]
    cache_creation_input_tokens: Annotated[Tokens | None, Row(
        "part of the input", "part", ("cache_creation",), "gen_ai.usage.cache_creation.input_tokens", whole="input_tokens")]
    cache_creation_1h_input_tokens: Annotated[Tokens | None, Row(
        "part of `cache_creation_input_tokens`: kept for an hour", "within", ("cache_creation_1h",), whole="cache_creation_input_tokens")]
    output_tokens: Annotated[Tokens | None, Row("includes reasoning", "whole", ("output",), "gen_ai.usage.output_tokens")]
    reasoning_output_tokens: Annotated[Tokens | None, Row(
        "part of the output", "part", ("reasoning",), "gen_ai.usage.reasoning.output_tokens", whole="output_tokens")]
    audio_input_tokens: Annotated[Tokens | None, Row("part of the input", "within", ("audio_input",), whole="input_tokens")]
    audio_output_tokens: Annotated[Tokens | None, Row("part of the output", "part", ("audio_output",), whole="output_tokens")]
    other: Annotated[dict[str, int | float], Row(
        "numbers under `*.usage.*` names that no table knows, under the sender's name; `total_tokens` if a sender reports"
        " only the sum", "join")]


class Cost(TypedDict):
    amount: Annotated[str, "amount", Row("a decimal number as text", "together")]
    currency: Annotated[str, "currency", Row("ISO 4217", "together", ("currency",))]
    source: Annotated[Literal["reported", "estimated"], Row("`reported` or `estimated`", "together")]
    price_version: Annotated[Model | None, Row("of an estimate: the price list", "together")]


class Attribution(TypedDict, total=False):
    service_name: Annotated[Who | None, Row("the service that called", "fill", ("service_name",), resource="service.name")]
    environment: Annotated[Who | None, Row("such as `prod`", "fill", ("environment",), resource="deployment.environment.name")]
    user: Annotated[Who | None, Row("as [the policy for users](privacy.md) keeps it", "fill", ("user",), "user.id")]
    session: Annotated[Who | None, Row("session or conversation", "fill", ("session",), "session.id")]
    team: Annotated[Who | None, Row("team", "fill", ("team",))]
    project: Annotated[Who | None, Row("project", "fill", ("project",))]
    device_id: Annotated[Who | None, Row("the enrolled device", "fill", resource="device.id")]
    key: Annotated[Who | None, Row("name of the inbound key", "fill", described="Name of the inbound key.")]
    labels: Annotated[dict[str, str], Row("further names, by label", "join")]


class Trace(TypedDict):
    trace_id: Annotated[TraceId | None, Row("32 hex digits", "together")]
    span_id: Annotated[SpanId | None, Row("16 hex digits", "together")]
    parent_span_id: Annotated[SpanId | None, Row("16 hex digits", "together")]


class Period(TypedDict):
    """The time that an aggregate covers."""

    start: Annotated[Time, Row("when it begins", "together")]
    end: Annotated[Time, Row("when it ends", "together")]


class Record(TypedDict):
    """One AI call, or one aggregate."""

    schema: Annotated[str, "schema", Row("`inference/1`", "first")]
    record_id: Annotated[str, "record_id", Row(
        "32 hex digits from the observation's own identity: the same on every retry, replica and restart", "own",
        described="The same on every retry, replica and restart.")]
    kind: Annotated[Literal["call", "aggregate"], Row("`call`, or `aggregate` for the delta of a metric", "first")]
    billed: Annotated[bool, Row("false for a call that no provider billed: a gateway's cache hit", "own", ("cache_hit",), absent="it was billed",
        described="False for what no provider billed; left out of every total.")]
    source: Annotated[Source, Row("who reported it, in which form", "first", absent="`records`")]
    operation: Annotated[Name | None, Row("OpenTelemetry's well-known values: `chat`, `embeddings`, `text_completion`, …", "own", ("operation",),
        "gen_ai.operation.name", is_dimension=True)]
    provider: Annotated[Name | None, Row(
        "OpenTelemetry's well-known values: `openai`, `anthropic`, `aws.bedrock`, `azure.ai.openai`, `gcp.gemini`, …", "fill",
        ("provider",), "gen_ai.provider.name", is_dimension=True)]
    request_model: Annotated[Model | None, Row("the requested model; [one name](#names-of-models) may be unknown", "fill", ("request_model",),
        "gen_ai.request.model", is_dimension=True)]
    response_model: Annotated[Model | None, Row("the model that answered", "fill", ("response_model",), "gen_ai.response.model", is_dimension=True)]
    response_id: Annotated[Name | None, Row("the provider's", "fill", ("response_id",), "gen_ai.response.id")]
    finish_reason: NotRequired[Annotated[Name | None, Row("as sent", "fill", ("finish_reason",), "gen_ai.response.finish_reasons", is_list=True)]]
    service_tier: NotRequired[Annotated[Name | None, Row("what the price may depend on", "fill", ("service_tier",), is_dimension=True)]]
    request_id: NotRequired[Annotated[Name | None, Row("the provider's or the gateway's id of the request", "fill", ("request_id",))]]
    deployment: NotRequired[Annotated[Model | None, Row("the deployment that answered", "fill", ("deployment", "request_model"), is_dimension=True)]]
    region: NotRequired[Annotated[Name | None, Row("the region that answered", "fill", ("region",), is_dimension=True)]]
    started_at: Annotated[Time, Row("when the call began", "own", attribute=IN_SPAN)]
    duration_ms: Annotated[Milliseconds | None, Row("how long it took", "fill", ("duration_ms",), IN_SPAN)]
    time_to_first_token_ms: NotRequired[Annotated[Milliseconds | None, Row(
        "from the start to the first token", "fill", ("time_to_first_s", "time_to_first_ms"))]]
    stream: NotRequired[Annotated[bool | None, Row("whether it was streamed", "fill", ("stream",))]]
    usage: Annotated[Usage, Row("its tokens", "each")]
    cost: NotRequired[Annotated[Cost | None, Row("null when no price is known", "own", ("cost",))]]
    batch: NotRequired[Annotated[bool, Row("whether it was part of a batch", "any", ("batch",), absent="it was not")]]
    status: Annotated[Literal["ok", "error"], Row("`ok` or `error`", "first", ("error_type", "status_code", "succeeded", "level"), IN_SPAN)]
    error_type: NotRequired[Annotated[Name | None, Row("class or code, never a message", "own", ("error_type", "status_code"), "error.type")]]
    attribution: Annotated[Attribution, Row("whose call it is", "each", absent="no one is known")]
    trace: NotRequired[Annotated[Trace, Row("its place in a trace", "fill")]]
    calls: NotRequired[Annotated[Count | None, Row("of an aggregate: how many calls it sums up, if the metric has that", "first",
        described="Of an aggregate: how many calls it sums up.")]]
    period: NotRequired[Annotated[Period, Row("of an aggregate: the time it covers", "first")]]
    received_at: Annotated[Time, Row("when the gateway received it", "first", absent="the time of receipt")]
    flags: Annotated[list[Flag], Row("see the table of flags", "own", absent="none")]


# fmt: on
FIELDS: Final = table_of(Record)


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
