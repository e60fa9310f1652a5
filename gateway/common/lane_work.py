"""The work of a lane: a pump, and what goes on beside it, each repeated until the lane stops."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from exporters.pump import Pump

RESTART_S: Final = 1.0
"""Before work that ended by a fault begins again."""
GRACE_S: Final = 5.0
"""How long calls that are under way may take when the gateway stops."""


class LaneWork:
    """`start` inside a running loop, then `stop`."""

    def __init__(self, note_fault: Callable[[Exception], None]) -> None:
        """*note_fault* is called with what ended work, before it begins again."""
        self.is_stopping = False
        self._note_fault = note_fault
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, works: Mapping[str, Callable[[], Awaitable[None]]]) -> None:
        """*works*: name of the task -> what it repeats."""
        self._tasks = [asyncio.create_task(self._repeat(work), name=name) for name, work in works.items()]

    async def stop(self, pump: Pump) -> None:
        """Let calls of *pump* that are under way land, and end all work."""
        self.is_stopping = True
        await pump.stop(GRACE_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _repeat(self, work: Callable[[], Awaitable[None]]) -> None:
        while not self.is_stopping:
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - a fault must not end the lane
                self._note_fault(error)
                await asyncio.sleep(RESTART_S)
