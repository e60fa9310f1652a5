"""The answer to gRPC on a port that speaks HTTP/1.1: just enough of HTTP/2 for a gRPC client to
read, as the status of its call, where it should go. Pure.

A client sends its preface, SETTINGS, and the HEADERS of its call. It is given SETTINGS, and for
each call a HEADERS frame with `grpc-status` and `grpc-message` that ends the stream. What else it
sends (its own header block, the message) is passed over unread.
"""

import struct
from typing import Final
from urllib.parse import quote

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client of HTTP/2 begins with (RFC 9113, 3.4)."""
UNIMPLEMENTED: Final = 12
"""google.rpc.Code: final, so that exporters state it at once."""

MAX_FRAME_BYTES: Final = 16 * 1024
MAX_CALLS: Final = 100
MAX_FRAMES: Final = 1000
"""Of one connection; then it is ended. A client that keeps it open sends a few PINGs a minute."""

_HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _CONTINUATION = 1, 3, 4, 6, 7, 9
_ACK = _END_STREAM = 0x1
_END_HEADERS = 0x4
_NO_ERROR, _PROTOCOL_ERROR, _FRAME_SIZE_ERROR, _ENHANCE_YOUR_CALM = 0, 1, 6, 11
_HEAD_BYTES = 9


class Http2Refusal:
    """One connection that began with `PRI`."""

    def __init__(self, text: str) -> None:
        self._block = header_block(text)
        self._buffer = bytearray()
        self._is_begun = False
        self._calls = 0
        self._frames = 0
        self._last_stream = 0
        self.is_over = False
        """The connection is to be closed, once what was given is written."""

    def feed(self, data: bytes) -> bytes:
        """What to answer to *data*, the next bytes of the client."""
        out = bytearray()
        self._buffer += data
        if not self._is_begun:
            if len(self._buffer) < len(PREFACE) and PREFACE.startswith(self._buffer):
                return b""
            if not self._buffer.startswith(PREFACE):
                self.is_over = True
                return b""
            del self._buffer[: len(PREFACE)]
            self._is_begun = True
            out += frame(_SETTINGS, 0, 0)
        while not self.is_over and len(self._buffer) >= _HEAD_BYTES:
            length = int.from_bytes(self._buffer[:3])
            if length > MAX_FRAME_BYTES:
                out += self._ended(_FRAME_SIZE_ERROR)
                break
            if len(self._buffer) < _HEAD_BYTES + length:
                break
            kind, flags = self._buffer[3], self._buffer[4]
            stream = int.from_bytes(self._buffer[5:9]) & 0x7FFFFFFF
            payload = bytes(self._buffer[_HEAD_BYTES : _HEAD_BYTES + length])
            del self._buffer[: _HEAD_BYTES + length]
            self._frames += 1
            out += self._answer(kind, flags, stream, payload)
            if self._frames >= MAX_FRAMES and not self.is_over:
                out += self._ended(_ENHANCE_YOUR_CALM)
        return bytes(out)

    def _answer(self, kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        if kind == _SETTINGS and not flags & _ACK:
            return frame(_SETTINGS, _ACK, 0)
        if kind == _PING and not flags & _ACK:
            return frame(_PING, _ACK, 0, payload)
        if kind == _GOAWAY:
            self.is_over = True
        if kind not in (_HEADERS, _CONTINUATION) or not flags & _END_HEADERS:
            return b""
        if stream <= self._last_stream:  # the trailers of a stream that was answered, or an error
            return b"" if stream else self._ended(_PROTOCOL_ERROR)
        self._last_stream = stream
        self._calls += 1
        answer = frame(_HEADERS, _END_HEADERS | _END_STREAM, stream, self._block)
        answer += frame(_RST_STREAM, 0, stream, struct.pack(">I", _NO_ERROR))
        return answer if self._calls < MAX_CALLS else answer + self._ended(_NO_ERROR)

    def _ended(self, error: int) -> bytes:
        self.is_over = True
        return frame(_GOAWAY, 0, 0, struct.pack(">II", self._last_stream, error))


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def header_block(text: str) -> bytes:
    """HPACK without a dynamic table: `:status: 200` and three literals that are not indexed."""
    fields = {
        "content-type": "application/grpc",
        "grpc-status": str(UNIMPLEMENTED),
        "grpc-message": quote(text, safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"),
    }
    return b"\x88" + b"".join(b"\x00" + text_of(name) + text_of(value) for name, value in fields.items())


def text_of(value: str) -> bytes:
    """A string literal without Huffman coding (RFC 7541, 5.2)."""
    data = value.encode("ascii")
    length, out = len(data), bytearray()
    if length < 0x7F:  # noqa: PLR2004 - a prefix of seven bits
        return bytes((length,)) + data
    out.append(0x7F)
    length -= 0x7F
    while length > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(length & 0x7F | 0x80)
        length >>= 7
    out.append(length)
    return bytes(out) + data
