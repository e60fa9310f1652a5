"""Request heads that repeat the one before them on their connection, byte for byte but for the
digits of `Content-Length`: exporters send the same head with every payload. Pure.

Such a head needs no second look by the HTTP parser: what it made of the first one is true of each
repeat, and the length of the body follows from the digits alone. Only a head that the parser read
as a plain POST of HTTP/1.1 with one `Content-Length` is learned: without transfer coding,
expectation, upgrade and closing of the connection.
"""

import re
from typing import Final, NamedTuple

from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

MAX_HEAD_BYTES: Final = 2048
"""Of a head that is kept for as long as its connection."""
MAX_DIGITS: Final = 9
END: Final = b"\r\n\r\n"

_LENGTH = re.compile(rb"\r\ncontent-length: ?([0-9]{1,%d})(?=\r\n)" % MAX_DIGITS, re.IGNORECASE)
_LENGTH_NAME: Final = "Content-Length"
_UPGRADE: Final = "Upgrade"
_CODING: Final = "Transfer-Encoding"
_FORBIDDEN: Final = (_CODING, "Expect", _UPGRADE)


class RepeatedHead(NamedTuple):
    """A head as it was read once."""

    before: bytes
    """Its bytes up to the digits of the length."""
    digits: bytes
    after: bytes
    """From behind the digits to the empty line."""
    target: str
    """As it was sent."""
    headers: CIMultiDictProxy[str]
    """What the parser made of it."""

    def request_in(self, data: bytes) -> tuple[bytes, bytes] | None:
        """The digits of the length and the body, where *data* is exactly one request with this
        head.
        """
        before, after = self.before, self.after
        if not data.startswith(before):
            return None
        at = len(before)
        stop = data.find(b"\r", at, at + MAX_DIGITS + 1)
        digits = data[at:stop]
        if stop < 0 or not digits.isdigit() or not data.startswith(after, stop):
            return None
        start = stop + len(after)
        if len(data) - start != int(digits):
            return None
        return digits, data[start:]

    def headers_with(self, digits: bytes) -> CIMultiDictProxy[str]:
        """The headers with the length that *digits* state."""
        if digits == self.digits:
            return self.headers
        headers = CIMultiDict(self.headers)
        headers[_LENGTH_NAME] = digits.decode()
        return CIMultiDictProxy(headers)


def learned(data: bytes, request: web.BaseRequest) -> RepeatedHead | None:
    """The head that *data* begins with and that aiohttp read as *request*; None where a repeat of
    it must be parsed again.
    """
    end = data.find(END, 0, MAX_HEAD_BYTES)
    if end < 0 or not _is_plain(request):
        return None
    head, headers = data[: end + 2], request.headers
    lengths = _LENGTH.findall(head)
    is_single = head.lower().count(b"content-length") == len(headers.getall(_LENGTH_NAME, ())) == 1
    is_by_lines = head.count(b"\n") == head.count(b"\r") == head.count(b"\r\n") == len(request.raw_headers) + 1
    if not is_single or not is_by_lines or len(lengths) != 1:
        return None
    found = _LENGTH.search(head)
    if found is None or found[1].decode() != headers[_LENGTH_NAME]:
        return None
    before, after = data[: found.start(1)], data[found.end(1) : end + len(END)]
    return RepeatedHead(before, found[1], after, request.raw_path, headers)


def _is_plain(request: web.BaseRequest) -> bool:
    return (
        request.method == "POST"
        and request.version == (1, 1)
        and request.keep_alive
        and not any(name in request.headers for name in _FORBIDDEN)
    )


def size_of(data: bytes, request: web.BaseRequest) -> int | None:
    """Bytes of the whole request that *data* begins with; None where its head does not state it."""
    end = data.find(END)
    if end < 0 or _CODING in request.headers or _UPGRADE in request.headers:
        return None
    length = request.headers.get(_LENGTH_NAME, "0")
    return end + len(END) + int(length) if length.isdigit() else None
