"""A call's message, read within the budget of all requests.

The transport hands a message over whole, and its size is not known before. So while it is on its
way, what its connection received since is held for it, as the system counts that; on a Unix
socket, where nothing counts, a quarter more with each step. It is held twice, as its pieces are
joined in the end. A message that is here already costs its size, and one that no byte comes of a
window. Where more does not fit, its sender is asked to come again.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from grpc import aio

from gateway.contract.errors import BadPayload, Overloaded
from gateway.grpc.connections import Connections
from gateway.receiver.body import Hold, Limits, too_large

WINDOW_BYTES: Final = 64 * 1024
"""What HTTP/2 lets in of a stream that is not read."""
SOON_S: Final = 0.01
"""Most messages are here by then, and nothing is asked about their connection."""
NEW_AT_ONCE: Final = 8
"""Reads that began less than SOON_S ago. The transport takes in all of a message that is read, so
that of many which begin together the later ones find the budget as the first have left it.
"""
STEP_S: Final = 0.02
STEP_S_PER_CONNECTION: Final = 0.0002
"""Asking the system about one takes some 15 µs."""
COPIES: Final = 2
"""Of a message that is on its way: its pieces, and the whole that they are joined to."""
EMPTY_S: Final = 0.1
"""Within which a call is cancelled that the transport ended."""


_READING: Final[set[asyncio.Task[Any]]] = set()
"""Held, as the loop holds no task."""


class Arrived(NamedTuple):
    message: bytes
    """As it was sent, compressed or not."""
    is_late: bool
    """It was not here at once."""


class Awaited:
    """A message on its way."""

    __slots__ = ("_held_bytes", "_hold", "_limits", "_seen_bytes", "refused")

    def __init__(self, hold: Hold, limits: Limits, held_bytes: int, seen_bytes: int | None) -> None:
        """*seen_bytes*: what its connection had received when it was first asked."""
        self._hold, self._limits = hold, limits
        self._held_bytes = held_bytes
        self._seen_bytes = seen_bytes
        self.refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Never done but by Overloaded."""

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    def step(self, received_bytes: int | None) -> None:
        """Hold what may have come, now that the connection *received_bytes*; None where nothing
        counts.
        """
        if self.refused.done():
            return
        most = self._limits.max_body_bytes
        here_bytes = min(self._may_have_come(received_bytes), most) * COPIES
        here_bytes = min(here_bytes, max(most, self._hold.limit_bytes // 2))
        if here_bytes > self._held_bytes:
            try:
                self._hold.take(here_bytes - self._held_bytes)
            except Overloaded as error:
                self._hold.give(self._held_bytes)  # at once: others look for room in the same step
                self._held_bytes = 0
                self.refused.set_exception(error)
            else:
                self._held_bytes = here_bytes

    def _may_have_come(self, received_bytes: int | None) -> int:
        if received_bytes is None:
            return self._held_bytes * 5 // 4 // COPIES
        if self._seen_bytes is None:  # its connection is younger than the last look at all of them
            self._seen_bytes = 0
        # As much again for what came before it was first asked, and comes before it is asked next.
        return 2 * (received_bytes - self._seen_bytes)


class Arrivals:
    """The messages on their way, by their connection, each of which is asked once a step."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._awaited: dict[str, set[Awaited]] = {}
        self._received: dict[str, int | None] = {}
        """By each connection, when it was asked last."""
        self._watching: asyncio.Task[None] | None = None
        self.new = asyncio.Semaphore(NEW_AT_ONCE)

    @contextmanager
    def awaiting(self, peer: str, hold: Hold, limits: Limits, held_bytes: int) -> Iterator[Awaited]:
        """A message of *peer* is on its way while the block runs."""
        awaited = Awaited(hold, limits, held_bytes, self._connections.received_bytes(peer))
        beside = self._awaited.setdefault(peer, set())
        beside.add(awaited)
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch(), name="grpc-arrivals")
        try:
            yield awaited
        finally:
            if not awaited.refused.cancel():
                awaited.refused.exception()  # the message came at the same time
            beside.discard(awaited)
            if not beside:
                del self._awaited[peer]
                self._received.pop(peer, None)

    async def _watch(self) -> None:
        """Until no message is awaited."""
        while self._awaited:
            await asyncio.sleep(max(STEP_S, len(self._awaited) * STEP_S_PER_CONNECTION))
            self.look()
        self._watching = None

    def look(self) -> None:
        """Ask each connection once. The youngest message is first, so that an older one finds the
        room of what was refused.
        """
        for peer, awaited in reversed(list(self._awaited.items())):
            received_bytes = self._connections.received_bytes(peer)
            if received_bytes is None or received_bytes != self._received.get(peer):
                self._received[peer] = received_bytes
                for each in awaited:
                    each.step(received_bytes)


async def read_message(context: Any, arrivals: Arrivals, limits: Limits, hold: Hold) -> Arrived:
    """The message of a call, held at its size.

    Raises TooLarge, Overloaded, BadPayload (there is none); CancelledError when its sender went
    away.
    """
    held_bytes = min(WINDOW_BYTES, limits.max_body_bytes)
    hold.take(held_bytes)
    async with arrivals.new:
        reading = read_by_itself(context)
        is_late = not await is_done(reading, SOON_S)
    if is_late:
        with arrivals.awaiting(context.peer(), hold, limits, held_bytes) as awaited:
            await asyncio.wait(
                {reading, awaited.refused}, timeout=limits.body_timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            if awaited.refused.done():
                awaited.refused.result()
            held_bytes = awaited.held_bytes
        if not reading.done():
            raise Overloaded("the message did not arrive in time")
    message = reading.result()
    if message is aio.EOF:
        await asyncio.sleep(EMPTY_S)  # where the transport ended the call, it is cancelled meanwhile
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
