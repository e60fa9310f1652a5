"""Insights wherever they are kept: one a cause, over rounds and restarts."""

import asyncio
from typing import Any

import pytest

from gateway.common.lists.conventions import read_request
from gateway.usage.insights import kept
from gateway.usage.insights.changes import FoundInsight, NoSuchInsight, TooMany
from gateway.usage.insights.finding import COMMENT_LIST, INSIGHT_LIST, Finding
from gateway.usage.insights.store import SETTLEMENT_KEPT_MS, InsightStore
from tests.support.spool_rig import Clock
from tests.support.stores import Home


def finding(model: str = "m", title: str = "as first noted", **fields: Any) -> Finding:
    return Finding("no_price", "", model, title, "pricing", "low", **fields)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(home: Home, clock: Clock) -> InsightStore:
    return await InsightStore.open(await home.insights(), now_ms=clock)


async def listed(store: InsightStore, **query: str) -> list[dict[str, Any]]:
    page = await store.page(read_request(INSIGHT_LIST, query.items()))
    return [dict(item) for item in page.items]  # type: ignore[call-overload]  # each is an Insight


async def set_status(store: InsightStore, status: str) -> None:
    for item in await listed(store):
        await store.change(item["id"], {"status": status}, by="ops")


async def statuses(store: InsightStore) -> list[str]:
    return [item["status"] for item in await listed(store)]


async def test_an_item_has_the_six_published_fields_and_an_id(store: InsightStore) -> None:
    await store.note([finding(cost_impact="1.50")])
    assert await listed(store) == [
        {
            "id": finding().insight_id,
            "status": "new",
            "category": "pricing",
            "cost_impact": "1.50",
            "effort": "low",
            "title": "as first noted",
            "last_updated": "2026-01-05T10:00:00.000Z",
        }
    ]


async def test_one_cause_stays_one_insight_and_its_text_follows(store: InsightStore, clock: Clock) -> None:
    await store.note([finding()])
    clock.now_ms += 60_000
    await store.note([finding()])
    (item,) = await listed(store)
    assert item["last_updated"] == "2026-01-05T10:00:00.000Z", "nothing changed"
    await store.note([finding(title="changed")])
    (item,) = await listed(store)
    assert (item["title"], item["last_updated"]) == ("changed", "2026-01-05T10:01:00.000Z")


async def test_what_was_found_before_a_restart_is_still_there_and_comes_to_no_second_one(
    store: InsightStore, home: Home, clock: Clock
) -> None:
    await store.note([finding(), finding("other")])
    again = await InsightStore.open(await home.insights(), now_ms=clock)
    await again.note([])
    assert {item["status"] for item in await listed(again)} == {"new"}, "a fresh start knows nothing of them yet"
    await again.note([finding(title="changed")])
    assert sorted(item["title"] for item in await listed(again)) == ["as first noted", "changed"]


async def test_what_is_gone_is_addressed_and_new_when_it_comes_back(store: InsightStore) -> None:
    await store.note([finding()])
    await store.note([])
    assert [item["status"] for item in await listed(store)] == ["addressed"]
    assert await store.unsettled() == []
    await store.note([finding()])
    assert [item["status"] for item in await listed(store)] == ["new"]


@pytest.mark.parametrize("status", ["ignored", "on_hold", "in_progress", "addressed"])
async def test_a_status_set_by_an_operator_stays_while_the_cause_does(
    store: InsightStore, home: Home, clock: Clock, status: str
) -> None:
    await store.note([finding()])
    await set_status(store, status)
    await store.note([finding(title="changed")])
    assert await statuses(store) == [status]
    clock.now_ms += SETTLEMENT_KEPT_MS  # a restart within a day brings nothing back
    again = await InsightStore.open(await home.insights(), now_ms=clock)
    await again.note([finding(title="told by another process")])
    assert await statuses(again) == [status]


@pytest.mark.parametrize(
    ("status", "then"),
    [("ignored", "ignored"), ("on_hold", "on_hold"), ("in_progress", "in_progress"), ("addressed", "new")],
)
async def test_what_is_found_after_a_start_a_day_later_was_not_addressed(
    store: InsightStore, home: Home, clock: Clock, status: str, then: str
) -> None:
    await store.note([finding()])
    await set_status(store, status)
    clock.now_ms += SETTLEMENT_KEPT_MS + 1
    again = await InsightStore.open(await home.insights(), now_ms=clock)
    assert await statuses(again) == [status], "a start alone changes nothing"
    await again.note([finding()])
    assert await statuses(again) == [then]
    detail = await again.read(finding().insight_id)
    assert detail["status_set_by"] == (None if then == "new" else "ops")


async def test_an_addressed_insight_is_new_when_its_cause_was_gone_and_returns(
    store: InsightStore, home: Home, clock: Clock
) -> None:
    await store.note([finding()])
    await set_status(store, "addressed")
    await store.note([])
    again = await InsightStore.open(await home.insights(), now_ms=clock)
    await again.note([finding()])
    assert await statuses(again) == ["new"]


async def test_a_status_says_who_set_it_and_moves_the_date(store: InsightStore, clock: Clock) -> None:
    await store.note([finding()])
    clock.now_ms += 60_000
    changed = await store.change(finding().insight_id, {"status": "on_hold"}, by="ops")
    assert changed == await store.read(finding().insight_id)
    assert (changed["cause"], changed["status_set_by"]) == ("no_price", "ops")
    assert changed["status_set_at"] == changed["last_updated"] == "2026-01-05T10:01:00.000Z"


async def test_the_history_holds_each_status_with_who_set_it(store: InsightStore, clock: Clock) -> None:
    await store.note([finding()])
    for status in ("on_hold", "on_hold", "in_progress"):
        clock.now_ms += 60_000
        await store.change(finding().insight_id, {"status": status}, by="ops")
    clock.now_ms += 60_000
    await store.note([])
    history = (await store.read(finding().insight_id))["history"]
    assert [(each["status"], each["by"], each["at"][14:16]) for each in history] == [
        ("new", None, "00"), ("on_hold", "ops", "01"), ("in_progress", "ops", "03"), ("addressed", None, "04"),
    ]  # fmt: skip
    for number in range(60):
        await store.change(finding().insight_id, {"status": ("new", "ignored")[number % 2]}, by=f"ops {number}")
    kept = (await store.read(finding().insight_id))["history"]
    assert [each["by"] for each in kept] == [f"ops {number}" for number in range(10, 60)]
    await store.delete(finding().insight_id)
    await store.note([finding()])
    assert len((await store.read(finding().insight_id))["history"]) == 1


@pytest.mark.parametrize("field", ["title", "category", "effort", "cost_impact"])
async def test_of_what_was_found_only_the_status_is_changed_by_hand(store: InsightStore, field: str) -> None:
    await store.note([finding()])
    with pytest.raises(FoundInsight, match=f"^{field}: "):
        await store.change(finding().insight_id, {"status": "ignored", field: "1"}, by="ops")
    assert await statuses(store) == ["new"], "all of a change, or nothing"


async def test_a_found_insight_that_was_deleted_is_new_with_the_next_round(store: InsightStore) -> None:
    await store.note([finding()])
    await set_status(store, "ignored")
    await store.add_comment(finding().insight_id, {"text": "said"}, by="ops")
    await store.delete(finding().insight_id)
    assert await listed(store) == []
    with pytest.raises(NoSuchInsight):
        await store.delete(finding().insight_id)
    await store.note([finding()])
    assert await statuses(store) == ["new"]
    request = read_request(COMMENT_LIST.of(finding().insight_id), ())
    assert (await store.comments(finding().insight_id, request)).items == []


async def test_rounds_touch_nothing_that_was_made_by_hand(store: InsightStore) -> None:
    made = await store.create({"title": "by hand", "category": "waste", "effort": "low"})
    await store.note([finding()])
    await store.note([])
    assert await store.read(made["id"]) == made
    assert made["cause"] is None


async def test_there_is_an_end_to_what_is_written_by_hand(store: InsightStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MAX_MADE", 1)
    monkeypatch.setattr(kept, "MAX_COMMENTS", 1)
    body = {"title": "by hand", "category": "waste", "effort": "low"}
    made = await store.create(body)
    await store.add_comment(made["id"], {"text": "x"}, by="ops")
    with pytest.raises(TooMany, match=r"^insights: "):
        await store.create(body)
    with pytest.raises(TooMany, match=r"^comments: "):
        await store.add_comment(made["id"], {"text": "y"}, by="ops")
    await store.note([finding()])
    await store.add_comment(finding().insight_id, {"text": "the end is each insight's own"}, by="ops")


async def test_changes_at_once_keep_what_each_of_them_set(store: InsightStore) -> None:
    made = await store.create({"title": "by hand", "category": "waste", "effort": "low"})
    fields = {"title": "t", "category": "c", "effort": "e", "cost_impact": "1", "status": "ignored"}
    await asyncio.gather(*(store.change(made["id"], {name: value}, by="ops") for name, value in fields.items()))
    changed = await store.read(made["id"])
    assert {name: changed[name] for name in fields} == fields  # type: ignore[literal-required]  # names of the list above


@pytest.mark.parametrize(
    ("status", "then"), [("ignored", "ignored"), ("on_hold", "on_hold"), ("in_progress", "addressed")]
)
async def test_an_ignored_or_held_insight_is_not_addressed_by_a_round(
    store: InsightStore, status: str, then: str
) -> None:
    await store.note([finding()])
    await set_status(store, status)
    await store.note([])
    assert [item["status"] for item in await listed(store)] == [then]


async def test_costs_sort_as_numbers_and_the_unknown_comes_last(store: InsightStore) -> None:
    costs = ["9", "10", None, "0", "100.5"]
    await store.note([finding(str(n), cost_impact=cost) for n, cost in enumerate(costs)])
    found = [item["cost_impact"] for item in await listed(store, sort_key="cost_impact", sort_order="desc")]
    assert found == ["100.5", "10", "9", "0", None]


async def test_rounds_at_once_write_each_cause_once(store: InsightStore) -> None:
    await asyncio.gather(*(store.note([finding(str(n % 3), title=f"round {n}")]) for n in range(30)))
    assert len(await listed(store)) == 3


async def test_there_are_never_more_than_the_most(store: InsightStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MAX_FOUND", 5)
    made = await store.create({"title": "by hand", "category": "waste", "effort": "low"})
    for n in range(9):
        await store.note([finding(str(n), title=str(n))])
        if n == 1:
            await store.change(finding("1").insight_id, {"status": "ignored"}, by="ops")
        if n == 2:
            await store.add_comment(finding("2").insight_id, {"text": "why?"}, by="ops")
    left = sorted(item["title"] for item in await listed(store))
    assert left == ["1", "2", "6", "7", "8", "by hand"], (
        "what a person touched, or made, outlives what nobody looked at"
    )
    assert made["id"] in {item["id"] for item in await listed(store)}
