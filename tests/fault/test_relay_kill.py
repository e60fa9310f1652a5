"""kill -9 while billing drops of senders come and go out: each that was accepted is at the upstream
once and whole, in order.
"""

import asyncio
import json
import random
from pathlib import Path
from typing import Final

import aiohttp
import pytest

from gateway.local_service.misbehave import Misbehave
from tests.support.billing_lane import CONNECTION
from tests.support.gateway_process import GatewayProcess
from tests.unit.local_service.test_billing import body, row
from tests.unit.usage.billing.rig import far_end, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

KILLS: Final = 12
DROPS_BETWEEN: Final = 6
RETRY_S: Final = 0.05
PATH: Final = f"/v2/connections/billing/external/{CONNECTION}/billing_drops"


async def deliver(gateway: GatewayProcess, number: int) -> None:
    """Post a drop that adds, until it is acknowledged; a repeat is known by its key."""
    drop = body(row(**{"resource/id": f"drop {number}", "cost/cost": str(number)}), operation="sum")
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
        while True:
            try:
                url, headers = gateway.intake_url + PATH, {"Idempotency-Key": f"drop {number}"}
                async with session.post(url, json=drop, headers=headers) as answer:
                    if answer.status == 200:
                        return
            except (aiohttp.ClientError, TimeoutError):
                pass
            await asyncio.sleep(RETRY_S)


async def test_each_accepted_drop_arrives_once_and_in_order_over_kills(tmp_path: Path) -> None:
    chance = random.Random(26)
    async with far_end(tmp_path / "far", Misbehave(latency_ms=20)) as far:
        key = {"name": "billing", "secret": far.secret, "managed": ["send-billing-data"]}
        upstream = {"base_url": f"http://127.0.0.1:{far.port}", "keys": [key]}
        amid = 0
        with GatewayProcess(tmp_path, config={"upstream": upstream}) as gateway:
            for kill in range(KILLS):
                first = kill * DROPS_BETWEEN
                sending = asyncio.create_task(deliver_all(gateway, range(first, first + DROPS_BETWEEN)))
                await asyncio.sleep(chance.uniform(0.0, 0.15))
                arrived = len(await far.drops())
                gateway.kill()
                await asyncio.to_thread(gateway.restart)
                await sending
                amid += arrived < first + DROPS_BETWEEN

            async def all_arrived() -> bool:
                return len(await far.drops()) >= KILLS * DROPS_BETWEEN

            await until(all_arrived, timeout_s=60)
        assert amid >= KILLS // 2, "most kills met drops that were under way"
        stored = await far.service.database.read(
            lambda sql: sql.execute("SELECT row FROM billing_rows ORDER BY row_no").fetchall()
        )
        found = [json.loads(row)["resource/id"] for (row,) in stored]
        assert found == [f"drop {number}" for number in range(KILLS * DROPS_BETWEEN)]


async def deliver_all(gateway: GatewayProcess, numbers: range) -> None:
    for number in numbers:
        await deliver(gateway, number)
