"""Insights on a real control.db: one a cause, over rounds and restarts."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.insights import store as stores
from gateway.insights.finding import INSIGHT_LIST, Finding
from gateway.insights.store import InsightStore
from gateway.keys.database import Database
from gateway.keys.errors import DatabaseUnavailable
from gateway.list_conventions import read_request
from tests.support.spool_rig import Clock


def finding(model: str = "m", title: str = "told so", **fields: Any) -> Finding:
    return Finding("no_price", "", model, title, "pricing", "low", **fields)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await Database.open(tmp_path / "control.db")
    yield opened
    await opened.close()


@pytest.fixture
async def store(database: Database, clock: Clock) -> InsightStore:
    return await InsightStore.open(database, now_ms=clock)


async def listed(store: InsightStore, **query: str) -> list[dict[str, Any]]:
    page = await store.page(read_request(INSIGHT_LIST, query.items()))
    return [dict(item) for item in page.items]  # type: ignore[call-overload]  # each is an Insight


async def set_status(database: Database, status: str) -> None:
    await database.write(lambda c: c.execute("UPDATE insights SET status = ?", (status,)))


async def test_an_item_has_the_six_published_fields(store: InsightStore) -> None:
    await store.note([finding(cost_impact="1.50")])
    assert await listed(store) == [
        {
            "status": "new",
            "category": "pricing",
            "cost_impact": "1.50",
            "effort": "low",
            "title": "told so",
            "last_updated": "2026-01-05T10:00:00.000Z",
        }
    ]


async def test_one_cause_stays_one_insight_and_its_text_follows(store: InsightStore, clock: Clock) -> None:
    await store.note([finding()])
    clock.now_ms += 60_000
    await store.note([finding()])
    (item,) = await listed(store)
    assert item["last_updated"] == "2026-01-05T10:00:00.000Z", "nothing changed"
    await store.note([finding(title="told anew")])
    (item,) = await listed(store)
    assert (item["title"], item["last_updated"]) == ("told anew", "2026-01-05T10:01:00.000Z")


async def test_what_was_found_before_a_restart_is_still_there_and_comes_to_no_second_one(
    store: InsightStore, database: Database, clock: Clock
) -> None:
    await store.note([finding(), finding("other")])
    again = await InsightStore.open(database, now_ms=clock)
    await again.note([])
    assert {item["status"] for item in await listed(again)} == {"new"}, "a fresh start knows nothing of them yet"
    await again.note([finding(title="told anew")])
    assert sorted(item["title"] for item in await listed(again)) == ["told anew", "told so"]


async def test_what_is_gone_is_addressed_and_new_when_it_comes_back(store: InsightStore) -> None:
    await store.note([finding()])
    await store.note([])
    assert [item["status"] for item in await listed(store)] == ["addressed"]
    assert await store.unsettled() == []
    await store.note([finding()])
    assert [item["status"] for item in await listed(store)] == ["new"]


@pytest.mark.parametrize("status", ["ignored", "on_hold", "in_progress", "addressed"])
async def test_what_somebody_set_stays_while_the_cause_does(
    store: InsightStore, database: Database, status: str
) -> None:
    await store.note([finding()])
    await set_status(database, status)
    await store.note([finding(title="told anew")])
    assert [item["status"] for item in await listed(store)] == [status]


@pytest.mark.parametrize(
    ("status", "then"), [("ignored", "ignored"), ("on_hold", "on_hold"), ("in_progress", "addressed")]
)
async def test_what_somebody_set_aside_is_not_addressed_by_us(
    store: InsightStore, database: Database, status: str, then: str
) -> None:
    await store.note([finding()])
    await set_status(database, status)
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


async def test_a_round_that_could_not_be_written_is_made_up_for(store: InsightStore, database: Database) -> None:
    await database.write(
        lambda c: c.execute("CREATE TRIGGER broken BEFORE INSERT ON insights BEGIN SELECT raise(ABORT, 'x'); END")
    )
    with pytest.raises(DatabaseUnavailable):
        await store.note([finding()])
    await database.write(lambda c: c.execute("DROP TRIGGER broken"))
    await store.note([finding()])
    assert len(await listed(store)) == 1


async def test_there_are_never_more_than_the_most(store: InsightStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "MOST_INSIGHTS", 5)
    for n in range(9):
        await store.note([finding(str(n), title=str(n))])
    assert sorted(item["title"] for item in await listed(store)) == ["4", "5", "6", "7", "8"]
