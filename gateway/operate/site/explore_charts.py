"""The charts of Explore: cost and another figure of the largest groups over time. Pure."""

from collections.abc import Callable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

from gateway.operate.site.charts import Chart, Series, Value, bar_chart
from gateway.operate.site.explore_answers import Course, OverTime
from gateway.operate.site.explore_asked import name_text
from gateway.operate.site.usage_figures import NO_CALL, cost_of, money_value, short_value
from gateway.usage.sums.change import cost_in
from gateway.usage.sums.figures import NO_USAGE, UsageSums, money_text
from gateway.usage.sums.request import OrderBy
from gateway.usage.sums.tally import HOUR_MS

DAY_MS: Final = 24 * HOUR_MS
FIGURES: Final = {"calls": "Calls", "input_tokens": "Input tokens", "output_tokens": "Output tokens"}


class Table(NamedTuple):
    """The figures of the first chart, without times that have no call."""

    title: str
    names: Sequence[str]
    rows: Sequence[tuple[str, Sequence[tuple[str, str]]]]
    """Time -> of each name the figure as written, and exact; empty for unknown."""


class _Figure(NamedTuple):
    id: str
    title: str
    of: Callable[[UsageSums], Value]
    written: Callable[[Value], str]


def charts_of(found: OverTime, total: UsageSums, order: OrderBy) -> list[Chart]:
    """Cost, where any is known, and calls, or the tokens that the rows are ordered by."""
    return [chart_of(found, figure, total) for figure in figures_of(total, order)]


def figures_of(total: UsageSums, order: OrderBy) -> list[_Figure]:
    other = order if order in FIGURES else "calls"
    counted = _Figure(other, FIGURES[other], lambda sums: count_of(sums, other), short_value)
    if not total.costs:
        return [counted]
    currency = cost_of(total).amounts[0].currency
    cost = _Figure("cost", f"Cost in {currency}", lambda sums: cost_in(known(sums), currency), money_value)
    return [cost, counted]


def chart_of(found: OverTime, figure: _Figure, total: UsageSums) -> Chart:
    series = [
        Series(course_text(course, found.courses), f"c{6 if course.line is None and len(found.courses) > 1 else n}",
               [figure.of(sums) for sums in course.sums])
        for n, course in enumerate(found.courses, start=1)
    ]  # fmt: skip
    written = figure.written(figure.of(total))
    return bar_chart(figure.id, figure.title, written, times_of(found), series, figure.written)


def table_of(found: OverTime, total: UsageSums, order: OrderBy) -> Table:
    figure = figures_of(total, order)[0]
    names = [course_text(course, found.courses) for course in found.courses]
    rows = [
        (time, [cell_of(figure, course.sums[at]) for course in found.courses])
        for at, time in enumerate(times_of(found))
        if any(course.sums[at] != NO_USAGE for course in found.courses)
    ]
    return Table(figure.title, names, rows)


def cell_of(figure: _Figure, sums: UsageSums) -> tuple[str, str]:
    value = figure.of(sums)
    return figure.written(value), "" if value is None else money_text(Decimal(value))


def course_text(course: Course, courses: Sequence[Course]) -> str:
    if course.line is None:
        return "everything else" if len(courses) > 1 else "all"
    return " · ".join(map(name_text, course.line.names))


def count_of(sums: UsageSums, name: str) -> int | None:
    found: Any = getattr(known(sums), name)
    return None if found is None else int(found)


def known(sums: UsageSums) -> UsageSums:
    """An hour without a call used nothing, and that is known."""
    return NO_CALL if sums == NO_USAGE else sums


def times_of(found: OverTime) -> list[str]:
    """`14:00`, `18 14:00` for hours of several days, `Jan 05` for days; of the zone."""
    is_long = found.interval == "hour" and len(found.starts_ms) * HOUR_MS > DAY_MS
    form = "%b %d" if found.interval == "day" else "%d %H:%M" if is_long else "%H:%M"
    return [f"{datetime.fromtimestamp(start_ms / 1000, found.days.zone):{form}}" for start_ms in found.starts_ms]
