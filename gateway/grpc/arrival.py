"""A call's message, read within the budget of all requests.

The transport hands a message over whole, and its size is not known before. So while it is on its
way, what its connection received since is held for it, as the system counts that; on a Unix
socket, where nothing counts, twice as much with each step. It is held twice, as its pieces are
joined in the end. A message that is here already costs its size, and one that no byte comes of a
window. Where more does not fit, its sender is asked to come again.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from grpc import aio

from gateway.contract.errors import BadPayload, Overloaded
from gateway.grpc.connections import Connections
from gateway.receiver.body import Hold, Limits, too_large

WINDOW_BYTES: Final = 64 * 1024
"""What HTTP/2 lets in of a stream that is not read."""
SOON_S: Final = 0.01
"""Most messages are here by then, and nothing is asked about their connection."""
STEP_S: Final = 0.1
COPIES: Final = 2
"""Of a message that is on its way: its pieces, and the whole that they are joined to."""
FIRST_STEP_BYTES: Final = 1024 * 1024
"""For what came before the connection was first asked."""


_READING: Final[set[asyncio.Task[Any]]] = set()
"""Held, as the loop holds no task."""


class Arrived(NamedTuple):
    message: bytes
    """As it was sent, compressed or not."""
    is_late: bool
    """It took a step or longer."""


async def read_message(context: Any, connections: Connections, limits: Limits, hold: Hold) -> Arrived:
    """The message of a call, held at its size.

    Raises TooLarge, Overloaded, BadPayload (there is none); CancelledError when its sender went
    away.
    """
    held_bytes = min(WINDOW_BYTES, limits.max_body_bytes)
    hold.take(held_bytes)
    is_late = False
    reading = read_by_itself(context)
    if not await is_done(reading, SOON_S):
        came_bytes = came_since(connections, context.peer())
        waited_s = SOON_S
        while not await is_done(reading, STEP_S):
            is_late = True
            waited_s += STEP_S
            if waited_s >= limits.body_timeout_s:
                raise Overloaded("the message did not arrive in time")
            here_bytes = min(came_bytes(held_bytes), limits.max_body_bytes) * COPIES
            here_bytes = min(here_bytes, max(limits.max_body_bytes, hold.limit_bytes // 2))
            hold.take(max(0, here_bytes - held_bytes))
            held_bytes = max(held_bytes, here_bytes)
    message = reading.result()
    if message is aio.EOF:
        await asyncio.sleep(STEP_S)  # where the transport ended the call, it is cancelled meanwhile
        raise BadPayload("the call holds no message")
    if len(message) > limits.max_body_bytes:
        raise too_large("the message", limits.max_body_bytes, "max_body_bytes")
    hold.give(held_bytes)
    hold.take(len(message))
    return Arrived(message, is_late)


def read_by_itself(context: Any) -> asyncio.Task[Any]:
    """The read of a call, which is never cancelled: it ends with its call. grpc frees the message
    of a read that ends, and never that of one that was cancelled.
    """
    reading = asyncio.create_task(context.read())
    _READING.add(reading)
    reading.add_done_callback(_forget)
    return reading


def _forget(reading: asyncio.Task[Any]) -> None:
    _READING.discard(reading)
    if not reading.cancelled():
        reading.exception()  # of a call that was ended; no one else asks for it


async def is_done(reading: asyncio.Future[Any], within_s: float) -> bool:
    """Whether it ended, which it may still do."""
    done, _ = await asyncio.wait({reading}, timeout=within_s)
    return bool(done)


def came_since(connections: Connections, peer: str) -> Callable[[int], int]:
    """From now on: how much of the message there may be at most, given what is held for it."""
    begun_bytes = connections.received_bytes(peer)

    def came_bytes(held_bytes: int) -> int:
        now_bytes = connections.received_bytes(peer)
        if begun_bytes is None or now_bytes is None:
            return max(held_bytes, FIRST_STEP_BYTES)
        came = now_bytes - begun_bytes
        return came + FIRST_STEP_BYTES if came else 0

    return came_bytes
