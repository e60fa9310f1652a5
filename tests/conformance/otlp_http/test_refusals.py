"""OTLP/HTTP requests that are refused, each with a google.rpc.Status in the request's
encoding (B02, B03, B20 to B28).
"""

import gzip
import json
import sys
import tracemalloc
import zlib

import aiohttp
import pytest
from google.rpc.error_details_pb2 import BadRequest  # type: ignore[import-untyped]  # the package has no types
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # the package has no types

from tests.conformance.otlp_http.payloads import (
    JSON,
    PROTOBUF,
    TRACE_ID,
    Raw,
    json_traces_body,
    nested_body,
    post,
    protobuf_body,
    traces_request,
)

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Client = aiohttp.ClientSession

MIB = 2**20


async def refused(
    client: Client, url: str, *, status: int, body: bytes = b"", content_type: str | None = PROTOBUF, **headers: str
) -> aiohttp.ClientResponse:
    """Post, and check that the answer is a Status in the encoding of the
    request, JSON when that is unknown.
    """
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if content_type is not None:
        sent["Content-Type"] = content_type
    async with client.post(url, data=body, headers=sent, skip_auto_headers=("Content-Type",)) as response:
        raw = await response.read()
    assert response.status == status
    is_protobuf = content_type == PROTOBUF
    assert response.headers["Content-Type"] == (PROTOBUF if is_protobuf else JSON)
    message = Status.FromString(raw).message if is_protobuf else json.loads(raw)["message"]
    assert message
    return response


async def still_works(client: Client, base_url: str) -> None:
    async with client.post(
        f"{base_url}/v1/traces", data=protobuf_body("traces"), headers={"Content-Type": PROTOBUF}
    ) as response:
        assert response.status == 200


@pytest.mark.parametrize("coding", ["br", "compress", "snappy", "gzip, gzip", "utf-8"])
async def test_b02_an_unknown_content_coding_is_415_and_never_read_as_plain(
    base_url: str, client: Client, coding: str
) -> None:
    await refused(client, f"{base_url}/v1/traces", status=415, body=protobuf_body("traces"), Content_Encoding=coding)


def gzip_bomb() -> bytes:
    """1 GiB of zeros in 1 MiB."""
    deflate = zlib.compressobj(9, wbits=31)
    return b"".join(deflate.compress(bytes(16 * MIB)) for _ in range(64)) + deflate.flush()


def zstd_bomb() -> bytes:
    """1 GiB of zeros in less than 100 KiB."""
    compress = zstd.ZstdCompressor(level=19)
    return b"".join(compress.compress(bytes(16 * MIB)) for _ in range(64)) + compress.flush()


@pytest.mark.parametrize(("coding", "make"), [("gzip", gzip_bomb), ("zstd", zstd_bomb)])
async def test_b03_a_decompression_bomb_is_refused_in_bounded_memory(
    base_url: str, client: Client, coding: str, make: object
) -> None:
    assert callable(make)
    bomb = make()
    tracemalloc.start()
    try:
        await refused(client, f"{base_url}/v1/traces", status=413, body=bomb, Content_Encoding=coding)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 * MIB
    await still_works(client, base_url)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v1/trace",
        "/v1/traces/x",
        "/v1development/profiles",
        "/V1/TRACES",
        "/v1/events/x",
        "/v1/%2e%2e/traces",
    ],
)
async def test_b20_b28_an_unknown_path_is_404_with_a_status(base_url: str, client: Client, path: str) -> None:
    await refused(client, f"{base_url}{path}", status=404, body=protobuf_body("traces"))
    await refused(client, f"{base_url}{path}", status=404, body=b"{}", content_type=JSON)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_b26_another_method_is_405_and_names_post(base_url: str, client: Client, method: str) -> None:
    async with client.request(method, f"{base_url}/v1/traces") as response:
        assert response.status == 405
        assert response.headers["Allow"] == "POST"
        assert response.headers["Content-Type"] == JSON
        assert (await response.json())["message"]


@pytest.mark.parametrize(
    "content_type",
    [None, "", "text/plain", "application/x-www-form-urlencoded", "application/jsonp", "application/grpc"],
)
async def test_b27_another_content_type_is_415(base_url: str, client: Client, content_type: str | None) -> None:
    await refused(client, f"{base_url}/v1/traces", status=415, body=b"{}", content_type=content_type)


async def test_b25_a_body_above_the_limit_is_413_and_the_connection_says_so(base_url: str) -> None:
    raw = await Raw.connect(base_url)
    await raw.send(
        b"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-protobuf\r\nContent-Length: 1000000000\r\n\r\n"
        + bytes(1000)
    )
    status, headers, body = await raw.answer()
    assert status == 413
    assert headers["connection"] == "close"
    assert Status.FromString(body).message
    await raw.close()


async def test_b24_a_bad_body_says_in_its_details_that_the_request_was_bad(base_url: str, client: Client) -> None:
    url = f"{base_url}/v1/traces"
    async with client.post(url, data=b"\xff", headers={"Content-Type": PROTOBUF}) as response:
        status = Status.FromString(await response.read())
    assert status.code == 3
    detail = BadRequest()
    assert status.details[0].Unpack(detail)
    assert detail.field_violations[0].description == status.message
    async with client.post(url, data=b"{", headers={"Content-Type": JSON}) as response:
        (in_json,) = (await response.json())["details"]
    assert in_json["@type"] == "type.googleapis.com/google.rpc.BadRequest"
    assert in_json["fieldViolations"][0]["description"]


GOOD = traces_request().SerializeToString()
INVALID_UTF8 = GOOD.replace(b"chat m-small", b"chat \xff\xfe-bad")
GZIPPED, DEFLATED, ZSTD = gzip.compress(GOOD), zlib.compress(GOOD), zstd.compress(GOOD)


@pytest.mark.parametrize(
    ("body", "coding"),
    [
        pytest.param(GOOD[:-3], "identity", id="truncated protobuf"),
        pytest.param(b"\xff\xff\xff\xff", "identity", id="garbage for protobuf"),
        pytest.param(INVALID_UTF8, "identity", id="invalid UTF-8"),
        pytest.param(nested_body(5000), "identity", id="deep nesting"),
        pytest.param(b"{}", "identity", id="JSON sent as protobuf"),
        pytest.param(GZIPPED[:-4], "gzip", id="truncated gzip"),
        pytest.param(GZIPPED[:5], "gzip", id="truncated gzip header"),
        pytest.param(b"", "gzip", id="nothing as gzip"),
        pytest.param(b"not gzip at all", "gzip", id="garbage for gzip"),
        pytest.param(GZIPPED[:-6] + b"\0\0" + GZIPPED[-4:], "gzip", id="gzip with a wrong checksum"),
        pytest.param(GZIPPED + b"trailing", "gzip", id="bytes after gzip"),
        pytest.param(DEFLATED[:-1], "deflate", id="truncated deflate"),
        pytest.param(DEFLATED + b"x", "deflate", id="bytes after deflate"),
        pytest.param(b"\xff\xff", "deflate", id="garbage for deflate"),
        pytest.param(ZSTD[:-1], "zstd", id="truncated zstd"),
        pytest.param(ZSTD + b"x", "zstd", id="bytes after zstd"),
        pytest.param(b"x" * 40, "zstd", id="garbage for zstd"),
        pytest.param(GZIPPED, "identity", id="gzip that is not announced"),
    ],
)
async def test_b24_a_body_that_can_never_be_read_is_400_and_the_next_is_served(
    base_url: str, client: Client, body: bytes, coding: str
) -> None:
    await refused(client, f"{base_url}/v1/traces", status=400, body=body, Content_Encoding=coding)
    await still_works(client, base_url)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="truncated"),
        pytest.param(b"[]", id="no object"),
        pytest.param(b'{"a":NaN}', id="NaN"),
        pytest.param(b'{"a":"\xff"}', id="invalid UTF-8"),
        pytest.param(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="deep nesting"),
        pytest.param(json_traces_body(TRACE_ID.hex()) + b"x", id="trailing bytes"),
        pytest.param(GOOD, id="protobuf sent as JSON"),
    ],
)
async def test_b24_json_that_can_never_be_read_is_400(base_url: str, client: Client, body: bytes) -> None:
    await refused(client, f"{base_url}/v1/traces", status=400, body=body, content_type=JSON)
    await still_works(client, base_url)


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:4318", "127.0.0.1.evil.example", "10.0.0.1", "[::2]", "", "localhost:x"]
)
async def test_open_intake_refuses_a_foreign_host(base_url: str, host: str) -> None:
    raw = await Raw.connect(base_url)
    await raw.send(post("/v1/traces", GOOD, host=host))
    status, _, body = await raw.answer()
    assert status == 403
    assert Status.FromString(body).code == 7
    await raw.close()


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:4318", "127.0.0.1:1", "127.8.9.10", "[::1]:4318", "[::1]"])
async def test_open_intake_answers_to_loopback_hosts(base_url: str, host: str) -> None:
    raw = await Raw.connect(base_url)
    await raw.send(post("/v1/traces", GOOD, host=host))
    assert (await raw.answer())[0] == 200
    await raw.close()


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(b"not http\r\n\r\n", id="no HTTP"),
        pytest.param(
            b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * 100_000 + b"\r\n\r\n", id="a huge header"
        ),
        pytest.param(b"POST /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", id="a huge path"),
        pytest.param(
            b"POST /v1/traces HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: a\r\n" % n for n in range(500)) + b"\r\n",
            id="many headers",
        ),
        pytest.param(b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", id="a negative length"),
        pytest.param(
            b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            id="two framings",
        ),
    ],
)
async def test_b23_what_the_http_parser_refuses_gets_a_status_too_and_quotes_nothing(
    base_url: str, client: Client, request_bytes: bytes
) -> None:
    raw = await Raw.connect(base_url)
    await raw.send(request_bytes)
    status, headers, body = await raw.answer()
    assert 400 <= status < 500
    assert headers["content-type"] == JSON
    assert json.loads(body)["message"] == "the HTTP request is malformed or its headers are too large"
    assert await raw.closed()
    await raw.close()
    await still_works(client, base_url)


async def test_a_damaged_chunked_body_is_400(base_url: str, client: Client) -> None:
    raw = await Raw.connect(base_url)
    head = (
        f"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {PROTOBUF}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    await raw.send(head.encode() + b"5\r\nabcde\r\nzzz\r\n")
    status, _, _ = await raw.answer()
    assert status == 400
    assert await raw.closed()
    await raw.close()
    await still_works(client, base_url)


@pytest.mark.parametrize("coding", ["gzip, chunked", "gzip,chunked", "x-unknown, chunked", "chunked, chunked"])
async def test_a_transfer_coding_that_would_be_passed_over_is_400(base_url: str, client: Client, coding: str) -> None:
    raw = await Raw.connect(base_url)
    head = f"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {JSON}\r\nTransfer-Encoding: {coding}\r\n\r\n"
    await raw.send(head.encode() + b"2\r\n{}\r\n0\r\n\r\n")
    status, _, _ = await raw.answer()
    assert status == 400
    await raw.close()
    await still_works(client, base_url)


def test_the_nested_body_is_what_it_says() -> None:
    """Three levels deep it is a valid request."""
    assert len(traces_request().FromString(nested_body(3)).resource_spans) == 1
