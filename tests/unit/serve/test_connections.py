"""Connections that hold something and ask for nothing."""

import asyncio
import gc
import resource
import subprocess
import sys
import weakref
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from gateway.common.contract.errors import Unauthenticated
from gateway.common.http import http_connection, incoming
from gateway.common.http.connection_limits import MAX_OPERATORS, shares_of
from gateway.common.http.http_connection import MAX_FRUITLESS
from gateway.common.open_files import OPEN_FILES
from gateway.serve.body import BodyLimits
from tests.support.polling import HANGS_S, until_true
from tests.unit.serve.conftest import Serve
from tests.unit.serve.test_taken_together import opened

HEAD = b"GET /v1/traces HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize("sent", [b"", HEAD, HEAD + b"X: " + b"x" * 4000])
async def test_a_connection_that_never_asks_for_anything_is_ended(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(http_connection, "HEAD_S", 0.2)
    monkeypatch.setattr(incoming, "SILENT_S", 0.2)
    monkeypatch.setattr(incoming, "LOOK_S", 0.05)
    served = await serve()
    host, _, port = served.url.removeprefix("http://").rpartition(":")
    silent, its_writer = await asyncio.open_connection(host, port)
    its_writer.write(sent)
    asking, writer = await asyncio.open_connection(host, port)
    writer.write(HEAD + b"\r\n")
    async with asyncio.timeout(HANGS_S):
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
    monkeypatch.setattr(http_connection, "HEAD_S", 0.2)
    writer.write(HEAD)
    async with asyncio.timeout(HANGS_S):
        assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


async def test_behind_what_is_no_http_nothing_is_kept(tmp_path: Path) -> None:
    async with opened(tmp_path, together=False) as gateway:
        (connection, *_) = gateway.connections
        head = HEAD.replace(b"GET", b"POST") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n"
        for piece in (head, *[b"X-Trailer: without end\r\n" * 20] * 100):
            connection.data_received(piece)
            for _ in range(2):  # a task, and the one that it wakes
                await asyncio.sleep(0)
        kept = connection._handler._messages
        assert 0 < len(kept) <= MAX_FRUITLESS, "aiohttp's errors"


POST = b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


async def status_of(host: str, port: str, request: bytes) -> tuple[str, asyncio.StreamWriter]:
    """The first line of the answer; the connection stays open."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(request)
    with suppress(ConnectionError):
        return (await reader.readline()).decode(), writer
    return "", writer


async def until_taken(host: str, port: str) -> None:
    """Wait until a request on a new connection is taken."""
    status = ""
    async with asyncio.timeout(HANGS_S):
        while not status.startswith("HTTP/1.1 200"):
            status, writer = await status_of(host, port, POST)
            writer.close()
            await writer.wait_closed()


async def test_a_connection_too_many_is_asked_to_come_again(serve: Serve) -> None:
    served = await serve(limits=BodyLimits(max_connections=2))
    host, _, port = served.url.removeprefix("http://").rpartition(":")
    writers = []
    for _ in range(2):
        status, writer = await status_of(host, port, POST)
        assert status.startswith("HTTP/1.1 200")
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

    await until_taken(host, port)
    writers[0].close()
    await writers[0].wait_closed()


@pytest.mark.parametrize("sent", [b"", HEAD, HEAD + b"\r\n"], ids=["nothing", "half a head", "what is refused"])
async def test_connections_that_show_no_key_leave_room_for_those_that_do(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """Of two that may be open, both are taken."""
    monkeypatch.setattr(incoming, "PATIENCE_S", 0.1)
    served = await serve(limits=BodyLimits(max_connections=2))
    host, _, port = served.url.removeprefix("http://").rpartition(":")
    taken = [await asyncio.open_connection(host, port) for _ in range(2)]
    for _, writer in taken:
        writer.write(sent)
    await until_taken(host, port)
    reads = [asyncio.create_task(reader.read()) for reader, _ in taken]
    await asyncio.wait(reads, return_when=asyncio.FIRST_COMPLETED, timeout=HANGS_S)
    assert "no_key_on_connection" in {entry["reason"] for entry in served.receiver.refused.status()}
    for _, writer in taken:
        writer.transport.abort()
    await asyncio.gather(*reads, return_exceptions=True)


async def test_a_machine_that_is_slow_between_any_two_lines_forgets_no_connection(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look at the clock is later than a turn may take."""
    served = await serve()
    host, _, port = served.url.removeprefix("http://").rpartition(":")
    ticks = count(step=2 * incoming.TURN_S)
    monkeypatch.setattr(incoming, "monotonic", lambda: next(ticks))
    async with asyncio.timeout(HANGS_S):
        answers = await asyncio.gather(*(status_of(host, port, POST) for _ in range(20)))
    assert [status.split()[1] for status, _ in answers] == ["200"] * 20
    for _, writer in answers:
        writer.transport.abort()


async def test_of_connections_without_a_key_only_so_many_are_served_at_once(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming, "MAX_SERVED", 3)
    monkeypatch.setattr(incoming, "PATIENCE_S", 0.3)
    served = await serve()
    host, _, port = served.url.removeprefix("http://").rpartition(":")
    strangers = [await asyncio.open_connection(host, port) for _ in range(30)]
    for _, writer in strangers:
        writer.write(HEAD)
    async with asyncio.timeout(HANGS_S):
        status, honest = await status_of(host, port, POST)
    assert status.startswith("HTTP/1.1 200"), "the last one that came is served first"

    def closed() -> int:
        entries = {entry["reason"]: entry["requests"] for entry in served.receiver.refused.status()}
        return entries.get("no_key_on_connection", 0)

    await until_true(lambda: closed() >= 27, what="closed, as others waited")
    for writer in (honest, *(writer for _, writer in strangers)):
        writer.transport.abort()


async def test_a_refused_request_whose_client_is_gone_is_waited_for_no_longer(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each keeps its task and its buffers for as long as the rest of its body may take."""
    monkeypatch.setattr("gateway.serve.http.server.LINGER_S", 3600.0)

    class Closed:
        def admit(self, *_: object) -> None:
            raise Unauthenticated("no key")

    served = await serve(gate=Closed())
    host, _, port = served.url.removeprefix("http://").rpartition(":")
    status, writer = await status_of(host, port, POST.replace(b"Length: 2", b"Length: 200"))
    assert status.startswith("HTTP/1.1 401")

    def waiting() -> int:
        names = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
        return names.count("RequestHandler.start")

    assert waiting() == 1
    writer.transport.abort()
    await until_true(lambda: waiting() == 0, what="the task of the connection has ended")


@pytest.mark.parametrize(("size", "is_read"), [(1, False), (4, False), (64, True), (4000, True)])
async def test_a_body_in_chunks_of_few_bytes_is_refused_early(serve: Serve, size: int, *, is_read: bool) -> None:
    served = await serve()
    host, _, port = served.url.removeprefix("http://").rpartition(":")
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(
        b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"%x\r\n%b\r\n" % (size, bytes(size))
    answer = asyncio.create_task(reader.readuntil(b"}"))
    sent, most = 0, 1_000_000
    async with asyncio.timeout(HANGS_S):
        while sent < most and not answer.done():
            piece = chunk * (8_000 // len(chunk))
            writer.write(piece)
            sent += len(piece)
            with suppress(ConnectionError):
                await writer.drain()
        with suppress(ConnectionError):
            writer.write(b"0\r\n\r\n")
        found = await answer
    assert found.startswith(b"HTTP/1.1 400")
    assert (b"its chunks are too small" in found) is not is_read
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


@pytest.mark.parametrize("length", ["Content-Length: 500\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n9\r\nhalf"])
async def test_a_sender_that_leaves_within_its_body_is_gone_and_not_refused(serve: Serve, length: str) -> None:
    served = await serve()
    host, _, port = served.url.removeprefix("http://").rpartition(":")
    _, writer = await asyncio.open_connection(host, port)
    writer.write(f"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{length}".encode())
    await until_true(lambda: bool(served.receiver.budget.shares), what="the request is under way")
    writer.transport.abort()
    counts = served.receiver.counts
    await until_true(lambda: bool(counts.gone), what="the sender is gone")
    await until_taken(host, port)
    assert dict(counts.answers) == {("/v1/traces", 200): 1}
    assert not served.receiver.refused.status()


@pytest.mark.parametrize(
    "sent",
    [POST, POST + POST, POST[:-1], HEAD, b"no HTTP\r\n\r\n", POST.replace(b"json", b"else").replace(b": 2", b": 200")],
    ids=["a request", "two", "half a body", "half a head", "no HTTP", "refused unread"],
)
async def test_a_lost_connection_leaves_nothing_to_the_garbage_collector(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    made: list[weakref.ref[http_connection.Connection]] = []
    connection_made = http_connection.Connection.connection_made

    def noted(self: http_connection.Connection, transport: asyncio.Transport) -> None:
        made.append(weakref.ref(self))
        connection_made(self, transport)

    monkeypatch.setattr(http_connection.Connection, "connection_made", noted)
    served = await serve()
    host, _, port = served.url.removeprefix("http://").rpartition(":")
    gc.disable()
    try:
        _, writer = await asyncio.open_connection(host, port)
        writer.write(sent)
        await until_true(lambda: bool(made), what="it is served")
        for _ in range(9):
            await asyncio.sleep(0)
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()
        await until_true(lambda: made[0]() is None, what="the connection is freed")
    finally:
        gc.enable()


async def test_a_connection_that_is_gone_waits_for_no_turn(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others that keep coming are served first: those that left would be kept as long."""
    monkeypatch.setattr(incoming, "PAUSE_FACTOR", 1e9)  # there is one turn
    listeners: list[incoming.IncomingConnections] = []
    opened_by = incoming.IncomingConnections.opened

    def opened(self: incoming.IncomingConnections, connection: incoming.IncomingConnection) -> bool:
        listeners.append(self)
        return opened_by(self, connection)

    monkeypatch.setattr(incoming.IncomingConnections, "opened", opened)
    served = await serve()
    host, _, port = served.url.removeprefix("http://").rpartition(":")
    _, writer = await asyncio.open_connection(host, port)
    writer.write(HEAD)
    await until_true(lambda: bool(listeners and listeners[0]._served), what="its first bytes are worked on")
    writer.write(b"X: more\r\n")
    further = listeners[0]._further
    await until_true(lambda: len(further) == 1, what="its further ones wait")
    writer.transport.abort()
    await until_true(lambda: not len(listeners[0]), what="the connection is gone")
    assert not further


async def test_a_connection_whose_key_was_disabled_is_one_without_a_key_again(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incoming, "PATIENCE_S", 0.1)

    class Gate:
        is_open = True

        def admit(self, *_: object) -> None:
            if not self.is_open:
                raise Unauthenticated("the API key is unknown or disabled")

    gate = Gate()
    served = await serve(gate=gate, limits=BodyLimits(max_connections=2))
    host, _, port = served.url.removeprefix("http://").rpartition(":")
    _, kept = await status_of(host, port, POST)
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(POST)
    assert (await reader.readuntil(b"\r\n\r\n{}")).startswith(b"HTTP/1.1 200")
    gate.is_open = False
    writer.write(POST)
    assert (await reader.readline()).startswith(b"HTTP/1.1 401")
    gate.is_open = True
    await until_taken(host, port)
    async with asyncio.timeout(HANGS_S):
        await reader.read()  # until it is closed
    kept.transport.abort()
    writer.transport.abort()


@pytest.mark.parametrize("files", [256, 1024, 4096, 17_000, 1 << 20])
def test_listeners_share_the_files_that_may_be_open(files: int) -> None:
    senders, operators = shares_of(files)
    assert operators <= MAX_OPERATORS
    assert 2 * senders + 2 * operators <= files
    assert files < 17_000 or senders >= 8000


def test_the_gateway_may_open_more_files_than_the_usual_1024() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    script = (
        "import resource; from gateway.common.open_files import raise_open_files; limit = resource.RLIMIT_NOFILE;"
        f"resource.setrlimit(limit, (256, {hard})); raise_open_files(); print(resource.getrlimit(limit)[0])"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert int(told.stdout) == (OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard))
