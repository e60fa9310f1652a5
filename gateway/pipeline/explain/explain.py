"""`normalise --explain`: every item of some payloads, what became of it and why.

A payload's path chooses who takes it apart (`EXPLAINERS`; below `/v1/sources/`, the gateway's
name); a new format is one line there: decode it, and give each item as it is by itself.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import orjson

from gateway.common.contract.errors import BadPayload
from gateway.pipeline.explain.entries import explain_entries
from gateway.pipeline.explain.log_records import explain_log_records
from gateway.pipeline.explain.outcomes import complete_calls, complete_points
from gateway.pipeline.explain.points import explain_points
from gateway.pipeline.explain.spans import explain_spans
from gateway.pipeline.explain.story import Explanation, Single
from gateway.pipeline.explain.watch import WatchedAggregates, WatchedLedger
from gateway.pipeline.intake import OTLP_JSON
from gateway.products.catalogue import SOURCES
from gateway.products.source import SOURCES_PATH, Source
from gateway.read.otlp_json import decode_logs_json, decode_metrics_json, decode_traces_json
from gateway.read.otlp_protobuf import decode_logs, decode_metrics, decode_traces
from gateway.rules.context import Context
from gateway.usage.events.events import decode_events


class Sent(NamedTuple):
    """One payload, decompressed."""

    body: bytes
    is_json: bool
    number: int
    """Among the payloads, from 0."""


"""Formats of AI gateways: what follows it names the gateway. OTLP below such a path is OTLP."""
_SOURCE = re.compile(rf"{SOURCES_PATH}/([\w-]+)/?")
_OTLP = {b"Spans": "traces", b"Logs": "logs", b"Metrics": "metrics"}

Explainer = Callable[[Sent, Context], Iterator[Single]]


def _spans(sent: Sent, context: Context) -> Iterator[Single]:
    traces = decode_traces_json(sent.body) if sent.is_json else decode_traces(sent.body)
    return explain_spans(traces, sent.number, context)


def _log_records(sent: Sent, context: Context) -> Iterator[Single]:
    logs = decode_logs_json(sent.body) if sent.is_json else decode_logs(sent.body)
    return explain_log_records(logs, sent.number, context)


def _points(sent: Sent, context: Context) -> Iterator[Single]:
    metrics = decode_metrics_json(sent.body) if sent.is_json else decode_metrics(sent.body)
    return explain_points(metrics, sent.number, context)


def _events(sent: Sent, context: Context) -> Iterator[Single]:
    """Usage events are kept as they are sent, added to a stream's total, or
    rejected: each names its field.
    """
    events = decode_events(sent.body, context.received_at_ms)
    added = {event.position for event in events.events if event.record is None}
    faults = {rejection.position: rejection.reason for rejection in events.rejected}
    for i in range(events.items):
        position = f"events[{i}]"
        explanation = Explanation(
            sent.number, position, "event", outcome="kept", because="a usage event is kept as it was sent"
        )
        if position in added:
            explanation.because = "its value is added to the total of its unit-cost stream"
        if position in faults:
            explanation.end("rejected", faults[position], "the service would refuse it")
        yield Single(explanation)


EXPLAINERS: dict[str, Explainer] = {"traces": _spans, "logs": _log_records, "metrics": _points, "events": _events}
"""Last word of the path -> who takes a payload apart."""


def _entries(source: Source, sent: Sent, context: Context) -> Iterator[Single]:
    """A body that is an OTLP request by itself is explained as such."""
    otlp = OTLP_JSON.match(sent.body)
    if otlp is not None:
        with suppress(BadPayload):  # it may be several requests, one a line
            return iter(list(EXPLAINERS[_OTLP[otlp[1]]](sent._replace(is_json=True), context)))
    return explain_entries(source, sent.body, sent.number, context)


def explainer_of(path: str, sources: Mapping[str, Source] = SOURCES) -> Explainer | None:
    """None for a path that nothing is known to read."""
    if (named := _SOURCE.fullmatch(path)) is not None:
        source = sources.get(named[1])
        return None if source is None else partial(_entries, source)
    return EXPLAINERS.get(path.rstrip("/").rpartition("/")[2])


def explanations(
    taken: Sequence[Sequence[Single]],
    ledger: WatchedLedger,
    aggregates: WatchedAggregates,
    records: list[bytes],
    context: Context,
) -> list[Explanation]:
    """The finished explanations, in the order of the items.

    *taken*: each payload's items, as they were counted.
    """
    by_id: dict[str, dict[str, Any]] = {
        record["record_id"]: record for record in map(orjson.loads, records) if "record_id" in record
    }
    complete_calls([single for singles in taken for single in singles], ledger, by_id)
    complete_points([singles for singles in taken if any(x.point for x in singles)], aggregates, by_id, context)
    return [single.explanation for singles in taken for single in singles]
