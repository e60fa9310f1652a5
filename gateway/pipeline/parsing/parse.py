"""One payload's bytes -> what is left to count and keep. Pure, so that a worker process can do it.

This is the costly part of the intake: decode, normalise, price, serialise, and the
ledger's rows. What depends on earlier payloads comes behind it
(`gateway.pipeline.core`). Records become bytes here, once.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast

from gateway.common.contract.errors import BadPayload
from gateway.common.contract.flags import UNPRICED
from gateway.common.contract.parsed_payload import Caller, ParsedPayload, Reported, Used
from gateway.counting.calls.digest import digest_rows
from gateway.counting.metrics.forwarded import forwarded_source
from gateway.products.catalogue import SOURCES
from gateway.products.reading import read_source
from gateway.products.records.envelope import index_of
from gateway.products.records.source import NAME as RECORDS
from gateway.products.records.source import read_stated
from gateway.products.source import Source
from gateway.read.otlp_json import decode_logs_json, decode_metrics_json, decode_traces_json
from gateway.read.otlp_protobuf import decode_logs, decode_metrics, decode_traces
from gateway.rules.ai_spans import packed
from gateway.rules.attribution import attribute
from gateway.rules.call import STAMPED, STATES_SHIFT, Call, Normalised
from gateway.rules.context import Context
from gateway.rules.extract import PEOPLE
from gateway.rules.logs import normalise_logs
from gateway.rules.metrics import normalise_metrics
from gateway.rules.points import UsagePoints
from gateway.rules.record import lacks_usage, record_json
from gateway.rules.traces import normalise_traces
from gateway.usage.pricing.prices import Prices

TraceUpdate = tuple[str, dict[str, Any], int]
"""A trace's id, the attribution that is stated for it, and when in ms (0 for unknown)."""
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Payload(NamedTuple):
    """A request's body, decompressed, and how it is to be read."""

    kind: str
    """`traces`, `logs`, `metrics`, `forwarded` (records of another
    gateway), or the name of a source."""
    body: bytes
    json: bool = True
    """Of OTLP: JSON, else protobuf."""
    first_line: int = 1
    """Of a source's payload that came in parts: the number of this part's first line."""


class Parsed(NamedTuple):
    """A payload, read: its calls, its points of usage, or both."""

    calls: ParsedPayload | None
    points: UsagePoints | None = None
    answer: Mapping[str, object] = _NOTHING
    """What the answer repeats of the payload: ids."""
    trace_updates: Sequence[TraceUpdate] = ()
    """What the payload states of traces as a whole, for `TraceAttributes`."""
    traces_of_calls: Mapping[str, str] = _NOTHING
    """Record id -> trace id."""
    labels: Mapping[str, Mapping[str, str]] = _NOTHING
    """What devices in it state of themselves, where it is filled in behind what is stated of
    traces."""

    @property
    def names_traces(self) -> bool:
        """Whether something is stated of traces, or may be of its calls' traces."""
        return bool(self.trace_updates or self.traces_of_calls)

    @property
    def is_stated(self) -> bool:
        """Whether another gateway stated records of it as spans."""
        return self.calls is not None and bool(self.calls.stated)

    @property
    def has_usage(self) -> bool:
        """Whether anything is left to keep."""
        return bool((self.calls and self.calls.records) or (self.points and self.points.points))


class ParseRules(NamedTuple):
    """What does not change from payload to payload."""

    prices: Prices
    prefer_metrics: frozenset[str] = frozenset()
    """Services that are billed by their metrics."""
    sources: Mapping[str, Source] = SOURCES


def parse(payload: Payload, context: Context, rules: ParseRules) -> Parsed:
    """Raises BadPayload for a body that can never be read, TooLarge for one that is over
    `context.limits`, KeyError for a kind that is none.
    """
    body, limits = payload.body, context.limits
    match payload.kind:
        case "traces":
            traces = decode_traces_json(body, limits) if payload.json else decode_traces(body, limits)
            normalised = read_stated(normalise_traces(traces, context), context)
            return Parsed(parsed_calls(normalised, context, rules))
        case "logs":
            logs = decode_logs_json(body, limits) if payload.json else decode_logs(body, limits)
            return Parsed(parsed_calls(normalise_logs(logs, context), context, rules))
        case "metrics":
            metrics = decode_metrics_json(body, limits) if payload.json else decode_metrics(body, limits)
            return Parsed(None, normalise_metrics(metrics, context))
        case "forwarded":
            return _parse_forwarded(payload, context, rules)
        case _:
            return _parse_source(payload.kind, payload, context, rules)


def _parse_source(name: str, payload: Payload, context: Context, rules: ParseRules) -> Parsed:
    read = read_source(name, payload.body, context, first_line=payload.first_line, sources=rules.sources)
    updates = tuple((x.id, cast("dict[str, Any]", attribute({}, x.who, context)), x.at_ms) for x in read.threads)
    return Parsed(
        parsed_calls(read.calls, context, rules),
        read.measured if read.measured.items else None,
        read.answer,
        updates,
        read.threads_of_calls,
    )


def _parse_forwarded(payload: Payload, context: Context, rules: ParseRules) -> Parsed:
    """Records in another gateway's envelope, which is refused as a whole where it is none."""
    parsed = _parse_source(RECORDS, payload, context, rules)
    if parsed.calls is not None and any(index_of(position) is None for _, position in parsed.calls.rejected):
        raise BadPayload('the body must be {"schema": "ai-telemetry/1", "records": […]}')
    return parsed


def parsed_calls(normalised: Normalised, context: Context, rules: ParseRules) -> ParsedPayload:
    """Price the calls, serialise them, and make the ledger's rows of them."""
    used, reported, forwarded = tokens_used(normalised.calls), reported_in(normalised), callers(normalised.calls)
    if rules.prefer_metrics:
        prefer_billed_calls(normalised, rules.prefer_metrics)
    calls = stamped(normalised.calls, context)
    price = rules.prices.price
    for call in calls:
        record = call.record
        if record["kind"] == "aggregate":  # that another gateway made
            if UNPRICED not in record["flags"]:
                continue
            record["flags"].remove(UNPRICED)
        price(record, call.start_ms)
    return ParsedPayload(
        normalised.items,
        normalised.ignored,
        dict(normalised.suppressed),
        [(x.reason, x.position) for x in normalised.rejected],
        [record_json(call.record) for call in calls],
        digest_rows(calls),
        b"".join(normalised.links),
        used,
        normalised.stated_at,
        [(span, cast("dict[str, str]", stated)) for span, stated in normalised.bearers.items()],
        packed(normalised),
        reported,
        forwarded,
    )


def stamped(calls: list[Call], context: Context) -> list[Call]:
    """*calls*, marked where their key has labels."""
    if not context.key_fixes:
        return calls
    stamp = STAMPED | sum(1 << STATES_SHIFT + i for i, field in enumerate(PEOPLE) if field in context.key_fixes)
    return [call._replace(marks=call.marks | stamp) for call in calls]


def tokens_used(calls: Sequence[Call]) -> list[Used]:
    """Tokens by source and model: what metrics of the same source are compared with."""
    tokens: dict[tuple[str | None, str | None, int, str | None, str | None], int] = {}
    for call in calls:
        record = call.record
        if record["kind"] != "call":
            continue  # an aggregate that another gateway made
        who, usage = record["attribution"], record["usage"]
        key = (
            who.get("service_name"),
            who.get("device_id"),
            call.instance,
            who.get("session"),
            record["response_model"] or record["request_model"],
        )
        used = (usage.get("input_tokens") or 0) + (usage.get("output_tokens") or 0)
        tokens[key] = tokens.get(key, 0) + used
    return [(*key, used) for key, used in tokens.items()]


def callers(calls: Sequence[Call]) -> list[Caller]:
    """Whose calls another gateway forwarded."""
    forwarded = {
        (call.gateway, *forwarded_source(call.source, call.record["attribution"]))
        for call in calls
        if call.gateway and call.record["kind"] == "call"
    }
    return sorted(forwarded)


def reported_in(normalised: Normalised) -> list[Reported]:
    """What each service reports in this payload. Items of a format without resources are of the
    service that its calls name, where that is one.
    """
    counts: dict[str | None, list[int]] = {service: [items, 0, 0] for service, items in normalised.services.items()}
    for call in normalised.calls:
        record = call.record
        if record["kind"] != "call":
            continue
        service = record["attribution"].get("service_name")
        of_service = counts.get(service)
        if of_service is None:
            of_service = counts[service] = [0, 0, 0]
        of_service[1] += 1
        of_service[2] += lacks_usage(record)
    rest = normalised.items - sum(max(items, calls) for items, calls, _ in counts.values())
    if rest > 0:
        owner = counts.setdefault(next(iter(counts)) if len(counts) == 1 else None, [0, 0, 0])
        owner[0] = max(owner[0], owner[1]) + rest
    return [(service, max(items, calls), calls, missing) for service, (items, calls, missing) in counts.items()]


def prefer_billed_calls(normalised: Normalised, prefer_metrics: frozenset[str]) -> None:
    """Take out the calls of services that are billed by their metrics; they stay as
    links of their descendants.
    """
    billed: list[Call] = []
    for call in normalised.calls:
        record = call.record
        if record["kind"] != "call" or record["attribution"].get("service_name") not in prefer_metrics:
            billed.append(call)
            continue
        normalised.suppressed["metrics_preferred"] += 1
        if call.span_id:
            normalised.links.append(call.trace_id + call.span_id + (call.parent_span_id or bytes(8)))
    normalised.calls = billed
