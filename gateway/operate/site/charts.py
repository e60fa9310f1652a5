"""Bars over time as inline SVG: geometry and words, for `chart.html`. Pure.

Colours are classes of the style sheet; the policy of the page allows no inline style. The figures
themselves stand in a table beside the charts.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

WIDTH: Final = 460
HEIGHT: Final = 190
LEFT: Final = 52
RIGHT: Final = 4
TOP: Final = 8
BOTTOM: Final = 24
PLOT_WIDTH: Final = WIDTH - LEFT - RIGHT
PLOT_HEIGHT: Final = HEIGHT - TOP - BOTTOM
GAP: Final = 0.28
"""Of a bar's width, between bars."""
MAX_LABELS: Final = 7
TICKS: Final = 4

Value = int | Decimal | None
"""None is unknown: no bar is drawn."""
Written = Callable[[Value], str]


class Series(NamedTuple):
    """One colour of stacked bars."""

    name: str
    colour: str
    """A class: `c1`, `c2`, `c3`."""
    values: Sequence[Value]


class Rect(NamedTuple):
    x: float
    y: float
    width: float
    height: float
    colour: str


class Bar(NamedTuple):
    title: str
    """What a pointer over it shows: time and figures."""
    hit: Rect
    """The whole height, so that a small bar is found."""
    rects: tuple[Rect, ...]


class Label(NamedTuple):
    at: float
    text: str


class Chart(NamedTuple):
    id: str
    title: str
    total: str
    description: str
    """For who does not see it."""
    bars: tuple[Bar, ...]
    ticks: tuple[Label, ...]
    """At a height."""
    times: tuple[Label, ...]
    """At a distance from the left."""
    legend: tuple[tuple[str, str], ...]
    """(name, colour); empty for one series."""


def bar_chart(
    chart_id: str, title: str, total: str, times: Sequence[str], series: Sequence[Series], written: Written
) -> Chart:
    """Stacked bars, one for each of *times*. *written* writes a value for people."""
    top = nice_top(max(stacked(series), default=Decimal(0)))
    step = PLOT_WIDTH / max(1, len(times))
    bars = tuple(bar(index, time, step, series, top, written) for index, time in enumerate(times))
    return Chart(
        chart_id,
        title,
        total,
        described(title, total, times, series, written),
        bars,
        tuple(Label(height_of(top * n / TICKS, top), written(tick(top, n))) for n in range(TICKS + 1)),
        tuple(labels(times, step)),
        tuple((each.name, each.colour) for each in series) if len(series) > 1 else (),
    )


def bar(index: int, time: str, step: float, series: Sequence[Series], top: Decimal, written: Written) -> Bar:
    left, width = LEFT + step * index, step
    rects, below = [], Decimal(0)
    for each in series:
        value = known(each.values[index])
        if value > 0:
            y, foot = height_of(below + value, top), height_of(below, top)
            rects.append(
                Rect(rounded(left + width * GAP / 2), y, rounded(width * (1 - GAP)), rounded(foot - y), each.colour)
            )
        below += max(value, Decimal(0))
    figures = ", ".join(f"{each.name} {written(each.values[index])}" for each in series)
    return Bar(f"{time}: {figures}", Rect(rounded(left), TOP, rounded(width), PLOT_HEIGHT, "hit"), tuple(rects))


def described(title: str, total: str, times: Sequence[str], series: Sequence[Series], written: Written) -> str:
    """`Cost in USD from 10:00 to 12:00: 3.20 in all; most at 11:00, 2.10.`"""
    if not times:
        return f"{title}: nothing."
    sums = stacked(series)
    most = max(range(len(sums)), key=sums.__getitem__)
    return f"{title} from {times[0]} to {times[-1]}: {total} in all; most at {times[most]}, {written(sums[most])}."


def stacked(series: Sequence[Series]) -> list[Decimal]:
    """The height of each bar."""
    return [sum(map(known, column), Decimal(0)) for column in zip(*(each.values for each in series), strict=True)]


def known(value: Value) -> Decimal:
    return Decimal(0) if value is None else Decimal(value)


def nice_top(most: Decimal) -> Decimal:
    """The least of 1, 2, 4, 5, 8 times a power of ten that is no less than *most*; 1 for 0."""
    if most <= 0:
        return Decimal(1)
    power = Decimal(10) ** most.adjusted()
    return next(power * factor for factor in (1, 2, 4, 5, 8, 10) if power * factor >= most)


def tick(top: Decimal, n: int) -> Value:
    value = top * n / TICKS
    return int(value) if value == value.to_integral_value() else value


def height_of(value: Decimal, top: Decimal) -> float:
    return rounded(TOP + PLOT_HEIGHT * (1 - float(value / top)))


def labels(times: Sequence[str], step: float) -> list[Label]:
    """Every time, or every second, third, … of them, so that they do not touch."""
    every = -(-len(times) // MAX_LABELS) or 1
    return [Label(rounded(LEFT + step * (index + 0.5)), times[index]) for index in range(0, len(times), every)]


def rounded(value: float) -> float:
    return round(value, 2)
