"""Connections that hold something and ask for nothing."""

import asyncio
import resource
import subprocess
import sys

import pytest

import gateway.common.http_connection
from gateway.common.open_files import OPEN_FILES
from gateway.receiver.body import Limits
from tests.unit.receiver.conftest import Serve

WAIT_S = 10.0
HEAD = b"GET /v1/traces HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize("sent", [b"", HEAD, HEAD + b"X: " + b"x" * 4000])
async def test_a_connection_that_never_asks_for_anything_is_ended(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(gateway.common.http_connection, "FIRST_REQUEST_S", 0.2)
    served = await serve()
    host, _, port = served.url.removeprefix("http://").rpartition(":")
    silent, its_writer = await asyncio.open_connection(host, port)
    its_writer.write(sent)
    asking, writer = await asyncio.open_connection(host, port)
    writer.write(HEAD + b"\r\n")
    async with asyncio.timeout(WAIT_S):
        assert (await asking.readuntil(b"\r\n")).startswith(b"HTTP/1.1 405")
        assert await silent.read() == b""
        writer.write(HEAD + b"\r\n")
        await asking.readuntil(b"HTTP/1.1 405")
    for each in (its_writer, writer):
        each.close()
        await each.wait_closed()


async def test_headers_that_stop_half_way_end_their_connection_also_after_other_requests(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = await serve()
    host, _, port = served.url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, port)
    for piece in (HEAD + b"\r\n", HEAD, b"\r\n"):
        writer.write(piece)
    for _ in range(2):
        await reader.readuntil(b"HTTP/1.1 405")
        await reader.readuntil(b"}")
    monkeypatch.setattr(gateway.common.http_connection, "FIRST_REQUEST_S", 0.2)
    writer.write(HEAD)
    async with asyncio.timeout(WAIT_S):
        assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


async def test_a_connection_too_many_is_asked_to_come_again(serve: Serve) -> None:
    served = await serve(limits=Limits(max_connections=2))
    host, _, port = served.url.removeprefix("http://").rpartition(":")
    writers = []
    for _ in range(2):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(HEAD + b"\r\n")
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 405")
        writers.append(writer)
    further, writer = await asyncio.open_connection(host, port)
    answer = await further.read()
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"Retry-After: 5" in answer
    (entry,) = [entry for entry in served.receiver.refused.status() if entry["status"] == 503]
    assert entry["reason"] == "too_many_connections"
    writer.close()
    await writer.wait_closed()
    ended = writers.pop()
    ended.close()
    await ended.wait_closed()

    async def let_in() -> bool:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(HEAD + b"\r\n")
        status = await reader.readuntil(b"\r\n")
        writer.close()
        await writer.wait_closed()
        return status.startswith(b"HTTP/1.1 405")

    async with asyncio.timeout(WAIT_S):
        while not await let_in():
            pass
    writers[0].close()
    await writers[0].wait_closed()


def test_the_gateway_may_open_more_files_than_the_usual_1024() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    script = (
        "import resource; from gateway.common.open_files import raise_open_files; limit = resource.RLIMIT_NOFILE;"
        f"resource.setrlimit(limit, (256, {hard})); raise_open_files(); print(resource.getrlimit(limit)[0])"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert int(told.stdout) == (OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard))
