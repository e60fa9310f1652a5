"""Requests whose head repeats the one before: handled without the parser, and all the same."""

import asyncio
import re
from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from gateway.access.record import KeyRecord
from gateway.common.contract.errors import Unauthenticated
from gateway.common.contract.intake import Receipt
from gateway.common.http.http_server import QuietServer
from gateway.common.http.repeated_head import learned
from gateway.common.response_bytes import bytes_of
from gateway.serve.authenticator import Headers
from gateway.serve.body import BodyLimits
from gateway.serve.cors import Cors
from gateway.serve.http.forwarded import forwarded_routes
from spool.errors import SpoolFull
from tests.conformance.otlp_http.recording import RecordingIntake
from tests.support.polling import HANGS_S
from tests.unit.serve.conftest import Serve

TRACES = "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"


def request(body: bytes, head: str = TRACES) -> bytes:
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Direct(RecordingIntake):
    """Notes of each request whether it had a task, and holds it until `go_on`."""

    def __init__(self) -> None:
        super().__init__()
        self.had_task: list[bool] = []
        self.bodies: list[bytes] = []
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.began = asyncio.Event()

    async def traces(self, body: bytes, **_: object) -> Receipt:
        self.had_task.append(_has_task())
        self.bodies.append(body)
        self.began.set()
        await self.go_on.wait()
        return Receipt(1, ())


def _has_task() -> bool:
    return asyncio.current_task() is not None


async def connected(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = url.removeprefix("http://").rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def answer(reader: asyncio.StreamReader) -> bytes:
    """The status line; the rest of the answer is read."""
    async with asyncio.timeout(HANGS_S):
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
        await reader.readexactly(int(length.partition(b":")[2]))
    return head.partition(b"\r\n")[0]


async def with_a_request_under_way(url: str, intake: Direct) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection whose second request is with *intake*, which waits for `go_on`."""
    reader, writer = await connected(url)
    writer.write(request(b"first"))
    await answer(reader)
    intake.began.clear()
    intake.go_on.clear()
    writer.write(request(b"second"))
    async with asyncio.timeout(HANGS_S):
        await intake.began.wait()
    return reader, writer


async def test_a_repeated_head_needs_no_task_and_its_body_arrives_whole(serve: Serve) -> None:
    intake = Direct()
    served = await serve(intake=intake)
    reader, writer = await connected(served.url)
    bodies = [b"a", b"b", b"c" * 30_000, b"", request(b"d"), b"e"]
    for body in bodies:
        writer.write(request(body))
        assert await answer(reader) == b"HTTP/1.1 200 OK"
    assert intake.bodies == bodies
    assert intake.had_task == [True, False, False, False, False, False]
    assert served.receiver.counts.answers["/v1/traces", 200] == len(bodies)
    writer.close()


async def test_another_head_is_parsed_and_then_known(serve: Serve) -> None:
    intake = Direct()
    served = await serve(intake=intake)
    reader, writer = await connected(served.url)
    other = TRACES + "X-Other: 1\r\n"
    for head in (TRACES, TRACES, other, other, TRACES):
        writer.write(request(b"x", head))
        assert await answer(reader) == b"HTTP/1.1 200 OK"
    assert intake.had_task == [True, False, True, False, True]
    writer.close()


async def test_a_key_that_is_disabled_meanwhile_is_refused(serve: Serve) -> None:
    class Gate:
        is_open = True

        def admit(self, headers: Headers, scope: str, *_: object) -> KeyRecord | None:
            if not self.is_open:
                raise Unauthenticated("the API key is unknown or disabled", reason="key_unknown_or_disabled")
            return None

    gate = Gate()
    served = await serve(gate=gate, intake=Direct())
    reader, writer = await connected(served.url)
    statuses = []
    for is_open in (True, True, False, True):
        gate.is_open = is_open
        writer.write(request(b"x"))
        statuses.append((await answer(reader)).split()[1])
    assert statuses == [b"200", b"200", b"401", b"200"]
    writer.close()


async def test_requests_that_come_while_one_is_handled_are_answered_in_their_order(serve: Serve) -> None:
    intake = Direct()
    served = await serve(intake=intake)
    reader, writer = await with_a_request_under_way(served.url, intake)
    writer.write(request(b"third") + request(b"fourth"))
    writer.write(b"GET /v1/traces HTTP/1.1\r\nHost: localhost\r\n\r\n")
    intake.go_on.set()
    assert [(await answer(reader)).split()[1] for _ in range(4)] == [b"200", b"200", b"200", b"405"]
    assert intake.bodies == [b"first", b"second", b"third", b"fourth"]
    writer.close()


async def test_a_request_under_way_is_answered_before_the_server_stops(serve: Serve) -> None:
    intake = Direct()
    served = await serve(intake=intake)
    reader, writer = await with_a_request_under_way(served.url, intake)
    async with asyncio.timeout(HANGS_S):
        closing = asyncio.ensure_future(served.listener.close())
        await asyncio.sleep(0)
        intake.go_on.set()
        assert await answer(reader) == b"HTTP/1.1 200 OK"
        assert await reader.read() == b""
        await closing
    writer.close()


async def test_a_request_that_outlasts_the_shutdown_is_cancelled() -> None:
    began, never = asyncio.Event(), asyncio.Event()
    ends: list[type[BaseException]] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if await request.content.read() if _has_task() else request.content.read_nowait() == b"first":
            return web.Response()
        began.set()
        try:
            await never.wait()
        except BaseException as error:
            ends.append(type(error))
            raise
        return web.Response()

    server = QuietServer(handle, lambda *_: web.Response(status=400), is_direct=lambda _: True)
    listening = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*listening.sockets[0].getsockname()[:2])
    async with asyncio.timeout(HANGS_S):
        writer.write(request(b"first"))
        await answer(reader)
        writer.write(request(b"second"))
        await began.wait()
        await server.shutdown(0.05)
        assert await reader.read() == b""
    assert ends == [asyncio.CancelledError]
    writer.close()
    listening.close()


async def test_a_sender_that_goes_away_leaves_nothing_behind(serve: Serve) -> None:
    intake = Direct()
    served = await serve(intake=intake)
    _, writer = await with_a_request_under_way(served.url, intake)
    async with asyncio.timeout(HANGS_S):
        writer.transport.abort()
        intake.go_on.set()
        reader, writer = await connected(served.url)
        writer.write(request(b"third"))
        assert await answer(reader) == b"HTTP/1.1 200 OK"
    assert served.receiver.budget.used_bytes == 0
    writer.close()


def sent(kind: str, body: bytes) -> bytes:
    match kind:
        case "chunked":
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            return f"{TRACES}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk + b"0\r\n\r\n"
        case "get":
            return b"GET /v1/traces HTTP/1.1\r\nHost: localhost\r\n\r\n"
        case _:
            return request(body, TRACES + "X: 1\r\n" * (kind == "other"))


@given(
    requests=st.lists(
        st.tuples(st.sampled_from(["same", "same", "other", "chunked", "get"]), st.binary(max_size=40)),
        min_size=1,
        max_size=8,
    ),
    cuts=st.lists(st.integers(0, 2000), max_size=4),
    is_cut_between=st.booleans(),
    behind=st.sampled_from([b"", b"no HTTP\r\n\r\n"]),
)
def test_however_the_bytes_are_cut_the_same_requests_are_answered(
    *, requests: list[tuple[str, bytes]], cuts: list[int], is_cut_between: bool, behind: bytes
) -> None:
    async def read_by(*, is_direct: bool) -> tuple[list[tuple[str, bytes]], bytes]:
        found: list[tuple[str, bytes]] = []

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            body = request.content.read_nowait() if request.content.is_eof() else await request.content.read()
            found.append((request.headers.get("Content-Length", ""), body))
            await asyncio.sleep(0)
            return web.Response(text=str(len(found)))

        server = QuietServer(
            handle, lambda *_: web.Response(status=400), is_direct=(lambda _: True) if is_direct else None
        )
        connection, transport = server(), Transport()
        connection.connection_made(transport)
        for start, stop in pairwise(sorted({0, len(stream), *ends, *(cut % (len(stream) + 1) for cut in cuts)})):
            for _ in range(8):
                await asyncio.sleep(0)
            if not transport.is_closing():
                connection.data_received(stream[start:stop])
        for _ in range(20 * len(requests)):
            await asyncio.sleep(0)
        connection.connection_lost(None)
        return found, re.sub(rb"Date: [^\r]*\r\n", b"", transport.written)

    parts = [sent(*each) for each in requests]
    stream, ends = b"".join(parts), [*accumulate(map(len, parts))]
    ends = ends if is_cut_between else ends[-1:]  # what is no HTTP takes all with it that came in one piece
    stream += behind
    wanted = [
        (str(len(body)) if kind in {"same", "other"} else "", b"" if kind == "get" else body) for kind, body in requests
    ]
    found, written = asyncio.run(read_by(is_direct=True))
    assert (found, written) == asyncio.run(read_by(is_direct=False))
    assert found == wanted
    assert written.count(b"HTTP/1.1 200 OK") == len(requests)
    assert written.count(b"HTTP/1.0 400 Bad Request") == bool(behind)


@pytest.mark.parametrize("is_direct", [True, False])
async def test_of_requests_in_a_pipeline_only_so_many_are_read_ahead(*, is_direct: bool) -> None:
    """However fast they come, and however many are answered meanwhile."""
    n_handled = 0

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal n_handled
        n_handled += 1
        await asyncio.sleep(0)
        return web.Response()

    check = (lambda _: True) if is_direct else None
    connection = QuietServer(handle, lambda *_: web.Response(status=400), is_direct=check)()
    transport, n_sent, sent_at_once = Transport(), 0, 500
    connection.connection_made(transport)
    connection.data_received(request(b"first"))
    for _ in range(2000):
        await asyncio.sleep(0)
        if not transport.is_paused:
            connection.data_received(request(b"x") * sent_at_once)
            n_sent += sent_at_once
    assert 100 < n_handled <= n_sent < n_handled + 3 * sent_at_once
    connection.connection_lost(None)


class Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = self.is_paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def writelines(self, data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.written += b"".join(data)

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


class Forwarded(RecordingIntake):
    """Takes what other gateways forward."""

    async def events(self, *_: object, **__: object) -> Receipt:
        return Receipt(1, ())

    ping = events


class Closed:
    def admit(self, *_: object) -> KeyRecord | None:
        raise Unauthenticated("no key")


PROTOBUF, JSON = "application/x-protobuf", "application/json"
PING = "/v2/ai-control-plane/devices/one/ping"


@pytest.mark.parametrize(
    ("status", "path", "media", "body", "parts"),
    [
        (200, "/v1/traces", PROTOBUF, b"", {}),
        (200, "/v1/traces", JSON, b"{}", {}),
        (200, "/v1/traces", JSON, b"{}", {"cors": Cors(frozenset({"https://app.example"}))}),
        (200, "/v1/logs", PROTOBUF, b"", {"intake": RecordingIntake(warning="of no use")}),
        (202, "/events/v1/events", JSON, b"{}", {}),
        (204, PING, JSON, b"", {"cors": Cors(frozenset({"https://app.example"}))}),
        (403, PING, JSON, b"", {}),
        (400, "/v1/traces", JSON, b"{", {}),
        (400, "/v1/logs", PROTOBUF, b"\xff", {}),
        (401, "/v1/traces", PROTOBUF, b"", {"gate": Closed()}),
        (413, "/v1/traces", PROTOBUF, b"xxx", {"limits": BodyLimits(max_body_bytes=2)}),
        (415, "/v1/traces", "text/plain", b"", {}),
        (503, "/v1/metrics", PROTOBUF, b"", {"intake": RecordingIntake(fail_with=SpoolFull("full"))}),
        (503, "/v1/metrics", PROTOBUF, b"", {"intake": RecordingIntake(fail_with=ZeroDivisionError())}),
    ],
)
async def test_an_answer_has_the_bytes_that_aiohttp_writes(
    serve: Serve, status: int, path: str, media: str, body: bytes, parts: dict[str, Any]
) -> None:
    """The first one is written by aiohttp, the second one is not."""
    served = await serve(further=forwarded_routes, **{"intake": Forwarded(), **parts})
    reader, writer = await connected(served.url)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example\r\nContent-Type: {media}\r\n"
    answers = []
    for _ in range(3):
        writer.write(request(body, head))
        async with asyncio.timeout(HANGS_S):
            answer = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"Content-Length: (\d+)", answer)
            answers.append(answer + await reader.readexactly(0 if length is None else int(length[1])))
    first, *repeated = [re.sub(rb"Date: [^\r]*\r\n", b"", answer) for answer in answers]
    assert int(first.split()[1]) == status
    assert repeated == [first, first]
    assert all(re.search(rb"\r\nDate: \w{3}, \d\d \w{3} \d{4} [0-9:]{8} GMT\r\n", answer) for answer in answers)
    writer.close()


def test_a_header_of_two_lines_is_not_written() -> None:
    with pytest.raises(ValueError, match="more than one line"):
        bytes_of(web.Response(headers={"X": "one\r\nX-Two: two"}))


async def test_a_connection_is_kept_as_long_after_a_repeated_request_as_after_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def handle(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response()

    loop, clock = asyncio.get_running_loop(), [0.0]
    monkeypatch.setattr(loop, "time", lambda: clock[0])
    server = QuietServer(handle, lambda *_: web.Response(), is_direct=lambda _: True, keepalive_timeout=900.0)
    connection, transport = server(), Transport()
    connection.connection_made(transport)
    for clock[0] in (0.0, 800.0, 1600.0, 2400.0, 3299.0):
        for _ in range(9):
            await asyncio.sleep(0)
        assert not transport.is_closing()
        connection.data_received(request(b"x"))
        for _ in range(9):
            await asyncio.sleep(0)
    assert transport.written.count(b"HTTP/1.1 200 OK") == 5
    clock[0] += 901.0
    for _ in range(9):
        await asyncio.sleep(0)
    assert transport.is_closing()
    connection.connection_lost(None)


async def read_by_aiohttp(data: bytes) -> web.BaseRequest:
    """What aiohttp makes of the request that *data* begins with."""
    found: asyncio.Future[web.BaseRequest] = asyncio.get_running_loop().create_future()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        found.set_result(request)
        return web.Response()

    connection = QuietServer(handle, lambda *_: web.Response(status=400))()
    connection.connection_made(Transport())
    connection.data_received(data)
    async with asyncio.timeout(HANGS_S):
        request = await found
    connection.connection_lost(None)
    return request


@pytest.mark.parametrize(
    "head",
    [
        TRACES + "Transfer-Encoding: chunked\r\n",
        TRACES + "Expect: 100-continue\r\nContent-Length: 0\r\n",
        TRACES + "Connection: close\r\nContent-Length: 0\r\n",
        TRACES + "X-Content-Length: 0\r\nContent-Length: 0\r\n",
        TRACES.replace("1.1", "1.0") + "Content-Length: 0\r\n",
        TRACES.replace("POST", "PUT") + "Content-Length: 0\r\n",
        TRACES + f"X: {'x' * 2048}\r\nContent-Length: 0\r\n",
        TRACES,
    ],
)
async def test_what_may_mean_something_else_the_next_time_is_not_learned(head: str) -> None:
    data = f"{head}\r\n".encode()
    assert learned(data, await read_by_aiohttp(data)) is None


async def test_a_known_head_fits_nothing_but_one_whole_request() -> None:
    data = request(b"body")
    head = learned(data, await read_by_aiohttp(data))
    assert head is not None
    longer = head.request_in(request(b"x" * 1234))
    assert longer is not None
    assert longer == (b"1234", b"x" * 1234)
    assert head.headers_with(b"1234")["Content-Length"] == "1234"
    for other in (
        data[:-1],
        data + b"x",
        data + data,
        data.replace(b"POST", b"post"),
        data.replace(b"Length: 4", b"Length: +4"),
        data.replace(b"Length: 4", b"Length: 4 "),
        data.replace(b"Length: 4", b"Length: 4\r\nX: 1"),
        data.replace(b"Length: 4", b"Length: "),
        data.replace(b"Length: 4", b"Length: 0x4"),
        data.replace(b"Length: 4", b"Length: " + b"0" * 20 + b"4"),
        data[: data.index(b"\r\n\r\n")],
    ):
        assert head.request_in(other) is None
