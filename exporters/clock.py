"""Time as the pumps see it: a monotonic clock, and a wait that an event cuts short.

Tests move a clock of their own.
"""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    def monotonic_s(self) -> float:
        """Seconds since some fixed moment; never goes back, whatever the wall clock does."""

    async def wait(self, event: asyncio.Event, timeout_s: float) -> None:
        """Return when *event* is set or *timeout_s* went by, whichever is first."""


class SystemClock:
    def monotonic_s(self) -> float:
        return time.monotonic()

    async def wait(self, event: asyncio.Event, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                await event.wait()
        except TimeoutError:
            return
