"""Views, in each home: ranges, the question that each asks, and keys' reads of cost."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from gateway.cli.exporting import whole_hours
from gateway.cli.views import over
from gateway.common.contract.errors import BadPayload, NameInUse, NotFound
from gateway.operate import costs, usage
from gateway.operate import views as operations
from gateway.operate.site.explore_asked import asked_of
from gateway.operate.site.views import DETAIL, VIEW, rows_of, saved_views, shown, views
from gateway.usage.sums import bounds
from gateway.usage.sums.home import SumHome
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.ranges import BEYOND_HOURS, RANGES, Range, times_of
from gateway.usage.sums.request import read_question
from gateway.usage.views.store import Views
from gateway.usage.views.view import question_of, view_times
from tests.support.operations import perform
from tests.support.shown import shown as html_of
from tests.support.shown import text_of
from tests.support.stores import Home
from tests.unit.usage.sums.test_tally import NOW_MS, counted, record, store


class Rig:
    def __init__(self, sums: SumHome, store: Views) -> None:
        self.sums = sums
        self.store = store
        self.queries = UsageQueries(sums, now_ms=lambda: NOW_MS)

    async def ask(self, method: str, path: str = "", body: Any = None, **query: str) -> Any:
        path = f"/v2/views{path}"
        return await perform(operations.OPERATIONS, self.store, method, path, query=list(query.items()), body=body)

    async def usage(self, url: str) -> Any:
        asked = urlsplit(url)
        every = (*usage.OPERATIONS, *costs.OPERATIONS)
        return await perform(every, self.queries, "GET", asked.path, query=parse_qsl(asked.query))


@pytest.fixture
async def rig(home: Home) -> Rig:
    return Rig(await home.sums(), await home.views(lambda: NOW_MS))


async def add(rig: Rig, *teams: str, ago_h: float = 0) -> None:
    cost = {"amount": "0.5", "currency": "USD", "source": "reported"}
    tally = counted(*(record(attribution={"team": team}, cost=cost, ago_h=ago_h) for team in teams))
    await store(rig.sums, tally)


@pytest.mark.parametrize(
    ("name", "begins", "ends"),
    [
        ("today", "2026-05-13", "2026-05-14"),
        ("yesterday", "2026-05-12", "2026-05-13"),
        ("last_24_hours", "2026-05-12T15", "2026-05-13T15"),
        ("last_7_days", "2026-05-07", "2026-05-14"),
        ("this_week", "2026-05-11", "2026-05-14"),
        ("last_week", "2026-05-04", "2026-05-11"),
        ("this_month", "2026-05-01", "2026-05-14"),
        ("last_month", "2026-04-01", "2026-05-01"),
        ("this_quarter", "2026-04-01", "2026-05-14"),
        ("last_quarter", "2026-01-01", "2026-04-01"),
        ("this_year", "2026-01-01", "2026-05-14"),
    ],
)
def test_a_range_moves_with_the_time(name: Range, begins: str, ends: str) -> None:
    now_ms = int(datetime(2026, 5, 13, 14, 30, tzinfo=UTC).timestamp() * 1000)
    assert times_of(name, now_ms) == tuple(datetime.fromisoformat(each).replace(tzinfo=UTC) for each in (begins, ends))


async def test_every_range_is_a_question_that_usage_answers(rig: Rig) -> None:
    for name in RANGES:
        made = (await rig.ask("POST", body={"name": name, "range": name, "filter": {"team": ["core", None]}}))["view"]
        assert await rig.usage(made["usage"])


async def test_a_view_asks_by_its_filter_groups_and_order(rig: Rig) -> None:
    await add(rig, "core", "core", "", "other", "a&b=c")
    filters = {"team": ["core", None, "a&b=c"]}
    made = (await rig.ask("POST", body={"name": "Core", "filter": filters, "group_by": ["team"], "range": "today"}))[
        "view"
    ]
    found = await rig.usage(made["usage"])
    assert [(row["team"], row["costs"]["USD"]) for row in found["usage"]] == [
        ("core", "1"),
        (None, "0.5"),
        ("a&b=c", "0.5"),
    ]
    assert found["totals"]["calls"] == 4
    changed = (await rig.ask("PATCH", f"/{made['id']}", {"interval": "day", "filter": {}}))["view"]
    assert (changed["group_by"], changed["interval"]) == (["team"], "day")
    assert [row["calls"] for row in (await rig.usage(changed["usage"]))["usage"]] == [5]


async def test_hours_are_taken_of_those_ranges_whose_hours_are_kept(rig: Rig) -> None:
    for name in RANGES:
        body = {"name": name, "range": name, "interval": "hour"}
        if name in BEYOND_HOURS:
            with pytest.raises(BadPayload, match="interval: hours of"):
                await rig.ask("POST", body=body)
        else:
            begins, ends = times_of(name, NOW_MS)
            assert (ends - begins).total_seconds() <= bounds.KEPT_HOURS * 3600
            assert await rig.usage((await rig.ask("POST", body=body))["view"]["usage"])
    made = (await rig.ask("POST", body={"name": "long", "range": "this_year"}))["view"]
    with pytest.raises(BadPayload, match="interval: hours of this_year"):
        await rig.ask("PATCH", f"/{made['id']}", {"interval": "hour"})


WHOLE = {
    "name": "whole", "filter": {"team": ["core", None]}, "group_by": ["project"], "range": "last_week",
    "time_zone": "Europe/Berlin", "compare": "previous", "search": "p",
}  # fmt: skip


async def test_a_view_keeps_the_whole_question_and_explore_asks_the_same(rig: Rig) -> None:
    made = (await rig.ask("POST", body=WHOLE))["view"]
    assert {name: made[name] for name in WHOLE} == WHOLE
    found = await rig.usage(made["usage"])
    assert (found["from"], found["previous"]["from"]) == ("2025-12-28T23:00:00Z", "2025-12-21T23:00:00Z")
    view = await rig.store.read(made["id"])
    explored = asked_of(parse_qsl(urlsplit(shown(view, NOW_MS)["explore"]).query))
    assert explored.question(NOW_MS).where == read_question(question_of(view, NOW_MS), NOW_MS).where
    assert {**explored.body("whole"), "filter": dict(view.filter)} == {
        **WHOLE, "filter": {"team": ("core", None)}, "sort_key": "cost", "sort_order": "desc",
    }  # fmt: skip


async def test_this_month_is_compared_with_as_much_of_the_month_before(rig: Rig) -> None:
    body = {"name": "month", "range": "this_month", "compare": "previous"}
    found = await rig.usage((await rig.ask("POST", body=body))["view"]["usage"])
    assert (found["previous"]["from"], found["previous"]["to"]) == ("2025-12-01T00:00:00Z", "2025-12-05T11:00:00Z")


async def test_the_saved_view_that_is_shown_is_marked(rig: Rig) -> None:
    for name, body in (("core", {"filter": {"team": ["core"]}}), ("all", {})):
        await rig.ask("POST", body={"name": name, "group_by": ["model"], "range": "today", **body})
    shown_now = asked_of(parse_qsl("range=today&group_by=model&team=core&chart=hour"))
    assert [(each.name, each.is_current) for each in await saved_views(rig.store, shown_now)] == [
        ("all", False),
        ("core", True),
    ]
    assert await saved_views(None, shown_now) == []


async def test_a_view_of_days_is_explored_by_their_chart(rig: Rig) -> None:
    made = (await rig.ask("POST", body={"name": "days", "interval": "day", "range": "last_7_days"}))["view"]
    path = shown(await rig.store.read(made["id"]), NOW_MS)["explore"]
    assert path == "/usage?chart=day&range=last_7_days"
    assert asked_of(parse_qsl(urlsplit(path).query)).question(NOW_MS)


async def test_a_view_may_have_two_times_of_its_zone(rig: Rig) -> None:
    body = {"name": "a week", "range": "2025-12-29/2026-01-05T06:00", "time_zone": "Asia/Tokyo"}
    made = (await rig.ask("POST", body=body))["view"]
    found = await rig.usage(made["usage"])
    assert (found["from"], found["to"]) == ("2025-12-28T15:00:00Z", "2026-01-04T21:00:00Z")
    view = await rig.store.read(made["id"])
    assert shown(view, NOW_MS)["range"] == "29 Dec 2025 00:00 to 5 Jan 2026 06:00"
    assert whole_hours(view_times(view, NOW_MS))[0] == datetime(2025, 12, 28, 15, tzinfo=UTC)
    compared = (await rig.ask("PATCH", f"/{made['id']}", {"compare": "previous"}))["view"]
    assert (await rig.usage(compared["usage"]))["previous"]["to"] == found["from"]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"range": "2026-01-05/2026-01-05"}, "range: its first time"),
        ({"range": "2026-01-05"}, "range: one of today"),
        ({"range": "2026-13-05/2026-14-05"}, "range: an ISO 8601"),
        ({"time_zone": "Mars"}, "time_zone: a name of the IANA list"),
        ({"compare": "next"}, "compare: previous, or null"),
        ({"search": ""}, "search: 1 to 100"),
        ({"search": "x", "interval": "day"}, "search: it is among the names"),
    ],
)
async def test_what_is_no_question_is_refused(rig: Rig, fields: dict[str, str], says: str) -> None:
    with pytest.raises(BadPayload, match=f"^{says}"):
        await rig.ask("POST", body={"name": "x", **fields})


async def test_views_are_listed_and_refused_and_deleted(rig: Rig) -> None:
    made = (await rig.ask("POST", body={"name": "b"}))["view"]
    await rig.ask("POST", body={"name": "a"})
    with pytest.raises(NameInUse):
        await rig.ask("POST", body={"name": "a"})
    for bad in ({"group_by": ["prompt"]}, {"range": "ever"}, {"filter": {"team": ["x" * 100] * 2 + ["y" * 100] * 11}},
                {"group_by": []}, {"sort_key": "x"}, {"interval": "week"}):  # fmt: skip
        with pytest.raises(BadPayload, match=next(iter(bad))):
            await rig.ask("POST", body={"name": "c", **bad})
    assert [each["name"] for each in (await rig.ask("GET"))["views"]] == ["a", "b"]
    assert [each["id"] for each in (await rig.ask("GET", name="b"))["views"]] == [made["id"]]
    await rig.ask("DELETE", f"/{made['id']}")
    with pytest.raises(NotFound):
        await rig.ask("GET", f"/{made['id']}")


async def test_a_forgotten_user_leaves_the_filters(rig: Rig) -> None:
    both = (await rig.ask("POST", body={"name": "a", "filter": {"user": ["zoe", "ada"]}}))["view"]["id"]
    await rig.ask("POST", body={"name": "b", "filter": {"user": ["zoe"]}})
    assert await rig.store.forget_users({"zoe"}, dry_run=True) == 2
    assert await rig.store.forget_users({"zoe"}, dry_run=False) == 2
    assert [each["id"] for each in (await rig.ask("GET"))["views"]] == [both]
    assert (await rig.ask("GET", f"/{both}"))["view"]["filter"] == {"user": ["ada"]}


async def test_what_is_typed_replaces_what_the_view_has(rig: Rig) -> None:
    made = (await rig.ask("POST", body={"name": "a", "filter": {"team": ["x"]}, "range": "today"}))["view"]["id"]
    question = question_of(await rig.store.read(made), NOW_MS)
    assert over(question, [("limit", "5")]) == [*question, ("limit", "5")]
    merged = dict(over(question, [("interval", "day"), ("team", "y")]))
    assert (merged["interval"], merged["team"], "group_by" in merged, "sort_key" in merged) == (
        "day",
        "y",
        False,
        False,
    )
    assert read_question(over(question, [("interval", "day")]), NOW_MS).interval == "day"


async def test_costs_and_dimensions_for_keys_are_those_of_usage(rig: Rig) -> None:
    await add(rig, "core", "core", "")
    found = await rig.usage("/v2/billing/costs?group_by=team")
    mine = await rig.usage("/v2/usage?group_by=team")
    assert found == {"costs" if name == "usage" else name: value for name, value in mine.items()}
    page = await rig.usage("/v2/billing/dimensions?name=team&name=user")
    assert page["dimensions"] == [
        {"name": "team", "values": ["core"], "value_count": 1, "has_unknown": True},
        {"name": "user", "values": [], "value_count": 0, "has_unknown": True},
    ]
    assert page["pagination"]["total_count"] == 2


async def test_the_page_shows_what_a_view_asks_for(rig: Rig) -> None:
    await add(rig, "core", "")
    body = {"name": "<i>Core", "group_by": ["team", "model"], "range": "today", "filter": {"provider": ["openai"]}}
    made = (await rig.ask("POST", body=body))["view"]
    view = await rig.store.read(made["id"])
    html = html_of(DETAIL, {**shown(view, NOW_MS), **await rows_of(rig.queries, view, NOW_MS)})
    assert "core · gpt-4o USD" in text_of(html)
    assert "(unknown) · gpt-4o USD" in text_of(html)
    assert "Today, UTC; Provider: openai. 2 of 2 rows." in text_of(html)
    assert "&lt;i&gt;Core" in html
    assert "team, model provider openai" in text_of(html_of(VIEW, views(await rig.ask("GET"))))
