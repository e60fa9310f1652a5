"""OTLP/HTTP requests that succeed or succeed in part: codings, encodings, paths, connections (B01
to B12, B20 to B22, B32 to B35).
"""

import asyncio
import gzip
import json
import sys
import zlib
from collections.abc import Callable

import aiohttp
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tests.conformance.otlp_http.conftest import ALLOWED_ORIGIN
from tests.conformance.otlp_http.payloads import (
    JSON,
    PROTOBUF,
    SIGNALS,
    TRACE_ID,
    Raw,
    json_traces_body,
    post,
    protobuf_body,
    traces_request,
)
from tests.support.otlp_bytes import field

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

RESPONSES = {
    "traces": ExportTraceServiceResponse,
    "logs": ExportLogsServiceResponse,
    "metrics": ExportMetricsServiceResponse,
}

Client = aiohttp.ClientSession


def raw_deflate(data: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflate.compress(data) + deflate.flush()


CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "identity": bytes,
    "gzip": gzip.compress,
    "GZIP": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "deflate (raw)": raw_deflate,
    "zstd": zstd.compress,
    "gzip (two members)": lambda data: gzip.compress(data[:7]) + gzip.compress(data[7:]),
    "zstd (two frames)": lambda data: zstd.compress(data[:7]) + zstd.compress(data[7:]),
}


@pytest.mark.parametrize("coding", CODINGS)
async def test_b01_b02_every_advertised_content_coding_is_read(base_url: str, client: Client, coding: str) -> None:
    headers = {"Content-Type": PROTOBUF, "Content-Encoding": coding.partition(" ")[0]}
    body = CODINGS[coding](protobuf_body("traces"))
    async with client.post(f"{base_url}/v1/traces", data=body, headers=headers) as response:
        assert response.status == 200
        assert await response.read() == b""


@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize(("content_type", "body", "answer"), [(PROTOBUF, b"", b""), (JSON, b"{}", b"{}")])
async def test_b05_an_empty_request_succeeds(
    base_url: str, client: Client, signal: str, content_type: str, body: bytes, answer: bytes
) -> None:
    async with client.post(f"{base_url}/v1/{signal}", data=body, headers={"Content-Type": content_type}) as response:
        assert (response.status, await response.read()) == (200, answer)
        assert response.headers["Content-Type"] == content_type


async def test_b06_an_envelope_without_spans_is_no_error(base_url: str, client: Client) -> None:
    request = traces_request()
    request.resource_spans[0].scope_spans[0].ClearField("spans")
    async with client.post(
        f"{base_url}/v1/traces", data=request.SerializeToString(), headers={"Content-Type": PROTOBUF}
    ) as response:
        assert (response.status, await response.read()) == (200, b"")


@pytest.mark.parametrize("signal", SIGNALS)
async def test_b07_full_success_leaves_partial_success_unset(base_url: str, client: Client, signal: str) -> None:
    async with client.post(
        f"{base_url}/v1/{signal}", data=protobuf_body(signal), headers={"Content-Type": PROTOBUF}
    ) as response:
        assert (response.status, await response.read()) == (200, b"")
        assert response.headers["Content-Length"] == "0"
        assert "Date" in response.headers


async def test_b08_partial_success_counts_exactly_and_says_why(base_url: str, client: Client) -> None:
    body = traces_request(TRACE_ID, b"short", bytes(16), TRACE_ID).SerializeToString()
    async with client.post(f"{base_url}/v1/traces", data=body, headers={"Content-Type": PROTOBUF}) as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == PROTOBUF
        answer = ExportTraceServiceResponse.FromString(await response.read())
    assert answer.partial_success.rejected_spans == 2
    assert "invalid_trace_id" in answer.partial_success.error_message


async def test_b08_b48_partial_success_in_json_is_lower_camel_case_with_a_string_count(
    base_url: str, client: Client
) -> None:
    body = json_traces_body(TRACE_ID.hex(), "00" * 16)
    async with client.post(f"{base_url}/v1/traces", data=body, headers={"Content-Type": JSON}) as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == JSON
        answer = await response.json()
    assert answer["partialSuccess"]["rejectedSpans"] == "1"
    assert "invalid_trace_id" in answer["partialSuccess"]["errorMessage"]


async def test_b04_the_answer_stays_small_however_much_was_rejected(base_url: str, client: Client) -> None:
    body = traces_request(TRACE_ID, *[bytes(16)] * 5000).SerializeToString()
    async with client.post(f"{base_url}/v1/traces", data=body, headers={"Content-Type": PROTOBUF}) as response:
        raw = await response.read()
    assert len(raw) < 4096
    assert ExportTraceServiceResponse.FromString(raw).partial_success.rejected_spans == 5000


async def test_b10_a_payload_without_one_valid_item_is_refused_whole(base_url: str, client: Client) -> None:
    body = traces_request(b"short", bytes(16)).SerializeToString()
    async with client.post(f"{base_url}/v1/traces", data=body, headers={"Content-Type": PROTOBUF}) as response:
        assert response.status == 400


async def test_b11_unknown_fields_are_ignored(base_url: str, client: Client) -> None:
    body = protobuf_body("traces") + field(15, b"from a later version")
    async with client.post(f"{base_url}/v1/traces", data=body, headers={"Content-Type": PROTOBUF}) as response:
        assert (response.status, await response.read()) == (200, b"")


async def test_b12_the_same_request_again_is_accepted(base_url: str, client: Client) -> None:
    for _ in range(2):
        async with client.post(
            f"{base_url}/v1/traces", data=protobuf_body("traces"), headers={"Content-Type": PROTOBUF}
        ) as response:
            assert (response.status, await response.read()) == (200, b"")


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/traces/", "/v1/traces?x=1", "/v1/traces/?x=1", "//v1/traces"])
async def test_b20_trailing_slash_and_query_do_not_matter(base_url: str, path: str) -> None:
    raw = await Raw.connect(base_url)
    await raw.send(post(path, protobuf_body("traces")))
    assert (await raw.answer())[0] == 200
    await raw.close()


@pytest.mark.parametrize(
    ("content_type", "answer_type"),
    [
        ("application/x-protobuf", PROTOBUF),
        ("application/protobuf", PROTOBUF),
        ("Application/X-Protobuf; v=1", PROTOBUF),
        ("application/json", JSON),
        ("APPLICATION/JSON; charset=utf-8", JSON),
    ],
)
async def test_b21_b22_the_encoding_follows_content_type_both_ways(
    base_url: str, client: Client, content_type: str, answer_type: str
) -> None:
    body = json_traces_body(TRACE_ID.hex()) if answer_type == JSON else protobuf_body("traces")
    async with client.post(f"{base_url}/v1/traces", data=body, headers={"Content-Type": content_type}) as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == answer_type
        assert await response.read() == (b"{}" if answer_type == JSON else b"")


async def test_b32_a_connection_is_reused_after_success_and_after_errors(base_url: str) -> None:
    raw = await Raw.connect(base_url)
    seen = []
    for request in (
        post("/v1/traces", protobuf_body("traces")),
        post("/v1/traces", b"\xff"),
        post("/v1/nowhere", b"x" * 100),
        post("/v1/traces", b"x", content_type="text/plain"),
        post("/v1/logs", protobuf_body("logs")),
    ):
        await raw.send(request)
        seen.append((await raw.answer())[0])
    assert seen == [200, 400, 404, 415, 200]
    await raw.close()


async def test_b32_a_chunked_body_is_read(base_url: str) -> None:
    raw = await Raw.connect(base_url)
    body = protobuf_body("traces")
    head = (
        f"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {PROTOBUF}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    await raw.send(head.encode())
    for part in (body[:5], body[5:]):
        await raw.send(f"{len(part):x}\r\n".encode() + part + b"\r\n")
    await raw.send(b"0\r\n\r\n")
    assert (await raw.answer())[0] == 200
    await raw.close()


async def test_b32_expect_100_continue_is_answered_before_the_body(base_url: str) -> None:
    raw = await Raw.connect(base_url)
    body = protobuf_body("traces")
    head, _, _ = post("/v1/traces", body, extra="Expect: 100-continue\r\n").partition(b"\r\n\r\n")
    await raw.send(head + b"\r\n\r\n")
    assert (await raw.head()).startswith(b"HTTP/1.1 100 ")
    await raw.send(body)
    assert (await raw.answer())[0] == 200
    await raw.close()


async def test_b32_expect_100_continue_is_refused_unread_when_the_headers_are_enough(base_url: str) -> None:
    raw = await Raw.connect(base_url)
    await raw.send(
        b"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-protobuf\r\n"
        b"Content-Length: 99999999999\r\nExpect: 100-continue\r\n\r\n"
    )
    status, headers, _ = await raw.answer()
    assert status == 413
    assert headers["connection"] == "close"
    await raw.close()


async def test_b32_pipelined_requests_are_answered_in_order(base_url: str) -> None:
    raw = await Raw.connect(base_url)
    good, bad = post("/v1/traces", protobuf_body("traces")), post("/v1/traces", b"\xff")
    await raw.send((good + bad) * 25)
    statuses = [(await raw.answer())[0] for _ in range(50)]
    assert statuses == [200, 400] * 25
    await raw.close()


async def test_b32_two_hundred_connections_at_once_are_served(base_url: str) -> None:
    connections = await asyncio.gather(*(Raw.connect(base_url) for _ in range(200)))
    await asyncio.gather(*(raw.send(post("/v1/traces", protobuf_body("traces"))) for raw in connections))
    answers = await asyncio.gather(*(raw.answer() for raw in connections))
    assert {status for status, _, _ in answers} == {200}
    await asyncio.gather(*(raw.close() for raw in connections))


@pytest.mark.parametrize("version", ["HTTP/1.0", "HTTP/1.1"])
async def test_b32_a_sender_that_closes_after_one_request_is_served(base_url: str, version: str) -> None:
    raw = await Raw.connect(base_url)
    request = post("/v1/traces", protobuf_body("traces"), extra="Connection: close\r\n")
    await raw.send(request.replace(b"HTTP/1.1", version.encode(), 1))
    assert (await raw.answer())[0] == 200
    assert await raw.closed()
    await raw.close()


async def test_b35_an_allowed_origin_gets_its_preflight_and_may_read_answers(base_url: str, client: Client) -> None:
    headers = {"Origin": ALLOWED_ORIGIN, "Access-Control-Request-Method": "POST"}
    async with client.options(f"{base_url}/v1/traces", headers=headers) as response:
        assert response.status == 204
        assert response.headers["Access-Control-Allow-Origin"] == ALLOWED_ORIGIN
        allowed = response.headers["Access-Control-Allow-Headers"]
        assert all(name in allowed for name in ("content-type", "content-encoding", "authorization", "traceparent"))
        assert "POST" in response.headers["Access-Control-Allow-Methods"]
    headers = {"Origin": ALLOWED_ORIGIN, "Content-Type": JSON}
    for body, status in ((b"{}", 200), (b"{", 400)):
        async with client.post(f"{base_url}/v1/traces", data=body, headers=headers) as response:
            assert response.status == status
            assert response.headers["Access-Control-Allow-Origin"] == ALLOWED_ORIGIN
            json.loads(await response.read())


async def test_b35_another_origin_gets_nothing(base_url: str, client: Client) -> None:
    headers = {"Origin": "https://other.example", "Access-Control-Request-Method": "POST"}
    async with client.options(f"{base_url}/v1/traces", headers=headers) as response:
        assert response.status == 204
        assert not [name for name in response.headers if name.lower().startswith("access-control-")]
    async with client.post(
        f"{base_url}/v1/traces", data=b"{}", headers={"Origin": "https://other.example", "Content-Type": JSON}
    ) as response:
        assert "Access-Control-Allow-Origin" not in response.headers
