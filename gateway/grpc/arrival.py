"""A call's message, read within the budget of all requests.

The transport hands a message over whole, and its size is not known before. What can have arrived is
taken from the budget as time passes instead: at first what a window lets in unread, and with each
further step twice as much, up to the limit of one message. So a message that is here already costs
its size; one that is slow costs what a fast link could have brought in that time, and where that
does not fit its sender is asked to come again.
"""

import asyncio
from typing import Any, Final, NamedTuple

from grpc import aio

from gateway.contract.errors import BadPayload, Overloaded
from gateway.receiver.body import Hold, Limits, too_large

WINDOW_BYTES: Final = 64 * 1024
"""What HTTP/2 lets in of a stream that is not read."""
STEP_S: Final = 0.1
FIRST_STEP_BYTES: Final = 1024 * 1024


class Arrived(NamedTuple):
    message: bytes
    """As it was sent, compressed or not."""
    is_late: bool
    """It took a step or longer."""


async def read_message(context: Any, limits: Limits, hold: Hold) -> Arrived:
    """The message of a call, held at its size.

    Raises TooLarge, Overloaded, BadPayload (there is none); CancelledError when its sender went
    away.
    """
    most = limits.max_body_bytes
    taken_bytes, step_bytes, waited_s = 0, min(WINDOW_BYTES, most), 0.0
    reading = asyncio.ensure_future(context.read())
    try:
        while not reading.done():
            hold.take(step_bytes)
            taken_bytes += step_bytes
            done, _ = await asyncio.wait({reading}, timeout=STEP_S)
            if done:
                break
            waited_s += STEP_S
            if waited_s >= limits.body_timeout_s:
                raise Overloaded("the message did not arrive in time")
            step_bytes = min(max(FIRST_STEP_BYTES, step_bytes * 2), most - taken_bytes)
        message = await reading
    finally:
        reading.cancel()
    if message is aio.EOF:
        await asyncio.sleep(STEP_S)  # where the transport ended the call, it is cancelled meanwhile
        raise BadPayload("the call holds no message")
    if len(message) > most:
        raise too_large("the message", most, "max_body_bytes")
    hold.give(taken_bytes)
    hold.take(len(message))
    return Arrived(message, waited_s > 0)
