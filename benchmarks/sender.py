"""The load: a closed loop over keep-alive connections, in a process of its own.
Measures the time to each answer.

python -m benchmarks.sender --url http://127.0.0.1:4318/v1/traces --shape
'{"spans": 100}' --requests 1000

Prints `{"ready": true, …}` once its bodies are built, waits for a line on standard input, sends,
and prints a `Report`. With --requests the bodies are built beforehand (up to `PREBUILD_BYTES`), so
that while it measures it only writes and reads. Nothing is sent twice and nothing is hidden:
answers that are not 200, rejected items and broken connections are counted.
"""

import argparse
import asyncio
import contextlib
import json
import os
import sys
import time
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import cast
from urllib.parse import urlsplit

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from benchmarks.bodies import Shape, Template
from benchmarks.grpc_connection import GrpcConnection, header_block
from benchmarks.litellm_bodies import LiteLLMTemplate

PREBUILD_BYTES = 1 << 30
AnyTemplate = Template | LiteLLMTemplate
_ANSWER_TIMEOUT_S = 120.0


@dataclass(slots=True)
class Report:
    """What one run of the sender saw."""

    requests: int
    acked_requests: int
    """Answered 200."""
    acked_spans: int
    """AI spans in acked requests."""
    statuses: dict[str, int]
    """Status -> answers."""
    broken: int
    """Requests that ended without an answer."""
    rejected_items: int
    """Sum of partial_success over the 200s."""
    elapsed_s: float
    sent_bytes: int
    """Bodies as sent, compressed where they are."""
    ack_p50_ms: float
    ack_p99_ms: float
    ack_p999_ms: float
    ack_max_ms: float


def percentile(ascending: list[int], share: float) -> float:
    """The value below which *share* of the sorted values lie (nearest rank); 0 for none."""
    return float(ascending[min(len(ascending) - 1, int(share * len(ascending)))]) if ascending else 0.0


class AnswerReader:
    """Cuts answers out of the bytes of one connection. Answers are small: no streaming."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> tuple[int, bytes] | None:
        """(status, body) when the answer is whole."""
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = self._buffer[:end].lower()
        at = head.find(b"\r\ncontent-length:")
        length = int(head[at + 17 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(self._buffer) < end + 4 + length:
            return None
        status, body = int(head[9:12]), self._buffer[end + 4 : end + 4 + length]
        self._buffer = b""
        return status, body


class Connection(asyncio.Protocol):
    """One keep-alive connection with at most one request under way."""

    def __init__(self) -> None:
        self._reader = AnswerReader()
        self._waiter: asyncio.Future[tuple[int, bytes]] | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's do not inherit from it

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(ConnectionResetError("closed before the answer"))

    def data_received(self, data: bytes) -> None:
        answer = self._reader.feed(data)
        if answer is not None and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(answer)

    def request(self, head: bytes, body: bytes) -> asyncio.Future[tuple[int, bytes]]:
        """Send one request; the answer's (status, body).

        The future raises ConnectionError when none comes.
        """
        self._waiter = asyncio.get_running_loop().create_future()
        if self.transport is None:
            self._waiter.set_exception(ConnectionResetError("closed"))
        else:
            self.transport.write(head + body)
        return self._waiter


AnyConnection = Connection | GrpcConnection


class Load:
    """The run: what is left to send, and what came back."""

    def __init__(self, url: str, template: AnyTemplate, authorization: str | None) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        lines = [f"POST {parts.path} HTTP/1.1", f"Host: {parts.netloc}"]
        lines += [f"{name}: {value}" for name, value in template.headers().items()]
        lines += [f"Authorization: {authorization}"] if authorization else []
        self._is_grpc = parts.scheme == "grpc"
        self._head = (
            header_block(parts.netloc, parts.path, authorization) if self._is_grpc else "\r\n".join(lines).encode()
        )
        self._template = template
        self._latencies_ns = array("q")
        self._statuses: Counter[int] = Counter()
        self._broken = self._rejected = self._sent_bytes = 0

    async def run(self, bodies: Iterator[bytes], connections: int) -> Report:
        """Send all *bodies* over *connections* connections."""
        opened = await asyncio.gather(*(self._connect() for _ in range(connections)))
        started_ns = time.perf_counter_ns()
        await asyncio.gather(*(self._loop(connection, bodies) for connection in opened))
        elapsed_s = (time.perf_counter_ns() - started_ns) / 1e9
        for connection in opened:
            if connection.transport is not None:
                connection.transport.close()
        return self._report(elapsed_s)

    async def _connect(self) -> AnyConnection:
        made: type[AnyConnection] = GrpcConnection if self._is_grpc else Connection
        _, connection = await asyncio.get_running_loop().create_connection(made, self._host, self._port)
        return connection

    async def _loop(self, connection: AnyConnection, bodies: Iterator[bytes]) -> None:
        for body in bodies:
            head = self._head if self._is_grpc else self._head + b"\r\nContent-Length: %d\r\n\r\n" % len(body)
            started_ns = time.perf_counter_ns()
            try:
                if connection.transport is None:
                    connection = await self._connect()
                status, answer = await asyncio.wait_for(connection.request(head, body), _ANSWER_TIMEOUT_S)
            except (OSError, TimeoutError):
                self._broken += 1
                continue
            self._latencies_ns.append(time.perf_counter_ns() - started_ns)
            self._statuses[status] += 1
            self._sent_bytes += len(body)
            if status == 200 and answer:
                self._rejected += self._rejected_items(answer)

    def _rejected_items(self, answer: bytes) -> int:
        if self._template.shape.encoding == "litellm":
            return len(json.loads(answer).get("rejected", ()))
        if self._template.shape.encoding == "json":
            partial = json.loads(answer).get("partialSuccess", {})
            return int(partial.get("rejectedSpans", 0))
        return ExportTraceServiceResponse.FromString(answer).partial_success.rejected_spans

    def _report(self, elapsed_s: float) -> Report:
        ascending = sorted(self._latencies_ns)
        return Report(
            requests=len(ascending) + self._broken,
            acked_requests=self._statuses[200],
            acked_spans=self._statuses[200] * self._template.ai_spans,
            statuses={str(status): count for status, count in self._statuses.items()},
            broken=self._broken,
            rejected_items=self._rejected,
            elapsed_s=elapsed_s,
            sent_bytes=self._sent_bytes,
            ack_p50_ms=percentile(ascending, 0.5) / 1e6,
            ack_p99_ms=percentile(ascending, 0.99) / 1e6,
            ack_p999_ms=percentile(ascending, 0.999) / 1e6,
            ack_max_ms=max(ascending, default=0) / 1e6,
        )


def counted_bodies(template: AnyTemplate, requests: int, first: int) -> Iterator[bytes]:
    """*requests* bodies from number *first* on; built now when they fit in
    `PREBUILD_BYTES`, else while sending.
    """
    made = (template.body(number) for number in range(first, first + requests))
    return iter(list(made)) if requests * template.body_bytes <= PREBUILD_BYTES else made


def timed_bodies(template: AnyTemplate, seconds: float, first: int) -> Iterator[bytes]:
    """Bodies from number *first* on, each built as it is asked for, until
    *seconds* after the first.
    """
    deadline, number = time.monotonic() + seconds, first
    while time.monotonic() < deadline:
        yield template.body(number)
        number += 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Sends OTLP traces in a closed loop.")
    parser.add_argument("--url", required=True, help="http://… or grpc://host:port/service/method")
    parser.add_argument("--shape", default="{}", help="benchmarks.bodies.Shape as JSON")
    size = parser.add_mutually_exclusive_group(required=True)
    size.add_argument("--requests", type=int)
    size.add_argument("--seconds", type=float)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--first", type=int, default=0, help="number of the first request, for a second sender")
    parser.add_argument("--authorization-env", help="variable that holds the inbound key")
    return parser.parse_args()


def main() -> None:
    """Entry point."""
    arguments = _arguments()
    shape = Shape(**json.loads(arguments.shape))
    template = LiteLLMTemplate(shape) if shape.encoding == "litellm" else Template(shape)
    authorization = os.environ[arguments.authorization_env] if arguments.authorization_env else None
    prepared = counted_bodies(template, arguments.requests, arguments.first) if arguments.requests else None
    ready = {
        "input_tokens": template.input_tokens,
        "output_tokens": template.output_tokens,
        "ai_spans": template.ai_spans,
    }
    print(json.dumps({"ready": True, "body_bytes": template.body_bytes, **ready}), flush=True)
    sys.stdin.readline()
    bodies = prepared if prepared is not None else timed_bodies(template, arguments.seconds, arguments.first)
    with contextlib.suppress(ImportError):  # also runs where only the standard loop is
        import uvloop  # noqa: PLC0415 - optional

        uvloop.install()
    print(
        json.dumps(
            asdict(asyncio.run(Load(arguments.url, template, authorization).run(bodies, arguments.connections)))
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()
