"""A spool in memory: plain lists behind the protocols of `spool.store`, for the same tests as the
one on a disk. Used on the event loop's thread.

What a commit leaves is a `Disk`; a kill leaves a copy of it.
"""

from collections.abc import Callable, Mapping
from typing import Any

from spool.age import Seen
from spool.dead_letters import DeadLetterSummary
from spool.histogram import ANSWER_S, Histogram
from spool.record import Lane
from spool.unit_cost import Rules
from tests.support.spool_in_memory import upkeep
from tests.support.spool_in_memory.counting import Counting
from tests.support.spool_in_memory.disk import Disk
from tests.support.spool_in_memory.events import EventsInMemory
from tests.support.spool_in_memory.letters import LettersInMemory, by_reason
from tests.support.spool_in_memory.sending import Sending
from tests.support.spool_in_memory.series import SeriesInMemory
from tests.support.spool_in_memory.unit_lane import UnitLaneInMemory


class SpoolInMemory(Counting, Sending):
    """`spool.store.Spool`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.series = SeriesInMemory(self)
        self._kept_after: dict[Lane, int] = {}
        self._summary = DeadLetterSummary()

    def edge(self) -> Mapping[str, int]:
        return self.disk.counters.edge

    def reasons(self) -> Mapping[str, int]:
        return self.disk.counters.reasons

    @property
    def commit_seconds(self) -> Histogram:
        return Histogram(ANSWER_S)

    @property
    def is_crowded(self) -> bool:
        return self.used_bytes > self.settings.max_bytes * 3 // 4

    def keep_after(self, lane: Lane, seq: int) -> None:
        self._kept_after[lane] = seq

    def dead_letter_summary(self) -> DeadLetterSummary:
        return self._summary

    def events(self, rules: Rules) -> EventsInMemory:
        return EventsInMemory(self, rules)

    def unit_cost(
        self,
        *,
        can_read: Callable[[], bool] = lambda: False,
        can_create: Callable[[], bool] = lambda: False,
        can_delete: Callable[[], bool] = lambda: True,
    ) -> UnitLaneInMemory:
        return UnitLaneInMemory(self, can_read, can_create, can_delete)

    def operator(self) -> LettersInMemory:
        return LettersInMemory(self)

    async def run_maintenance(self) -> None:
        now_ms, is_crowded = self._now_ms(), self.is_crowded

        def maintain(disk: Disk) -> DeadLetterSummary:
            for lane in self._sources:
                upkeep.expire(disk, lane, now_ms - self.settings.max_age_ms, self._leased[lane])
            if is_crowded:
                upkeep.give_up_sending_once_more(disk)
            upkeep.reclaim(disk, self.settings, now_ms, {} if is_crowded else self._kept_after, at_once=is_crowded)
            upkeep.bound_letters(disk, self.settings, now_ms)
            disk.seen = Seen(now_ms, self._wall_ms())
            return upkeep.summary(disk, tuple(by_reason(disk)))

        self._summary = await self.ask_behind(maintain)
        self._oldest_ms = {lane: upkeep.oldest_pending_ms(self.disk, lane) for lane in self._sources}
