"""Whether the upstream is there and takes a key (wire contract 6.6): asked at the start, and again
when a lane was silent for long. Never fatal: nothing waits for it, and no lane's state follows from
it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from exporters.clock import Clock
from exporters.cost_service.liveness import Liveness
from gateway.observability.metrics import UpstreamStatus
from spool.clock import rfc3339_ms

log = structlog.get_logger()

SILENT_S: Final = 15 * 60.0
LOOK_S: Final = 30.0
"""Between two looks at how long the lanes were silent."""


class UpstreamLiveness:
    """Make inside a running loop; `run` until cancelled."""

    def __init__(
        self,
        check: Callable[[], Awaitable[Liveness]],
        last_successes: Callable[[], Sequence[float | None]],
        clock: Clock,
        now_ms: Callable[[], int],
    ) -> None:
        """*last_successes*: of each lane to the upstream, when a batch was delivered last by
        *clock*; None for never. *now_ms* is the wall clock.
        """
        self._check = check
        self._last_successes = last_successes
        self._clock = clock
        self._now_ms = now_ms
        self._never = asyncio.Event()
        self._found: Liveness | None = None
        self._checked_s = float("-inf")
        self._checked_ms: int | None = None

    async def run(self) -> None:
        """Ask now, and whenever it is due."""
        while True:
            if self.is_due():
                await self.look()
            await self._clock.wait(self._never, LOOK_S)

    def is_due(self) -> bool:
        """Whether some lane had no success for `SILENT_S`, and no one asked in that time."""
        since_s = self._clock.monotonic_s() - SILENT_S
        if self._checked_ms is None:
            return True
        return self._checked_s < since_s and any(at_s is None or at_s < since_s for at_s in self._last_successes())

    async def look(self) -> None:
        """Ask once; what is found new is logged."""
        found = await self._check()
        if found not in (self._found, "no_key"):  # else no key of ours may ask; each lane's first answer states
            log.info("upstream looked for", found=found)
        self._found, self._checked_s, self._checked_ms = found, self._clock.monotonic_s(), self._now_ms()

    def status(self) -> UpstreamStatus:
        """What was found last, and the latest success of any lane, which counts as a sign of life
        where no key may ask.
        """
        successes = [at_s for at_s in self._last_successes() if at_s is not None]
        ago_s = self._clock.monotonic_s() - max(successes) if successes else None
        return {
            "liveness": self._found,
            "checked_at": None if self._checked_ms is None else rfc3339_ms(self._checked_ms),
            "last_success_at": None if ago_s is None else rfc3339_ms(self._now_ms() - round(ago_s * 1000)),
        }
