"""B70: what the target does as a sender. The kit is its destination, of whatever encoding."""

import asyncio
import time
from collections.abc import Callable, Sequence
from email.utils import formatdate
from typing import NamedTuple, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tests.conformance.otlp.lines import Seen, line
from tests.conformance.otlp.payloads import protobuf
from tests.conformance.otlp.target import Target

WAIT_S = 60.0
QUIET_S = 2.5
"""In which what is never re-sent does not come: above the first pause of usual senders."""
AFTER_S = 2


class Arrival(NamedTuple):
    at_s: float
    body: bytes
    connection: int


class Destination:
    """An HTTP server that gives the answers it was made with, then 200; bodies as they came."""

    def __init__(self, address: tuple[str, int], answers: Sequence[Callable[[], bytes]]) -> None:
        self._address = address
        self._answers = list(answers)
        self.arrivals: list[Arrival] = []
        self._came = asyncio.Condition()
        self._connections = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, *self._address)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        number = self._connections
        self._writers.append(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                body = await _body(reader, head)
                async with self._came:
                    self.arrivals.append(Arrival(time.monotonic(), body, number))
                    self._came.notify_all()
                writer.write(self._answers.pop(0)() if self._answers else answer(200, media=media_of(head)))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):  # its other side is done
            writer.close()

    async def wait_for(self, arrivals: int, timeout_s: float = WAIT_S) -> bool:
        """Whether so many came in time."""
        try:
            async with asyncio.timeout(timeout_s), self._came:
                await self._came.wait_for(lambda: len(self.arrivals) >= arrivals)
        except TimeoutError:
            return False
        return True


async def _body(reader: asyncio.StreamReader, head: str) -> bytes:
    headers = {name: value.strip() for name, _, value in (text.partition(":") for text in head.split("\r\n"))}
    if headers.get("transfer-encoding") != "chunked":
        return await reader.readexactly(int(headers.get("content-length", "0")))
    body = b""
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")
    return body


def media_of(head: str) -> str:
    return "application/json" if "content-type: application/json" in head else "application/x-protobuf"


def answer(status: int, body: bytes = b"", *, media: str = "application/x-protobuf", **headers: str) -> bytes:
    sent = {"Content-Type": media, "Content-Length": str(len(body))}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status} Answer", *(f"{name}: {value}" for name, value in sent.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def send_one(target: Target) -> None:
    """Something for the target to forward."""
    sender = target.sender or target.http
    assert sender is not None
    reply = await sender.post("traces", protobuf("traces"))
    assert reply.status == 200, f"the target answers {reply.status} itself"


@line("B70", "MUST", "sender", "Retry-After is honoured; 400 and a partial success are not sent again")
async def forwarding(target: Target, seen: Seen) -> None:
    await waits(target, seen, "seconds", lambda: str(AFTER_S))
    await waits(target, seen, "date", lambda: formatdate(time.time() + AFTER_S + 1, usegmt=True))
    await stays_away(target, seen, "400", answer(400))
    await stays_away(target, seen, "a partial success", answer(200, one_rejected()))
    await reuses(target, seen)


async def waits(target: Target, seen: Seen, form: str, retry_after: Callable[[], str]) -> None:
    assert target.destination is not None
    async with Destination(target.destination, [lambda: answer(503, Retry_After=retry_after())]) as destination:
        await send_one(target)
        if not await destination.wait_for(2):
            seen.expect(False, f"503: {len(destination.arrivals)} attempts in {WAIT_S:g} s")  # noqa: FBT003
            return
        first, second = destination.arrivals[:2]
    pause_s = second.at_s - first.at_s
    seen.expect(pause_s >= AFTER_S - 0.1, f"Retry-After as {form}, {AFTER_S} s: sent again after {pause_s:.1f} s")
    seen.expect(first.body == second.body, "the same bytes again")


async def stays_away(target: Target, seen: Seen, what: str, refusal: bytes) -> None:
    assert target.destination is not None
    async with Destination(target.destination, [lambda: refusal]) as destination:
        await send_one(target)
        came = await destination.wait_for(1)
        again = await destination.wait_for(2, QUIET_S)
    seen.expect(
        came and not again, f"after {what}: {'sent again' if again else 'not sent again' if came else 'nothing came'}"
    )


async def reuses(target: Target, seen: Seen) -> None:
    assert target.destination is not None
    async with Destination(target.destination, []) as destination:
        for n in range(3):
            await send_one(target)
            if not await destination.wait_for(n + 1):
                break
        used = {arrival.connection for arrival in destination.arrivals}
    seen.expect(len(used) == 1, f"{len(destination.arrivals)} requests on {len(used)} connections")


def one_rejected() -> bytes:
    response = ExportTraceServiceResponse()
    response.partial_success.rejected_spans = 1
    response.partial_success.error_message = "no"
    return response.SerializeToString()
