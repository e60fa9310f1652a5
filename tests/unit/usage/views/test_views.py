"""Views, in each home: ranges, the question that each asks, and keys' reads of cost."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from gateway.cli.views import over
from gateway.common.contract.errors import BadPayload, NameInUse, NotFound
from gateway.operate import costs, usage
from gateway.operate import views as operations
from gateway.operate.site.views import DETAIL, VIEW, rows_of, shown, views
from gateway.usage.sums import bounds
from gateway.usage.sums.home import SumHome
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.ranges import BEYOND_HOURS, RANGES, Range, times_of
from gateway.usage.sums.request import read_question
from gateway.usage.views.store import Views
from gateway.usage.views.view import question_of
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
    rows = await rows_of(rig.queries, read_question(question_of(view, NOW_MS), NOW_MS))
    html = html_of(DETAIL, {**shown(view), **rows})
    assert "core · gpt-4o USD" in text_of(html)
    assert "(unknown) · gpt-4o USD" in text_of(html)
    assert "Today, UTC; Provider: openai. 2 of 2 rows." in text_of(html)
    assert "&lt;i&gt;Core" in html
    assert "team, model provider openai" in text_of(html_of(VIEW, views(await rig.ask("GET"))))
