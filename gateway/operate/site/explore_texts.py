"""How Explore writes ranges and times of a zone. Pure."""

from datetime import datetime, timedelta, tzinfo
from typing import Final

from gateway.usage.sums.ranges import RANGES, Range, midnight
from gateway.usage.sums.request import Question
from gateway.usage.sums.tally import HOUR_MS
from gateway.usage.sums.timespan import TimeRange

TABS: Final[dict[Range, str]] = {
    "today": "Today",
    "last_7_days": "7 days",
    "last_30_days": "30 days",
    "this_week": "This week",
    "last_week": "Last week",
    "this_month": "This month",
    "last_month": "Last month",
}
RANGE_TEXTS: Final[dict[Range, str]] = {
    name: name.replace("_", " ").capitalize() for name in RANGES
}  # fmt: skip
COVERS_HOURS: Final = (
    "Usage is kept by hours of UTC, and days of this time zone begin within one: the whole hour is shown."
)
COVERS_DAYS: Final = "Hours this old are no longer kept: whole days of UTC are shown."


def period_text(start_ms: int, end_ms: int, zone: tzinfo) -> str:
    """`16 Nov 2026`, `16 Nov 2026 to 22 Nov 2026`; with times where one is no midnight."""
    start, end = (datetime.fromtimestamp(ms / 1000, zone) for ms in (start_ms, end_ms))
    if start != midnight(start) or end != midnight(end):
        return f"{day_text(start)} {start:%H:%M} to {day_text(end)} {end:%H:%M}"
    last = end - timedelta(days=1)
    return day_text(start) if start >= last else f"{day_text(start)} to {day_text(last)}"


def day_text(day: datetime) -> str:
    """`6 Nov 2026`."""
    return f"{day.day} {day:%b %Y}"


def range_text(within: TimeRange, zone: tzinfo) -> str:
    return period_text(within.first_hour * HOUR_MS, within.end_hour * HOUR_MS, zone)


def covering_note(question: Question, within: TimeRange) -> str:
    """Why more is shown than was asked for; empty where it is not."""
    more_ms = question.from_ms - within.first_hour * HOUR_MS
    if more_ms >= HOUR_MS:
        return COVERS_DAYS
    return COVERS_HOURS if more_ms else ""


def field_text(ms: int, zone: tzinfo) -> str:
    """For a field of date and time."""
    return f"{datetime.fromtimestamp(ms / 1000, zone):%Y-%m-%dT%H:%M}"
