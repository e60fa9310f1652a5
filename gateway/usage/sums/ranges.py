"""Ranges that move with the time, and the period before a range, in a time zone. Pure.

A zone decides where days, weeks and months begin. Sums are of UTC hours: a bound within one, as in
zones with half an hour, is covered by it.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Literal, get_args
from zoneinfo import ZoneInfo

from gateway.common.lists.conventions import BadListRequest
from gateway.usage.sums.tally import HOUR_MS

Range = Literal[
    "today", "yesterday", "last_24_hours", "last_7_days", "last_30_days", "last_90_days", "this_week", "last_week",
    "this_month", "last_month", "this_quarter", "last_quarter", "this_year",
]  # fmt: skip
RANGES: Final[tuple[Range, ...]] = get_args(Range)
BEYOND_HOURS: Final = frozenset({"last_90_days", "last_month", "this_quarter", "last_quarter", "this_year"})
"""Ranges that may begin before the hours that are kept
(`gateway.usage.sums.bounds.KEPT_HOURS`).
"""
MAX_ZONE_CHARS: Final = 64
_NOT_OF_IANA: Final = frozenset({"localtime", "posixrules", "posix", "right"})
"""Files and folders beside the zones: the machine's own zone, and zones with leap seconds."""
_DAYS: Final[Mapping[str, int]] = {"today": 1, "last_7_days": 7, "last_30_days": 30, "last_90_days": 90}
"""Today is the last of them."""
_MONTHS: Final[Mapping[str, int]] = {"month": 1, "quarter": 3, "year": 12}


def zone_of(name: str) -> tzinfo:
    """The zone of an IANA name. Raises BadListRequest."""
    if name == "UTC":
        return UTC
    try:
        if len(name) > MAX_ZONE_CHARS or name.partition("/")[0] in _NOT_OF_IANA:
            raise ValueError
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):  # LookupError: nothing is known under it
        raise BadListRequest("time_zone: a name of the IANA list is needed, such as Europe/Berlin, or UTC") from None


def range_of(text: str) -> Range:
    """Raises BadListRequest."""
    for each in RANGES:
        if text == each:
            return each
    raise BadListRequest(f"range: one of {', '.join(RANGES)} is needed")


def times_of(name: Range, now_ms: int, zone: tzinfo = UTC) -> tuple[datetime, datetime]:
    """The first moment of the range, and its end (not included), in *zone*; the end of one that
    goes on is that of the current hour or day.
    """
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    if name == "last_24_hours":  # hours are kept by UTC
        end = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        return (end - timedelta(hours=24)).astimezone(zone), end.astimezone(zone)
    today = midnight(now.astimezone(zone))
    tomorrow = today + timedelta(days=1)
    if name == "yesterday":
        return today - timedelta(days=1), today
    if name in _DAYS:
        return tomorrow - timedelta(days=_DAYS[name]), tomorrow
    which, _, unit = name.partition("_")
    first = today - timedelta(days=today.weekday()) if unit == "week" else _first_of(today, _MONTHS[unit])
    if which == "this":
        return first, tomorrow
    before = first - timedelta(days=1)
    return (first - timedelta(days=7) if unit == "week" else _first_of(before, _MONTHS[unit])), first


def whole_end(name: Range, start: datetime, end: datetime) -> datetime:
    """When a range that goes on will be over: `this_month` ends with the month."""
    which, _, unit = name.partition("_")
    if which != "this":
        return end
    return start + timedelta(days=7) if unit == "week" else _months_earlier(start, -_MONTHS[unit], end)


def midnight(time: datetime) -> datetime:
    """The begin of the day of *time*, in its zone."""
    return time.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)


def period_before(start: datetime, end: datetime, now_ms: int) -> tuple[datetime, datetime]:
    """The period of the same length that ends where *start* is: as many whole months or days of
    the zone, else as many hours. Of a period that goes on it is the part that has passed by now,
    to the end of the hour.
    """
    reached = min(end, datetime.fromtimestamp((now_ms // HOUR_MS + 1) * HOUR_MS / 1000, start.tzinfo))
    if not _is_midnight(start) or not _is_midnight(end):
        length = end.astimezone(UTC) - start.astimezone(UTC)
        return _earlier(start, length), _earlier(max(reached, start), length)
    months = (end.year - start.year) * 12 + end.month - start.month
    if start.day == end.day == 1:
        return _months_earlier(start, months, start), _months_earlier(max(reached, start), months, start)
    days = timedelta(days=(end.date() - start.date()).days)
    return start - days, max(reached, start) - days


def _earlier(time: datetime, length: timedelta) -> datetime:
    return (time.astimezone(UTC) - length).astimezone(time.tzinfo)


def _months_earlier(time: datetime, months: int, latest: datetime) -> datetime:
    """*latest* where that month has no such day."""
    year, month = divmod(time.year * 12 + time.month - 1 - months, 12)
    try:
        return time.replace(year=year, month=month + 1)
    except ValueError:
        return latest


def _is_midnight(time: datetime) -> bool:
    return time == midnight(time)


def _first_of(day: datetime, months: int) -> datetime:
    """Of the month, quarter or year that *day* is in."""
    return day.replace(month=(day.month - 1) // months * months + 1, day=1)


def ms_of(time: datetime) -> int:
    return round(time.timestamp() * 1000)
