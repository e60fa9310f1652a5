"""Bounded gzip decompression. Pure."""

import zlib

_GZIP = 16 + zlib.MAX_WBITS


class NotGzip(ValueError):
    """Not gzip, or truncated."""


class TooLong(ValueError):
    """The content is larger than the bound."""


def gunzip(data: bytes, max_bytes: int) -> bytes:
    """The content of one or more gzip members. Holds at most *max_bytes* + 1 of it."""
    parts: list[bytes] = []
    room = max_bytes
    while data or not parts:
        member = zlib.decompressobj(_GZIP)
        try:
            part = member.decompress(data, room + 1)
        except zlib.error as error:
            raise NotGzip("the body is not gzip") from error
        if len(part) > room:
            raise TooLong
        if not member.eof:
            raise NotGzip("the gzip body is cut off")
        parts.append(part)
        room -= len(part)
        data = member.unused_data
    return b"".join(parts)
