"""Requests whose head repeats the one before: handled without the parser, and all the same."""

import asyncio
from itertools import accumulate, pairwise

import pytest
from aiohttp import web
from aiohttp.http_parser import HttpRequestParser
from hypothesis import given
from hypothesis import strategies as st

from gateway.common.http_server import QuietServer
from gateway.common.repeated_head import learned
from gateway.contract.errors import Unauthenticated
from gateway.contract.intake import Receipt
from gateway.keys.record import KeyRecord
from gateway.receiver.authenticator import Headers
from tests.conformance.otlp_http.recording import RecordingIntake
from tests.support.polling import HANGS_S
from tests.unit.receiver.conftest import Serve

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


@given(
    requests=st.lists(st.tuples(st.binary(max_size=40), st.booleans()), min_size=1, max_size=8),
    cuts=st.lists(st.integers(0, 2000), max_size=4),
    is_cut_between=st.booleans(),
)
def test_however_the_bytes_are_cut_the_same_requests_are_read(
    *, requests: list[tuple[bytes, bool]], cuts: list[int], is_cut_between: bool
) -> None:
    async def read_by(*, is_direct: bool) -> list[tuple[str, bytes]]:
        found: list[tuple[str, bytes]] = []

        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            body = request.content.read_nowait() if request.content.is_eof() else await request.content.read()
            found.append((request.headers["Content-Length"], body))
            return web.Response()

        server = QuietServer(
            handle, lambda *_: web.Response(status=400), is_direct=(lambda _: True) if is_direct else None
        )
        connection = server()
        connection.connection_made(Transport())
        for start, stop in pairwise(sorted({0, len(stream), *ends, *(cut % (len(stream) + 1) for cut in cuts)})):
            for _ in range(6):
                await asyncio.sleep(0)
            connection.data_received(stream[start:stop])
        for _ in range(20 * len(requests)):
            await asyncio.sleep(0)
        connection.connection_lost(None)
        return found

    sent = [request(body, TRACES + "X: 1\r\n" * other) for body, other in requests]
    stream, ends = b"".join(sent), list(accumulate(map(len, sent))) if is_cut_between else []
    wanted = [(str(len(body)), body) for body, _ in requests]
    assert asyncio.run(read_by(is_direct=True)) == asyncio.run(read_by(is_direct=False)) == wanted


class Transport(asyncio.Transport):
    """Takes what is written, and forgets it."""

    def write(self, data: object) -> None:
        pass

    def writelines(self, data: object) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


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
    server = QuietServer(lambda _: None, lambda *_: web.Response(status=400))
    data = f"{head}\r\n".encode()
    parser = HttpRequestParser(
        server(), asyncio.get_running_loop(), 2**16, max_line_size=8190, max_field_size=8190, max_headers=100
    )
    ((message, _),), _, _ = parser.feed_data(data)
    assert learned(data, message) is None


async def test_a_known_head_fits_nothing_but_one_whole_request() -> None:
    server = QuietServer(lambda _: None, lambda *_: web.Response(status=400))
    parser = HttpRequestParser(
        server(), asyncio.get_running_loop(), 2**16, max_line_size=8190, max_field_size=8190, max_headers=100
    )
    data = request(b"body")
    ((message, _),), _, _ = parser.feed_data(data)
    head = learned(data, message)
    assert head is not None
    longer = head.request_in(request(b"x" * 1234))
    assert longer is not None
    assert longer == (b"1234", b"x" * 1234)
    assert head.message_with(b"1234").headers["Content-Length"] == "1234"
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
