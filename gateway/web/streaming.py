"""A body of one JSON document a line, taken in pieces of whole lines while it arrives, so that its size costs no memory.

Whatever is no such body (one document, an array, a body that fits into one piece) comes as a single piece, within the limits
of every other request. A compressed body is read whole, as it came, and undone piece by piece.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

import orjson
from aiohttp import web

from gateway.errors import BadPayload, Overloaded, TooLarge
from gateway.web.body import MIB, Hold, Limits, arriving_body, invite, next_blocks
from gateway.web.coding import Decode

PIECE_BYTES = MIB
MAX_STREAMED_BYTES = 1024 * MIB
"""Of one body, plain."""


class Piece(NamedTuple):
    body: bytes
    first_line: int
    """Number of its first line in what was sent."""


async def pieces(request: web.BaseRequest, decode: Decode | None, limits: Limits, hold: Hold) -> AsyncIterator[Piece]:
    """The body, piece by piece; *hold* has what is in memory. Raises what `read_body` raises."""
    blocks = plain_blocks(request, decode, limits, hold)
    buffer = bytearray()
    line, total, is_lines = 1, 0, False
    async for block in blocks:
        total += len(block)
        buffer += block
        if len(buffer) < PIECE_BYTES:
            continue
        is_lines = is_lines or begins_with_a_line(buffer)
        if not is_lines:
            if len(buffer) > limits.max_decompressed_bytes:
                raise TooLarge(
                    f"the body is larger than {limits.max_decompressed_bytes} bytes and not one document a line"
                )
            continue
        if total > MAX_STREAMED_BYTES:
            raise TooLarge(f"the body is larger than {MAX_STREAMED_BYTES} bytes")
        end = buffer.rfind(b"\n") + 1
        if not end:
            if len(buffer) > limits.max_decompressed_bytes:
                raise TooLarge(f"one line is larger than {limits.max_decompressed_bytes} bytes")
            continue
        piece = bytes(memoryview(buffer)[:end])
        del buffer[:end]
        yield Piece(piece, line)
        hold.give(len(piece))
        line += piece.count(b"\n")
    if buffer or line == 1:
        yield Piece(bytes(buffer), line)


def begins_with_a_line(buffer: bytearray) -> bool:
    """Whether the first line that is not blank is a JSON document by itself."""
    start = 0
    while (end := buffer.find(b"\n", start)) >= 0:
        first = bytes(buffer[start:end]).strip()
        if first:
            try:
                orjson.loads(first)
            except orjson.JSONDecodeError:
                return False
            return True
        start = end + 1
    return False


async def plain_blocks(
    request: web.BaseRequest, decode: Decode | None, limits: Limits, hold: Hold
) -> AsyncIterator[bytes]:
    """The plain body as it comes, each block taken from *hold*."""
    if decode is not None:
        raw = await arriving_body(request, limits, hold)
        undone = decode(raw)
        while True:
            more = await asyncio.to_thread(next_blocks, undone, PIECE_BYTES)
            if not more:
                return
            block = b"".join(more)
            hold.take(len(block))
            yield block
    invite(request)
    deadline = asyncio.get_running_loop().time() + limits.body_timeout_s
    try:
        while True:
            async with asyncio.timeout_at(deadline):
                block = await request.content.readany()
            if not block:
                return
            hold.take(len(block))
            yield block
            deadline = max(deadline, asyncio.get_running_loop().time() + STALL_S)
    except TimeoutError:
        raise Overloaded("the body did not arrive in time") from None  # not 408: senders drop their data on it
    except web.RequestPayloadError:
        raise BadPayload("the body's transfer coding is damaged") from None


STALL_S = 10.0
"""A body that is still coming after its time may go on as long as no block takes longer than this."""
