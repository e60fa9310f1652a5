"""Views of a gateway with much traffic stay small: ever new models, users and devices.

`PAGE_RECORDS=1000000 pytest -s tests/unit/operate/test_page_sizes.py` prints sizes and times of
every view at a million records.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, cast

import aiohttp
import orjson
import pytest

from exporters.secret import Secret
from gateway.common.storage.database import Database
from gateway.config.values import TcpAddress
from gateway.operate.registry import AdminStores
from gateway.operate.server import admin_app
from gateway.operate.session import AdminAccess
from gateway.operate.site.usage_answers import SHARE, UsageAnswers
from gateway.operate.site.usage_question import RANGES, Question
from gateway.serve.listen import listen, runner_for
from gateway.stores.sql.sums.home import SqlSums
from gateway.usage.sums.home import SumHome
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.tally import Tally
from tests.support.polling import HANGS_S
from tests.unit.operate.test_admin import figures, lane, pages_of
from tests.unit.usage.sums.test_tally import NOW_MS, record, store

TOKEN = Secret("admin-token-of-the-test")
RECORDS = int(os.environ.get("PAGE_RECORDS", "6000"))
MODELS = 60_000
"""At that many records or more; with fewer each record has a model of its own."""
PER_WRITE = 20_000
MAX_BYTES = 300_000
LONG = "x" * 100
"""Names are as long as the tally keeps them."""


@dataclass
class Rig:
    url: str
    client: aiohttp.ClientSession


def records(count: int) -> Iterator[bytes]:
    """Calls of the last 30 days: each model in turn, users and devices of their own, three
    currencies.
    """
    for n in range(count):
        name = f"{n % MODELS:05}-{LONG}"
        who = {"team": f"team-{n % 300}", "project": f"project-{n % 900}", "user": name, "service_name": f"s-{n % 50}"}
        cost = {"amount": f"0.{n % 9999:06}", "currency": ("USD", "EUR", "GBP")[n % 3], "source": "estimated"}
        made = record(
            ago_h=(n * 7919 % (30 * 24 * 60)) / 60, provider=f"provider-{n % 70}", response_model=name, attribution=who | {"device_id": name},
            cost=cost if n % 10 else None,
        )  # fmt: skip
        yield orjson.dumps(made)


async def fill(sums: SumHome) -> None:
    """As the follower does: some thousand records a commit."""
    left = records(RECORDS)
    while page := list(islice(left, PER_WRITE)):
        tally = Tally()
        tally.add(page, now_ms=NOW_MS)
        await store(sums, tally)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    database = await Database.open(tmp_path / "control.db")
    sums = await SqlSums.open(database)
    await fill(sums)
    dead = [
        {"lane": "ai_telemetry", "reason": f"{n}-{LONG}", "records": 1, "bytes": 1, "oldest_at": "", "newest_at": ""}
        for n in range(1000)
    ]
    status = figures(
        lanes={f"lane-{n}": lane(state="held", reason=LONG * 3) for n in range(20)},
        dead_letters=dead,
        unpriced={f"{n}-{LONG}": 1 for n in range(1000)},
    )

    async def unsettled() -> list[Any]:
        return []

    access = AdminAccess(TOKEN, time.monotonic, os.urandom)
    parts = pages_of(access, status=lambda: status, unsettled=unsettled, now_ms=lambda: NOW_MS)
    queries = UsageQueries(sums, now_ms=lambda: NOW_MS)
    app = admin_app(parts, AdminStores(status=lambda: status, usage=queries), loopback=True)
    listener = cast("Any", await listen(runner_for(app), TcpAddress("127.0.0.1", 0)))
    async with aiohttp.ClientSession(headers={"Authorization": TOKEN.reveal()}) as client:
        yield Rig(f"http://{listener.address}", client)
    await listener.close()
    await database.close()


async def test_no_view_follows_the_number_of_models(rig: Rig) -> None:
    paths = [f"/?range={each.name}" for each in RANGES]
    paths += [
        f"/usage?group_by={by}&range=last_30_days&compare=previous" for by in ("model", "user", "device_id", "key")
    ]
    paths += [
        "/usage?group_by=model,user&range=last_30_days&sort_key=name&sort_order=asc&first=500",
        "/?range=30d&team=team-7",
        "/?range=24h&without=team",
        "/delivery",
    ]
    for path in paths:
        times_ms = []
        for _ in range(3 if RECORDS > MODELS else 1):
            began_s = time.perf_counter()
            async with rig.client.get(rig.url + path) as response:
                text = await response.text()
            times_ms.append((time.perf_counter() - began_s) * 1000)
            assert response.status == 200, text[:500]
        print(f"{path:50} {len(text.encode()):8,} B {min(times_ms):6.0f} ms")  # noqa: T201 the measurement
        assert len(text.encode()) < MAX_BYTES, path


async def test_a_slow_answer_is_shown_again_and_states_for_how_long(tmp_path: Path) -> None:
    """Of many live pages; a fast one is asked again each time."""
    database = await Database.open(tmp_path / "control.db")
    sums = await SqlSums.open(database)
    now_s = 0.0

    def clock() -> float:
        nonlocal now_s
        now_s += slowness_s
        return now_s

    answers, question = UsageAnswers(UsageQueries(sums, now_ms=lambda: NOW_MS), clock), Question(RANGES[3])
    slowness_s = 0.001
    assert await answers.answer(question, NOW_MS) is not await answers.answer(question, NOW_MS)
    slowness_s = 0.2
    slow = await answers.answer(question, NOW_MS)
    assert slow.fresh_in_s == 0
    again = await answers.answer(question, NOW_MS)
    assert again == slow._replace(fresh_in_s=again.fresh_in_s)
    assert 9 < again.fresh_in_s < 0.2 / SHARE
    async with answers._answers._turn, asyncio.timeout(HANGS_S):
        assert (await answers.answer(question, NOW_MS)).fresh_in_s > 0, "waits for no other question"
    now_s += again.fresh_in_s
    assert (await answers.answer(question, NOW_MS)).fresh_in_s == 0
    await database.close()
