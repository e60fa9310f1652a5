"""What `GET /v2/usage` answers: the period before beside each row, days of a zone, names that are
searched for.
"""

from typing import Any

import pytest

from gateway.common.contract.reach import reach_of
from gateway.operate.operation import OperationCall
from gateway.operate.usage import show
from gateway.usage.sums import answering, bounds
from gateway.usage.sums.answer_json import time_text
from gateway.usage.sums.home import SumHome
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.tally import HOUR_MS
from tests.unit.usage.sums.test_query import add, of

DAY_H = 24


async def ask(queries: UsageQueries, **query: str) -> dict[str, Any]:
    return await show(queries, OperationCall(None, query=list({"limit": "20", **query}.items())))


async def weeks(sums: SumHome) -> None:
    """Of the week before the last 7 days, and of these."""
    tokens = {"status": "reported", "input_tokens": 100, "output_tokens": 10}
    await add(
        sums,
        *(of("core", cost="0.25", ago_h=8 * DAY_H, usage=tokens) for _ in range(2)),
        *(of("core", cost="0.40", ago_h=DAY_H, usage=tokens) for _ in range(3)),
        of("new", cost="1", ago_h=DAY_H),
        of("gone", cost="7", ago_h=8 * DAY_H),
        of("blind", cost=None, ago_h=8 * DAY_H, usage={"status": "missing"}),
        of("blind", cost="2", ago_h=DAY_H),
    )


async def test_each_row_has_the_same_of_the_period_before_and_the_difference(
    sums: SumHome, queries: UsageQueries
) -> None:
    await weeks(sums)
    found = await ask(queries, group_by="team", range="last_7_days", compare="previous", sort_key="calls")
    rows = {row["team"]: row for row in found["usage"]}
    assert rows["core"]["previous"]["costs"] == {"USD": "0.5"}
    assert rows["core"]["change"] == {
        "calls": {"difference": 1, "percent": "50"},
        "input_tokens": {"difference": 100, "percent": "50"},
        "output_tokens": {"difference": 10, "percent": "50"},
        "costs": {"USD": {"difference": "0.7", "percent": "140"}},
    }
    assert (rows["new"]["previous"], rows["new"]["change"]) == (None, None)
    assert rows["blind"]["change"]["costs"] == {"USD": {"difference": None, "percent": None}}
    assert rows["blind"]["change"]["input_tokens"] == {"difference": None, "percent": None}
    assert "gone" not in rows
    assert found["previous"]["rest"]["costs"] == {"USD": "7"}
    assert found["previous"]["totals"]["costs"] == {"USD": "7.5"}
    assert found["previous"]["change"]["costs"] == {"USD": {"difference": "-3.3", "percent": "-44"}}
    assert found["previous"]["to"] <= found["from"]


async def test_without_compare_the_answer_is_as_it_was(sums: SumHome, queries: UsageQueries) -> None:
    await weeks(sums)
    found = await ask(queries, group_by="team")
    assert "previous" not in found
    assert all("previous" not in row and "change" not in row for row in found["usage"])


async def test_the_page_of_a_long_list_finds_its_groups_in_a_period_with_more_pages(
    sums: SumHome, queries: UsageQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "MAX_GROUPS", 2)
    teams = "abcdefg"
    await add(sums, *(of(team, cost=str(n + 1), ago_h=ago) for n, team in enumerate(teams) for ago in (24, 8 * DAY_H)))
    asked = {"group_by": "team,model", "range": "last_7_days", "compare": "previous"}
    found = await ask(queries, **asked, limit="3")
    assert [row["previous"]["costs"]["USD"] for row in found["usage"]] == ["7", "6", "5"]
    assert found["previous"]["rest"]["costs"] == {"USD": "10"}


async def test_a_group_of_an_unknown_name_is_found_again(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, of(None, ago_h=1), of(None, ago_h=8 * DAY_H), of("core", ago_h=8 * DAY_H))
    found = await ask(queries, group_by="team", range="last_7_days", compare="previous")
    assert [row["previous"]["calls"] for row in found["usage"]] == [1]


async def test_a_filter_by_a_dated_name_also_filters_the_period_before(sums: SumHome, queries: UsageQueries) -> None:
    names = ("gpt-4o-2024-08-06", "gpt-4o-2024-11-20")
    await add(sums, *(of(response_model=name, ago_h=ago) for name in names for ago in (1, 8 * DAY_H)))
    found = await ask(queries, group_by="model", range="last_7_days", compare="previous", model=names[0])
    assert [(row["calls"], row["previous"]["calls"]) for row in found["usage"]] == [(1, 1)]


async def test_a_period_before_whose_hours_are_gone_is_null_and_the_rest_is_answered(
    sums: SumHome, queries: UsageQueries
) -> None:
    await add(sums, of(ago_h=1))
    ago_h = bounds.KEPT_HOURS - 4
    since = queries.now_ms() // 3_600_000 - ago_h
    found = await ask(queries, group_by="team", compare="previous", **{"from": hour_text(since)})
    assert found["previous"] is None
    assert found["totals"]["calls"] == 1
    by_hour = await ask(queries, interval="hour", compare="previous", **{"from": hour_text(since)})
    assert by_hour["previous"] is None


async def test_hours_that_no_row_of_the_page_has_are_the_rest(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, *(of("core", cost="0.5", ago_h=ago) for ago in (1, 2, 2, 3)))
    found = await ask(queries, interval="hour", limit="1")
    assert [row["calls"] for row in found["usage"]] == [1]
    assert (found["rest"]["calls"], found["rest"]["costs"]) == (3, {"USD": "1.5"})
    whole = await ask(queries, interval="hour")
    assert (whole["rest"], whole["totals"]["calls"]) == (None, 4)


def hour_text(hour: int) -> str:
    return str(time_text(hour * HOUR_MS))


async def test_days_are_those_of_the_zone_and_add_up_to_the_total(sums: SumHome, queries: UsageQueries) -> None:
    for ago in range(60):
        await add(sums, of(cost="0.125", ago_h=ago))
    for zone in ("Pacific/Auckland", "Asia/Kolkata", "America/Los_Angeles"):
        found = await ask(queries, interval="day", time_zone=zone, range="last_7_days")
        assert sum(row["calls"] for row in found["usage"]) == found["totals"]["calls"] == 60
        assert len(found["usage"]) in {3, 4}
    at_utc = await ask(queries, interval="day", range="last_7_days")
    same = await ask(queries, interval="day", range="last_7_days", time_zone="Etc/UTC")
    assert [row["calls"] for row in same["usage"]] == [row["calls"] for row in at_utc["usage"]]


async def test_the_first_hour_of_a_zone_with_half_an_hour_is_in_the_first_day(
    sums: SumHome, queries: UsageQueries
) -> None:
    """A day of India begins at 18:30 UTC: the hour from 18:00 covers its begin."""
    await add(sums, *(of(ago_h=ago) for ago in (64, 63, 17, 16, 15)))
    asked = {"interval": "day", "time_zone": "Asia/Kolkata", "from": "2026-01-03", "to": "2026-01-05"}
    found = await ask(queries, **asked)
    assert [(row["start"], row["calls"]) for row in found["usage"]] == [
        ("2026-01-02T18:30:00Z", 2),
        ("2026-01-03T18:30:00Z", 2),
    ]
    assert (found["from"], found["to"]) == ("2026-01-02T18:00:00Z", "2026-01-04T19:00:00Z")


async def test_hours_and_days_are_compared_with_those_as_far_from_the_begin(
    sums: SumHome, queries: UsageQueries
) -> None:
    await weeks(sums)
    days = await ask(queries, interval="day", range="last_7_days", compare="previous", time_zone="Europe/Berlin")
    assert [(row["calls"], row["previous"]["calls"]) for row in days["usage"]] == [(5, 4)]
    hours = await ask(queries, interval="hour", range="last_7_days", compare="previous")
    assert [(row["calls"], row["previous"]["calls"]) for row in hours["usage"]] == [(5, 4)]
    assert hours["previous"]["totals"]["calls"] == 4


async def test_a_day_that_only_the_period_before_has_is_a_row(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, of(ago_h=9 * DAY_H))
    (row,) = (await ask(queries, interval="day", range="last_7_days", compare="previous"))["usage"]
    assert (row["calls"], row["previous"]["calls"], row["change"]["calls"]["difference"]) == (0, 1, -1)


async def test_days_older_than_the_hours_are_covered_by_utc_days(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, of(ago_h=1), of(ago_h=60 * DAY_H))
    found = await ask(queries, range="last_90_days", time_zone="Asia/Kolkata", compare="previous")
    assert found["from"].endswith("T00:00:00Z")
    assert found["totals"]["calls"] == 2
    assert found["previous"]["to"] == found["from"]


async def test_a_limited_search_finds_only_names_inside_the_limit(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, of("mine", attribution={"user": "user-a"}), of("theirs", attribution={"user": "user-b"}))
    limited = queries.limited(reach_of({"team": ["mine"]}))
    assert [row["user"] for row in (await ask(limited, group_by="user", search="user"))["usage"]] == ["user-a"]
    assert (await ask(limited, group_by="user", search="user-b"))["usage"] == []
    assert (await ask(limited, group_by="team", search="theirs"))["usage"] == []


async def test_a_search_keeps_groups_whose_name_holds_the_text_and_the_totals_are_theirs(
    sums: SumHome, queries: UsageQueries
) -> None:
    await add(sums, of("Core one", cost="1"), of("second core", cost="2"), of("else", cost="4"), of(None, cost="8"))
    found = await ask(queries, group_by="team,model", search=" CORE ")
    assert [row["team"] for row in found["usage"]] == ["second core", "Core one"]
    assert found["totals"]["costs"] == {"USD": "3"}
    nothing = await ask(queries, group_by="team", search="nobody", compare="previous")
    assert (nothing["usage"], nothing["totals"]["calls"], nothing["previous"]["totals"]) == ([], 0, None)
    within = await ask(queries, group_by="team", search="one", team="Core one")
    assert [row["team"] for row in within["usage"]] == ["Core one"]


async def test_a_model_is_found_by_a_dated_name(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, of(response_model="gpt-4o-2024-08-06"), of(response_model="gpt-4.1"))
    found = await ask(queries, group_by="model", search="2024-08")
    assert [row["model"] for row in found["usage"]] == ["gpt-4o"]
