"""Senders that strain a gateway, in a process of their own: many large uploads at once, connections
and streams that send nothing, bodies of which a byte comes now and then.

They speak HTTP/1.1 and HTTP/2 over plain sockets: a client library would hold each of 200 bodies of
60 MiB. `StrainSenders` starts the process; it prints a line once all are begun or open, and what
they were answered when its standard input ends.
"""

import asyncio
import gzip
import json
import subprocess
import sys
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Self

from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from hpack import Decoder

from benchmarks.grpc_connection import frame, head_of, text_of
from benchmarks.processes import PROJECT_ROOT, raise_file_limit
from gateway.common.http.http2_refusal import PREFACE
from tests.support import otlp_bytes
from tests.support.grpc_calls import TRACES
from tests.support.spans import call_span

MIB: Final = 1 << 20
PIECE_BYTES: Final = 256 * 1024
FRAME_BYTES: Final = 16 * 1024
TEXT_BYTES: Final = 64 * 1024
"""Of one span of an upload: a prompt, captured by its sender."""
ANSWER_S: Final = 120.0
OPEN_AT_ONCE: Final = 100
STREAMS_A_CONNECTION: Final = 100

_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_ACK = _END_STREAM = 1
_END_HEADERS = 4
_INITIAL_WINDOW_SIZE = 4


@dataclass(frozen=True)
class Plan:
    """What to do, how often."""

    kind: str
    """A name of `KINDS`."""
    count: int
    http: str
    """Address of the HTTP listener."""
    grpc: str
    keys: list[str] = field(default_factory=list)
    """In turn; none where intake is open."""
    n_bytes: int = 0
    """Of an upload, plain."""
    zipped: bool = False
    every_s: float = 0.5
    """Between two bytes of a slow sender."""


@dataclass
class Seen:
    """What came of it."""

    answers: Counter[str] = field(default_factory=Counter)
    """HTTP statuses and gRPC codes; `closed` for a connection that ended without an answer."""
    retry_after_s: list[int] = field(default_factory=list)
    """Of each refusal that states it."""
    acked: list[str] = field(default_factory=list)
    """Names of the calls in the uploads that were acknowledged."""

    def note(self, answer: str, retry_after_s: int | None = None) -> None:
        self.answers[answer] += 1
        if retry_after_s is not None:
            self.retry_after_s.append(retry_after_s)


class StrainSenders:
    """The senders of *plan* in a process of their own; begun when the block is entered."""

    def __init__(self, plan: Plan) -> None:
        self.seen = Seen()
        """Whole when the block ended."""
        self._plan = plan

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", __name__]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT_ROOT
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(vars(self._plan)) + "\n")
        self._process.stdin.flush()
        begun = self._process.stdout.readline()
        assert begun == "begun\n", begun
        return self

    def __exit__(self, *exc: object) -> None:
        seen, _ = self._process.communicate()
        if exc[0] is None:
            given = json.loads(seen)
            self.seen = Seen(Counter(given["answers"]), given["retry_after_s"], given["acked"])


class Upload:
    """A body of which all senders share the bytes: one call of its own, and spans with long texts
    that are no calls.
    """

    def __init__(self, n_bytes: int, *, zipped: bool) -> None:
        span = otlp_bytes.field(1, b"t" * 16) + otlp_bytes.field(2, b"s" * 8)
        text = otlp_bytes.field(1, b"prompt") + otlp_bytes.field(2, otlp_bytes.field(1, b"x" * TEXT_BYTES))
        spans = otlp_bytes.field(2, span + otlp_bytes.field(9, text)) * (n_bytes // (TEXT_BYTES + 100))
        rest = otlp_bytes.field(1, otlp_bytes.field(2, spans))
        self._zipped = zipped
        self._rest = memoryview(gzip.compress(rest, 1) if zipped else rest)

    def parts(self, name: str) -> tuple[bytes, memoryview]:
        """The call *name*, and the rest; one message together, and one of two members zipped."""
        call = call_span(name, (10, 5), more={"gen_ai.response.id": name})
        return gzip.compress(call) if self._zipped else call, self._rest


def pieces(*parts: bytes | memoryview, size: int) -> Iterator[memoryview]:
    for part in parts:
        view = memoryview(part)
        for at in range(0, len(view), size):
            yield view[at : at + size]


def http_head(plan: Plan, number: int, n_bytes: int) -> bytes:
    lines = [
        "POST /v1/traces HTTP/1.1",
        f"Host: {plan.http}",
        "Content-Type: application/x-protobuf",
        f"Content-Length: {n_bytes}",
        *(["Content-Encoding: gzip"] if plan.zipped else []),
        *([f"Authorization: {plan.keys[number % len(plan.keys)]}"] if plan.keys else []),
    ]
    return "\r\n".join([*lines, "", ""]).encode()


async def http_answer(reader: asyncio.StreamReader) -> tuple[str, int | None]:
    """Status and Retry-After; `closed` where none came."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except (asyncio.IncompleteReadError, ConnectionError):
        return "closed", None
    lines = [line.partition(":") for line in head.split("\r\n")]
    retry = next((value for name, _, value in lines if name.lower() == "retry-after"), None)
    return head.split()[1], None if retry is None else int(retry)


async def send_http(plan: Plan, number: int, body: AsyncIterator[memoryview], n_bytes: int) -> tuple[str, int | None]:
    """One request; it ends with its answer, were that before its body is sent."""
    async with connected(plan.http) as (reader, writer):
        answer = asyncio.create_task(http_answer(reader))
        writer.write(http_head(plan, number, n_bytes))
        with suppress(ConnectionError):
            async for piece in body:
                if answer.done():
                    break
                writer.write(piece)
                await writer.drain()
        return await answer


class GrpcStream:
    """One call on an HTTP/2 connection of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = Decoder()
        self._window = self._stream_window = self._initial_window = 65_535
        self._opened = asyncio.Event()
        """More of a window, or the end."""
        self.answer: tuple[str, int | None] | None = None
        """Code and RetryInfo."""

    async def send(self, plan: Plan, number: int, body: AsyncIterator[memoryview]) -> tuple[str, int | None]:
        self._writer.write(PREFACE + frame(_SETTINGS, 0, 0) + grpc_head(plan, number, 1))
        reading = asyncio.create_task(self._read())
        with suppress(ConnectionError):
            async for piece in body:
                for part in pieces(piece, size=FRAME_BYTES):
                    await self._send_part(part)
                if self.answer is not None:
                    break
            if self.answer is None:
                self._writer.write(frame(_DATA, _END_STREAM, 1))
        await reading
        return self.answer or ("closed", None)

    async def _send_part(self, part: memoryview) -> None:
        while self.answer is None and part:
            room = min(self._window, self._stream_window, len(part))
            if room <= 0:
                self._opened.clear()
                await self._opened.wait()
                continue
            self._window -= room
            self._stream_window -= room
            self._writer.write(head_of(room, _DATA, 0, 1))
            self._writer.write(part[:room])
            part = part[room:]
            await self._writer.drain()

    async def _read(self) -> None:
        """Until the call or the connection ends."""
        try:
            while self.answer is None:
                head = await self._reader.readexactly(9)
                payload = await self._reader.readexactly(int.from_bytes(head[:3]))
                self._take(head[3], head[4], int.from_bytes(head[5:9]), payload)
                self._opened.set()
        except (asyncio.IncompleteReadError, ConnectionError):
            self.answer = ("closed", None)
        self._opened.set()

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _SETTINGS and not flags & _ACK:
            for at in range(0, len(payload), 6):
                if int.from_bytes(payload[at : at + 2]) == _INITIAL_WINDOW_SIZE:
                    size = int.from_bytes(payload[at + 2 : at + 6])
                    self._stream_window += size - self._initial_window
                    self._initial_window = size
            self._writer.write(frame(_SETTINGS, _ACK, 0))
        elif kind == _PING and not flags & _ACK:
            self._writer.write(frame(_PING, _ACK, 0, payload))
        elif kind == _WINDOW_UPDATE and stream == 0:
            self._window += int.from_bytes(payload)
        elif kind == _WINDOW_UPDATE:
            self._stream_window += int.from_bytes(payload)
        elif (kind == _GOAWAY and not int.from_bytes(payload[:4])) or (kind == _RST_STREAM and stream == 1):
            self.answer = ("closed", None)
        elif kind == _HEADERS:
            fields = self._decoder.decode(payload, raw=True)
            if flags & _END_STREAM:
                self.answer = answer_in(fields)


def answer_in(trailers: Sequence[tuple[bytes, bytes]]) -> tuple[str, int | None]:
    """Code and RetryInfo."""
    fields = dict(trailers)
    info, details = RetryInfo(), fields.get(b"grpc-status-details-bin")
    status = Status() if details is None else Status.FromString(b64decode(details + b"=="))
    retries = [info.retry_delay.seconds for detail in status.details if detail.Unpack(info)]
    return f"grpc {int(fields[b'grpc-status'])}", retries[0] if retries else None


def grpc_head(plan: Plan, number: int, stream: int) -> bytes:
    """The headers of a call, none of them indexed."""
    fields = {":path": TRACES, ":authority": plan.grpc, "content-type": "application/grpc", "te": "trailers"}
    if plan.keys:
        fields["authorization"] = plan.keys[number % len(plan.keys)]
    if plan.zipped:
        fields["grpc-encoding"] = "gzip"
    block = b"\x83\x86" + b"".join(b"\0" + text_of(name) + text_of(value) for name, value in fields.items())
    return frame(_HEADERS, _END_HEADERS, stream, block)


async def send_grpc(plan: Plan, number: int, body: AsyncIterator[memoryview], n_bytes: int) -> tuple[str, int | None]:
    prefix = bytes((plan.zipped,)) + n_bytes.to_bytes(4)

    async def message() -> AsyncIterator[memoryview]:
        yield memoryview(prefix)
        async for piece in body:
            yield piece

    async with connected(plan.grpc) as (reader, writer):
        return await GrpcStream(reader, writer).send(plan, number, message())


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


Send = Callable[[Plan, int, AsyncIterator[memoryview], int], Coroutine[Any, Any, tuple[str, int | None]]]


def transports(kind: str) -> list[Send]:
    """Of `... http`, `... grpc` or `... mixed`."""
    return {"http": [send_http], "grpc": [send_grpc], "mixed": [send_http, send_grpc]}[kind.split()[1]]


async def upload(plan: Plan, seen: Seen, begun: Callable[[], None]) -> None:
    """Uploads, all begun together; each ends with its answer."""
    sent = Upload(plan.n_bytes, zipped=plan.zipped)
    sends = transports(plan.kind)

    async def one(number: int) -> None:
        name = f"upload{number}"
        parts = sent.parts(name)

        async def body() -> AsyncIterator[memoryview]:
            for piece in pieces(*parts, size=PIECE_BYTES):
                yield piece

        answer, retry_s = await sends[number % len(sends)](plan, number, body(), sum(map(len, parts)))
        seen.note(answer, retry_s)
        if answer in ("200", "grpc 0"):
            seen.acked.append(name)

    begun()
    async with asyncio.timeout(ANSWER_S), asyncio.TaskGroup() as group:
        for number in range(plan.count):
            group.create_task(one(number))


async def slow(plan: Plan, seen: Seen, begun: Callable[[], None], ended: asyncio.Event) -> None:
    """Bodies of which a byte comes now and then, until the gateway or the run ends them."""
    sends = transports(plan.kind)
    started = asyncio.Semaphore(0)
    zeros = memoryview(bytes(1))

    async def body() -> AsyncIterator[memoryview]:
        started.release()
        while not ended.is_set():
            yield zeros
            with suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), plan.every_s)

    async def one(number: int) -> None:
        sending = asyncio.create_task(sends[number % len(sends)](plan, number, body(), plan.n_bytes))
        ending = asyncio.create_task(ended.wait())
        await asyncio.wait({sending, ending}, return_when=asyncio.FIRST_COMPLETED)
        if sending.done():
            seen.note(*sending.result())
        else:
            seen.note("open")
            sending.cancel()
        ending.cancel()

    async with asyncio.TaskGroup() as group:
        for number in range(plan.count):
            group.create_task(one(number))
        for _ in range(plan.count):
            await started.acquire()
        begun()


async def idle(plan: Plan, seen: Seen, begun: Callable[[], None], ended: asyncio.Event) -> None:
    """Connections that send nothing; over gRPC no more than HTTP/2 begins with."""
    grpc = plan.kind == "idle grpc"
    opening = asyncio.Semaphore(OPEN_AT_ONCE)
    opened = asyncio.Semaphore(0)

    async def one() -> None:
        async with opening:
            reader, writer = await asyncio.open_connection(*(plan.grpc if grpc else plan.http).split(":"))
            if grpc:
                writer.write(PREFACE + frame(_SETTINGS, 0, 0))
                await reader.readexactly(9)
        opened.release()
        await watch(reader, writer, seen, ended)

    async with asyncio.TaskGroup() as group:
        for _ in range(plan.count):
            group.create_task(one())
        for _ in range(plan.count):
            await opened.acquire()
        begun()


async def streams(plan: Plan, seen: Seen, begun: Callable[[], None], ended: asyncio.Event) -> None:
    """Calls that send no message."""
    opened = asyncio.Semaphore(0)

    async def one(first: int, count: int) -> None:
        reader, writer = await asyncio.open_connection(*plan.grpc.split(":"))
        heads = (grpc_head(plan, first + number, 2 * number + 1) for number in range(count))
        writer.write(PREFACE + frame(_SETTINGS, 0, 0) + b"".join(heads))
        await writer.drain()
        opened.release()
        await watch(reader, writer, seen, ended, count)

    starts = range(0, plan.count, STREAMS_A_CONNECTION)
    async with asyncio.TaskGroup() as group:
        for first in starts:
            group.create_task(one(first, min(STREAMS_A_CONNECTION, plan.count - first)))
        for _ in starts:
            await opened.acquire()
        begun()


async def watch(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: Seen, ended: asyncio.Event, count: int = 1
) -> None:
    """Read until the gateway or the run ends it, and note which."""

    async def read() -> None:
        nonlocal count
        while True:
            head = await reader.readexactly(9)
            payload = await reader.readexactly(int.from_bytes(head[:3]))
            if head[3] == _PING and not head[4] & _ACK:
                writer.write(frame(_PING, _ACK, 0, payload))
            elif head[3] == _HEADERS and head[4] & _END_STREAM:
                seen.note(*answer_in(payload))
                count -= 1

    reading, ending = asyncio.create_task(read()), asyncio.create_task(ended.wait())
    await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
    seen.answers["closed" if reading.done() else "open"] += count
    for task in (reading, ending):
        task.cancel()
    await asyncio.gather(reading, ending, return_exceptions=True)
    writer.transport.abort()


async def run(plan: Plan) -> Seen:
    seen = Seen()
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    watching = loop.run_in_executor(None, sys.stdin.read)
    watching.add_done_callback(lambda _: ended.set())

    def begun() -> None:
        sys.stdout.write("begun\n")
        sys.stdout.flush()

    match plan.kind.split()[0]:
        case "upload":
            await upload(plan, seen, begun)
        case "slow":
            await slow(plan, seen, begun, ended)
        case "idle":
            await idle(plan, seen, begun, ended)
        case "streams":
            await streams(plan, seen, begun, ended)
    await watching
    return seen


def main() -> None:
    raise_file_limit()
    seen = asyncio.run(run(Plan(**json.loads(sys.stdin.readline()))))
    sys.stdout.write(json.dumps(vars(seen)))


if __name__ == "__main__":
    main()
