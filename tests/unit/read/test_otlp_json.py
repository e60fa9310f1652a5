"""OTLP/JSON -> the same wire view as protobuf: the encoding rules of the OTLP
specification, one test a rule.
"""

import json
import math
from typing import Any

import orjson
import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.common.contract.errors import BadPayload
from gateway.read import wire
from gateway.read.otlp_json import decode_logs_json, decode_metrics_json, decode_traces_json
from gateway.read.slices import parse
from gateway.read.view import AnyValue, Span
from tests.support.corpus import scenarios

TRACE_ID = "5b8efff798038103d269b633813fc60c"
SPAN_ID = "eee19b7ec3c1b174"
POSITION = "resourceSpans[0].scopeSpans[0].spans[0]"


def body(**span: Any) -> bytes:
    made = {"traceId": TRACE_ID, "spanId": SPAN_ID, "name": "a span", **span}
    return orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [made]}]}]})


def span_of(**span: Any) -> Span:
    traces = decode_traces_json(body(**span))
    assert not traces.faults
    return traces.request.resource_spans[0].scope_spans[0].spans[0]


def value_of(value: Any) -> AnyValue:
    return span_of(attributes=[{"key": "k", "value": value}]).attributes["k"]


def fault_of(**span: Any) -> str | None:
    return decode_traces_json(body(**span)).faults.get(POSITION)


def test_ids_are_hex_in_any_case() -> None:
    assert span_of(traceId=TRACE_ID.upper()).trace_id == bytes.fromhex(TRACE_ID)
    assert span_of(parentSpanId=SPAN_ID).parent_span_id == bytes.fromhex(SPAN_ID)
    assert span_of(parentSpanId="").parent_span_id == b""


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("traceId", "W47/95gDgQPSabYzgT/GDA=="),  # base64, as protobuf's own JSON has it
        ("traceId", TRACE_ID[:-2]),
        ("traceId", TRACE_ID[:-1] + "g"),
        ("traceId", " " + TRACE_ID[:-1]),
        ("spanId", SPAN_ID + "00"),
        ("parentSpanId", "12"),
    ],
)
def test_wrong_ids_reject_their_span_alone(field: str, value: str) -> None:
    fault = fault_of(**{field: value})
    assert (
        fault
        == {"traceId": "invalid_trace_id", "spanId": "invalid_span_id", "parentSpanId": "invalid_parent_span_id"}[field]
    )


def test_a_rejected_span_keeps_its_place() -> None:
    spans = [{"traceId": "xx", "spanId": SPAN_ID}, {"traceId": TRACE_ID, "spanId": SPAN_ID, "name": "kept"}]
    traces = decode_traces_json(orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}))
    read = traces.request.resource_spans[0].scope_spans[0].spans
    assert [span.name for span in read] == ["", "kept"]
    assert traces.faults == {POSITION: "invalid_trace_id"}


@pytest.mark.parametrize("span", [{"kind": "SPAN_KIND_CLIENT"}, {"status": {"code": "STATUS_CODE_ERROR"}}])
def test_names_of_enums_reject_their_span(span: dict[str, Any]) -> None:
    assert fault_of(**span) == "invalid_enum"


def test_enums_are_numbers_also_unknown_ones() -> None:
    assert span_of(kind=3).kind == 3
    assert span_of(status={"code": 2}).status.code == 2
    assert span_of(kind=99).kind == 99


def test_unknown_keys_are_ignored_at_every_level() -> None:
    document = {
        "extra": 1,
        "resourceSpans": [
            {
                "new": {},
                "scopeSpans": [{"spans": [{"traceId": TRACE_ID, "spanId": SPAN_ID, "x": [1], "events": [{"y": 1}]}]}],
            }
        ],
    }
    assert decode_traces_json(orjson.dumps(document)).request.resource_spans[0].scope_spans[0].spans[0].span_id


def test_snake_case_is_an_unknown_key() -> None:
    assert span_of(start_time_unix_nano="5").start_time_unix_nano == 0


@pytest.mark.parametrize("number", [9007199254740993, -9007199254740993, 2**63 - 1, -(2**63)])
def test_64_bit_integers_are_exact_as_number_and_as_text(number: int) -> None:
    assert value_of({"intValue": number}).int_value == number
    assert value_of({"intValue": str(number)}).int_value == number


def test_times_are_texts_or_numbers() -> None:
    assert span_of(startTimeUnixNano="1767607201250000001").start_time_unix_nano == 1767607201250000001
    assert span_of(startTimeUnixNano=1767607201250000001).start_time_unix_nano == 1767607201250000001
    assert span_of(startTimeUnixNano=str(2**64 - 1)).start_time_unix_nano == 2**64 - 1


def test_whole_floats_are_integers() -> None:
    assert value_of({"intValue": 3.0}).int_value == 3


@pytest.mark.parametrize("wrong", [3.5, True, "3.5", "", "0x10", "1e3", str(2**63), 2**64, [], {}])
def test_other_values_are_no_integers(wrong: Any) -> None:
    with pytest.raises(BadPayload):
        decode_traces_json(
            json.dumps(json.loads(body(attributes=[{"key": "k", "value": {"intValue": "@"}}])))
            .replace('"@"', json.dumps(wrong))
            .encode()
        )


def test_zero_keeps_presence() -> None:
    assert value_of({"intValue": 0}).HasField("int_value")
    assert value_of({"boolValue": False}).HasField("bool_value")


@pytest.mark.parametrize(
    ("text", "number"), [("Infinity", math.inf), ("-Infinity", -math.inf), ("1.5e3", 1500.0), (2, 2.0)]
)
def test_doubles_are_numbers_or_texts(text: Any, number: float) -> None:
    assert value_of({"doubleValue": text}).double_value == number


def test_nan_is_a_text_and_never_a_literal() -> None:
    assert math.isnan(value_of({"doubleValue": "NaN"}).double_value)
    with pytest.raises(BadPayload):
        decode_traces_json(body(attributes=[{"key": "k", "value": {"doubleValue": 7}}]).replace(b":7", b":NaN"))


@pytest.mark.parametrize("text", ["-_8=", "-_8", "+/8=", "+/8"])
def test_bytes_are_base64_of_either_alphabet(text: str) -> None:
    assert value_of({"bytesValue": text}).bytes_value == b"\xfb\xff"


@pytest.mark.parametrize("text", ["?", "a", "äöü", "ab cd"])
def test_what_is_no_base64_is_a_bad_payload(text: str) -> None:
    with pytest.raises(BadPayload):
        value_of({"bytesValue": text})


def test_null_is_absent_at_every_level() -> None:
    assert span_of(parentSpanId=None, events=None, status=None, startTimeUnixNano=None).parent_span_id == b""
    assert not value_of({"stringValue": None, "intValue": 5}).string_value
    assert value_of({"stringValue": None, "intValue": 5}).int_value == 5
    assert value_of(None).string_value == ""
    assert not decode_traces_json(b'{"resourceSpans": null}').request.resource_spans


def test_two_kinds_of_one_value_are_a_bad_payload() -> None:
    with pytest.raises(BadPayload):
        value_of({"stringValue": "a", "intValue": 5})


def test_arrays_and_lists_of_keys_are_read() -> None:
    array = value_of({"arrayValue": {"values": [{"stringValue": "stop"}, {"intValue": "2"}]}}).array_value.values
    assert array[0].string_value == "stop"
    assert array[1].int_value == 2
    nested = value_of({"kvlistValue": {"values": [{"key": "a", "value": {"intValue": 1}}]}}).kvlist_value.values
    assert nested["a"].int_value == 1
    assert len(value_of({"arrayValue": {}}).array_value.values) == 0


def test_of_a_repeated_key_the_last_wins() -> None:
    span = span_of(attributes=[{"key": "k", "value": {"stringValue": "a"}}, {"key": "k", "value": {"intValue": 2}}])
    assert span.attributes["k"].string_value == ""
    assert span.attributes["k"].int_value == 2
    raw = body().replace(b'"name":"a span"', b'"name":"first","name":"second"')
    assert decode_traces_json(raw).request.resource_spans[0].scope_spans[0].spans[0].name == "second"


def test_byte_order_mark_is_skipped() -> None:
    assert decode_traces_json(b"\xef\xbb\xbf" + body()).request.resource_spans


def test_surrogate_pairs_are_whole_and_half_ones_are_replaced() -> None:
    template = body(name="@").decode()
    for text, expected in [
        (r"\ud83d\ude00", "😀"),
        (r"cut \ud83d", "cut \ufffd"),
        (r"\ude00 cut", "\ufffd cut"),
        (r"\\ud83d", r"\ud83d"),
        (r"\ud83d\ud83d\ude00", "\ufffd😀"),
    ]:
        traces = decode_traces_json(template.replace("@", text).encode())
        assert traces.request.resource_spans[0].scope_spans[0].spans[0].name == expected


@pytest.mark.parametrize("empty", [b"{}", b'{"resourceSpans":[]}', b'{"resourceSpans":[{}]}'])
def test_empty_requests_are_read(empty: bytes) -> None:
    assert not any(resource.scope_spans for resource in decode_traces_json(empty).request.resource_spans)


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"7",
        b'"text"',
        b'{"resourceSpans":{}}',
        b'{"resourceSpans":[7]}',
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[null]}]}]}',
        b'{"resourceSpans":[{"resource":[]}]}',
        b'{"resourceSpans":[{"scopeSpans":[{"scope":{"name":5}}]}]}',
        b'\xff\xfe{"resourceSpans":[]}',
        b'{"resourceSpans":[{"scopeSpans":[{"scope":{"name":"\xff"}}]}]}',
        b"[" * 100_000,
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    ],
)
def test_what_cannot_be_read_is_a_bad_payload(wrong: bytes) -> None:
    with pytest.raises(BadPayload):
        decode_traces_json(wrong)


def test_values_nested_too_deep_are_a_bad_payload() -> None:
    value: dict[str, Any] = {"stringValue": "deep"}
    for _ in range(150):
        value = {"arrayValue": {"values": [value]}}
    made = {"traceId": TRACE_ID, "spanId": SPAN_ID, "attributes": [{"key": "k", "value": value}]}
    with pytest.raises(BadPayload, match="too deep"):
        decode_traces_json(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [made]}]}]}).encode())


def test_errors_name_the_place_and_never_the_content() -> None:
    with pytest.raises(BadPayload) as caught:
        span_of(attributes=[{"key": "gen_ai.prompt", "value": {"intValue": "SECRET prompt"}}])
    assert "SECRET" not in str(caught.value)
    assert "spans[0].attributes[0].value" in str(caught.value)


def test_logs_and_metrics_follow_the_same_rules() -> None:
    logs = decode_logs_json(
        b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"5","traceId":"","eventName":"e","body":{"stringValue":"b"}},'
        b'{"severityNumber":"INFO"}]}]}]}'
    )
    first = logs.request.resource_logs[0].scope_logs[0].log_records[0]
    assert (first.time_unix_nano, first.event_name, first.body.string_value) == (5, "e", "b")
    assert logs.faults == {"resourceLogs[0].scopeLogs[0].logRecords[1]": "invalid_enum"}
    metrics = decode_metrics_json(
        b'{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","sum":{"aggregationTemporality":2,"isMonotonic":true,'
        b'"dataPoints":[{"asInt":"-7","timeUnixNano":"9","bucketCounts":["1"]}]}}]}]}]}'
    )
    metric = metrics.request.resource_metrics[0].scope_metrics[0].metrics[0]
    assert metric.HasField("sum")
    assert metric.sum.is_monotonic
    assert metric.sum.data_points[0].as_int == -7


def _as_otlp_json(body: bytes) -> bytes:
    """The body as a JavaScript exporter would send it: hex ids, enums as numbers."""
    message = ExportTraceServiceRequest.FromString(body)
    document = MessageToDict(message, use_integers_for_enums=True)
    for resource, resource_json in zip(message.resource_spans, document.get("resourceSpans", []), strict=True):
        for scope, scope_json in zip(resource.scope_spans, resource_json.get("scopeSpans", []), strict=True):
            for span, span_json in zip(scope.spans, scope_json.get("spans", []), strict=True):
                span_json["traceId"], span_json["spanId"] = span.trace_id.hex(), span.span_id.hex()
                span_json["parentSpanId"] = span.parent_span_id.hex()
                span_json.pop("links", None)
    return orjson.dumps(document)


PROTOBUF_BODIES = [p.body for s in scenarios("traces") for p in s.payloads if not p.is_json]


def test_json_and_protobuf_of_one_payload_are_one_view() -> None:
    assert len(PROTOBUF_BODIES) > 150
    for payload in PROTOBUF_BODIES:
        from_json = decode_traces_json(_as_otlp_json(payload))
        assert not from_json.faults
        from_protobuf = parse(wire.TRACES, payload)

        from_protobuf.DiscardUnknownFields()
        assert from_json.request == from_protobuf


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "resourceSpans",
                    "scopeSpans",
                    "spans",
                    "attributes",
                    "key",
                    "value",
                    "stringValue",
                    "intValue",
                    "arrayValue",
                    "values",
                    "traceId",
                    "kind",
                    "status",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(JSON_VALUES | st.fixed_dictionaries({"resourceSpans": JSON_VALUES}))
def test_any_json_is_a_view_or_a_bad_payload(document: Any) -> None:
    text = json.dumps(document).encode()
    for decode in (decode_traces_json, decode_logs_json, decode_metrics_json):
        try:
            decode(text)
        except BadPayload:
            continue


@given(st.binary(max_size=200))
def test_any_bytes_are_a_view_or_a_bad_payload(data: bytes) -> None:
    try:
        decode_traces_json(data)
    except BadPayload:
        return
