"""An upstream that writes the bytes of its answers itself, however wrong they are: one request at a
time on each connection, as many connections as come.
"""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Request:
    headers: Mapping[str, str]
    """By names in lower case."""
    body: bytes
    """Unpacked."""


@dataclass(frozen=True, slots=True)
class RawAnswer:
    data: bytes
    ends: bool = False
    """Close the connection behind it."""
    later: bytes = b""
    """Written after it without a request, once `RawUpstream.is_answered`."""


Respond = Callable[[Request], RawAnswer]


class RawUpstream:
    def __init__(self, respond: Respond) -> None:
        self.respond = respond
        self.seen: list[Request] = []
        self.base_url = ""
        self.is_answered = asyncio.Event()
        """Set by the test once the client has taken the answer that is to be followed by more."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = await read_request(reader)
                self.seen.append(request)
                answer = self.respond(request)
                writer.write(answer.data)
                await writer.drain()
                if answer.later:
                    await self._write_later(writer, answer.later)
                if answer.ends:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _write_later(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        await self.is_answered.wait()
        writer.write(data)
        await writer.drain()


async def read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[1:-2]
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(headers, gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body)


@asynccontextmanager
async def running_raw_upstream(respond: Respond) -> AsyncIterator[RawUpstream]:
    upstream = RawUpstream(respond)
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(upstream.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    upstream.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield upstream
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
