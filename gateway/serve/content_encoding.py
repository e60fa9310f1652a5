"""Content codings: compressed bytes -> blocks of plain bytes, each bounded. Pure.

A decoder gives blocks of at most `BLOCK_BYTES`, so that the caller who sums them stops a bomb one
block after the limit. Input is fed in slices of `SLICE_BYTES`: the libraries copy what they have
not consumed yet, which over a whole body is quadratic. A slice that gives nothing is an empty
block, so that the caller can stop there, too.
"""

import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

from gateway.common.contract.errors import BadPayload, UnsupportedMedia

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BLOCK_BYTES = 256 * 1024
SLICE_BYTES = 8 * 1024

MAX_MEMBERS = 1024
"""Members of one gzip body (frames of one zstd body). Each costs a fresh decoder, so
their number is bounded too."""

ZSTD_WINDOW_LOG = 23
"""8 MiB: the most that a sender may ask for in the `zstd` content coding (RFC 9659)."""

GZIP_WBITS = 16 + zlib.MAX_WBITS
RAW_DEFLATE_WBITS = -zlib.MAX_WBITS


Decode = Callable[[bytes], Iterator[bytes]]
"""A body -> its plain bytes, in blocks of up to BLOCK_BYTES. The iterator raises BadPayload."""


class Inflater(Protocol):
    """One member being decompressed."""

    @property
    def eof(self) -> bool:
        """The member's end was seen."""

    @property
    def unused_data(self) -> bytes:
        """What was fed behind the member's end."""

    def feed(self, data: bytes) -> bytes:
        """At most BLOCK_BYTES of output; call again with b"" until it gives b""."""


class ZlibInflater:
    """zlib, gzip or raw deflate, by *wbits*."""

    def __init__(self, wbits: int) -> None:
        self._inflate = zlib.decompressobj(wbits)

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def feed(self, data: bytes) -> bytes:
        if self._inflate.eof:
            return b""
        try:
            return self._inflate.decompress(self._inflate.unconsumed_tail + data, BLOCK_BYTES)
        except zlib.error as error:
            raise BadPayload("the compressed body is damaged") from error


class ZstdInflater:
    def __init__(self) -> None:
        self._inflate = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG})

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def feed(self, data: bytes) -> bytes:
        if self._inflate.eof:
            return b""
        try:
            return self._inflate.decompress(data, BLOCK_BYTES)
        except zstd.ZstdError as error:
            raise BadPayload("the compressed body is damaged") from error


def gzip_blocks(body: bytes) -> Iterator[bytes]:
    """Blocks of a gzip body of one or more members."""
    return member_blocks(body, lambda: ZlibInflater(GZIP_WBITS), max_members=MAX_MEMBERS)


def deflate_blocks(body: bytes) -> Iterator[bytes]:
    """Blocks of a zlib stream, or of the raw deflate that some clients send under the same name."""
    wbits = zlib.MAX_WBITS if has_zlib_header(body) else RAW_DEFLATE_WBITS
    return member_blocks(body, lambda: ZlibInflater(wbits), max_members=1)


def zstd_blocks(body: bytes) -> Iterator[bytes]:
    """Blocks of a zstd body of one or more frames."""
    return member_blocks(body, ZstdInflater, max_members=MAX_MEMBERS)


DECODERS: dict[str, Decode | None] = {
    "": None,
    "identity": None,
    "gzip": gzip_blocks,
    "x-gzip": gzip_blocks,
    "deflate": deflate_blocks,
    "zstd": zstd_blocks,
}
"""Content-Encoding, lower case -> its decoder; None where the body is plain."""


def decoder_for(content_encoding: str) -> Decode | None:
    """The decoder of a Content-Encoding header's value; None for a
    plain body. Raises UnsupportedMedia.
    """
    try:
        return DECODERS[content_encoding.strip().lower()]
    except KeyError:
        raise UnsupportedMedia("Content-Encoding must be gzip, deflate, zstd or identity") from None


def has_zlib_header(body: bytes) -> bool:
    """RFC 1950: method 8, and the first two bytes as a number are a multiple of 31."""
    return len(body) >= 2 and body[0] & 0x0F == 8 and int.from_bytes(body[:2]) % 31 == 0  # noqa: PLR2004 - RFC 1950


def member_blocks(body: bytes, fresh: Callable[[], Inflater], *, max_members: int) -> Iterator[bytes]:
    """Decompress members one after the other. Raises BadPayload when one is damaged or cut,
    or when bytes follow the last.

    An empty body is no member, and is refused as cut.
    """
    slices = body_slices(body)
    rest = next(slices, b"")
    for _ in range(max_members):
        inflater = fresh()
        while True:
            block = inflater.feed(rest)
            yield block
            while block:
                block = inflater.feed(b"")
                yield block
            if inflater.eof:
                break
            rest = next(slices, b"")
            if not rest:
                raise BadPayload("the compressed body is cut short")
        rest = inflater.unused_data or next(slices, b"")
        if not rest:
            return
    raise BadPayload("bytes follow the end of the compressed body")


def body_slices(body: bytes) -> Iterator[bytes]:
    view = memoryview(body)
    return (bytes(view[at : at + SLICE_BYTES]) for at in range(0, len(body), SLICE_BYTES))
