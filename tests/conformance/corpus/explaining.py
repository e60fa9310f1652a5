"""What holds of the explanation of any payloads: the record's own values, the count's own
outcomes, no content.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import orjson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans

from gateway.cli.explaining import Explained, printed
from gateway.pipeline.explain.story import Explanation, leaves
from gateway.read.otlp_protobuf import decode_traces
from gateway.rules.context import Context
from gateway.rules.traces import normalise_traces
from tests.conformance.corpus.counting import Counted
from tests.support.corpus import CANARY, Scenario

OUTCOMES = ("kept", "duplicate", "suppressed", "rejected", "ignored")
CONTEXT = Context(1_767_607_203_000, "2026-01-05T10:00:03.000Z", peer="normalise")


def check(explained: Explained) -> None:
    """What holds of any payloads."""
    assert_outcomes(explained)
    assert_fields(explained)
    for as_json in (True, False):
        assert CANARY not in "".join(printed(explained.items, as_json=as_json))


def assert_outcomes(explained: Explained) -> None:
    """Each item has one explanation, and its outcome is the one that was counted."""
    outcomes = Counter(item.outcome for item in explained.items)
    assert {outcome: outcomes[outcome] for outcome in OUTCOMES} == {
        outcome: explained.edge[outcome] for outcome in OUTCOMES
    }
    assert len(explained.items) == explained.edge["received"]
    reasons = Counter(f"{item.outcome}.{item.reason}" for item in explained.items if item.reason)
    counted = {reason: n for reason, n in explained.reasons.items() if n and not reason.startswith("kept.")}
    assert reasons == counted
    places = [(item.payload, item.position) for item in explained.items]
    assert len(places) == len(set(places))
    assert all(item.because for item in explained.items)


def assert_fields(explained: Explained) -> None:
    """Each record is explained by one item, field by field; whoever stands for
    another item is a record.
    """
    records = {record["record_id"]: record for record in map(orjson.loads, explained.records)}
    kept = [item for item in explained.items if item.outcome == "kept"]
    assert {item.record_id for item in kept} == records.keys()
    assert len(kept) == len(records)
    for item in kept:
        record = records[item.record_id]
        said = {path: field.value for path, field in item.fields.items()}
        assert said == {"cost": None, **leaves(record)}
        assert_input(item, record)
    for item in explained.items:
        assert set(item.of) <= records.keys()
        assert (item.outcome == "kept") == bool(item.fields) == (item.record_id is not None)


def assert_input(item: Explanation, record: dict[str, Any]) -> None:
    given = record["usage"].get("input_tokens")
    assert (item.input is None) == (given is None)
    if item.input is not None:
        assert sum(map(int, item.input.sum.split(" + "))) == given
    if item.output is not None:
        assert sum(map(int, item.output.sum.split(" + "))) == record["usage"]["output_tokens"]


def assert_like(explained: Explained, counted: Counted) -> None:
    """What is explained is what is counted without an explanation."""
    assert explained.edge == counted.outcomes
    assert sorted(orjson.loads(x)["record_id"] for x in explained.records) == sorted(
        x["record_id"] for x in counted.parsed
    )


# ---- the names that are said to have won


def spans(scenario: Scenario) -> Iterator[tuple[int, str, ExportTraceServiceRequest]]:
    """Each span of protobuf payloads as a request of its own, with its payload and position."""
    for number, payload in enumerate(scenario.payloads):
        request = ExportTraceServiceRequest() if payload.is_json else ExportTraceServiceRequest.FromString(payload.body)
        for i, resource in enumerate(request.resource_spans):
            for j, scope in enumerate(resource.scope_spans):
                for k, span in enumerate(scope.spans):
                    alone = ScopeSpans(scope=scope.scope, spans=[span])
                    one = ResourceSpans(resource=resource.resource, scope_spans=[alone])
                    position = f"resourceSpans[{i}].scopeSpans[{j}].spans[{k}]"
                    yield number, position, ExportTraceServiceRequest(resource_spans=[one])


def value_without(request: ExportTraceServiceRequest, names: set[str], path: str) -> Any:
    """The field of the span's record when span, events and resource lack
    *names*; None when it becomes none.
    """
    left = ExportTraceServiceRequest()
    left.CopyFrom(request)
    span = left.resource_spans[0].scope_spans[0].spans[0]
    for holder in (left.resource_spans[0].resource, span, *span.events):
        kept = [attribute for attribute in holder.attributes if attribute.key not in names]
        del holder.attributes[:]
        holder.attributes.extend(kept)
    calls = normalise_traces(decode_traces(left.SerializeToString()), CONTEXT).calls
    return leaves(dict(calls[0].record)).get(path) if calls else None


def assert_names(scenario: Scenario, explained: Explained) -> None:
    """Without the names that were passed over each field of a span's record is the same. Without
    all of them it is another.
    """
    items = {(item.payload, item.position): item for item in explained.items}
    for number, position, request in spans(scenario):
        for path, field in items[number, position].fields.items():
            if field.provenance.by not in {"item", "text", "event", "resource"} or "by the report at" in field.note:
                continue
            passed, won = set(field.provenance.passed_over), set(field.provenance.attributes)
            assert value_without(request, passed, path) == field.value, path
            if path not in {"operation", "provider"}:  # the model, or nothing at all, may state the same
                assert value_without(request, passed | won, path) != field.value, path
