"""Explore: its links hold the whole question, and its figures are those of `GET /v2/usage`."""

import csv
import io
import re
from collections.abc import AsyncIterator
from decimal import Decimal
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from gateway.common.contract.errors import BadPayload
from gateway.common.storage.database import Database
from gateway.operate.operation import OperationCall
from gateway.operate.site import explore
from gateway.operate.site.explore_answers import MAX_HOURS, TOP, Explored, explored, interval_of
from gateway.operate.site.explore_asked import PER_PAGE, Asked, asked_of
from gateway.operate.site.explore_files import chart_table, file_of, group_table
from gateway.operate.site.explore_rows import percent, signed
from gateway.operate.site.explore_texts import covering_note, period_text
from gateway.operate.usage import show
from gateway.stores.sql.sums.home import SqlSums
from gateway.usage.sums.bounds import KEPT_DAYS
from gateway.usage.sums.figures import NO_USAGE, together
from gateway.usage.sums.home import SumHome
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.ranges import zone_of
from gateway.usage.sums.request import Question
from gateway.usage.sums.timespan import TimeRange
from tests.support.shown import shown, text_of
from tests.unit.usage.sums.test_query import add, of
from tests.unit.usage.sums.test_tally import NOW_MS

WEEK_H = 7 * 24
QUESTION = "range=last_7_days&compare=previous&time_zone=Europe%2FBerlin&group_by=team"


@pytest.fixture
async def sums(tmp_path: Path) -> AsyncIterator[SumHome]:
    database = await Database.open(tmp_path / "control.db")
    yield await SqlSums.open(database)
    await database.close()


@pytest.fixture
def queries(sums: SumHome) -> UsageQueries:
    return UsageQueries(sums, now_ms=lambda: NOW_MS)


def asked(query: str) -> Asked:
    return asked_of(parse_qsl(query, keep_blank_values=True))


async def page(queries: UsageQueries, query: str) -> tuple[str, Explored, Question]:
    """The HTML, and what it was made of."""
    wanted = asked(query)
    question = wanted.question(NOW_MS)
    found = await explored(queries, question, wanted.step)
    return shown(explore.VIEW, explore.explore(wanted, question, found)), found, question


async def two_weeks(sums: SumHome) -> None:
    for n, team in enumerate(("core", "search", None)):
        for ago_h in (3, 30, WEEK_H + 30):
            more = {"response_model": f"model-{n}", "attribution": {"project": f"p{ago_h}"}}
            await add(sums, of(team, cost=f"0.{n + 1}{ago_h:03}1", ago_h=ago_h, **more))
    await add(sums, of("gone", cost="5.5", ago_h=WEEK_H + 30))


def links(html: str) -> list[str]:
    return [unescape(each) for each in re.findall(r'href="(/usage\?[^"]*)"', html)]


def amounts(html: str) -> set[Decimal]:
    return {Decimal(each) for each in re.findall(r'<data value="([0-9.]+)" title', html)}


@pytest.mark.parametrize("group_by", ["team", "team,model", "project", "model,project"])
async def test_the_page_the_api_and_the_file_have_the_same_figures(
    sums: SumHome, queries: UsageQueries, group_by: str
) -> None:
    await two_weeks(sums)
    query = f"range=last_7_days&compare=previous&time_zone=Europe%2FBerlin&group_by={group_by}"
    html, _, _ = await page(queries, query)
    answer = await show(queries, OperationCall(None, query=parse_qsl(query)))
    stated = [answer["totals"], answer["previous"]["totals"], answer["previous"]["rest"] or {"costs": {}}]
    stated += [sums for row in answer["usage"] for sums in (row, row["previous"] or {"costs": {}})]
    assert amounts(html) == {Decimal(each["costs"]["USD"]) for each in stated if each["costs"]}
    wanted = asked(query)
    table = await group_table(queries, wanted, wanted.question(NOW_MS, limit=2))
    rows = list(csv.DictReader(io.StringIO(file_of("csv", table).decode())))
    assert added(rows, "cost") == Decimal(answer["totals"]["costs"]["USD"])
    assert added(rows, "previous_cost") == Decimal(answer["previous"]["totals"]["costs"]["USD"])
    assert added(rows, "cost_difference") == Decimal(answer["previous"]["change"]["costs"]["USD"]["difference"])
    assert added(rows, "calls") == answer["totals"]["calls"]
    for row, line in zip(answer["usage"], rows, strict=False):
        change = row["change"] or {"costs": {"USD": {"percent": ""}}}
        assert (line["cost"], line["cost_percent"]) == (row["costs"]["USD"], change["costs"]["USD"]["percent"])


def added(rows: list[dict[str, Any]], column: str) -> Decimal:
    """Where there was nothing before, all that is there now is the difference."""
    texts = [row[column] or (row["cost"] if column == "cost_difference" else "0") for row in rows]
    return sum(map(Decimal, texts), Decimal(0))


@pytest.mark.parametrize(("step", "last"), [("hour", "2026-01-05T08:00:00Z"), ("day", "2026-01-05T23:00:00Z")])
async def test_the_file_of_the_charts_has_each_group_over_time_and_adds_up(
    sums: SumHome, queries: UsageQueries, step: str, last: str
) -> None:
    await two_weeks(sums)
    wanted = asked(f"{QUESTION}&chart={step}")
    table = await chart_table(queries, wanted, wanted.question(NOW_MS))
    rows = list(csv.DictReader(io.StringIO(file_of("csv", table).decode())))
    answer = await show(queries, OperationCall(None, query=list(wanted.pairs)))
    assert added(rows, "cost") == Decimal(answer["totals"]["costs"]["USD"])
    assert {(row["team"], row["absent"]) for row in rows} == {("core", ""), ("search", ""), ("", "team=unknown")}
    assert max(row["period_end"] for row in rows) == last
    assert len(rows) == 6
    one = asked(f"{QUESTION}&team=core")
    (row, _) = (await chart_table(queries, one, one.question(NOW_MS))).rows
    assert (row["team"], row["absent"]) == ("core", None)


async def test_each_link_changes_one_thing_and_keeps_the_others(sums: SumHome, queries: UsageQueries) -> None:
    await two_weeks(sums)
    html, _, _ = await page(queries, f"{QUESTION}&project=p3&sort_key=calls&chart=hour&search=e")
    before = dict(parse_qsl(f"{QUESTION}&project=p3&sort_key=calls&chart=hour&search=e"))
    for link in links(html):
        pairs = dict(parse_qsl(urlsplit(link).query))
        changed = {name for name in before.keys() | pairs.keys() if before.get(name) != pairs.get(name)}
        moved = changed <= {"sort_key", "sort_order"} or changed <= {"group_by", "team", "unknown", "search"}
        assert len(changed) <= 1 or moved, link
        assert asked_of([*pairs.items()]).question(NOW_MS)
    assert len(links(html)) > 25


async def test_a_name_leads_to_what_is_inside_and_a_chip_back(sums: SumHome, queries: UsageQueries) -> None:
    await two_weeks(sums)
    html, _, _ = await page(queries, QUESTION)
    (core,) = [link for link in links(html) if "team=core" in link]
    assert dict(parse_qsl(urlsplit(core).query))["group_by"] == "model"
    inside, _, _ = await page(queries, urlsplit(core).query)
    assert 'aria-label="Team: core, remove"' in inside
    (model,) = [link for link in links(inside) if "model=model-0" in link]
    assert dict(parse_qsl(urlsplit(model).query))["group_by"] == "project"
    assert [link for link in links(inside) if "team=" not in link][-1:] != []


def test_a_search_is_over_once_a_name_was_found() -> None:
    assert "search" not in asked("group_by=team&search=cor").narrowed("team", "core")


async def test_the_chart_of_a_group_has_the_filters_of_the_page(sums: SumHome, queries: UsageQueries) -> None:
    projects = [{"attribution": {"project": name}} for name in ("p", "q")]
    await add(sums, *(of(team, ago_h=1, **project) for team in ("core", "search") for project in projects))
    _, found, _ = await page(queries, "range=today&group_by=team&project=p")
    assert [together(course.sums).calls for course in found.over_time.courses] == [1, 1]


async def test_an_unknown_name_is_a_filter_too(sums: SumHome, queries: UsageQueries) -> None:
    await two_weeks(sums)
    html, _, _ = await page(queries, QUESTION)
    (unknown,) = [link for link in links(html) if "unknown=team" in link]
    _, found, _ = await page(queries, urlsplit(unknown).query)
    assert found.answer.total.calls == 2
    assert asked(urlsplit(unknown).query).less(asked(urlsplit(unknown).query).filters[0]).count("unknown") == 0


def test_of_two_dimensions_the_other_one_stays() -> None:
    both = asked("range=today&group_by=team,model")
    assert "group_by=model" in both.narrowed("team", "core")
    assert "group_by=team" in both.narrowed("model", "m")


async def test_what_went_is_named_beside_the_total(sums: SumHome, queries: UsageQueries) -> None:
    await two_weeks(sums)
    text = text_of((await page(queries, QUESTION))[0])
    assert "only in the period before \N{EN DASH} USD 5.50 \N{MINUS SIGN}USD 5.50 \N{MINUS SIGN}100.0 %" in text


async def test_each_currency_of_either_period_has_its_difference(sums: SumHome, queries: UsageQueries) -> None:
    euro = {"amount": "2", "currency": "EUR", "source": "reported"}
    await add(sums, {**of("core", ago_h=1), "cost": euro}, of("core", cost="3", ago_h=WEEK_H + 30))
    text = text_of((await page(queries, QUESTION))[0])
    assert "core EUR 2.00 USD 3.00 \N{MINUS SIGN}USD 3.00 \N{MINUS SIGN}100.0 % +EUR 2.00 \N{EN DASH}" in text


async def test_a_group_that_is_new_has_a_dash(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, of("new", cost="1", ago_h=1), of("old", cost="1", ago_h=WEEK_H + 30))
    assert "new USD 1.00 \N{EN DASH} \N{EN DASH} 1" in text_of((await page(queries, QUESTION))[0])


async def test_without_a_call_in_the_period_before_there_are_no_columns_for_it(
    sums: SumHome, queries: UsageQueries
) -> None:
    await add(sums, of("new", cost="1", ago_h=1))
    html, _, _ = await page(queries, QUESTION)
    assert "No call in the period before" in text_of(html)
    assert "Difference" not in html


async def test_calls_without_a_team_lead_to_the_rules_that_give_them_one(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, of("a", ago_h=1), of(None, ago_h=1, attribution={"service_name": "batch"}))
    asked = "range=last_7_days&group_by=team,service_name"
    html, _, _ = await page(queries, asked)
    given = re.findall(r'href="(/allocation/[^"]*)"', html)
    assert given == ["/allocation/team?add=rule&amp;service_name=batch#new-rule"]


async def test_names_are_escaped_also_in_links(sums: SumHome, queries: UsageQueries) -> None:
    evil = "<img src=x onerror=alert(1)>\"'&=#?"
    await add(sums, of(evil, ago_h=1))
    html, _, _ = await page(queries, f"{QUESTION}&search=%3Cimg")
    assert "<img src=x" not in html
    (link,) = [link for link in links(html) if "team=" in link]
    assert dict(parse_qsl(urlsplit(link).query))["team"] == evil


async def test_calls_of_a_group_are_linked_where_they_can_be_told_apart(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, of("core", response_model="gpt-4o-2024-08-06", ago_h=1), of(None, ago_h=1))
    html, _, _ = await page(queries, "range=today&group_by=team,model")
    assert 'href="/calls?team=core&amp;model=gpt-4o&amp;model=gpt-4o-2024-08-06"' in html
    assert html.count('href="/calls?team') == 1, "a team that is unknown is no filter of calls"
    by_user, _, _ = await page(queries, "range=today&group_by=user")
    assert "/calls?" not in by_user


async def test_the_charts_add_up_to_the_total_in_every_zone(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, *(of(f"team-{n % 8}", cost="0.125", ago_h=n) for n in range(100)))
    for zone in ("UTC", "Asia/Kolkata", "America/New_York"):
        for step in ("hour", "day"):
            _, found, _ = await page(queries, f"range=last_7_days&time_zone={zone}&group_by=team&chart={step}")
            courses = found.over_time.courses
            assert [course.line is None for course in courses] == [False] * TOP + [True]
            assert together(each for course in courses for each in course.sums) == found.answer.total
            assert found.over_time.interval == step


async def test_the_chart_of_a_range_of_decades_has_the_days_that_are_kept(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, of("core", ago_h=0))
    html, found, _ = await page(queries, "from=1970-01-01&to=9999-12-31&group_by=team")
    assert KEPT_DAYS <= len(found.over_time.starts_ms) <= KEPT_DAYS + 1
    assert found.over_time.courses[0].sums[-1].calls == 1
    assert len(html) < 300_000


async def test_one_group_is_one_colour_without_a_legend(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, of("core", ago_h=1))
    html, found, _ = await page(queries, "range=today&group_by=team")
    assert [course.line for course in found.over_time.courses] == [None]
    assert 'class="legend"' not in html


def test_hours_are_shown_of_few_days_and_only_where_they_are_kept() -> None:
    assert interval_of("auto", TimeRange(100, 148), 0) == "hour"
    assert interval_of("auto", TimeRange(100, 149), 0) == "day"
    assert interval_of("hour", TimeRange(100, 100 + MAX_HOURS), 0) == "hour"
    assert interval_of("hour", TimeRange(100, 101 + MAX_HOURS), 0) == "day"
    assert interval_of("hour", TimeRange(99, 148), 100) == "day"


async def test_days_older_than_the_hours_are_drawn_by_utc(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, of("a", ago_h=60 * 24), of("b", ago_h=1))
    html, found, _ = await page(queries, "range=last_90_days&time_zone=Asia/Kolkata&group_by=team")
    assert found.over_time.days.zone is zone_of("UTC")
    assert together(each for course in found.over_time.courses for each in course.sums).calls == 2
    assert "Hours this old are no longer kept: whole days of UTC are shown." in html


def test_a_zone_with_half_an_hour_is_told_what_is_covered() -> None:
    question = asked("range=yesterday&time_zone=Asia/Kolkata").question(NOW_MS)
    assert "the whole hour is shown" in covering_note(question, question.within)
    whole = asked("range=yesterday&time_zone=Asia/Tokyo").question(NOW_MS)
    assert covering_note(whole, whole.within) == ""


@pytest.mark.parametrize(
    ("query", "stands"),
    [
        ("", {"range": "last_7_days", "compare": "previous", "group_by": "team"}),
        ("time_zone=Asia/Tokyo", {"range": "last_7_days", "compare": "previous", "group_by": "team", "time_zone": "Asia/Tokyo"}),
        ("group_by=team&then=model", {"group_by": "team,model"}),
        ("group_by=team,user&then=", {"group_by": "team"}),
        ("group_by=team,team", {"group_by": "team"}),
        ("range=own&from=2026-01-01T00:00&to=2026-01-02T00:00", {"from": "2026-01-01T00:00", "to": "2026-01-02T00:00", "group_by": "team"}),
        ("range=today&from=2026-01-01&to=&search=", {"range": "today", "group_by": "team"}),
        ("range=today&interval=day", {"range": "today", "group_by": "team"}),
    ],
)  # fmt: skip
def test_what_forms_send_is_a_question_to_the_api(query: str, stands: dict[str, str]) -> None:
    assert dict(asked(query).pairs) == stands
    assert asked(query).question(NOW_MS)


@pytest.mark.parametrize(
    "query", ["first=-1", "first=1e3", "first=9999999999", "chart=week", "group_by=colour", "then=x"]
)
def test_a_parameter_of_the_page_is_checked(query: str) -> None:
    with pytest.raises(BadPayload):
        asked(query)


async def test_pages_begin_at_a_row(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, *(of(f"team-{n:03}", ago_h=1) for n in range(PER_PAGE + 1)))
    first, _, _ = await page(queries, "range=today&group_by=team&sort_key=name&sort_order=asc")
    assert f"1 to {PER_PAGE} of {PER_PAGE + 1}" in text_of(first)
    (link,) = [unescape(each) for each in re.findall(r'href="([^"]*)" rel="next"', first)]
    last, _, _ = await page(queries, urlsplit(link).query)
    assert f"{PER_PAGE + 1} to {PER_PAGE + 1} of {PER_PAGE + 1}" in text_of(last)
    assert 'rel="next"' not in last
    assert "team-050" in last


async def test_without_a_call_the_page_says_so_and_has_no_table(queries: UsageQueries) -> None:
    html, found, _ = await page(queries, f"{QUESTION}&model=x")
    assert found.answer.total == NO_USAGE
    assert "No call in this time with these filters." in html
    assert "<table" not in html


def test_a_period_is_written_by_its_days_where_it_has_whole_ones() -> None:
    berlin = zone_of("Europe/Berlin")
    question = asked("range=last_week&time_zone=Europe/Berlin").question(NOW_MS)
    assert period_text(question.from_ms, question.to_ms, berlin) == "29 Dec 2025 to 4 Jan 2026"
    assert period_text(question.from_ms, question.from_ms + 24 * 3_600_000, berlin) == "29 Dec 2025"
    assert (
        period_text(question.from_ms, question.from_ms + 3_600_000, berlin) == "29 Dec 2025 00:00 to 29 Dec 2025 01:00"
    )


def test_a_change_is_written_with_its_sign() -> None:
    assert signed(Decimal(-1234)) == "\N{MINUS SIGN}1,234"
    assert signed(Decimal("0.03124"), "EUR") == "+EUR 0.0312"
    assert (signed(None), percent(None)) == ("\N{EN DASH}", "\N{EN DASH}")
    assert percent(Decimal("-1234.56")) == "\N{MINUS SIGN}1,234.6 %"
    assert percent(Decimal("-0.04")) == "\N{MINUS SIGN}0.04 %"
    assert percent(Decimal(0)) == "\N{PLUS-MINUS SIGN}0.0 %"


async def test_latency_is_shown_where_it_is_asked_for(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, *(of("core", duration_ms=1500, time_to_first_token_ms=200) for _ in range(3)), of("silent"))
    html, found, _ = await page(queries, f"{QUESTION}&latency=true")
    assert "Hide latency" in html
    assert [html.count(f'<data value="{ms}">{text}</data>') for ms, text in ((1512, "1.5 s"), (206, "206 ms"))] == [
        4,
        2,
    ]
    plain, _, _ = await page(queries, QUESTION)
    assert "Show latency" in plain
    assert "First token" not in plain
    answer, lines = found.answer, found.answer.lines
    rows = list(
        csv.DictReader(
            io.StringIO(
                file_of(
                    "csv",
                    await group_table(
                        queries, asked(f"{QUESTION}&latency=true"), asked(f"{QUESTION}&latency=true").question(NOW_MS)
                    ),
                ).decode()
            )
        )
    )
    assert {row["team"]: row["duration_p99_ms"] for row in rows} == {"core": "1512", "silent": ""}
    assert answer.latency is not None
    assert len(lines) == 2


def test_latency_goes_where_it_is_not_kept() -> None:
    assert asked("group_by=user&latency=true").value("latency") == ""
    assert asked("group_by=team&user=u&latency=true").value("latency") == ""
    assert asked("group_by=team&latency=true").value("latency") == "true"
