"""What keeps data from being taken or sent on, in the log: a full spool or disk, slow commits, and
telemetry that waits for the enrolment of its device. Looks once a second.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from spool.histogram import Histogram

log = structlog.get_logger()

PAUSE_S: Final = 10.0
"""A condition that comes and goes is logged so often at most."""
SLOW_COMMIT_S: Final = 1.0
"""A bound of the histogram."""
SLOW_PAUSE_S: Final = 60.0


class Condition:
    """Something that holds or does not, and whether a line about it is due."""

    def __init__(self, monotonic_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._holds = False
        self._since_s: float | None = None

    def changed(self, *, holds: bool) -> float | None:
        """For how many seconds it had been as it was logged last, where it changed and a line is
        due; 0 for the first change.
        """
        now_s = self._monotonic_s()
        lasted_s = None if self._since_s is None else now_s - self._since_s
        if holds == self._holds or (lasted_s is not None and lasted_s < PAUSE_S):
            return None
        self._holds, self._since_s = holds, now_s
        return round(lasted_s or 0.0, 1)


class IntakeLog:
    def __init__(
        self,
        not_ready: Callable[[], Awaitable[str | None]],
        commits: Histogram,
        held_s: Callable[[], float | None],
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """*not_ready* states why no data can be kept, as `/readyz` does; *held_s* for how long
        the oldest telemetry has waited for an enrolment.
        """
        self._not_ready = not_ready
        self._commits = commits
        self._held_s = held_s
        self._monotonic_s = monotonic_s
        self._refusing, self._holding = Condition(monotonic_s), Condition(monotonic_s)
        self._slow = 0
        self._slow_logged_s = monotonic_s() - SLOW_PAUSE_S

    async def run_maintenance(self) -> None:
        """Log what changed since the last look."""
        self._look_at_intake(await self._not_ready())
        self._look_at_enrolments(self._held_s())
        self._look_at_commits()

    def _look_at_intake(self, reason: str | None) -> None:
        lasted_s = self._refusing.changed(holds=reason is not None)
        if lasted_s is None:
            return
        if reason is None:
            log.info("data is kept again", refused_s=lasted_s)
        else:
            log.error("data is refused", reason=reason)

    def _look_at_enrolments(self, held_s: float | None) -> None:
        lasted_s = self._holding.changed(holds=held_s is not None)
        if lasted_s is None:
            return
        if held_s is None:
            log.info("telemetry no longer waits for an enrolment", held_s=lasted_s)
        else:
            log.warning("telemetry waits for an enrolment", oldest_s=round(held_s, 1))

    def _look_at_commits(self) -> None:
        slow, now_s = slower_than(self._commits, SLOW_COMMIT_S), self._monotonic_s()
        if slow > self._slow and now_s - self._slow_logged_s >= SLOW_PAUSE_S:
            log.warning("slow commits", commits=slow - self._slow, longer_than_s=SLOW_COMMIT_S)
            self._slow, self._slow_logged_s = slow, now_s


def slower_than(histogram: Histogram, bound: float) -> int:
    """How many observations exceed *bound*, which is one of the histogram's."""
    buckets = dict(histogram.read().buckets)
    return buckets[float("inf")] - buckets[bound]
