"""A body of one JSON document a line, taken in pieces of whole lines while it arrives, so
that its size costs no memory.

Whatever is no such body (one document, an array, a body that fits into one piece) comes as a
single piece, within the limits of every other request. A compressed body is read whole, as it
came, and undone piece by piece.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from io import BytesIO
from typing import NamedTuple

import orjson
from aiohttp import web

from gateway.common.contract.errors import BadPayload, GatewayError, Overloaded, TooLarge
from gateway.common.http.arriving_body import invite, next_bytes
from gateway.products.documents import BOM
from gateway.read.json_size import has_more_values
from gateway.serve.body import MIB, BodyLimits, Hold, arriving_body, too_large
from gateway.serve.content_encoding import Decode, gzip_blocks
from gateway.serve.decompression import Decompression

PIECE_BYTES = MIB
MAX_STREAMED_BYTES = 1024 * MIB
"""Of one body, plain."""
SMALL_BLOCK_BYTES = 16 * 1024
MANY_SMALL_BYTES = 64 * 1024
MAX_LINE_BYTES = 4 * MIB
MAX_LINE_VALUES = 100_000
"""Of the first line of a body that is taken in pieces."""
BRACKETS = frozenset({b"{}", b"[]"})
NOT_MENDED = ("unexpected end", "after document")
"""In what orjson states of a text that is cut, or of several documents."""
NOT_BLANK = re.compile(rb"\S")
GZIP_BEGINS = b"\x1f"
"""No text begins with it. The first block may be this one byte."""


class Piece(NamedTuple):
    body: bytes
    first_line: int
    """Number of its first line in what was sent."""


async def pieces(
    request: web.BaseRequest, decode: Decode | None, limits: BodyLimits, hold: Hold
) -> AsyncIterator[Piece]:
    """The body, piece by piece; *hold* has what is in memory. Raises what `read_body` raises.

    Damage behind the first piece (a compressed body cut short) is raised when all that came
    whole before it was given.
    """
    cutter = Cutter(limits)
    damage: BadPayload | None = None
    try:
        async for block in plain_blocks(request, decode, limits, hold):
            piece = cutter.take(block)
            if piece is not None:
                yield piece
                hold.give(len(piece.body))
    except BadPayload as error:
        if cutter.line == 1:
            raise
        damage = error
    rest = cutter.rest(is_damaged=damage is not None)
    if rest is not None:
        yield rest
    if damage is not None:
        raise damage


class Cutter:
    """Cuts a body of lines into pieces; any other body it keeps until its end."""

    def __init__(self, limits: BodyLimits) -> None:
        self.line = 1
        """Number of the next piece's first line."""
        self._limits = limits
        self._first_blocks = Blocks()
        """Until a line ends."""
        self._buffer = bytearray()
        """From then on."""
        self._first = FirstLine()
        self._total = 0
        self._end = 0
        """Behind the last whole line in the buffer."""

    def take(self, block: bytes) -> Piece | None:
        """Add *block*; the piece that is full with it. Raises TooLarge."""
        self._total += len(block)
        last = block.rfind(b"\n")
        if not self._buffer and self.line == 1:
            if last < 0:
                self._first_blocks.add(block)
                if self._total >= PIECE_BYTES:
                    self._keep_below("the body is not one document a line, and")
                return None
            self._buffer += self._first_blocks.joined()
        if last >= 0:
            self._end = len(self._buffer) + last + 1
        self._buffer += block
        if len(self._buffer) < PIECE_BYTES:
            return None
        if not self._first.is_document(self._buffer):
            self._keep_below("the body is not one document a line, and")
            return None
        if self._total > MAX_STREAMED_BYTES:
            raise TooLarge(f"the body is larger than {MAX_STREAMED_BYTES} bytes")
        if not self._end:
            self._keep_below("one line")
            return None
        return self._cut(self._end)

    def rest(self, *, is_damaged: bool) -> Piece | None:
        """The last piece, of whole lines only where the body *is_damaged*; None for none."""
        if is_damaged:
            return self._cut(self._end) if self._end else None
        if not self._buffer and self.line == 1:
            return Piece(self._first_blocks.joined(), 1)
        return self._cut(len(self._buffer)) if self._buffer else None

    def _cut(self, end: int) -> Piece:
        piece = Piece(bytes(memoryview(self._buffer)[:end]), self.line)
        del self._buffer[:end]
        self._end = 0
        self.line += piece.body.count(b"\n")
        return piece

    def _keep_below(self, what: str) -> None:
        if max(len(self._buffer), self._first_blocks.n_bytes) > self._limits.max_decompressed_bytes:
            raise too_large(what, self._limits.max_decompressed_bytes, "max_decompressed_bytes")


class Blocks:
    """Bytes as they come, which are joined once; small blocks are joined at once, as each would
    take more than its bytes.
    """

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._small = bytearray()
        self.n_bytes = 0

    def add(self, block: bytes) -> None:
        self.n_bytes += len(block)
        if len(block) < SMALL_BLOCK_BYTES and len(self._small) < MANY_SMALL_BYTES:
            self._small += block
            return
        self._end_small()
        self._blocks.append(block)

    def joined(self) -> bytes:
        """All of it; nothing is left."""
        self._end_small()
        blocks, self._blocks, self.n_bytes = self._blocks, [], 0
        return b"".join(blocks)

    def _end_small(self) -> None:
        if self._small:
            self._blocks.append(bytes(self._small))
            self._small.clear()


class FirstLine:
    """Whether the first line that is not blank is a JSON document by itself;
    each byte of it is looked at once.
    """

    __slots__ = ("_begin", "_is_json", "_seen")

    def __init__(self) -> None:
        self._begin = self._seen = 0
        self._is_json: bool | None = None

    def is_document(self, buffer: bytearray) -> bool:
        """False while it is not whole yet.

        *buffer* is the body so far, and may begin anywhere once the answer was true.
        """
        while self._is_json is None:
            if self._begin == self._seen:  # blank lines are passed over at once: there may be millions
                found = NOT_BLANK.search(buffer, self._begin)
                self._begin = self._seen = len(buffer) if found is None else found.start()
            if (end := buffer.find(b"\n", self._seen)) < 0:
                break
            text = bytes(memoryview(buffer)[self._begin : end]).removeprefix(BOM).strip()
            if text:
                self._is_json = is_json(text)
            self._begin = self._seen = end + 1
        self._seen = len(buffer)
        return self._is_json is True


def is_json(text: bytes) -> bool:
    """Whether *text* is a document; never one that takes longer than some ten milliseconds to read,
    for this is done on the loop.

    What only a mended text would be (`gateway.read.loose_json`) is taken for one by its brackets.
    """
    if len(text) > MAX_LINE_BYTES or has_more_values(text, MAX_LINE_VALUES):
        return False
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return text[:1] + text[-1:] in BRACKETS and not any(words in error.msg for words in NOT_MENDED)
    return True


async def plain_blocks(
    request: web.BaseRequest, decode: Decode | None, limits: BodyLimits, hold: Hold
) -> AsyncIterator[bytes]:
    """The plain body as it comes, each block taken from *hold*.

    Gzip is known by its first byte too: files are sent as they lie.
    """
    if decode is not None:
        raw = await arriving_body(request, limits, hold)
    else:
        blocks = arriving_blocks(request, limits, hold)
        first = await anext(blocks, b"")
        if not first.startswith(GZIP_BEGINS):
            yield first
            async for block in blocks:
                yield block
            return
        raw, decode = await whole(first, blocks, limits), gzip_blocks
    undone = Decompression(raw, decode)
    while not undone.is_done:
        async with hold.rounds:
            block, damage = await asyncio.to_thread(undone_block, undone)
            hold.take(len(block))
        if block:
            yield block
        if damage is not None:
            raise damage


def undone_block(undone: Decompression) -> tuple[bytes, GatewayError | None]:
    """About a piece, and what was found wrong behind it; empty at the end."""
    taken = BytesIO()
    try:
        undone.write(taken, PIECE_BYTES)
    except (BadPayload, TooLarge) as error:
        return taken.getvalue(), error
    return taken.getvalue(), None


async def whole(first: bytes, blocks: AsyncIterator[bytes], limits: BodyLimits) -> bytes:
    """*first* and all that follows it. Raises TooLarge."""
    parts, size = [first], len(first)
    while size <= limits.max_body_bytes:
        block = await anext(blocks, b"")
        if not block:
            return b"".join(parts)
        parts.append(block)
        size += len(block)
    raise too_large("the body", limits.max_body_bytes, "max_body_bytes")


async def arriving_blocks(request: web.BaseRequest, limits: BodyLimits, hold: Hold) -> AsyncIterator[bytes]:
    """What is sent, as it comes, each block taken from *hold*."""
    invite(request)
    deadline = asyncio.get_running_loop().time() + limits.body_timeout_s
    try:
        while True:
            async with asyncio.timeout_at(deadline):
                block = await next_bytes(request)
            if not block:
                return
            hold.take(len(block))
            yield block
            deadline = max(deadline, asyncio.get_running_loop().time() + STALL_S)
    except TimeoutError:
        raise Overloaded("the body did not arrive in time") from None  # not 408: senders drop their data on it
    except web.RequestPayloadError:
        raise BadPayload("the body's transfer coding is damaged, or its chunks are too small") from None


STALL_S = 10.0
"""A body that is still coming after its time may go on as long as no block takes longer than this.
"""
