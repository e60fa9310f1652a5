"""What a question about usage comes to: its rows, what they leave, the total, and the same of the
period before.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC
from typing import Final, NamedTuple, cast

from gateway.usage.sums.bounds import MAX_GROUPS
from gateway.usage.sums.buckets import NO_LATENCY, Buckets, Latency, add_buckets, latency_of
from gateway.usage.sums.days import Days, buckets_of
from gateway.usage.sums.figures import NO_USAGE, Breakdown, Group, UsageSums, less
from gateway.usage.sums.grains import DAY
from gateway.usage.sums.latency import LatencyGroup
from gateway.usage.sums.names import Filters, Name
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.request import Question
from gateway.usage.sums.tags import check_tags
from gateway.usage.sums.tally import HOUR_MS
from gateway.usage.sums.timespan import BadRange, TimeRange

MAX_SEARCHED: Final = 5_000
"""Names that a search looks at, those of the highest cost."""


class Line(NamedTuple):
    """A group, or an hour or day."""

    names: tuple[Name, ...]
    """As `group_by` orders them; empty with an interval."""
    sums: UsageSums
    previous: UsageSums | None = None
    """Of the period before; None where it has no call, or was not asked for."""
    versions: tuple[Group, ...] = ()
    start_ms: int | None = None
    """Of an interval."""
    latency: Latency | None = None
    """None where it was not asked for."""


class Before(NamedTuple):
    """The period before; None where it has no call."""

    within: TimeRange
    rest: UsageSums | None
    total: UsageSums | None


@dataclass(frozen=True, slots=True)
class Answer:
    within: TimeRange
    """What is covered: whole hours, and before the hours that are kept whole UTC days."""
    lines: Sequence[Line]
    count: int
    """On all pages."""
    rest: UsageSums | None
    total: UsageSums
    before: Before | None = None
    """None where it was not asked for, or its hours are no longer kept."""
    where: Filters = field(default_factory=dict)
    """The filters, with the names that a search found."""
    latency: Latency | None = None
    """Of all calls; None where it was not asked for."""


class _Asked(NamedTuple):
    question: Question
    where: Filters
    within: TimeRange
    before: TimeRange | None


async def answered(queries: UsageQueries, question: Question) -> Answer:
    """Raises BadListRequest for a tag that is not configured; BadRange, DatabaseUnavailable."""
    check_tags({*question.group_by, *question.where}, queries.tags)
    queries = chosen(queries, question)
    within, before = await _covered(queries, question)
    where = await _searched(queries, question, within)
    if where is None:
        nothing = NO_LATENCY if question.latency else None
        none_before = None if before is None else Before(before, None, None)
        return Answer(within, (), 0, None, NO_USAGE, none_before, latency=nothing)
    asked = _Asked(question, where, within, before)
    answer = await (_by_group(queries, asked) if question.interval is None else _over_time(queries, asked))
    return await _with_latency(queries, asked, answer) if question.latency else answer


async def _with_latency(queries: UsageQueries, asked: _Asked, answer: Answer) -> Answer:
    """*answer* with how long the calls took, of each line and of all."""
    found = await (_latency_over_time(queries, asked) if asked.question.interval else _latency_by_group(queries, asked))
    whole: Buckets = {}
    for buckets in found.values():  # also of groups on no line
        add_buckets(whole, buckets)
    lines = [
        line._replace(latency=latency_of(found.get(line.names if line.start_ms is None else (line.start_ms,), {})))
        for line in answer.lines
    ]
    return replace(answer, lines=lines, latency=latency_of(whole))


async def _latency_by_group(queries: UsageQueries, asked: _Asked) -> Mapping[LatencyGroup, Buckets]:
    return await queries.latencies(*asked.question.group_by, within=asked.within, where=asked.where)


async def _latency_over_time(queries: UsageQueries, asked: _Asked) -> Mapping[LatencyGroup, Buckets]:
    """By the start of each hour or day, in ms. Days of another zone than UTC are made of hours."""
    question = asked.question
    is_utc = question.interval == "day" and question.zone is UTC
    days = Days(question.zone, question.from_ms)
    found: dict[LatencyGroup, Buckets] = {}
    for (hour,), buckets in (
        await queries.latencies(within=asked.within, interval="day" if is_utc else "hour", where=asked.where)
    ).items():
        start_ms = int(cast("int", hour)) * HOUR_MS
        start_ms = start_ms if is_utc or question.interval == "hour" else days.start_of(start_ms)
        add_buckets(found.setdefault((start_ms,), {}), buckets)
    return found


def chosen(queries: UsageQueries, question: Question) -> UsageQueries:
    """*queries* with or without allocation, as *question* asks."""
    return queries if question.is_allocated else queries.allocated(())


async def _covered(queries: UsageQueries, question: Question) -> tuple[TimeRange, TimeRange | None]:
    """The ranges of the question and of the period before. Days of a zone that are older than the
    hours that are kept are covered by UTC days.
    """
    within, before = question.within, question.within_before
    if question.zone is UTC or question.interval is not None:
        return within, before
    hours_from = (await queries.as_of()).hours_from_ms // HOUR_MS
    wide = covering(within, hours_from)
    if before is None:
        return wide, None
    wide_before = covering(before, hours_from)
    return wide, wide_before._replace(end_hour=min(wide_before.end_hour, wide.first_hour))


def covering(within: TimeRange, hours_from: int) -> TimeRange:
    """*within*, where it is older than *hours_from* from and to a UTC midnight."""
    first, end = within
    first = first // DAY * DAY if first < hours_from else first
    return TimeRange(first, -(-end // DAY) * DAY if end < hours_from + DAY else end)


# ---- search


async def _searched(queries: UsageQueries, question: Question, within: TimeRange) -> Filters | None:
    """The filters, with the names that are searched for; None where no name is found."""
    where = question.where
    if question.search is None:
        return where
    dimension, text = question.group_by[0], question.search.casefold()
    if dimension in where:
        found: set[Name] = {name for name in where[dimension] if _holds((name,), text)}
    else:
        names = await queries.names(dimension, within=within, most=MAX_SEARCHED, where=where)
        found = {of_group[0] for of_group in names if _holds(of_group, text)}
    return {**where, dimension: tuple(found)} if found else None


def _holds(names: Iterable[Name], text: str) -> bool:
    return any(text in name.casefold() for name in names if isinstance(name, str))


# ---- groups


async def _by_group(queries: UsageQueries, asked: _Asked) -> Answer:
    question = asked.question
    found = await queries.by(
        *question.group_by,
        within=asked.within,
        where=asked.where,
        order_by=question.order_by,
        currency=question.currency,
        ascending=question.request.sort.order == "asc",
        offset=question.offset,
        limit=question.request.limit,
    )
    before, earlier = await _groups_before(queries, asked, found)
    lines = [Line(each.names, each.sums, earlier.get(each.names), each.versions) for each in found.groups]
    return Answer(asked.within, lines, found.count, found.rest, found.total, before, asked.where)


async def _groups_before(
    queries: UsageQueries, asked: _Asked, found: Breakdown
) -> tuple[Before | None, Mapping[tuple[Name, ...], UsageSums]]:
    """The period before, and in it the groups of *found*."""
    if asked.before is None:
        return None, {}
    try:
        total = await queries.totals(asked.before, where=asked.where)
        earlier = await _same_groups(queries, asked, asked.before, found) if found.groups else {}
    except BadRange:
        return None, {}
    rest = less(total, earlier.values())
    return Before(asked.before, rest, None if total == NO_USAGE else total), earlier


async def _same_groups(
    queries: UsageQueries, asked: _Asked, before: TimeRange, found: Breakdown
) -> Mapping[tuple[Name, ...], UsageSums]:
    group_by, wanted = asked.question.group_by, {group.names for group in found.groups}
    named = {name: tuple({each[at] for each in wanted}) for at, name in enumerate(group_by)}
    where = {**named, **asked.where}
    groups: dict[tuple[Name, ...], UsageSums] = {}
    offset = 0
    while True:
        page = await queries.by(*group_by, within=before, where=where, order_by="name", offset=offset, limit=MAX_GROUPS)
        groups |= {group.names: group.sums for group in page.groups if group.names in wanted}
        offset += MAX_GROUPS
        if offset >= page.count:
            return groups


# ---- hours and days


async def _over_time(queries: UsageQueries, asked: _Asked) -> Answer:
    question = asked.question
    days = Days(question.zone, question.from_ms)
    buckets = await buckets_of(queries, asked.within, question.interval or "day", asked.where, days)
    total = await queries.totals(asked.within, where=asked.where)
    before, earlier = await _buckets_before(queries, asked)
    there = {each.start_ms: each.sums for each in buckets}
    starts = sorted(there.keys() | earlier.keys(), reverse=question.request.sort.order == "desc")
    shown = starts[question.offset : question.offset + question.request.limit]
    lines = [Line((), there.get(each, NO_USAGE), earlier.get(each), start_ms=each) for each in shown]
    rest = less(total, [line.sums for line in lines])  # also of hours that know fewer names than their day
    return Answer(asked.within, lines, len(starts), rest, total, before, asked.where)


async def _buckets_before(queries: UsageQueries, asked: _Asked) -> tuple[Before | None, Mapping[int, UsageSums]]:
    """The period before, and its hours or days by the start of what they are compared with."""
    question, within = asked.question, asked.before
    if within is None or question.before is None:
        return None, {}
    days, earlier_days = Days(question.zone, question.from_ms), Days(question.zone, question.before[0])
    interval = question.interval or "day"
    try:
        found = await buckets_of(queries, within, interval, asked.where, earlier_days)
        total = await queries.totals(within, where=asked.where)
    except BadRange:
        return None, {}
    shift_ms = (asked.within.first_hour - within.first_hour) * HOUR_MS
    moved = {
        each.start_ms + shift_ms if interval == "hour" else days.same_day(each.start_ms, earlier_days): each.sums
        for each in found
    }
    earlier = {start_ms: sums for start_ms, sums in moved.items() if start_ms < asked.within.end_hour * HOUR_MS}
    return Before(within, less(total, earlier.values()), None if total == NO_USAGE else total), earlier
