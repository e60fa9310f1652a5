"""Runs the detectors: every `ROUND_S`, on each request for insights, and when the gateway stops."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, Self

import structlog

from gateway.common.lists.conventions import ListRequest, Page
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.usage.insights.budgets import BUDGET_CAUSES
from gateway.usage.insights.detect import USAGE_CAUSES, Figures, detect
from gateway.usage.insights.finding import Finding, Insight
from gateway.usage.insights.home import InsightHome
from gateway.usage.insights.snapshot import Snapshot
from gateway.usage.insights.store import InsightStore
from gateway.usage.insights.thresholds import RETRYING_LANE_S
from gateway.usage.sums.following import UsageFollower
from gateway.usage.sums.tally import HOUR_MS
from spool.errors import SpoolError

log = structlog.get_logger()

ROUND_S: Final = 10.0
USAGE_S: Final = 60.0
"""Between two looks at the usage by the hour, which takes longest."""
ASKED_S: Final = 1.0
"""The same between requests."""


class Rounds:
    """Make with `open`; `run` until cancelled, then `last`."""

    def __init__(
        self,
        store: InsightStore,
        follower: UsageFollower,
        *,
        figures: Callable[[], Awaitable[Figures]],
        now_ms: Callable[[], int],
        monotonic_s: Callable[[], float] = time.monotonic,
        has_prices: bool = True,
    ) -> None:
        """*figures*: the current figures without the history, which is read here. *has_prices*: as
        in `Figures`.
        """
        self.store = store
        self.follower = follower
        self._figures = figures
        self._now_ms = now_ms
        self._monotonic_s = monotonic_s
        self._has_prices = has_prices
        self._began_s = monotonic_s()
        self._usage: list[Finding] = []
        self._usage_is_of = (-1, -1)
        self._looked_s = float("-inf")
        self._turn = asyncio.Lock()

    @classmethod
    async def open(cls, home: InsightHome, follower: UsageFollower, snapshot: Snapshot, *, has_prices: bool) -> Self:
        """With the store of insights at *home*. Raises DatabaseUnavailable."""
        store = await InsightStore.open(home, now_ms=snapshot.now_ms)
        return cls(
            store,
            follower,
            figures=snapshot,
            now_ms=snapshot.now_ms,
            monotonic_s=snapshot.monotonic_s,
            has_prices=has_prices,
        )

    async def run(self) -> None:
        """Count settled records and run the detectors, until cancelled; then call `last`."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.follower.run(), name="usage by the hour")
            tasks.create_task(self._run(), name="rounds")

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(ROUND_S)
            try:
                await self._round(USAGE_S)
            except Exception as error:  # noqa: BLE001 the next round repeats the work
                log.warning("insights could not be stored", error=type(error).__name__)

    async def asked(self) -> None:
        """Bring the insights up to date for a reader. Raises DatabaseUnavailable."""
        with suppress(SpoolError):  # then without the records that are not counted yet
            await self.follower.catch_up()
        await self._round(ASKED_S)

    async def page(self, request: ListRequest) -> Page:
        """A page of insights, up to date. Raises DatabaseUnavailable."""
        await self.asked()
        return await self.store.page(request)

    async def unsettled(self) -> Sequence[Insight]:
        """Insights that are still open; empty while the database cannot be read."""
        try:
            await self.asked()
            return await self.store.unsettled()
        except DatabaseUnavailable:
            return []

    async def last(self) -> None:
        """Count and note everything once more, so that it outlives the process."""
        try:
            await self.follower.catch_up()
            await self.follower.write()
            await self._round(0)
        except Exception as error:  # noqa: BLE001 - a stop goes on; what is not stored is counted at the next start
            log.warning("usage and insights were not stored at the stop", error=type(error).__name__)

    async def _round(self, usage_s: float) -> None:
        async with self._turn:
            await self._look_at_usage(usage_s)
            found = [*self._usage, *detect(await self._figures())]
            await self.store.note(found, remembered=self._remembered())

    def _remembered(self) -> frozenset[str]:
        """Causes whose findings this process knows completely."""
        runs_s = self._monotonic_s() - self._began_s
        remembered = BUDGET_CAUSES | (USAGE_CAUSES if self._usage_is_of[1] >= 0 else frozenset())
        if runs_s > ROUND_S:  # both were evaluated
            remembered |= {"dead_letters", "silent_device"}
        if runs_s > RETRYING_LANE_S + ROUND_S:  # a lane that is still stuck was found
            remembered |= {"held_lane"}
        return remembered

    async def _look_at_usage(self, usage_s: float) -> None:
        """Run the detectors of hourly usage, if records were counted or the hour changed."""
        now_s, now_ms = self._monotonic_s(), self._now_ms()
        usage_is_of = (self.follower.changes, now_ms // HOUR_MS)
        if usage_is_of != self._usage_is_of and now_s - self._looked_s >= usage_s:
            await self.follower.write()
            figures = Figures(now_ms, await self.follower.history(now_ms), has_prices=self._has_prices)
            self._usage = await asyncio.to_thread(detect, figures)  # comparing takes longest
            self._usage_is_of, self._looked_s = usage_is_of, now_s
