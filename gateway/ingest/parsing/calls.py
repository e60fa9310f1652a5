"""One payload's bytes -> what is left to count and keep. Pure, and all in plain types, so that it can run in a worker.

This is the costly part of the intake: decode, normalise, price, serialise, and the ledger's rows. What must see one call after
the other, across payloads, comes behind it (`gateway.ingest.pipeline`).
"""

from collections.abc import Callable, Sequence

from gateway.contract.parsed_payload import ParsedPayload, Used
from gateway.counting.calls.digest import digest_rows
from gateway.decode.otlp_json import decode_logs_json, decode_traces_json
from gateway.decode.otlp_protobuf import decode_logs, decode_traces
from gateway.normalise.call import STAMPED, Call, Normalised
from gateway.normalise.context import Context
from gateway.normalise.logs import normalise_logs
from gateway.normalise.record import record_json
from gateway.normalise.traces import normalise_traces
from gateway.pricing.prices import Prices


def parse_traces(
    body: bytes, *, json: bool, context: Context, prices: Prices, prefer_metrics: frozenset[str]
) -> ParsedPayload:
    """An ExportTraceServiceRequest. Raises BadPayload."""
    traces = decode_traces_json(body) if json else decode_traces(body)
    return pack(normalise_traces(traces, context), prices, prefer_metrics, is_stamped=bool(context.key_fixes))


def parse_logs(
    body: bytes, *, json: bool, context: Context, prices: Prices, prefer_metrics: frozenset[str]
) -> ParsedPayload:
    """An ExportLogsServiceRequest. Raises BadPayload."""
    logs = decode_logs_json(body) if json else decode_logs(body)
    return pack(normalise_logs(logs, context), prices, prefer_metrics, is_stamped=bool(context.key_fixes))


PARSERS: dict[str, Callable[..., ParsedPayload]] = {"traces": parse_traces, "logs": parse_logs}


def pack(
    normalised: Normalised, prices: Prices, prefer_metrics: frozenset[str], *, is_stamped: bool = False
) -> ParsedPayload:
    """*is_stamped*: it came under a key with labels."""
    used = tokens_used(normalised.calls)
    if prefer_metrics:
        prefer_billed_calls(normalised, prefer_metrics)
    calls = normalised.calls
    if is_stamped:
        calls = [call._replace(marks=call.marks | STAMPED) for call in calls]
    price = prices.price
    for call in calls:
        record = call.record
        if record["kind"] == "aggregate":  # that another gateway made
            if "unpriced" not in record["flags"]:
                continue
            record["flags"].remove("unpriced")
        price(record, call.start_ms)
    return ParsedPayload(
        normalised.items,
        normalised.ignored,
        dict(normalised.suppressed),
        [(x.reason, x.position) for x in normalised.rejected],
        dict(normalised.unknown_conventions),
        [record_json(call.record) for call in calls],
        digest_rows(calls),
        b"".join(normalised.links),
        used,
    )


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


def prefer_billed_calls(normalised: Normalised, prefer_metrics: frozenset[str]) -> None:
    """Take out the calls of services that are billed by their metrics; they stay as links, for what stands above them."""
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
