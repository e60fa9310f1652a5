"""Spans of a gateway's scope with any attributes, in protobuf and JSON: each is a record that is
sound, or a rejection that names a field; nothing else comes of them.
"""

from typing import Any

import orjson
from google.protobuf.json_format import MessageToDict
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from exporters.otlp.encode import encode_spans
from gateway.products.records.source import read_stated
from gateway.read.otlp_json import decode_traces_json
from gateway.read.otlp_protobuf import decode_traces
from gateway.read.view import Traces
from gateway.rules.call import Normalised
from gateway.rules.context import Context
from gateway.rules.traces import normalise_traces
from tests.conformance.exporters.test_otlp import FULL
from tests.unit.rules.spans import any_value

CONTEXT = Context(0, "2026-01-06T00:00:00.000Z")
KNOWN = ExportTraceServiceRequest.FromString(encode_spans([orjson.dumps(FULL)], packs=False).body)
NAMES = sorted(x.key for x in KNOWN.resource_spans[0].scope_spans[0].spans[0].attributes)
SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["0" * 32, "call"]),
)
VALUES = st.recursive(SCALARS, lambda x: st.one_of(st.lists(x, max_size=3), st.dictionaries(st.text(), x, max_size=2)))
ODD_NAMES = st.sampled_from([*NAMES, "telemetry_gateway.", "telemetry_gateway.usage", "telemetry_gateway.trace.x.y"])
NANOSECONDS = st.sampled_from([0, 1, 1_767_607_200_000_000_000, 2**63, 2**64 - 1])


def read(traces: Traces) -> Normalised:
    return read_stated(normalise_traces(traces, CONTEXT), CONTEXT)


@settings(max_examples=150, deadline=None)
@given(
    changed=st.dictionaries(ODD_NAMES, VALUES, max_size=4),
    removed=st.sets(st.sampled_from(NAMES), max_size=3),
    times=st.tuples(NANOSECONDS, NANOSECONDS),
)
def test_any_attributes_are_a_sound_record_or_a_rejection_with_a_field(
    changed: dict[str, Any], removed: set[str], times: tuple[int, int]
) -> None:
    request = ExportTraceServiceRequest()
    request.CopyFrom(KNOWN)
    span = request.resource_spans[0].scope_spans[0].spans[0]
    kept = [x for x in span.attributes if x.key not in removed | changed.keys()]
    del span.attributes[:]
    span.attributes.extend(kept)
    for name, value in changed.items():
        span.attributes.add(key=name, value=any_value(value))
    span.start_time_unix_nano, span.end_time_unix_nano = times
    as_json = MessageToDict(request)
    json_span = as_json["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    json_span |= {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        "parentSpanId": span.parent_span_id.hex(),
    }
    json_span |= {"kind": 3, "status": {"code": 2}}
    found = read(decode_traces(request.SerializeToString()))
    again = read(decode_traces_json(orjson.dumps(as_json)))
    assert (found.items, len(found.calls) + len(found.rejected), found.ignored) == (1, 1, 0)
    assert [x.record for x in again.calls] == [x.record for x in found.calls]
    assert again.rejected == found.rejected
    for rejection in found.rejected:
        assert rejection.position.startswith("resourceSpans[0].scopeSpans[0].spans[0].")
    for call in found.calls:
        (same,) = read(decode_traces(encode_spans([orjson.dumps(call.record)], packs=False).body)).calls
        assert without_nulls(same.record) == without_nulls(call.record)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: found for name, inner in value.items() if (found := without_nulls(inner)) not in (None, {}, [])}
    return value
