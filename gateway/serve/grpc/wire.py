"""gRPC over HTTP/2 beyond its frames: messages, timeouts, metadata and trailers. Pure.

message = compressed? (1 byte) length (4) bytes
(https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md)
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Final, NamedTuple
from urllib.parse import quote

from multidict import CIMultiDict

from gateway.common.contract.errors import BadPayload

PREFIX_BYTES: Final = 5
MAX_TIMEOUT_DIGITS: Final = 8
_UNITS_S: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_PLAIN: Final = " !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"
"""What `grpc-message` holds as it is, beyond letters and digits."""

Fields = list[tuple[bytes, bytes]]
"""Header fields as HTTP/2 has them: names in lower case."""


SUCCESS: Final = (b"grpc-status", b"0")


class Message(NamedTuple):
    """One message as it was sent."""

    body: bytes
    is_compressed: bool


class MessageReader:
    """Puts the messages of one call together."""

    __slots__ = ("_body", "_left_bytes", "_prefix")

    def __init__(self) -> None:
        self._prefix = b""
        self._body = BytesIO()  # unlike bytes that are joined, it gives them without a second copy
        self._left_bytes = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing of a message has come since the last one."""
        return not self._prefix

    def feed(self, data: bytes, max_bytes: int) -> Iterator[Message]:
        """The messages that are whole with *data*.

        Raises TooLong as soon as a message announces more than *max_bytes*, BadPayload for what is
        no message.
        """
        at = 0
        while True:
            if len(self._prefix) < PREFIX_BYTES:
                missing = PREFIX_BYTES - len(self._prefix)
                self._prefix += data[at : at + missing]
                at += missing
                if len(self._prefix) < PREFIX_BYTES:
                    return
                self._left_bytes = int.from_bytes(self._prefix[1:])
                if self._prefix[0] > 1:
                    raise BadPayload("the compressed flag of a gRPC message is neither 0 nor 1")
                if self._left_bytes > max_bytes:
                    raise TooLong
            part = data[at : at + self._left_bytes] if at or len(data) > self._left_bytes else data
            at += len(part)
            self._left_bytes -= self._body.write(part)
            if self._left_bytes:
                return
            message = Message(self._body.getvalue(), self._prefix[0] == 1)
            self._prefix, self._body = b"", BytesIO()
            yield message
            if at >= len(data):
                return


class TooLong(Exception):
    """A message announces more bytes than it may have."""


def framed(message: bytes) -> bytes:
    """*message*, uncompressed, with its prefix."""
    return b"\0" + len(message).to_bytes(4) + message


def timeout_s(value: str | None) -> float | None:
    """`grpc-timeout` in seconds; None where a call has no deadline. Raises BadPayload."""
    if value is None:
        return None
    digits, unit = value[:-1], _UNITS_S.get(value[-1:])
    if unit is None or not (digits.isascii() and digits.isdigit()) or len(digits) > MAX_TIMEOUT_DIGITS:
        raise BadPayload("grpc-timeout must be up to 8 digits and one of H, M, S, m, u, n")
    return int(digits) * unit


def metadata_in(fields: Iterable[tuple[bytes, bytes]]) -> CIMultiDict[str]:
    """The header fields of a request as HTTP has them; pseudo-headers keep their colon."""
    return CIMultiDict((name.decode("latin-1"), value.decode("utf-8", "surrogateescape")) for name, value in fields)


def status_fields(code: int, message: str = "", details: Iterable[tuple[bytes, bytes]] = ()) -> Fields:
    """The trailers of a call. *details*: binary metadata, whose names end in `-bin`."""
    fields = [(b"grpc-status", b"%d" % code)]
    if message:
        fields.append((b"grpc-message", quote(message, safe=_PLAIN).encode("ascii")))
    return [*fields, *((name, b64encode(value).rstrip(b"=")) for name, value in details)]
