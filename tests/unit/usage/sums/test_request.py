"""Questions about usage as requests state them."""

import pytest

from gateway.common.lists.conventions import BadListRequest
from gateway.usage.sums.answer_json import time_text
from gateway.usage.sums.names import Absent
from gateway.usage.sums.request import read_question
from gateway.usage.sums.tally import HOUR_MS

NOW_MS = 1_767_607_200_000
"""2026-01-05T10:00:00Z"""
DAY_MS = 24 * HOUR_MS


def test_a_request_without_parameters_asks_for_30_days_by_provider_and_model() -> None:
    asked = read_question([], NOW_MS)
    assert (asked.group_by, asked.to_ms, asked.order_by) == (("provider", "model"), NOW_MS, "cost")
    assert NOW_MS - asked.from_ms == 29 * DAY_MS + 10 * HOUR_MS


def test_dates_and_times_are_utc_where_they_state_no_offset() -> None:
    asked = read_question([("from", "2026-01-01"), ("to", "2026-01-02T01:00:00+01:00")], NOW_MS)
    assert (asked.from_ms, asked.to_ms) == (NOW_MS - 4 * DAY_MS - 10 * HOUR_MS, NOW_MS - 3 * DAY_MS - 10 * HOUR_MS)
    assert read_question([("to", "2026-01-02T01:00:00 01:00")], NOW_MS).to_ms == asked.to_ms, "a plus that was no %2B"


def test_an_unknown_name_is_asked_for_by_its_dimension() -> None:
    asked = read_question([("unknown", "team,project"), ("team", "core"), ("user", "a")], NOW_MS)
    assert asked.where == {"team": ("core", Absent.UNKNOWN), "user": ("a",), "project": (Absent.UNKNOWN,)}


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ([("group_by", "colour")], "group_by: up to 3 of provider"),
        ([("group_by", "")], "group_by: "),
        ([("group_by", "team,user,model,provider")], "group_by: up to 3"),
        ([("unknown", "colour")], "unknown: up to 30 of provider"),
        ([("interval", "week")], "interval: of hour, day"),
        ([("interval", "day"), ("group_by", "team")], "interval: it cannot be asked for with group_by"),
        ([("interval", "day"), ("sort_key", "cost")], "sort_key: "),
        ([("from", "yesterday")], "from: an ISO 8601 date"),
        ([("to", "1950-01-01")], "to: a time since 1970"),
        ([("to", "9999-12-31T00:00:00.001Z")], "to: a time since 1970, and no later than 9999-12-31"),
        ([("to", "9999-12-31T23:59:59.999999999Z")], "to: a time since 1970"),
        ([("from", "2026-02-01")], "from: a time before `to`"),
        ([("from", "2026-01-01"), ("from", "2026-01-02")], "from: one value"),
        ([("range", "last_year")], "range: one of today, "),
        ([("range", "today"), ("from", "2026-01-01")], "range: it cannot be asked for with from"),
        ([("time_zone", "Berlin")], "time_zone: a name of the IANA list"),
        ([("compare", "next")], "compare: only previous"),
        ([("compare", "previous"), ("from", "1970-01-01"), ("to", "1970-01-03")], "compare: the period before begins"),
        ([("search", "x" * 101)], "search: at most 100"),
        ([("search", "x"), ("interval", "day")], "search: it is among the names of groups"),
        ([("colour", "red")], "query: "),
        ([("limit", "501")], "limit: "),
        ([("cursor", "x")], "cursor: "),
    ],
)
def test_a_fault_names_the_parameter_and_what_is_valid(query: list[tuple[str, str]], says: str) -> None:
    with pytest.raises(BadListRequest, match=f"^{says}"):
        read_question(query, NOW_MS)


@pytest.mark.parametrize("until", ["9999-12-31", "9999-12-30T23:59:59.999999999Z", "9999-12-31T10:00:00+10:00"])
def test_the_end_of_the_last_range_can_be_written(until: str) -> None:
    within = read_question([("to", until)], NOW_MS).within
    assert time_text(within.end_hour * HOUR_MS) == "9999-12-31T00:00:00Z"
