"""The answers that the overview shows, and how long they are shown again.

A question that is asked again costs what it costs; one that is asked often (several pages are open
and live) takes at most a share of the time: an answer that was slow is shown again for
`1 / SHARE` times as long as it took. It states itself through when calls are counted.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from gateway.common.contract.reach import EVERYTHING, Reach
from gateway.operate.site.usage_question import Question
from gateway.usage.sums.figures import NO_USAGE, Breakdown, Bucket, UsageSums
from gateway.usage.sums.grains import Dimension
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.timespan import TimeRange

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")
TOP: Final = 10
"""Groups of each table; the list has the others."""
BY: Final[tuple[Dimension, ...]] = ("provider", "model", "team", "project", "user", "device_id")
SHARE: Final = 0.02
SLOW_S: Final = 0.05
"""A faster answer is not kept."""
LONGEST_S: Final = 30.0
MAX_KEPT: Final = 32


class Usage(NamedTuple):
    """The answers of `UsageQueries` to one question."""

    total: UsageSums
    buckets: Sequence[Bucket]
    by: Mapping[Dimension, Breakdown]
    counted_through_ms: int | None
    """None before the first count."""
    fresh_in_s: float = 0.0
    """A later request gets newer figures; 0 where the next one does."""


NOTHING: Final = Usage(NO_USAGE, (), {}, None)


class SlowAnswers(Generic[Key, Answer]):
    """Answers that took long, kept for a while. One question is asked at a time."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._kept: dict[Key, tuple[float, Answer]] = {}
        self._turn = asyncio.Lock()

    async def answer(self, key: Key, ask: Callable[[], Awaitable[Answer]]) -> tuple[Answer, float]:
        """What *ask* answers, and in how many seconds a later request gets a newer answer."""
        if (kept := self._kept_answer(key)) is not None:
            return kept
        async with self._turn:
            if (kept := self._kept_answer(key)) is not None:  # another request asked the same
                return kept
            began_s = self._monotonic_s()
            answer = await ask()
            self._keep(key, answer, self._monotonic_s() - began_s)
            return answer, 0.0

    def _kept_answer(self, key: Key) -> tuple[Answer, float] | None:
        ends_s, answer = self._kept.get(key, (0.0, None))
        left_s = ends_s - self._monotonic_s()
        return (answer, left_s) if left_s > 0 and answer is not None else None

    def _keep(self, key: Key, answer: Answer, took_s: float) -> None:
        self._kept.pop(key, None)
        if took_s >= SLOW_S:
            while len(self._kept) >= MAX_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = self._monotonic_s() + min(took_s / SHARE, LONGEST_S), answer


class UsageAnswers:
    """Of one application; *queries* is None where nothing is counted."""

    def __init__(self, queries: UsageQueries | None, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._queries = queries
        self._answers = SlowAnswers[tuple[Question, TimeRange, Reach], Usage](monotonic_s)

    async def answer(self, question: Question, now_ms: int, reach: Reach = EVERYTHING) -> Usage:
        """For a caller who sees *reach*. Raises Forbidden, DatabaseUnavailable."""
        if self._queries is None:
            return NOTHING
        queries = self._queries.limited(reach)
        key = question, question.range.within(now_ms), reach
        usage, fresh_in_s = await self._answers.answer(key, lambda: asked(queries, question, now_ms))
        return usage._replace(fresh_in_s=fresh_in_s)


async def asked(queries: UsageQueries, question: Question, now_ms: int) -> Usage:
    """Everything that the overview shows of *question*. Raises DatabaseUnavailable."""
    await queries.refresh()
    within, where = question.range.within(now_ms), question.where
    shown = [dimension for dimension in BY if dimension not in where]
    return Usage(
        await queries.totals(within, where=where),
        await queries.over_time(within, interval=question.range.interval, where=where),
        {each: await queries.by(each, within=within, where=where, limit=TOP) for each in shown},
        (await queries.as_of()).counted_through_ms,
    )
