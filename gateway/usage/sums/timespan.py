"""The time that a question about usage covers, and which rows answer it. Pure."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple

from gateway.common.lists.conventions import BadListRequest
from gateway.usage.sums.grains import DAY, HOUR
from gateway.usage.sums.tally import HOUR_MS

Interval = Literal["hour", "day"]
SPANS: Final[dict[Interval, int]] = {"hour": HOUR, "day": DAY}


class BadRange(BadListRequest):
    """A time for which no sums are kept, in words for the reader; they begin with the parameter's
    name.
    """


class TimeRange(NamedTuple):
    """Whole hours since 1970, UTC."""

    first_hour: int
    end_hour: int
    """Not included."""

    @classmethod
    def of(cls, from_ms: int, to_ms: int) -> "TimeRange":
        """The hours that *from_ms* (inclusive) to *to_ms* (exclusive) touch."""
        return cls(from_ms // HOUR_MS, -(-to_ms // HOUR_MS))

    @classmethod
    def last_hours(cls, count: int, now_ms: int) -> "TimeRange":
        """The current hour and those before it, *count* in all."""
        end_hour = now_ms // HOUR_MS + 1
        return cls(end_hour - count, end_hour)

    @classmethod
    def last_days(cls, count: int, now_ms: int) -> "TimeRange":
        """The current UTC day and those before it, *count* in all."""
        end_hour = (now_ms // HOUR_MS // DAY + 1) * DAY
        return cls(end_hour - count * DAY, end_hour)


class Segment(NamedTuple):
    """Rows of one span in a part of a range."""

    span: int
    first_hour: int
    end_hour: int
    has_all: bool = True
    """Whether there are rows of every grain."""


class KeptHours(NamedTuple):
    first_hour: int
    """The first one that is kept."""
    summed: TimeRange
    """Those with rows of every grain."""


def segments(within: TimeRange, *, now_hour: int, hours: KeptHours, interval: Interval = "day") -> list[Segment]:
    """The rows that cover *within*: days where it has whole ones, hours for the rest; by *interval*
    hour, hours only. Raises BadRange where those hours are no longer kept.
    """
    first, end = within
    if end > now_hour:  # nothing is later
        end = max(end, (now_hour // DAY + 1) * DAY) if interval == "day" else end
    days_from, days_to = -(-first // DAY) * DAY, end // DAY * DAY
    if interval == "hour" or days_from >= days_to:
        parts = [Segment(HOUR, first, end)]
    else:
        parts = [Segment(HOUR, first, days_from), Segment(DAY, days_from, days_to), Segment(HOUR, days_to, end)]
    parts = [part for part in parts if part.first_hour < part.end_hour]
    for part in parts:
        if part.span == HOUR and part.first_hour < hours.first_hour:
            raise BadRange(_no_hours(hours.first_hour, is_start=part.first_hour == first))
    return [piece for part in parts for piece in (_by_grains(part, hours.summed) if part.span == HOUR else (part,))]


def _by_grains(part: Segment, summed: TimeRange) -> Iterator[Segment]:
    """The pieces of *part*, which is of hours: those before, in and after *summed*."""
    start, stop = (min(max(hour, part.first_hour), part.end_hour) for hour in summed)
    for piece in (
        Segment(HOUR, part.first_hour, start, has_all=False),
        Segment(HOUR, start, stop),
        Segment(HOUR, stop, part.end_hour, has_all=False),
    ):
        if piece.first_hour < piece.end_hour:
            yield piece


def _no_hours(hours_from: int, *, is_start: bool) -> str:
    kept = datetime.fromtimestamp(hours_from * 3600, UTC).strftime("%Y-%m-%dT%H:%MZ")
    name = "from" if is_start else "to"
    return f"{name}: hours are kept since {kept}; before that only whole UTC days can be asked for, by days"
