"""Recommendations in a browser: why there is one, and that it is accepted and opened again."""

import asyncio
import random
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from gateway.common.storage.database import Database
from gateway.stores.sql.sums.home import SqlSums
from gateway.usage.sums.tally import HOUR_MS, Tally
from spool.data_dir import make_data_dir
from tests.support.browser import Browser, Looks, Programs
from tests.support.gateway_process import GatewayProcess
from tests.unit.usage.recommendations.test_month import call, plain
from tests.unit.usage.sums.test_tally import store

DAY_MS = 24 * HOUR_MS
TITLE = "triage: gpt-4o gives short answers; gpt-4o-mini gives them for less"


async def month_of_short_answers(data_dir: Path) -> None:
    """As a gateway has it that counts for two weeks."""
    now_ms, chance = int(time.time() * 1000), random.Random(7)
    database = await Database.open(data_dir / "control.db")
    sums = await SqlSums.open(database)
    await sums.begin(now_ms - 14 * DAY_MS)
    await store(sums, Tally(), now_ms=now_ms - 14 * DAY_MS)
    calls = [
        call("triage", "openai", "gpt-4o", now_ms - (n % 240 + 24) * HOUR_MS, plain(chance, (20, 150)))
        for n in range(600)
    ]
    tally = Tally()
    tally.add([orjson.dumps(each) for each in calls], now_ms=now_ms)
    await store(sums, tally, now_ms=now_ms)
    await database.close()


@pytest.fixture(scope="module")
def gateway(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("saving")
    make_data_dir(folder / "data")
    asyncio.run(month_of_short_answers(folder / "data"))
    with GatewayProcess(folder, config={"recommendations": {"least_saving": "0.5"}}) as gateway:
        yield gateway


def test_a_recommendation_says_why_and_is_decided(browser: Browser, looks: Looks, gateway: GatewayProcess) -> None:
    browser.log_in(gateway).press("Recommendations")
    assert TITLE in browser.text
    browser.find("tbody summary").click()
    assert "1 recommendation" in browser.text
    assert "Cost of the calls, less the price of the same tokens at the smaller model" in browser.text
    assert looks.faults("recommendations") == []
    browser.show_as("light", 1280)
    browser.press(f"Accept: {TITLE}")
    assert "The recommendation is accepted now." in browser.text
    assert looks.faults("recommendations accepted") == []
    browser.show_as("light", 1280)
    browser.press(f"Open again: {TITLE}")
    assert "The recommendation is open now." in browser.text
