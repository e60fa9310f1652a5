"""The upstream of the benchmark: a cost service that takes AI telemetry and keeps exact count
of it. A process of its own.

    python -m benchmarks.sink [--mode accept|refuse|hang|lose_answer]

Prints `{"port": N}` on a line of its own once it listens (loopback, a free
port), and runs until SIGTERM.

    POST /v2/ai-telemetry/records    as the wire contract states; every record counted
    GET  /_counts                    `Counts` as JSON
    GET  /_seen                      bitmap, bit s of byte s // 8: AI span number s has come
    POST /_mode/{mode}               change the mode

Modes: `accept` 202; `refuse` 503 with Retry-After, nothing counted; `hang` reads and never
answers; `lose_answer` counts the records, then closes the connection without an answer (an
upstream that dies after its commit). Loss and duplicates are exact: record ids are compared by
their first 64 bits, spans by their number in the run.
"""

import argparse
import asyncio
import contextlib
import json
import signal
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast, get_args

import orjson

from benchmarks.bodies import sequence_of

Mode = Literal["accept", "refuse", "hang", "lose_answer"]
RECORDS_PATH = "/v2/ai-telemetry/records"
_GZIP = 16 + zlib.MAX_WBITS
MAX_BODY_BYTES = 64 << 20


@dataclass(slots=True)
class Counts:
    """What came since the start."""

    requests: int = 0
    """Batches, in every mode."""
    refused_requests: int = 0
    """Answered 503, or never answered."""
    bad_requests: int = 0
    """Answered 4xx: no bare Authorization, not JSON, no records. Anything but 0
    is a fault of the gateway."""
    records: int = 0
    """Records that came, repeats included."""
    unique_records: int = 0
    """Different record ids."""
    repeats: int = 0
    """Records whose record id was known: at-least-once on the wire."""
    unique_spans: int = 0
    """Different AI spans of the run."""
    double_counted: int = 0
    """New record ids for a span that had come before under another id: never allowed."""
    unknown: int = 0
    """Records that name no span of the run."""
    input_tokens: int = 0
    """Over unique records, as all sums."""
    output_tokens: int = 0
    bytes: int = 0


class Ledger:
    """Counts records and remembers which came."""

    def __init__(self) -> None:
        self.counts = Counts()
        self.seen = bytearray()
        self._record_ids: set[int] = set()

    def take(self, body: bytes) -> int:
        """Count the records of one request; how many.

        Raises ValueError or KeyError when it is not as the contract states.
        """
        envelope = orjson.loads(body)
        records = envelope["records"]
        for name in ("batch_id", "gateway_id", "sent_at"):
            if not envelope[name]:
                raise ValueError(name)
        counts, known = self.counts, self._record_ids
        for record in records:
            record_id = int(record["record_id"][:16], 16)
            usage = record["usage"]
            if record_id in known:
                counts.repeats += 1
                continue
            known.add(record_id)
            counts.unique_records += 1
            counts.input_tokens += usage.get("input_tokens") or 0
            counts.output_tokens += usage.get("output_tokens") or 0
            self._mark(record)
        counts.records += len(records)
        counts.bytes += len(body)
        return len(records)

    def _mark(self, record: dict[str, Any]) -> None:
        """By its span id; a gateway's record has none, its response
        id then ends in the same digits.
        """
        span_id = (record.get("trace") or {}).get("span_id") or (record.get("response_id") or "")[-16:]
        number = sequence_of(span_id) if span_id else None
        if number is None:
            self.counts.unknown += 1
            return
        at, bit = number >> 3, 1 << (number & 7)
        if at >= len(self.seen):
            self.seen.extend(bytes(max(at + 1 - len(self.seen), 1 << 16)))
        if self.seen[at] & bit:
            self.counts.double_counted += 1
        else:
            self.seen[at] |= bit
            self.counts.unique_spans += 1


class Head:
    """Request line and the headers that matter."""

    __slots__ = ("authorization", "content_length", "is_gzip", "method", "path")

    def __init__(self, raw: bytes) -> None:
        lines = raw.decode("latin-1").split("\r\n")
        self.method, self.path, _ = lines[0].split(" ", 2)
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
        }
        if "transfer-encoding" in headers:
            raise ValueError("chunked bodies are not read here")
        self.content_length = int(headers.get("content-length", "0"))
        self.is_gzip = headers.get("content-encoding", "").lower() == "gzip"
        self.authorization = headers.get("authorization", "")
        if self.content_length > MAX_BODY_BYTES:
            raise ValueError("body too large")


class Sink:
    """State shared by the connections."""

    def __init__(self, mode: Mode) -> None:
        self.mode: Mode = mode
        self.ledger = Ledger()

    def answer(self, head: Head, body: bytes) -> bytes | None:
        """The whole response; None for none (hang); b"" to close the connection without one."""
        if head.path == RECORDS_PATH and head.method == "POST":
            return self._records(head, body)
        if head.path == "/_counts":
            return _response(200, json.dumps(asdict(self.ledger.counts)).encode())
        if head.path == "/_seen":
            return _response(200, bytes(self.ledger.seen), media="application/octet-stream")
        if head.path.startswith("/_mode/"):
            self.mode = _mode(head.path.removeprefix("/_mode/"))
            return _response(200, b"{}")
        if head.path.startswith("/v2/insights"):
            return _response(200, b'{"insights":[]}')
        return _response(404, b'{"message":"no such path"}')

    def _records(self, head: Head, body: bytes) -> bytes | None:
        counts = self.ledger.counts
        counts.requests += 1
        if not head.authorization or " " in head.authorization:
            counts.bad_requests += 1
            return _response(403, b'{"message":"User is not authorized to access this resource"}')
        if self.mode in {"refuse", "hang"}:
            counts.refused_requests += 1
            return (
                None if self.mode == "hang" else _response(503, b'{"message":"slow down"}', extra="Retry-After: 1\r\n")
            )
        try:
            accepted = self.ledger.take(zlib.decompress(body, _GZIP) if head.is_gzip else body)
        except (ValueError, KeyError, TypeError, zlib.error):
            counts.bad_requests += 1
            return _response(400, b'{"error":{"message":"not a records envelope","type":"invalid_body"}}')
        return b"" if self.mode == "lose_answer" else _response(202, b'{"accepted":%d,"rejected":[]}' % accepted)


class Connection(asyncio.Protocol):
    """One HTTP/1.1 connection: requests one after the other, bodies with Content-Length."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._parts: list[bytes] = []
        self._have = 0
        self._need = 0
        self._head: Head | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's do not inherit from it

    def data_received(self, data: bytes) -> None:
        self._parts.append(data)
        self._have += len(data)
        if self._have < self._need:
            return  # a large body is joined once, when it is all there, not at each piece
        buffer = b"".join(self._parts)
        try:
            buffer = self._serve(buffer)
        except ValueError:
            buffer = b""
            self._close()
        self._parts, self._have = [buffer], len(buffer)
        self._need = self._head.content_length if self._head else 0

    def _serve(self, buffer: bytes) -> bytes:
        """Answer the whole requests in *buffer*; the rest of it.

        Raises ValueError for a head that is not HTTP.
        """
        while True:
            if self._head is None:
                end = buffer.find(b"\r\n\r\n")
                if end < 0:
                    return buffer
                self._head = Head(buffer[:end])
                buffer = buffer[end + 4 :]
            length = self._head.content_length
            if len(buffer) < length:
                return buffer
            head, self._head = self._head, None
            self._write(self._sink.answer(head, buffer[:length]))
            buffer = buffer[length:]

    def _write(self, answer: bytes | None) -> None:
        if answer == b"":
            self._close()
        elif answer is not None and self._transport is not None:
            self._transport.write(answer)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _response(status: int, body: bytes, *, media: str = "application/json", extra: str = "") -> bytes:
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {media}\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
    )
    return head.encode() + body


_REASONS = {200: "OK", 202: "Accepted", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 503: "Unavailable"}


def _mode(name: str) -> Mode:
    for mode in get_args(Mode):
        if mode == name:
            return mode  # type: ignore[no-any-return]  # get_args is not typed
    raise ValueError(name)


async def serve(mode: Mode, *, announce: Callable[[int], None]) -> None:
    """Listen on a free loopback port, pass it to *announce*, and serve until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    sink, stopped = Sink(mode), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    server = await loop.create_server(lambda: Connection(sink), "127.0.0.1", 0)
    announce(server.sockets[0].getsockname()[1])
    await stopped.wait()
    server.close()


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(description="Counts what a gateway delivers.")
    parser.add_argument("--mode", choices=get_args(Mode), default="accept")
    mode = _mode(parser.parse_args().mode)
    with contextlib.suppress(ImportError):  # the sink also runs where only the standard loop is
        import uvloop  # noqa: PLC0415 - optional

        uvloop.install()
    asyncio.run(serve(mode, announce=lambda port: print(json.dumps({"port": port}), flush=True)))


if __name__ == "__main__":
    main()
