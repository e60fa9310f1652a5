"""Whose body is read next by a process that reads one after the other.

A sender who sends much waits behind one who sends little (start-time fair queueing): each body is
due when the process would be done with it if every sender had an equal share of its bytes.
"""

import asyncio
from heapq import heappop, heappush
from typing import Final, NamedTuple

MAX_UNDER_WAY: Final = 12
"""Bodies that are with the process at once, so that it has work while the event loop is busy."""


class _Waiting(NamedTuple):
    due: int
    number: int
    """In the order of arrival."""
    sender: str
    n_bytes: int
    turn: "asyncio.Future[None]"


class Turns:
    """Of one process. Bodies are with it at once up to *max_bytes*; a larger one by itself."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = self._under_way = self._numbers = 0
        self._now = 0
        """When the last body that began was due, in bytes."""
        self._due: dict[str, int] = {}
        """Of the last waiting body of each sender."""
        self._waiting: list[_Waiting] = []

    @property
    def is_idle(self) -> bool:
        return not self._under_way

    def is_free(self, n_bytes: int) -> bool:
        """Whether a body may begin at once."""
        return not self._waiting and self._has_room(n_bytes)

    async def begin(self, sender: str, n_bytes: int) -> None:
        """Wait for the turn of a body of *sender*; a caller that is cancelled has none. Call `end`
        when the process is done with it.
        """
        due = max(self._now, self._due.get(sender, 0)) + n_bytes
        if self.is_free(n_bytes):
            self._begin(due, n_bytes)
        else:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._numbers += 1
            heappush(self._waiting, _Waiting(due, self._numbers, sender, n_bytes, turn))
            self._due[sender] = due
            await self._wait(turn, n_bytes)

    async def _wait(self, turn: "asyncio.Future[None]", n_bytes: int) -> None:
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.end(n_bytes)
            raise

    def end(self, n_bytes: int) -> None:
        """A body that began is read."""
        self._bytes -= n_bytes
        self._under_way -= 1
        while self._waiting and (self._waiting[0].turn.done() or self._has_room(self._waiting[0].n_bytes)):
            due, _, sender, size, turn = heappop(self._waiting)
            if self._due.get(sender) == due:
                del self._due[sender]
            if not turn.done():
                self._begin(due, size)
                turn.set_result(None)

    def _has_room(self, n_bytes: int) -> bool:
        return not self._under_way or (self._under_way < MAX_UNDER_WAY and self._bytes + n_bytes <= self._max_bytes)

    def _begin(self, due: int, n_bytes: int) -> None:
        self._bytes += n_bytes
        self._under_way += 1
        self._now = max(self._now, due)
