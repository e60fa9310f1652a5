"""A call's message, read within the budget of all requests.

The transport hands a message over whole, and its size is not known before. So while it is on its
way, what its connection received since is held for it, as the system counts that; on a Unix
socket, where nothing counts, a quarter more with each step. It is held twice, as its pieces are
joined in the end. A message that is here already costs its size, and one of which nothing has come
yet costs a window. Where more does not fit, its sender is asked to come again.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, NamedTuple

from grpc import aio

from gateway.contract.errors import BadPayload, Overloaded
from gateway.grpc.connections import Connections
from gateway.receiver.body import Hold, Limits, too_large

WINDOW_BYTES: Final = 64 * 1024
"""What HTTP/2 accepts of a stream that is not read."""
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
"""The transport cancels a call that it ended itself within this time."""
FRAMES_BYTES: Final = 1024
"""Of a call, its headers; and one in so many bytes frames its message: at most."""
FRAMES_OF: Final = 64


_READING: Final[set[asyncio.Task[Any]]] = set()
"""Held, as the loop holds no task."""


class Arrived(NamedTuple):
    message: bytes
    """As it was sent, compressed or not."""
    is_late: bool
    """It was not here at once."""


class Awaited:
    """A message on its way."""

    __slots__ = ("_came_bytes", "_hold", "_limits", "held_bytes", "refused")

    def __init__(self, hold: Hold, limits: Limits, held_bytes: int) -> None:
        self._hold, self._limits = hold, limits
        self._came_bytes = 0.0
        self.held_bytes = held_bytes
        self.refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Never done but by Overloaded."""

    def counted(self, n_bytes: float) -> None:
        """*n_bytes* more may be of this message; as many less where negative."""
        self._came_bytes = max(0.0, self._came_bytes + n_bytes)
        # As much again for what came before the connection was asked, and comes until it is again.
        self._may_have(int(2 * self._came_bytes))

    def uncounted(self) -> None:
        """A step passed on a connection of which no one knows what came."""
        self._may_have(self.held_bytes * 5 // 4 // COPIES)

    def over_bytes(self, message_bytes: int) -> float:
        """What was counted for it beyond its size, which it is known to have now, and beyond what
        stands around it; negative where less was.
        """
        over = self._came_bytes - message_bytes
        return over if over < 0 else max(0.0, over - FRAMES_BYTES - message_bytes / FRAMES_OF)

    def _may_have(self, n_bytes: int) -> None:
        """Hold what is needed for *n_bytes*."""
        if self.refused.done():
            return
        most = self._limits.max_body_bytes
        here_bytes = min(n_bytes, most) * COPIES
        here_bytes = min(here_bytes, max(most, self._hold.limit_bytes // 2))
        if here_bytes > self.held_bytes:
            try:
                self._hold.take(here_bytes - self.held_bytes)
            except Overloaded as error:
                self._hold.give(self.held_bytes)  # at once: others look for room in the same step
                self.held_bytes = 0
                self.refused.set_exception(error)
            else:
                self.held_bytes = here_bytes


class Turns:
    """Of one sender, to begin a read."""

    __slots__ = ("free", "users")

    def __init__(self) -> None:
        self.free = asyncio.Semaphore(NEW_AT_ONCE // 2)
        self.users = 0
        """Who has one, or waits."""


class Arrivals:
    """The messages on their way, by their connection, each of which is asked once a step. What a
    connection received is shared by the messages that it brings, and put right when one is whole.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._awaited: dict[str, dict[Awaited, None]] = {}
        """Both in the order in which they began."""
        self._received: dict[str, int | None] = {}
        """By each connection, when it was asked last."""
        self._watching: asyncio.Task[None] | None = None
        self._new = asyncio.Semaphore(NEW_AT_ONCE)
        self._turns: dict[str | None, Turns] = {}
        """By sender, of those whose reads begin."""

    @asynccontextmanager
    async def beginning(self, owner: str | None) -> AsyncIterator[None]:
        """A read begins while the block runs: one of `NEW_AT_ONCE`, of one sender half of them."""
        turns = self._turns.setdefault(owner, Turns())
        turns.users += 1
        try:
            async with turns.free, self._new:
                yield
        finally:
            turns.users -= 1
            if not turns.users:
                del self._turns[owner]

    @contextmanager
    def awaiting(self, peer: str, hold: Hold, limits: Limits, held_bytes: int) -> Iterator[Awaited]:
        """A message of *peer* is on its way while the block runs."""
        awaited = Awaited(hold, limits, held_bytes)
        beside = self._awaited.setdefault(peer, {})
        if not beside:
            self._received[peer] = self._connections.received_bytes(peer)
        beside[awaited] = None
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch(), name="grpc-arrivals")
        try:
            yield awaited
        finally:
            if not awaited.refused.cancel():
                awaited.refused.exception()  # the message came at the same time
            del beside[awaited]
            if not beside:
                del self._awaited[peer]
                del self._received[peer]

    def came(self, peer: str, message_bytes: int, awaited: Awaited | None = None) -> None:
        """A message of *peer* is whole, which was *awaited* or came at once: what was counted for
        others and was of this one is taken from them, and the other way round.
        """
        others = [other for other in self._awaited.get(peer, ()) if other is not awaited]
        over = -message_bytes if awaited is None else awaited.over_bytes(message_bytes)
        for other in others:
            other.counted(over / len(others))

    async def _watch(self) -> None:
        """Until no message is awaited."""
        try:
            while self._awaited:
                await asyncio.sleep(max(STEP_S, len(self._awaited) * STEP_S_PER_CONNECTION))
                self.look()
        finally:
            self._watching = None

    def look(self) -> None:
        """Ask each connection once. The youngest message is first, so that an older one finds the
        room of what was refused.
        """
        for peer, beside in reversed(list(self._awaited.items())):
            received_bytes, before = self._connections.received_bytes(peer), self._received[peer]
            self._received[peer] = received_bytes
            for each in reversed(list(beside)):
                if received_bytes is None:
                    each.uncounted()
                elif received_bytes != before:
                    each.counted((received_bytes - (before or 0)) / len(beside))


async def read_message(context: Any, arrivals: Arrivals, limits: Limits, hold: Hold) -> Arrived:
    """The message of a call, held at its size.

    Raises TooLarge, Overloaded, BadPayload (there is none); CancelledError when its sender went
    away.
    """
    held_bytes = min(WINDOW_BYTES, limits.max_body_bytes)
    hold.take(held_bytes)
    async with arrivals.beginning(hold.owner):
        reading = read_by_itself(context)
        is_late = not await is_done(reading, SOON_S)
    peer = context.peer()
    if not is_late:
        arrivals.came(peer, size_of(reading))
    else:
        with arrivals.awaiting(peer, hold, limits, held_bytes) as awaited:
            await asyncio.wait(
                {reading, awaited.refused}, timeout=limits.body_timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            if awaited.refused.done():
                awaited.refused.result()
            held_bytes = awaited.held_bytes
            if reading.done():
                arrivals.came(peer, size_of(reading), awaited)
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


def size_of(reading: asyncio.Task[Any]) -> int:
    """Bytes of the message that was read; 0 where the call ended without one."""
    if reading.cancelled() or reading.exception() is not None:
        return 0
    message = reading.result()
    return 0 if message is aio.EOF else len(message)


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
