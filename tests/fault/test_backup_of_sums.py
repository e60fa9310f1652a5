"""A backup of budgets that alerted, views, streams, and days of which one is dropped in part:
restored, no alert is sent twice, no day is dropped twice or is missing, and costs are the same.
"""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.common.storage.database import Database
from gateway.stores.sql.budgets import open_budgets
from gateway.stores.sql.sums.home import SqlSums
from gateway.usage.billing import lane as lanes
from gateway.usage.budgets.book import Budgets
from gateway.usage.budgets.delivering import DEFAULT
from tests.fault.test_full_disk_of_sums import Receiver, receiving
from tests.support.billing_lane import homes_in, lane_to
from tests.support.commands import run_telemetry_gateway
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.polling import until_true
from tests.unit.usage.billing.rig import TOMORROW_MS, Far, call, count, far_end, none_due, until

DAYS = 3
TEAMS = 150
BUDGET = {"name": "b", "amount": "100", "currency": "USD", "period": "month"}
VIEW = {"name": "By team", "range": "last_30_days", "group_by": ["team"]}


class Operator:
    """Of a gateway that runs."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self._gateway = gateway

    def ask(self, path: str, body: object = None) -> Any:
        token = (self._gateway.data_dir / "admin-token").read_text().strip()
        method = "GET" if body is None else "POST"
        answer = httpx.request(method, self._gateway.admin_url + path, json=body, headers={"Authorization": token})
        assert answer.is_success, answer.text
        return answer.json()

    def everything(self) -> dict[str, Any]:
        """What a backup has to bring back."""
        usage = "usage?from=2026-01-01T00:00:00Z&to=2026-02-01T00:00:00Z&group_by=team&limit=200"
        (budget,) = self.ask("/v2/budgets")["budgets"]
        found = {
            "alerts": self.ask(f"/v2/budgets/{budget['id']}")["budget"]["alerts"],
            "views": self.ask("/v2/views")["views"],
            "usage": {**self.ask(f"/v2/{usage}"), "counted_through": None},
        }
        self.add_to_stream("5")
        with closing(sqlite3.connect(self._gateway.data_dir / "service" / "service.db")) as connection:
            found["stream"] = connection.execute("SELECT value FROM unit_cost_records WHERE NOT deleted").fetchall()
        return found

    def add_to_stream(self, value: str) -> None:
        """Delivered when this returns."""
        record = {"timestamp": "2026-01-05", "granularity": "DAILY", "value": value}
        url = f"{self._gateway.intake_url}/v1/unit-cost/metric/answers/sum"
        assert httpx.post(url, json={"records": [record]}).status_code == 202
        self._gateway.wait_until_delivered("unit_cost")


def begun(folder: Path) -> GatewayProcess:
    """A gateway with a budget, a view and a stream, stopped again."""
    with GatewayProcess(folder) as gateway:
        operator = Operator(gateway)
        thresholds = [{"of": "actual", "percent": percent} for percent in (1, 2, 50)]
        operator.ask("/v2/budgets", {**BUDGET, "thresholds": thresholds})
        operator.ask("/v2/views", VIEW)
        operator.add_to_stream("12")
        assert gateway.stop() == 0
    return gateway


@asynccontextmanager
async def control(gateway: GatewayProcess) -> AsyncIterator[Database]:
    opened = await Database.open(gateway.data_dir / "control.db")
    yield opened
    await opened.close()


async def alerted(database: Database, receiver: Receiver, calls: int) -> None:
    """The budgets are looked at, and webhooks called until *calls* arrived."""
    webhooks, sums = {DEFAULT: receiver.webhook}, await SqlSums.open(database)
    budgets = await Budgets.open(await open_budgets(database), sums, now_ms=lambda: TOMORROW_MS, webhooks=webhooks)
    await budgets.look()
    calling = asyncio.create_task(budgets.deliverer.run())
    delivered = budgets.deliverer.calls
    await until_true(lambda: delivered["delivered"] >= calls, what="the webhooks")
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)


async def half_way(far: Far) -> bool:
    found = "SELECT (SELECT count(*) FROM billing_drops) > 0 AND (SELECT count(*) FROM billing_parts) > 0"
    return bool((await far.service.database.read(lambda sql: sql.execute(found).fetchone()))[0])


async def test_a_restore_sends_no_alert_and_no_day_twice_and_misses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "LIMITS", replace(lanes.LIMITS, max_bytes=100_000))
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    calls = [
        call(f"0.{team:04}{day}", ago_h=24.0 * day, attribution={"team": f"team {team}"})
        for day in range(DAYS)
        for team in range(1, TEAMS + 1)
    ]
    first = await asyncio.to_thread(begun, tmp_path / "a")
    async with receiving() as receiver, far_end(tmp_path / "service") as far:
        to_far = partial(lane_to, far.port, far.secret, now_ms=lambda: TOMORROW_MS)
        async with control(first) as database:
            homes = await homes_in(database)
            await database.write(lambda sql: sql.execute("UPDATE usage_rollup_state SET counted_from = 0"))
            await count(homes, *calls)
            await alerted(database, receiver, 2)
            async with to_far(homes):
                await until(partial(half_way, far))
        file = tmp_path / "gateway.tar"
        ended = run_telemetry_gateway("backup", "--data-dir", str(first.data_dir), "--to", str(file))
        assert ended.code == 0, ended.err
        second = GatewayProcess(tmp_path / "b")
        ended = run_telemetry_gateway("restore", str(file), "--data-dir", str(second.data_dir))
        assert ended.code == 0, ended.err
        before, after = await asyncio.to_thread(restarted, first, second)
        assert before == after
        assert before["stream"] == [("17",)]
        assert before["usage"]["totals"]["calls"] == len(calls)
        async with control(second) as database:
            homes = await homes_in(database)
            async with to_far(homes) as lane:
                await until(partial(none_due, lane))
            await count(homes, call("50"))
            await alerted(database, receiver, 1)
        drops, rows = await far.drops(), await far.rows()
    assert [*receiver.seen.values()] == [1, 1, 1], "the third is of after the restore"
    assert Counter(drop["day"] for drop in drops) == {f"2026-01-0{n}": 1 for n in range(3, 6)}
    assert Counter(row["ChargePeriodStart"][:10] for row in rows) == {f"2026-01-0{n}": TEAMS for n in range(3, 6)}
    assert sum(Decimal(row["BilledCost"]) for row in rows) == sum(Decimal(each["cost"]["amount"]) for each in calls)


def restarted(*gateways: GatewayProcess) -> list[dict[str, Any]]:
    found = []
    for gateway in gateways:
        with gateway:
            found.append(Operator(gateway).everything())
            assert broken_identities(gateway.status()) == []
            assert gateway.stop() == 0
    return found
