"""Whose MCP request is answered next: a few at once, and of one caller fewer, so that no caller
holds up another one, the page or the senders.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from gateway.common.contract.errors import Overloaded

AT_ONCE: Final = 4
AT_ONCE_OF_CALLER: Final = 2
MAX_UNDER_WAY: Final = 32
"""Requests of one caller, with those that wait."""


class _Caller:
    def __init__(self) -> None:
        self.under_way = 0
        self.at_once = asyncio.Semaphore(AT_ONCE_OF_CALLER)


class Turns:
    def __init__(self) -> None:
        self._at_once = asyncio.Semaphore(AT_ONCE)
        self._callers: dict[str, _Caller] = {}
        """Those with a request under way."""

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncIterator[None]:
        """The turn of one request of the caller *name*. Raises Overloaded."""
        caller = self._callers.setdefault(name, _Caller())
        if caller.under_way >= MAX_UNDER_WAY:
            raise Overloaded(f"{MAX_UNDER_WAY} requests of this caller are under way: await an answer first")
        caller.under_way += 1
        try:
            async with caller.at_once, self._at_once:
                yield
        finally:
            caller.under_way -= 1
            if not caller.under_way:
                del self._callers[name]
