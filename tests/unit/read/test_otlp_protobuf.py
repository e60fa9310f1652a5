"""OTLP protobuf bytes -> wire view: the same bytes, other classes."""

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from gateway.common.contract.errors import BadPayload
from gateway.read.otlp_protobuf import decode_logs, decode_metrics, decode_traces
from tests.support.otlp_bytes import field


def one_span(*attributes: KeyValue) -> bytes:
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(attributes=attributes, name="a span")
    return request.SerializeToString()


def test_empty_body_is_an_empty_request() -> None:
    assert not decode_traces(b"").request.resource_spans
    assert not decode_logs(b"").request.resource_logs
    assert not decode_metrics(b"").request.resource_metrics


def test_zero_is_distinguished_from_absent() -> None:
    body = one_span(
        KeyValue(key="int", value=AnyValue(int_value=0)),
        KeyValue(key="bool", value=AnyValue(bool_value=False)),
        KeyValue(key="double", value=AnyValue(double_value=0.0)),
        KeyValue(key="nothing", value=AnyValue()),
    )
    values = decode_traces(body).request.resource_spans[0].scope_spans[0].spans[0].attributes
    assert values["int"].HasField("int_value")
    assert values["bool"].HasField("bool_value")
    assert values["double"].HasField("double_value")
    assert not any(values["nothing"].HasField(f"{kind}_value") for kind in ("int", "bool", "double"))


def test_of_a_repeated_key_the_last_value_wins() -> None:
    body = one_span(
        KeyValue(key="k", value=AnyValue(string_value="first")), KeyValue(key="k", value=AnyValue(int_value=2))
    )
    value = decode_traces(body).request.resource_spans[0].scope_spans[0].spans[0].attributes["k"]
    assert value.int_value == 2
    assert value.string_value == ""


def test_unknown_fields_and_enum_numbers_are_accepted() -> None:
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(name="new")
    body = bytearray(request.SerializeToString())
    extra = b"\xfa\x3f\x03new"  # field 1023, length-delimited, at the end of the span
    body[1] += len(extra)
    body[3] += len(extra)
    body[5] += len(extra)
    body += extra
    read = decode_traces(bytes(body)).request.resource_spans[0].scope_spans[0].spans[0]
    assert read.name == "new"
    span.status.code = 77  # type: ignore[assignment]  # a number of a later version
    assert (
        decode_traces(request.SerializeToString()).request.resource_spans[0].scope_spans[0].spans[0].status.code == 77
    )


@pytest.mark.parametrize("cut", [1, 3, 5, 9])
def test_truncated_body_is_a_bad_payload(cut: int) -> None:
    with pytest.raises(BadPayload):
        decode_traces(one_span(KeyValue(key="key", value=AnyValue(string_value="value")))[:-cut])


def test_invalid_utf8_is_a_bad_payload_and_its_text_is_not_reported() -> None:
    body = one_span(KeyValue(key="key", value=AnyValue(string_value="SECRET-value")))
    with pytest.raises(BadPayload) as caught:
        decode_traces(body.replace(b"value", b"\xff\xfe\xfd\xfc\xfb"))
    assert "SECRET" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("levels", [120, 5_000])
def test_nesting_bomb_is_a_bad_payload(levels: int) -> None:
    value = field(1, b"deep")
    for _ in range(levels):
        value = field(5, field(1, value))
    span = field(9, field(1, b"bomb") + field(2, value))
    with pytest.raises(BadPayload):
        decode_traces(field(1, field(2, field(2, span))))


def test_values_nested_as_senders_do_are_read() -> None:
    value = field(1, b"deep")
    for _ in range(20):
        value = field(5, field(1, value))
    span = field(9, field(1, b"nested") + field(2, value))
    assert decode_traces(field(1, field(2, field(2, span)))).request.resource_spans


def test_misrouted_payload_is_read_without_ids_not_refused() -> None:
    logs = ExportLogsServiceRequest()
    logs.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=1)
    assert all(
        not span.trace_id
        for rs in decode_traces(logs.SerializeToString()).request.resource_spans
        for ss in rs.scope_spans
        for span in ss.spans
    )


def test_log_records_are_read() -> None:
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=7, event_name="an.event")
    record.body.string_value = "text"
    record.attributes.add(key="n", value=AnyValue(int_value=3))
    read = decode_logs(request.SerializeToString()).request.resource_logs[0].scope_logs[0].log_records[0]
    assert (read.time_unix_nano, read.event_name, read.body.string_value) == (7, "an.event", "text")
    assert read.attributes["n"].int_value == 3


def test_metrics_of_every_kind_are_read() -> None:
    request = ExportMetricsServiceRequest()
    metrics = request.resource_metrics.add().scope_metrics.add().metrics
    metrics.add(name="sum").sum.data_points.add(as_int=-5)
    metrics.add(name="gauge").gauge.data_points.add(as_double=0.5)
    metrics.add(name="histogram").histogram.data_points.add(count=3, sum=12.5)
    metrics.add(name="exponential").exponential_histogram.data_points.add(count=4, sum=1.5)
    metrics.add(name="summary").summary.data_points.add(count=5, sum=2.5)
    total, gauge, histogram, exponential, summary = (
        decode_metrics(request.SerializeToString()).request.resource_metrics[0].scope_metrics[0].metrics
    )
    assert total.HasField("sum")
    assert total.sum.data_points[0].as_int == -5
    assert gauge.gauge.data_points[0].as_double == 0.5
    assert (histogram.histogram.data_points[0].count, histogram.histogram.data_points[0].sum) == (3, 12.5)
    assert exponential.exponential_histogram.data_points[0].count == 4
    assert summary.summary.data_points[0].sum == 2.5


@given(st.binary(max_size=400))
def test_any_bytes_are_a_view_or_a_bad_payload(body: bytes) -> None:
    for decode in (decode_traces, decode_logs, decode_metrics):
        try:
            decode(body)
        except BadPayload:
            continue


@given(st.data())
def test_flipped_bytes_of_a_real_body_are_a_view_or_a_bad_payload(data: st.DataObject) -> None:
    body = bytearray(
        one_span(
            *(
                KeyValue(
                    key=f"gen_ai.usage.{n}",
                    value=AnyValue(
                        int_value=n,
                    ),
                )
                for n in range(5)
            )
        )
    )
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_traces(bytes(body))
    except BadPayload:
        return


def test_the_view_and_the_generated_classes_write_the_same_bytes() -> None:
    body = one_span(KeyValue(key="a", value=AnyValue(string_value="b")))
    view = decode_traces(body).request
    assert isinstance(view, Message)
    assert view.SerializeToString() == body


def test_views_show_no_content() -> None:
    body = one_span(KeyValue(key="gen_ai.prompt", value=AnyValue(string_value="SECRET")))
    assert "SECRET" not in repr(decode_traces(body))
