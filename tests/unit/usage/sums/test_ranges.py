"""Ranges and the period before them, in time zones with summer time and half hours."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from gateway.common.lists.conventions import BadListRequest
from gateway.usage.sums.ranges import RANGES, Range, ms_of, period_before, times_of, whole_end, zone_of
from gateway.usage.sums.request import read_question
from gateway.usage.sums.timespan import TimeRange

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 5, 13, 14, 30, tzinfo=UTC)
NOW_MS = ms_of(NOW)


def at(text: str, zone: ZoneInfo = BERLIN) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone)


@pytest.mark.parametrize(
    ("name", "begins", "ends"),
    [
        ("today", "2026-05-13", "2026-05-14"),
        ("last_24_hours", "2026-05-12T17:00", "2026-05-13T17:00"),
        ("last_week", "2026-05-04", "2026-05-11"),
        ("this_quarter", "2026-04-01", "2026-05-14"),
        ("last_month", "2026-04-01", "2026-05-01"),
        ("last_90_days", "2026-02-13", "2026-05-14"),
    ],
)
def test_a_range_begins_and_ends_where_days_of_the_zone_do(name: Range, begins: str, ends: str) -> None:
    assert times_of(name, NOW_MS, BERLIN) == (at(begins), at(ends))
    asked = read_question([("range", name), ("time_zone", "Europe/Berlin")], NOW_MS)
    assert (asked.from_ms, asked.to_ms) == (ms_of(at(begins)), ms_of(at(ends)))


@pytest.mark.parametrize(
    ("begins", "ends", "before", "before_ends"),
    [
        ("2026-05-04", "2026-05-11", "2026-04-27", "2026-05-04"),
        ("2026-04-01", "2026-05-01", "2026-03-01", "2026-04-01"),
        ("2026-01-01", "2026-04-01", "2025-10-01", "2026-01-01"),
        ("2026-05-04T10:00", "2026-05-04T16:00", "2026-05-04T04:00", "2026-05-04T10:00"),
        ("2026-03-30", "2026-04-06", "2026-03-23", "2026-03-30"),  # summer time began on the 29th
        ("2026-03-29T10:00", "2026-03-29T20:00", "2026-03-28T23:00", "2026-03-29T10:00"),
        ("2026-05-13", "2026-05-14", "2026-05-12", "2026-05-12T17:00"),  # goes on: the same part of the day before
        ("2026-05-01", "2026-06-01", "2026-04-01", "2026-04-13T17:00"),
        ("2026-06-01", "2026-07-01", "2026-05-01", "2026-05-01"),
    ],
)
def test_the_period_before_has_the_same_months_or_days_and_ends_where_it_begins(
    begins: str, ends: str, before: str, before_ends: str
) -> None:
    assert period_before(at(begins), at(ends), NOW_MS) == (at(before), at(before_ends))


def test_of_a_longer_month_the_part_that_the_shorter_one_before_has() -> None:
    now_ms = ms_of(at("2026-03-31T12:00"))
    start, end = times_of("this_month", now_ms, BERLIN)
    assert period_before(start, whole_end("this_month", start, end), now_ms) == (at("2026-02-01"), at("2026-03-01"))


@pytest.mark.parametrize("name", RANGES)
def test_no_hour_is_in_a_range_and_in_the_period_before(name: Range) -> None:
    for zone in ("UTC", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe"):
        asked = read_question([("range", name), ("time_zone", zone), ("compare", "previous")], NOW_MS)
        before = asked.within_before
        assert before is not None
        assert before.first_hour <= before.end_hour <= asked.within.first_hour


def test_this_week_is_compared_with_the_same_days_of_the_week_before() -> None:
    asked = read_question([("range", "this_week"), ("compare", "previous"), ("time_zone", "Europe/Berlin")], NOW_MS)
    assert asked.before == (ms_of(at("2026-05-04")), ms_of(at("2026-05-06T17:00")))


def test_without_an_end_the_current_day_is_compared_as_far_as_it_came() -> None:
    asked = read_question([("from", "2026-05-12"), ("compare", "previous")], NOW_MS)
    utc = ZoneInfo("UTC")
    assert asked.before == (ms_of(at("2026-05-10", utc)), ms_of(at("2026-05-11T15:00", utc)))


def test_a_bound_within_an_hour_is_covered_by_it() -> None:
    asked = read_question([("from", "2026-05-12"), ("to", "2026-05-13"), ("time_zone", "Asia/Kolkata")], NOW_MS)
    assert asked.from_ms == ms_of(datetime(2026, 5, 11, 18, 30, tzinfo=UTC))
    first = ms_of(datetime(2026, 5, 11, 18, tzinfo=UTC)) // 3_600_000
    assert asked.within == TimeRange(first, first + 25)


def test_a_time_that_states_its_offset_is_read_by_it() -> None:
    asked = read_question(
        [("from", "2026-05-12T00:00Z"), ("to", "2026-05-12T06:00"), ("time_zone", "Europe/Berlin")], NOW_MS
    )
    assert (asked.to_ms - asked.from_ms) // 3_600_000 == 4


@pytest.mark.parametrize(
    "name",
    [
        "localtime",
        "posixrules",
        "right/UTC",
        "posix/Europe/Berlin",
        "",
        "Mars/Base",
        "../../etc/passwd",
        "/etc/localtime",
        "x" * 65,
        "Europe",
        "a\0b",
    ],
)
def test_a_zone_that_does_not_exist_is_named_in_the_fault(name: str) -> None:
    with pytest.raises(BadListRequest, match=r"^time_zone: "):
        zone_of(name)
