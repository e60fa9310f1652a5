"""A disk without a free byte while a budget is looked at, its webhook is called and a day is
dropped in parts: each alert has one id, each day is there once and whole.
"""

import asyncio
import sqlite3
import subprocess
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from aiohttp import web

from exporters.secret import Secret
from gateway.common.storage.database import Database
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.stores.sql.budgets import open_budgets
from gateway.usage.billing import lane as lanes
from gateway.usage.budgets.body import NewBudget
from gateway.usage.budgets.book import Budgets
from gateway.usage.budgets.delivering import DEFAULT
from gateway.usage.budgets.webhook import Webhook
from tests.support.billing_lane import Homes, homes_in, lane_to
from tests.support.polling import until_true
from tests.unit.usage.billing.rig import TOMORROW_MS, call, count, far_end, none_due, until

T = TypeVar("T")

DISK_BYTES = 48 << 20
DAYS = 3
TEAMS = 150
PART_BYTES = 80_000
"""A part holds about a tenth of a day."""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of `DISK_BYTES`."""
    place = tmp_path / "disk"
    place.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES},mode=0700", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a small file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
async def database(small_disk: Path) -> AsyncIterator[Database]:
    opened = await Database.open(small_disk / "control.db")
    yield opened
    await opened.close()


@pytest.fixture
async def homes(database: Database) -> Homes:
    return await homes_in(database)


@contextmanager
def filled(place: Path) -> Iterator[None]:
    """No byte stays free, whatever is given up meanwhile."""
    filler, is_full, ending = place / "filler", threading.Event(), threading.Event()

    def fill() -> None:
        with filler.open("wb", buffering=0) as file:
            while not ending.is_set():
                for block_bytes in (1 << 16, 1 << 12, 1):
                    try:
                        while True:
                            file.write(b"x" * block_bytes)
                    except OSError:
                        continue
                is_full.set()
                ending.wait(0.002)

    thread = threading.Thread(target=fill)
    thread.start()
    try:
        assert is_full.wait(20)
        yield
    finally:
        ending.set()
        thread.join()
        filler.unlink()


class Receiver:
    """Takes every webhook."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.webhook: Webhook

    async def take(self, request: web.Request) -> web.Response:
        self.seen[request.headers["webhook-id"]] += 1
        return web.Response(status=204)


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver, app = Receiver(), web.Application()
    app.router.add_post("/", receiver.take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    receiver.webhook = Webhook(Secret(f"http://{host}:{port}/"), b"k" * 24)
    try:
        yield receiver
    finally:
        await runner.cleanup()


async def test_an_alert_on_a_full_disk_is_raised_once_and_called_under_one_id(
    small_disk: Path, database: Database, homes: Homes
) -> None:
    threshold = {"of": "actual", "percent": 50}
    fields = {"name": "b", "amount": "1", "currency": "USD", "period": "month", "thresholds": [threshold]}
    async with receiving() as receiver:
        webhooks = {DEFAULT: receiver.webhook}
        budgets = await Budgets.open(
            await open_budgets(database), homes.sums, now_ms=lambda: TOMORROW_MS, webhooks=webhooks
        )
        standing = await budgets.create(NewBudget.model_validate(fields), by="ops")
        await count(homes, call("0.75"))
        budgets._looked_at = (0, 0)
        with filled(small_disk), pytest.raises(DatabaseUnavailable):
            await budgets.look()
        await budgets.look()
        calling = asyncio.create_task(budgets.deliverer.run())
        with filled(small_disk):
            budgets.deliverer.wake()
            await until_true(lambda: receiver.seen.total() > 1, what="a call that was not noted, again")
        await until_true(lambda: budgets.deliverer.calls["delivered"] > 0, what="the note")
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        (alert,) = await budgets.alerts(standing.budget.budget_id)
    assert (alert.delivery, alert.attempts) == ("delivered", 1), "only a call that is noted counts as a try"
    assert set(receiver.seen) == {alert.alert_id}


async def test_a_day_in_parts_that_meets_a_full_disk_is_dropped_once_and_whole(
    tmp_path: Path, small_disk: Path, database: Database, homes: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "LIMITS", replace(lanes.LIMITS, max_bytes=PART_BYTES))
    calls = [
        call(f"0.{team:04}{day}", ago_h=24.0 * day, attribution={"team": f"team {team}"})
        for day in range(DAYS)
        for team in range(1, TEAMS + 1)
    ]
    await count(homes, *calls)
    write, faults = database.write, list[DatabaseUnavailable]()

    async def counting_write(change: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return await write(change)
        except DatabaseUnavailable as error:
            faults.append(error)
            raise

    monkeypatch.setattr(database, "write", counting_write)
    async with (
        far_end(tmp_path / "service") as far,
        lane_to(far.port, far.secret, homes, now_ms=lambda: TOMORROW_MS) as lane,
    ):

        async def taken() -> int:
            parts = "SELECT (SELECT count(*) FROM billing_drops) + (SELECT count(*) FROM billing_parts)"
            return int((await far.service.database.read(lambda sql: sql.execute(parts).fetchone()))[0])

        async def more_than(before: int) -> bool:
            return await taken() > before or await none_due(lane)

        async def met_or_done() -> bool:
            return bool(faults) or await none_due(lane)

        met = 0
        for _ in range(DAYS):
            with filled(small_disk):
                faults.clear()
                await until(met_or_done)
                met += bool(faults)
            await until(partial(more_than, await taken()))
        await until(partial(none_due, lane))
        assert met > 1, "the first time before a day is frozen, then within one"
        drops, rows = await far.drops(), await far.rows()
        assert Counter(drop["day"] for drop in drops) == {f"2026-01-0{n}": 1 for n in range(3, 6)}
        assert Counter(row["ChargePeriodStart"][:10] for row in rows) == {f"2026-01-0{n}": TEAMS for n in range(3, 6)}
        assert sum(Decimal(row["BilledCost"]) for row in rows) == sum(Decimal(each["cost"]["amount"]) for each in calls)
