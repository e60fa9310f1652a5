"""Bodies on the admin port, on the form to log in too, which needs no credential: each is read
within bounds, or refused in clear words. None is an unforeseen error.
"""

import gc
import gzip
import zlib
from typing import Final

import aiohttp
import pytest
from aiohttp import web

from gateway.operate.request_body import BODY, MAX_BODY_BYTES, MAX_FIELDS
from gateway.serve.content_encoding import zstd
from tests.unit.operate.test_revocation import Rig, rig

__all__ = ["rig"]

FORM: Final = "application/x-www-form-urlencoded"
JSON: Final = "application/json"
PATHS: Final = {"/login": FORM, "/v2/views": JSON, "/mcp": JSON, "/keys": FORM, "/v2/backup": JSON}
PACKED: Final = {
    "gzip": gzip.compress(b"{}" * 40),
    "deflate": zlib.compress(b"{}" * 40),
    "zstd": zstd.compress(b"{}" * 40),
}
BOMBS: Final = {
    "gzip": gzip.compress(bytes(64 * MAX_BODY_BYTES)),
    "deflate": zlib.compress(bytes(64 * MAX_BODY_BYTES)),
    "zstd": zstd.compress(bytes(64 * MAX_BODY_BYTES)),
}
DAMAGED: Final = [
    (encoding, body)
    for encoding, packed in PACKED.items()
    for body in (b"x", b"{}", packed[:-3], packed[:5], b"\x00" + packed, packed + b"\xff\xff\xff")
]


async def post(rig: Rig, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
    """With a session but on the form to log in, which needs none."""
    credential = {} if path == "/login" else rig.session()
    sent = {"Content-Type": PATHS[path], **credential, **headers}
    async with (
        aiohttp.ClientSession() as client,
        client.post(f"http://127.0.0.1:{rig.port}{path}", data=body, headers=sent, allow_redirects=False) as response,
    ):
        return response.status, await response.text()


@pytest.mark.parametrize("path", PATHS)
async def test_a_body_that_is_not_what_its_content_encoding_states_is_400(rig: Rig, path: str) -> None:
    for encoding, body in DAMAGED:
        status, text = await post(rig, path, body, {"Content-Encoding": encoding})
        assert (status, "body" in text) == (400, True), (encoding, body, text)
    assert (rig.unforeseen, rig.carried_out) == (0, [])


@pytest.mark.parametrize("path", PATHS)
async def test_a_body_is_bounded_before_and_after_decompression(rig: Rig, path: str) -> None:
    assert (await post(rig, path, b"x" * (MAX_BODY_BYTES + 1), {}))[0] == 413
    for encoding, body in BOMBS.items():
        assert (await post(rig, path, body, {"Content-Encoding": encoding}))[0] == 413
    assert (rig.unforeseen, rig.carried_out) == (0, [])


@pytest.mark.parametrize("path", PATHS)
async def test_an_encoding_that_is_not_read_is_415(rig: Rig, path: str) -> None:
    for encoding in ("br", "gzip, gzip", "compress", "x" * 500):
        status, text = await post(rig, path, b"{}", {"Content-Encoding": encoding})
        assert (status, "Content-Encoding must be gzip, deflate, zstd or identity" in text) == (415, True)
    assert (rig.unforeseen, rig.carried_out) == (0, [])


@pytest.mark.parametrize("encoding", PACKED)
async def test_a_compressed_body_is_taken(rig: Rig, encoding: str) -> None:
    body = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstd.compress}[encoding](b"{}")
    assert (await post(rig, "/v2/views", body, {"Content-Encoding": encoding}))[0] == 201
    assert rig.carried_out == ["createView"]


async def test_a_request_without_a_body_may_name_an_encoding(rig: Rig) -> None:
    async with (
        aiohttp.ClientSession(headers=rig.session() | {"Content-Encoding": "gzip"}) as client,
        client.get(f"http://127.0.0.1:{rig.port}/v2/views") as response,
    ):
        assert response.status == 200


FORMS: Final[dict[str, tuple[bytes, str]]] = {
    "bytes that are no UTF-8": (b"token=\xff\xfe", FORM),
    "an unknown charset": (b"token=x", f"{FORM}; charset=none-such"),
    "a charset that is no text": (b"token=x", f"{FORM}; charset=zlib"),
    "parts": (
        b"--b\r\nContent-Disposition: form-data; name=token\r\n\r\nx\r\n--b--",
        "multipart/form-data; boundary=b",
    ),
    "a file": (
        b'--b\r\nContent-Disposition: form-data; name="token"; filename="f"\r\n\r\nx\r\n--b--',
        "multipart/form-data; boundary=b",
    ),
    "parts without a boundary": (b"x", "multipart/form-data"),
    "too many fields": (b"&".join(b"token=x" for _ in range(MAX_FIELDS + 1)), FORM),
}


@pytest.mark.parametrize(("body", "kind"), FORMS.values(), ids=FORMS)
async def test_a_form_that_cannot_be_read_is_refused_in_words(rig: Rig, body: bytes, kind: str) -> None:
    status, text = await post(rig, "/login", body, {"Content-Type": kind})
    assert (status, "the form cannot be read" in text) == (400, True), text
    assert rig.unforeseen == 0


async def test_a_request_and_its_body_are_freed_with_its_answer(rig: Rig) -> None:
    """Not when the collector runs, which is seldom; an idle connection keeps its last request."""
    url, n = f"http://127.0.0.1:{rig.port}/v2/views", 20
    headers = {"Content-Type": JSON, **rig.session()}
    gc.collect()
    gc.disable()
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as client:
            for _ in range(n):
                async with client.post(url, data=b"{}", headers=headers) as response:
                    assert response.status == 201
            kept = [each for each in gc.get_objects() if isinstance(each, web.Request)]
            assert len(kept) <= 1
            assert [request for request in kept if BODY in request] == []
    finally:
        gc.enable()
