"""A clock that stands still until a test moves it; waits end by their
event or when the time has come.
"""

import asyncio


class ManualClock:
    def __init__(self, now_s: float = 1000.0) -> None:
        self.now_s = now_s
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def monotonic_s(self) -> float:
        return self.now_s

    async def wait(self, event: asyncio.Event, timeout_s: float) -> None:
        due = asyncio.Event()
        sleeper = (self.now_s + timeout_s, due)
        self._sleepers.append(sleeper)
        waits = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(due.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._sleepers.remove(sleeper)
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    def next_due_s(self) -> float | None:
        """Seconds until the first sleeper wakes; None when no one sleeps."""
        return min((due_s - self.now_s for due_s, _ in self._sleepers), default=None)

    def advance(self, seconds: float) -> None:
        self.now_s += seconds
        for due_s, due in self._sleepers:
            if due_s <= self.now_s:
                due.set()
