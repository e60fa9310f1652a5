"""The pure pieces of the web code, each against something independent."""

import gzip
import sys
import zlib

import pytest
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # the package has no types
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from gateway.common.contract.errors import BadPayload
from gateway.common.contract.otlp import rejection_message
from gateway.common.contract.outcomes import Rejection
from gateway.serve.content_encoding import BLOCK_BYTES, MAX_MEMBERS, Decode, deflate_blocks, gzip_blocks, zstd_blocks
from gateway.serve.responses import MAX_MESSAGE_BYTES, partial_success, rpc_status

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


@given(st.integers(0, 2**63 - 1), st.text(max_size=300))
def test_partial_success_is_what_the_published_messages_read(rejected: int, message: str) -> None:
    traces = ExportTraceServiceResponse.FromString(partial_success("protobuf", "traces", rejected, message))
    logs = ExportLogsServiceResponse.FromString(partial_success("protobuf", "logs", rejected, message))
    metrics = ExportMetricsServiceResponse.FromString(partial_success("protobuf", "metrics", rejected, message))
    assert traces.partial_success.rejected_spans == rejected
    assert logs.partial_success.rejected_log_records == rejected
    assert metrics.partial_success.rejected_data_points == rejected
    assert traces.partial_success.error_message == message


@given(st.sampled_from([3, 5, 7, 8, 12, 14, 16]), st.text())
def test_a_status_is_what_the_published_message_reads_and_is_bounded(code: int, message: str) -> None:
    raw = rpc_status("protobuf", code, message)
    status = Status.FromString(raw)
    assert status.code == code
    assert len(status.message.encode()) <= MAX_MESSAGE_BYTES
    assert status.message == message or (len(message.encode()) > MAX_MESSAGE_BYTES and status.message.endswith("..."))


def test_a_text_that_is_no_unicode_does_not_break_an_answer() -> None:
    assert Status.FromString(rpc_status("protobuf", 3, "x\ud800")).message
    assert rpc_status("json", 3, "x\ud800")


def test_a_rejection_message_counts_by_reason_and_names_first_positions() -> None:
    rejected = [Rejection("bad_time", "spans[1]"), Rejection("bad_id", "spans[2]"), Rejection("bad_id", "spans[4]")]
    message = rejection_message(9, rejected)
    assert message == "3 of 9 items rejected: bad_id (2, first at spans[2]), bad_time (1, first at spans[1])"


CODINGS: list[tuple[Decode, object]] = [
    (gzip_blocks, gzip.compress),
    (deflate_blocks, zlib.compress),
    (zstd_blocks, zstd.compress),
]


@settings(max_examples=60)
@given(st.sampled_from(CODINGS), st.binary(max_size=2000), st.integers(1, 400))
def test_what_was_compressed_comes_back_in_bounded_blocks(
    coding: tuple[Decode, object], data: bytes, times: int
) -> None:
    decode, compress = coding
    assert callable(compress)
    blocks = list(decode(compress(data * times)))
    assert b"".join(blocks) == data * times
    assert all(len(block) <= BLOCK_BYTES for block in blocks)


@settings(max_examples=60)
@given(st.sampled_from(CODINGS), st.binary(max_size=500), st.data())
def test_a_cut_body_is_always_refused(coding: tuple[Decode, object], data: bytes, draw: st.DataObject) -> None:
    decode, compress = coding
    assert callable(compress)
    body = compress(data)
    cut = draw.draw(st.integers(0, len(body) - 1))
    with pytest.raises(BadPayload):
        list(decode(body[:cut]))


@settings(max_examples=200)
@given(st.sampled_from([gzip_blocks, deflate_blocks, zstd_blocks]), st.binary(max_size=300))
def test_any_bytes_are_decoded_or_refused(decode: Decode, body: bytes) -> None:
    try:
        blocks = list(decode(body))
    except BadPayload:
        return
    assert all(blocks)


def test_members_without_end_are_refused() -> None:
    assert b"".join(gzip_blocks(gzip.compress(b"a") * MAX_MEMBERS)) == b"a" * MAX_MEMBERS
    with pytest.raises(BadPayload, match="bytes follow"):
        list(gzip_blocks(gzip.compress(b"a") * (MAX_MEMBERS + 1)))


def test_a_zstd_window_above_eight_mebibytes_is_refused() -> None:
    options: dict[int, int] = {zstd.CompressionParameter.window_log: 26}
    body = zstd.compress(bytes(range(256)) * 400_000, options=options)
    with pytest.raises(BadPayload):
        list(zstd_blocks(body))
