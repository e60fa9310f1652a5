"""A client of HTTP/2 that sends what no gRPC library would: parts of messages, any frame."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple
from urllib.parse import unquote

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset, TrailersReceived
from hyperframe.frame import Frame, GoAwayFrame

from tests.support.grpc_calls import TRACES
from tests.support.polling import HANGS_S


class Answer(NamedTuple):
    """What a stream was answered."""

    fields: dict[str, str]
    """Headers and trailers."""
    body: bytes
    reset: int | None
    """The code of RST_STREAM; None where the stream ended by itself."""

    @property
    def status(self) -> int | None:
        """Of gRPC; None where there is none."""
        return int(self.fields["grpc-status"]) if "grpc-status" in self.fields else None

    @property
    def text(self) -> str:
        return unquote(self.fields.get("grpc-message", ""))


class Http2Client:
    """One connection, which reads as it waits."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.h2 = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self._fields: dict[int, dict[str, str]] = {}
        self._bodies: dict[int, bytes] = {}
        self._ended: dict[int, int | None] = {}

    async def flush(self) -> None:
        self._writer.write(self.h2.data_to_send())
        await self._writer.drain()

    def write(self, frames: bytes) -> None:
        """Write *frames* as they are."""
        self._writer.write(frames)

    def call(self, path: str = TRACES, more: Sequence[tuple[str, str]] = (), *, end: bool = False) -> int:
        """Begin a call; its stream."""
        stream = self.h2.get_next_available_stream_id()
        fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost")]
        fields += [("te", "trailers"), ("content-type", "application/grpc"), *more]
        self.h2.send_headers(stream, fields, end_stream=end)
        return stream

    async def send(self, stream: int, data: bytes, *, end: bool = False) -> None:
        """Send *data* within the windows."""
        at = 0
        while at < len(data) or (end and at == 0 == len(data)):
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size, len(data) - at)
            if room <= 0 and data:
                await self.flush()
                await self._read()
                continue
            self.h2.send_data(stream, data[at : at + room], end_stream=end and at + room == len(data))
            at += max(room, 1)
        await self.flush()

    async def answer(self, stream: int) -> Answer:
        """Wait until *stream* ends."""
        await self.flush()
        async with asyncio.timeout(HANGS_S):
            while stream not in self._ended:
                await self._read()
        return Answer(self._fields.get(stream, {}), self._bodies.get(stream, b""), self._ended[stream])

    async def closed(self) -> GoAwayFrame | None:
        """Wait until the connection is closed; the GOAWAY before that, whatever came with it."""
        await self.flush()
        data = b""
        async with asyncio.timeout(HANGS_S):
            with suppress(ConnectionError):
                while part := await self._reader.read(65536):
                    data += part
        goaway = None
        while len(data) >= 9:
            frame, length = Frame.parse_frame_header(memoryview(data[:9]))
            frame.parse_body(memoryview(data[9 : 9 + length]))
            goaway = frame if isinstance(frame, GoAwayFrame) else goaway
            data = data[9 + length :]
        return goaway

    async def _read(self) -> None:
        """Raises ConnectionError where the connection is closed."""
        data = await self._reader.read(65536)
        if not data:
            raise ConnectionResetError("closed")
        for event in self.h2.receive_data(data):
            match event:
                case ResponseReceived() | TrailersReceived():
                    self._fields.setdefault(event.stream_id, {}).update(dict(event.headers))
                case DataReceived():
                    self._bodies[event.stream_id] = self._bodies.get(event.stream_id, b"") + event.data
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                case StreamEnded():
                    self._ended[event.stream_id] = None
                case StreamReset():
                    self._ended.setdefault(event.stream_id, int(event.error_code))
        await self.flush()


def message(body: bytes, *, compressed: bool = False) -> bytes:
    """A gRPC message."""
    return bytes((compressed,)) + len(body).to_bytes(4) + body


@asynccontextmanager
async def http2(host: str, port: int) -> AsyncIterator[Http2Client]:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        yield Http2Client(reader, writer)
    finally:
        writer.transport.abort()
