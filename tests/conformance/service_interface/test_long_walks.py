"""Part 4.2 at length: 10 000 insights by cursors, on and back, while others come, go
and change; and over a kill.
"""

import asyncio
import math
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.pipeline.delivery.embedded import READ_KEY_FILE
from gateway.stores.sql.insights import SqlInsightRows
from gateway.usage.insights.finding import STATUSES
from gateway.usage.insights.home import InsightRow
from tests.conformance.service_interface.endpoints import INSIGHT
from tests.support.service_process import ServiceProcess
from tests.unit.local_service.conftest import NOW_MS, Client, ai_envelope, ai_record

INSIGHTS = "/v2/insights"
ROWS = 10_000
LIMIT = 200


class Crowd:
    """Whoever else uses the service: makes insights, deletes and changes some,
    one request after the other.
    """

    def __init__(self, client: Client, doomed: list[str], moving: list[str]) -> None:
        self._client = client
        self._doomed = doomed
        self._moving = moving
        self._random = random.Random(7)
        self._made: list[str] = []
        self._turned = asyncio.Event()
        self._is_over = False
        self.begun = {"made": 0, "deleted": 0}
        self.done = {"made": 0, "deleted": 0}

    async def run(self) -> None:
        while True:
            made = await self._count("made", self._make())
            self._made.append(made)
            await self._count("deleted", self._delete())
            await self._move()
            self._turned.set()

    async def one_more_turn(self) -> None:
        """Wait until something came, went and moved; the next turn is under way then."""
        assert not self._is_over, "the crowd met an error"
        self._turned.clear()
        await self._turned.wait()

    def release(self) -> None:
        """No one waits for a crowd that is gone."""
        self._is_over = True
        self._turned.set()

    async def _count(self, what: str, work: Any) -> Any:
        self.begun[what] += 1
        result = await work
        self.done[what] += 1
        return result

    async def _make(self) -> str:
        status = self._random.choice(STATUSES)
        reply = await self._client.post(INSIGHTS, {**INSIGHT, "title": f"{self._random.random()}", "status": status})
        assert reply.status == 201
        insight_id: str = reply.json["insight"]["id"]
        return insight_id

    async def _delete(self) -> None:
        ids = self._doomed if self._random.random() < 0.5 else self._made
        insight_id = ids.pop(self._random.randrange(len(ids)))
        assert (await self._client.delete(f"{INSIGHTS}/{insight_id}")).status == 204

    async def _move(self) -> None:
        path = f"{INSIGHTS}/{self._random.choice(self._moving)}"
        assert (await self._client.patch(path, {"status": self._random.choice(STATUSES)})).status == 200


async def seed(client: Client) -> list[str]:
    """10 000, with many ties in every column but the id."""

    def put(connection: Any) -> None:
        for n in range(ROWS):
            cost = None if n % 7 == 0 else str(Decimal(n % 50) / 4)
            row = InsightRow(
                f"seed-{n}", n + 1, "seed", f"t{n % 97}", "c", "low", cost, STATUSES[n * 7 % 5], NOW_MS + n // 9
            )
            SqlInsightRows(connection).put([row])

    await client.service.database.write(put)
    return [f"seed-{n}" for n in range(ROWS)]


@asynccontextmanager
async def busy(client: Client, doomed: list[str], moving: list[str]) -> AsyncIterator[Crowd]:
    crowd = Crowd(client, doomed, moving)
    task = asyncio.create_task(crowd.run())
    task.add_done_callback(lambda _: crowd.release())
    try:
        yield crowd
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def page(client: Client, crowd: Crowd, **params: str) -> dict[str, Any]:
    """A page, whose counts were true at some time while it was asked for."""
    await crowd.one_more_turn()
    made, deleted = crowd.done["made"], crowd.done["deleted"]
    reply = await client.get(INSIGHTS, **params)
    assert reply.status == 200
    body: dict[str, Any] = reply.json
    counts = body["pagination"]
    least = ROWS + made - crowd.begun["deleted"]
    most = ROWS + crowd.begun["made"] - deleted
    assert least <= counts["total_count"] <= most
    assert counts["page_count"] == math.ceil(counts["total_count"] / LIMIT)
    assert counts["item_count"] == len(body["insights"])
    return body


def check_walk(pages: list[dict[str, Any]], steady: set[str], moving: set[str]) -> None:
    items = [item for each in pages for item in each["insights"]]
    seen = [item["id"] for item in items if item["id"] not in moving]
    assert len(seen) == len(set(seen)), "nothing repeats"
    assert steady <= set(seen), "nothing goes missing"


@pytest.mark.parametrize(
    ("key", "order"),
    [("status", "asc"), ("status", "desc"), ("cost_impact", "asc"), ("title", "desc"), ("last_updated", "asc")],
)
async def test_4_2_2_each_of_10_000_is_shown_once_both_ways_while_others_come_go_and_change(
    client: Client, key: str, order: str
) -> None:
    ids = await seed(client)
    random.Random(3).shuffle(ids)
    doomed, moving, steady = ids[:2000], ids[2000:2500], set(ids[2500:])
    async with busy(client, doomed, moving) as crowd:
        pages = [await page(client, crowd, sort_key=key, sort_order=order, limit=str(LIMIT))]
        while cursor := pages[-1]["pagination"]["cursor"]["next_cursor"]:
            pages.append(await page(client, crowd, cursor=cursor))
        check_walk(pages, steady, set(moving))
        back = [pages[-1]]
        while cursor := back[-1]["pagination"]["cursor"]["previous_cursor"]:
            back.append(await page(client, crowd, cursor=cursor))
        check_walk(back, steady, set(moving))
        assert min(crowd.done.values()) >= len(pages) + len(back) - 1, "others were busy between all pages"
    assert all(each["pagination"]["item_count"] == LIMIT for each in pages[:-1])
    for each in (*pages, *back):
        values = [value_of(item, key) for item in each["insights"] if item["id"] in steady]
        assert values == sorted(values, reverse=order == "desc")


def value_of(item: dict[str, Any], key: str) -> Any:
    if key == "cost_impact":
        return Decimal("-Infinity") if item[key] is None else Decimal(item[key])
    return item[key]


async def test_4_2_2_a_cursor_leads_on_after_the_service_was_killed_and_started_again(tmp_path: Path) -> None:
    service = ServiceProcess(tmp_path)
    await asyncio.to_thread(service.start)
    try:
        sender = {"Authorization": (service.data_dir / "service" / "telemetry.key").read_text().strip()}
        reader = {"Authorization": (service.data_dir / READ_KEY_FILE).read_text().strip()}
        records = [ai_record(f"r{n:02}", started_at=f"2026-01-05T10:00:{n % 7:02}Z") for n in range(25)]
        async with aiohttp.ClientSession() as session:

            async def listed(**params: str) -> dict[str, Any]:
                url = f"http://127.0.0.1:{service.port}/v2/ai-telemetry/records"
                async with session.get(url, headers=reader, params=params) as response:
                    assert response.status == 200
                    found: dict[str, Any] = await response.json()
                    return found

            url = f"http://127.0.0.1:{service.port}/v2/ai-telemetry/records"
            async with session.post(url, headers=sender, json=ai_envelope(*records)) as response:
                assert response.status == 202
            expected = [record["record_id"] for record in (await listed())["records"]]
            pages = [await listed(limit="10", sort_key="started_at", sort_order="asc")]
            while cursor := pages[-1]["pagination"]["cursor"]["next_cursor"]:
                await asyncio.to_thread(service.kill)
                await asyncio.to_thread(service.start)
                pages.append(await listed(cursor=cursor))
            assert [record["record_id"] for each in pages for record in each["records"]] == expected
            assert len(pages) == 3
    finally:
        await asyncio.to_thread(service.kill)
