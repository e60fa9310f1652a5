"""Connections that show no key, in a process of their own: `Strangers` starts it.

A shape is what each of its connections sends, over and over, as fast as the port reads; a
connection that the port closes is opened again. They speak over plain sockets, as no client library
would send this.
"""

import asyncio
import gzip
import json
import random
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple, Self

from benchmarks.grpc_connection import frame
from benchmarks.processes import PROJECT_ROOT, raise_file_limit
from gateway.common.http.http2_refusal import PREFACE, text_of
from tests.support.grpc_calls import TRACES

KIB: Final = 1024
PAUSE: Final = b""
"""In place of bytes: nothing for a while."""
PAUSE_S: Final = 0.05
CONNECT_AT_ONCE: Final = 64
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
ACK, END_STREAM, END_HEADERS = 1, 1, 4

Chunks = Iterator[bytes]


class Shape(NamedTuple):
    chunks: Callable[[], Chunks]
    """What one connection sends; it is closed behind the last."""
    connections: int = 200
    reads: bool = True
    """Whether it reads what the port answers."""


def forever(*chunks: bytes) -> Callable[[], Chunks]:
    def sent() -> Chunks:
        while True:
            yield from chunks

    return sent


def once(*chunks: bytes) -> Callable[[], Chunks]:
    """Then nothing more, on an open connection."""

    def sent() -> Chunks:
        yield from chunks
        while True:
            yield PAUSE

    return sent


def slowly(text: bytes, size: int = 1) -> Callable[[], Chunks]:
    def sent() -> Chunks:
        for at in range(0, len(text), size):
            yield text[at : at + size]
            yield PAUSE

    return sent


# ---- HTTP/1.1

HOST: Final = b"Host: 127.0.0.1\r\n"
WRONG: Final = b"Authorization: tgk_wrong_key\r\n"
POST: Final = b"POST /v1/traces HTTP/1.1\r\n" + HOST + b"Content-Type: application/x-protobuf\r\n"
GET: Final = b"GET / HTTP/1.1\r\n" + HOST
FIELDS: Final = b"".join(b"X-%d: " % number + b"x" * 150 + b"\r\n" for number in range(95))
BLOCK: Final = bytes(64 * KIB)


def with_length(n_bytes: int, more: bytes = b"") -> bytes:
    return POST + more + b"Content-Length: %d\r\n\r\n" % n_bytes


def chunk(data: bytes, extension: bytes = b"") -> bytes:
    return b"%x" % len(data) + extension + b"\r\n" + data + b"\r\n"


def noise() -> Chunks:
    rng = random.Random(7)
    while True:
        yield rng.randbytes(KIB)


HTTP: Final[dict[str, Shape]] = {
    "no one": Shape(once(), 0),
    "silent connections": Shape(once(), 2000),
    "connections that come and go": Shape(lambda: iter((GET + b"\r\n",)), 200),
    "half a request line": Shape(once(b"POST /v1/tr"), 2000),
    "heads that never end": Shape(once(POST + FIELDS), 1000),
    "heads byte by byte": Shape(slowly(POST + FIELDS, 16), 1000),
    "heads of many fields": Shape(forever(GET + FIELDS + b"\r\n")),
    "a line without end": Shape(forever(b"x" * 16 * KIB)),
    "requests in a pipeline": Shape(forever((GET + b"\r\n") * 1000)),
    "requests in a pipeline, answers unread": Shape(forever((GET + b"\r\n") * 1000), reads=False),
    "posts in a pipeline, answers unread": Shape(forever(with_length(0) * 500), reads=False),
    "heads without their body": Shape(once(with_length(1 << 26)), 1000),
    "bodies of 64 MiB": Shape(lambda: iter([with_length(1 << 26), *[BLOCK] * 1024])),
    "bodies of 64 MiB under a wrong key": Shape(lambda: iter([with_length(1 << 26, WRONG), *[BLOCK] * 1024])),
    "chunks of one byte": Shape(lambda: chained(POST + b"Transfer-Encoding: chunked\r\n\r\n", chunk(b"x") * 4000)),
    "chunks with long extensions": Shape(
        lambda: chained(POST + b"Transfer-Encoding: chunked\r\n\r\n", chunk(b"x", b";" + b"e" * 4000) * 16)
    ),
    "trailers without end": Shape(
        lambda: chained(POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X-Y: " + b"z" * 100 + b"\r\n")
    ),
    "an expectation and silence": Shape(once(with_length(1 << 26, b"Expect: 100-continue\r\n")), 1000),
    "upgrades": Shape(forever(GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + bytes(16 * KIB))),
    "gzip bombs": Shape(
        lambda: iter((with_length(len(BOMB), b"Content-Encoding: gzip\r\n") + BOMB,)),
    ),
    "noise": Shape(noise),
    "TLS to a plain port": Shape(forever(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(512))),
    "HTTP/2 to a port of HTTP/1.1": Shape(
        lambda: chained(PREFACE + frame(SETTINGS, 0, 0), frame(PING, 0, 0, bytes(8)) * 1000)
    ),
}
"""To each port that speaks HTTP/1.1."""

BOMB: Final = gzip.compress(bytes(1 << 24))


def chained(first: bytes, then: bytes) -> Chunks:
    """*first*, then *then* without end."""
    yield first
    while True:
        yield then


# ---- HTTP/2


def literal(name: bytes, value: bytes, kind: bytes = b"\0") -> bytes:
    """*kind*: 0x40 is indexed."""
    return kind + text_of(name.decode("latin-1")) + text_of(value.decode("latin-1"))


CALL: Final = b"\x83\x86" + b"".join(
    literal(name, value)
    for name, value in (
        (b":path", TRACES.encode()),
        (b":authority", b"localhost"),
        (b"content-type", b"application/grpc"),
    )
)
WATCH: Final = b"\x83\x86" + b"".join(
    literal(name, value)
    for name, value in ((b":path", b"/grpc.health.v1.Health/Watch"), (b"content-type", b"application/grpc"))
)
REFLECT: Final = b"\x83\x86" + b"".join(
    literal(name, value)
    for name, value in (
        (b":path", b"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"),
        (b"content-type", b"application/grpc"),
    )
)
BEGIN: Final = PREFACE + frame(SETTINGS, 0, 0)
HUFFMAN: Final = b"\0\x01x\xff" + b"\xe1\x7b" + b"\xff\xff\xff" * 4000
"""A text of Huffman codes, of 30 bits each."""


def calls(block: bytes, behind: Callable[[int], bytes] = lambda _: b"", *, at_once: int = 50, flags: int = 4) -> Chunks:
    """Streams without end, each with *block* as its headers and what *behind* makes for it."""
    yield BEGIN
    stream = 1
    while True:
        out = b""
        for _ in range(at_once):
            out += frame(HEADERS, flags, stream, block) + behind(stream)
            stream += 2
        yield out


def one_block(block: bytes, times: int) -> Chunks:
    """A stream whose header block goes on and on."""
    yield BEGIN + frame(HEADERS, 0, 1, CALL)
    for _ in range(times):
        yield frame(CONTINUATION, 0, 1, block)


def references() -> Chunks:
    """HPACK references to a field of one byte, 12,000 a call."""
    yield BEGIN + frame(HEADERS, END_HEADERS, 1, CALL + literal(b"x", b"a", b"\x40"))
    yield from list(calls_from(3, CALL + b"\xbe" * 12_000))


def calls_from(stream: int, block: bytes) -> Chunks:
    for number in range(100):
        yield frame(HEADERS, END_HEADERS, stream + 2 * number, block)


def unknown_settings() -> Chunks:
    yield PREFACE
    for first in range(0, 1 << 16, 60):
        yield frame(SETTINGS, 0, 0, b"".join(struct.pack(">HL", first + at & 0xFFFF, 1) for at in range(60)))


def small_window() -> bytes:
    return PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HL", 4, 0))


def open_watches(window: bytes = BEGIN) -> Chunks:
    yield window
    for number in range(100):
        yield frame(HEADERS, END_HEADERS, 1 + 2 * number, WATCH) + frame(DATA, 0, 1 + 2 * number, bytes(5))
    while True:
        yield PAUSE


def reflections(window: bytes) -> Chunks:
    """Each asks for a file of some 10 kB, as often as is allowed."""
    asked = b"\x22\x3a" + b"opentelemetry.proto.collector.trace.v1.TraceService.Export"
    ask = frame(DATA, 0, 1, b"\0" + len(asked).to_bytes(4) + asked)
    yield window + frame(HEADERS, END_HEADERS, 1, REFLECT)
    while True:
        yield ask * 10


GRPC: Final[dict[str, Shape]] = {
    "no one": Shape(once(), 0),
    "silent connections": Shape(once(), 2000),
    "a preface and silence": Shape(once(BEGIN), 2000),
    "half a preface": Shape(once(PREFACE[:10]), 2000),
    "connections that come and go": Shape(lambda: iter((BEGIN + frame(HEADERS, 5, 1, CALL),)), 200),
    "header blocks of references": Shape(references, 20),
    "header blocks of Huffman codes": Shape(lambda: calls(CALL + HUFFMAN[:12_000], at_once=1)),
    "large header blocks": Shape(lambda: calls(CALL + literal(b"x", b"y" * 12_000), at_once=1)),
    "a header block without end": Shape(lambda: one_block(bytes(16 * KIB), 100_000)),
    "a header block of empty frames": Shape(lambda: one_block(b"", 100_000)),
    "tables of headers that change": Shape(
        lambda: calls(b"\x20\x3f\xe1\x1f" + CALL + literal(b"x", b"y" * 1000, b"\x40"), at_once=5)
    ),
    "settings without end": Shape(lambda: chained(BEGIN, frame(SETTINGS, 0, 0, struct.pack(">HL", 4, 1)) * 200)),
    "settings that no one knows": Shape(unknown_settings),
    "pings": Shape(lambda: chained(BEGIN, frame(PING, 0, 0, bytes(8)) * 1000)),
    "pings, answers unread": Shape(lambda: chained(BEGIN, frame(PING, 0, 0, bytes(8)) * 1000), reads=False),
    "priorities": Shape(lambda: chained(BEGIN, frame(PRIORITY, 0, 99, bytes(5)) * 1000)),
    "windows": Shape(lambda: chained(BEGIN, frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1") * 1000)),
    "frames of unknown types": Shape(lambda: chained(BEGIN, frame(200, 0, 0, bytes(8)) * 1000)),
    "calls without a key": Shape(lambda: calls(CALL)),
    "calls without a key, answers unread": Shape(lambda: calls(CALL), reads=False),
    "calls that are reset at once": Shape(
        lambda: calls(CALL, lambda stream: frame(RST_STREAM, 0, stream, b"\0\0\0\x08"))
    ),
    "calls with a message each": Shape(
        lambda: calls(CALL, lambda stream: frame(DATA, 1, stream, bytes(12 * KIB)), at_once=4)
    ),
    "data on no stream": Shape(lambda: chained(BEGIN, frame(DATA, 0, 1, bytes(16 * KIB)))),
    "a frame of 16 MiB": Shape(lambda: chained(BEGIN + b"\xff\xff\xff" + bytes(6), BLOCK)),
    "watches of the health service": Shape(open_watches, 100),
    "watches, answers unread": Shape(lambda: open_watches(small_window()), 100, reads=False),
    "reflection, answers unread": Shape(lambda: reflections(small_window()), 200, reads=False),
    "HTTP/1.1": Shape(forever(with_length(0))),
    "noise": Shape(noise),
}

SHAPES: Final = {"http": HTTP, "admin": HTTP, "service": HTTP, "grpc": GRPC}


class Strangers:
    """Connections of one shape to one port while entered."""

    def __init__(self, port: str, shape: str, address: str) -> None:
        self._arguments = port, shape, address
        self.seen: dict[str, int] = {}
        """`opened`, `closed` by the port, `kib` sent."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=PROJECT_ROOT,
        )
        assert self._process.stdout is not None
        self._process.stdout.readline()  # it begins
        return self

    def __exit__(self, *exc: object) -> None:
        seen, _ = self._process.communicate()
        self.seen = json.loads(seen)


async def connection(shape: Shape, address: str, opening: asyncio.Semaphore, seen: Counter[str]) -> None:
    """Of one connection after the other."""
    host, _, port = address.rpartition(":")
    while True:
        try:
            async with opening:
                reader, writer = await asyncio.open_connection(host, int(port), limit=4096)
        except OSError:
            seen["refused"] += 1
            await asyncio.sleep(PAUSE_S)
            continue
        seen["opened"] += 1
        reading = asyncio.create_task(read_all(reader)) if shape.reads else None
        try:
            for sent in shape.chunks():
                if sent is PAUSE or not sent:
                    await asyncio.sleep(PAUSE_S)
                else:
                    writer.write(sent)
                    await writer.drain()
                    seen["bytes"] += len(sent)
                if reading is not None and reading.done():
                    raise ConnectionResetError
        except ConnectionError:
            seen["closed"] += 1
            await asyncio.sleep(0)
        finally:
            writer.transport.abort()
            if reading is not None:
                reading.cancel()


async def read_all(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        while await reader.read(64 * KIB):
            pass


async def run(port: str, name: str, address: str) -> None:
    """Until the standard input ends."""
    shape, seen, opening = SHAPES[port][name], Counter[str](), asyncio.Semaphore(CONNECT_AT_ONCE)
    loop = asyncio.get_running_loop()
    ended = loop.run_in_executor(None, sys.stdin.read)
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    tasks = [asyncio.create_task(connection(shape, address, opening, seen)) for _ in range(shape.connections)]
    await ended
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    raise_file_limit()
    asyncio.run(run(*sys.argv[1:]))
