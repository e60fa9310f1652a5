"""What Explore shows of a question: its rows, and its largest groups over time."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from gateway.operate.site.explore_asked import Step
from gateway.usage.sums.answering import Answer, Line, answered, chosen
from gateway.usage.sums.bounds import KEPT_DAYS
from gateway.usage.sums.days import Days, buckets_of, sums_by_group
from gateway.usage.sums.figures import NO_USAGE, UsageSums, less
from gateway.usage.sums.grains import DAY
from gateway.usage.sums.home import AsOf
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.ranges import ms_of
from gateway.usage.sums.request import Question
from gateway.usage.sums.tally import HOUR_MS
from gateway.usage.sums.timespan import Interval, TimeRange

TOP: Final = 5
"""Groups of a chart; it has the others as one."""
MAX_AUTO_HOURS: Final = 2 * DAY
"""A longer range is shown by day, unless hours are wanted."""
MAX_HOURS: Final = 8 * DAY
"""More bars are no chart."""


class Course(NamedTuple):
    """Usage of one group over time, or of all that are in no other course."""

    line: Line | None
    sums: Sequence[UsageSums]
    """By the starts of the series."""


class OverTime(NamedTuple):
    interval: Interval
    days: Days
    """Of UTC where the zone's are older than the hours that are kept."""
    starts_ms: Sequence[int]
    courses: Sequence[Course]

    def periods(self) -> list[tuple[int, int]]:
        """Start and end of each of them."""
        return [(start_ms, self._end_of(start_ms)) for start_ms in self.starts_ms]

    def _end_of(self, start_ms: int) -> int:
        if self.interval == "hour":
            return start_ms + HOUR_MS
        return ms_of(datetime.fromtimestamp(start_ms / 1000, self.days.zone) + timedelta(days=1))


class Explored(NamedTuple):
    answer: Answer
    over_time: OverTime
    as_of: AsOf


async def explored(queries: UsageQueries, question: Question, step: Step) -> Explored:
    """Raises BadRange, DatabaseUnavailable."""
    queries = chosen(queries, question)
    answer, as_of = await answered(queries, question), await queries.as_of()
    return Explored(answer, await over_time(queries, question, answer, step, as_of), as_of)


async def over_time(queries: UsageQueries, question: Question, answer: Answer, step: Step, as_of: AsOf) -> OverTime:
    hours_from = as_of.hours_from_ms // HOUR_MS
    interval = interval_of(step, answer.within, hours_from)
    zone = question.zone if answer.within.first_hour >= hours_from else UTC
    oldest_ms = queries.now_ms() - KEPT_DAYS * DAY * HOUR_MS
    days = Days(zone, max(question.from_ms, answer.within.first_hour * HOUR_MS, oldest_ms))
    starts_ms = days.starts(answer.within, interval, queries.now_ms())
    found = {
        each.start_ms: each.sums for each in await buckets_of(queries, answer.within, interval, answer.where, days)
    }
    total = [found.get(each, NO_USAGE) for each in starts_ms]
    lines = answer.lines[:TOP] if answer.count > 1 else ()
    groups = {line.names for line in lines}
    of_groups = (
        await sums_by_group(queries, question.group_by, groups, answer.within, interval, answer.where, days)
        if groups
        else {}
    )
    courses = [Course(line, [of_groups.get((line.names, each), NO_USAGE) for each in starts_ms]) for line in lines]
    return OverTime(interval, days, starts_ms, [*courses, *others(total, courses)])


def others(total: Sequence[UsageSums], courses: Sequence[Course]) -> list[Course]:
    """What *courses* leave of *total*; nothing where that is nothing."""
    rest = [less(all_of_it, [course.sums[at] for course in courses]) or NO_USAGE for at, all_of_it in enumerate(total)]
    return [Course(None, rest)] if not courses or any(each != NO_USAGE for each in rest) else []


def interval_of(step: Step, within: TimeRange, hours_from: int) -> Interval:
    """Hours that are not kept, or too many, are days."""
    hours = within.end_hour - within.first_hour
    if within.first_hour < hours_from or hours > MAX_HOURS:
        return "day"
    return step if step != "auto" else "hour" if hours <= MAX_AUTO_HOURS else "day"
