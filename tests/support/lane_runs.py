"""Running a pump under a clock that a test moves: until something is true, with every
pause skipped and none slept.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from exporters.base import Exporter
from exporters.destination import Destination
from exporters.pump import BatchLimits, Pump
from spool.store import BrakeStore, LaneStore
from tests.support.manual_clock import ManualClock
from tests.support.polling import HANGS_S

LANE = "ai_telemetry"


@asynccontextmanager
async def running_pump(
    store: LaneStore,
    exporter: Exporter,
    clock: ManualClock,
    *,
    lane: str = LANE,
    limits: BatchLimits | None = None,
    chance: Callable[[], float] = lambda: 0.5,
    destination: Destination | None = None,
    brake: BrakeStore | None = None,
) -> AsyncIterator[Pump]:
    pump = Pump(
        lane,
        store,
        exporter,
        limits=limits or BatchLimits(),
        clock=clock,
        chance=chance,
        destination=destination,
        brake=brake,
    )
    running = asyncio.create_task(pump.run())
    try:
        yield pump
    finally:
        if not running.done():
            await pump.stop(0.0)
        await asyncio.gather(running, return_exceptions=True)
        if not running.cancelled() and (error := running.exception()) is not None:
            raise error


async def until(true: Callable[[], bool]) -> None:
    """Let the loop go round until the condition is true; the clock stands still."""
    ends_at_s = time.monotonic() + HANGS_S
    while not true():
        assert time.monotonic() < ends_at_s, "it never came true"
        await asyncio.sleep(0)


async def skip_pauses_until(true: Callable[[], bool], pump: Pump, clock: ManualClock) -> None:
    """The same, but when the lane is closed with nothing under way, time moves to when it opens."""
    ends_at_s = time.monotonic() + HANGS_S
    while not true():
        assert time.monotonic() < ends_at_s, f"it never came true; the lane is {pump.state}: {pump.reason}"
        await asyncio.sleep(0)
        closed_s = pump.opens_at_s - clock.now_s
        if not pump.in_flight and closed_s > 0:
            await asyncio.sleep(0)
            clock.advance(closed_s)


def is_held_for_good(pump: Pump) -> bool:
    """Whether a hold closed the lane and nothing is under way; its `state` is `held` before that,
    too, while answers are narrowed down.
    """
    return pump._pacing.state == "held" and not pump.in_flight
