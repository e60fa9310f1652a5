"""One HTTP/2 connection that carries unary gRPC calls, one at a time, with as little work as the
sender's HTTP/1.1 connection, so that what is compared is the gateway.

Its header block is the same for every call: literals that are indexed the first time. Of an answer
it knows whether a message came before the stream ended; that of a refused call has none.
"""

import asyncio
from typing import Final, cast

_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_ACK = _END_STREAM = 1
_END_HEADERS = 4
_INITIAL_WINDOW_SIZE = 4
_FRAME_BYTES = 16 * 1024
_HEAD_BYTES = 9
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_FIRST_DYNAMIC = 62
OK: Final = 200
REFUSED: Final = 503


class GrpcConnection(asyncio.Protocol):
    """Calls of one method; `request` as that of `benchmarks.sender.Connection`."""

    def __init__(self) -> None:
        self._waiter: asyncio.Future[tuple[int, bytes]] | None = None
        self._buffer = bytearray()
        self._stream = -1
        self._message = b""
        self._unsent = memoryview(b"")
        self._window = 65_535
        self._stream_window = self._initial_window = 65_535
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(_PREFACE + frame(_SETTINGS, 0, 0) + frame(_WINDOW_UPDATE, 0, 0, (1 << 30).to_bytes(4)))

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(ConnectionResetError("closed before the answer"))

    def request(self, head: bytes, body: bytes) -> asyncio.Future[tuple[int, bytes]]:
        """Send one call; its (status, message), 200 or 503. *head*: as `header_block` makes it."""
        self._waiter = asyncio.get_running_loop().create_future()
        if self.transport is None:
            self._waiter.set_exception(ConnectionResetError("closed"))
            return self._waiter
        is_first = self._stream < 0
        self._stream += 2
        block, fields = head[1:], head[0]
        if not is_first:
            block = b"\x83\x86" + bytes(0x80 | _FIRST_DYNAMIC + fields - 1 - at for at in range(fields))
        self._message, self._stream_window = b"", self._initial_window
        self._unsent = memoryview(b"\0" + len(body).to_bytes(4) + body)
        self._send(frame(_HEADERS, _END_HEADERS, self._stream, block))
        return self._waiter

    def _send(self, before: bytes = b"") -> None:
        """What the windows let through, behind *before*."""
        parts = [before]
        while room := min(self._window, self._stream_window, _FRAME_BYTES, len(self._unsent)):
            piece, self._unsent = self._unsent[:room], self._unsent[room:]
            self._window -= room
            self._stream_window -= room
            parts += [head_of(room, _DATA, 0 if self._unsent else _END_STREAM, self._stream), piece]
        if self.transport is not None:
            self.transport.write(b"".join(parts))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= _HEAD_BYTES:
            end = _HEAD_BYTES + int.from_bytes(self._buffer[:3])
            if len(self._buffer) < end:
                return
            kind, flags = self._buffer[3], self._buffer[4]
            stream = int.from_bytes(self._buffer[5:9])
            payload = bytes(self._buffer[_HEAD_BYTES:end])
            del self._buffer[:end]
            self._take(kind, flags, stream, payload)

    def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _SETTINGS and not flags & _ACK:
            self._take_settings(payload)
        elif kind == _PING and not flags & _ACK:
            self._send(frame(_PING, _ACK, 0, payload))
        elif kind == _WINDOW_UPDATE:
            self._widen(stream, int.from_bytes(payload))
        elif stream == self._stream:
            self._message += payload if kind == _DATA else b""
            if kind == _RST_STREAM or (kind in (_DATA, _HEADERS) and flags & _END_STREAM):
                self._end()

    def _take_settings(self, payload: bytes) -> None:
        for at in range(0, len(payload), 6):
            if int.from_bytes(payload[at : at + 2]) == _INITIAL_WINDOW_SIZE:
                size = int.from_bytes(payload[at + 2 : at + 6])
                self._stream_window += size - self._initial_window
                self._initial_window = size
        self._send(frame(_SETTINGS, _ACK, 0))

    def _widen(self, stream: int, more: int) -> None:
        if stream == 0:
            self._window += more
        elif stream == self._stream:
            self._stream_window += more
        if self._unsent:
            self._send()

    def _end(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._unsent = memoryview(b"")
            self._waiter.set_result((OK, self._message[5:]) if self._message else (REFUSED, b""))


def header_block(authority: str, path: str, authorization: str | None) -> bytes:
    """The number of literals, as one byte, and the block of a connection's first call."""
    fields = {":path": path, ":authority": authority, "content-type": "application/grpc", "te": "trailers"}
    if authorization is not None:
        fields["authorization"] = authorization
    literals = b"".join(b"\x40" + text_of(name) + text_of(value) for name, value in fields.items())
    return bytes((len(fields),)) + b"\x83\x86" + literals  # POST, http


def text_of(value: str) -> bytes:
    """A string literal of less than 127 bytes."""
    data = value.encode()
    assert len(data) < 0x7F, "a longer one needs another length"  # noqa: S101 - ours
    return bytes((len(data),)) + data


def head_of(length: int, kind: int, flags: int, stream: int) -> bytes:
    return length.to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return head_of(len(payload), kind, flags, stream) + payload
