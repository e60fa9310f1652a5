"""kill -9 while days are dropped to a billing connection: each is there once and whole."""

import asyncio
import random
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

from gateway.common.storage.database import Database
from gateway.local_service.service import Service
from tests.support.billing_lane import homes_in, lane_to, send
from tests.support.forked_process import FORKS
from tests.unit.usage.billing.rig import TOMORROW_MS, call, count, far_end, none_due, until

pytestmark = pytest.mark.slow

KILLS = 20
DAYS = 5
TEAMS = 30


async def taken(service: Service) -> tuple[int, int]:
    """(days in force, parts that wait for others) at the service."""
    days, parts = await service.database.read(
        lambda sql: sql.execute(
            "SELECT (SELECT count(*) FROM billing_drops), (SELECT count(*) FROM billing_parts)"
        ).fetchone()
    )
    return days, parts


async def test_each_day_is_dropped_once_and_whole_over_20_kills(tmp_path: Path, chance: random.Random) -> None:
    path = tmp_path / "control.db"
    database = await Database.open(path)
    calls = [
        call(f"0.{team:03}{day}", ago_h=24.0 * day, attribution={"team": f"team {team}"})
        for day in range(DAYS)
        for team in range(1, TEAMS + 1)
    ]
    await count(await homes_in(database), *calls)
    await database.close()
    amid = 0
    async with far_end(tmp_path / "service") as far:
        for _ in range(KILLS):
            before, more = await taken(far.service), chance.randint(1, 4)
            process = FORKS.Process(target=send, args=(path, far.port, far.secret, TOMORROW_MS), daemon=True)
            process.start()

            async def moved(before: tuple[int, int] = before, more: int = more) -> bool:
                days, parts = await taken(far.service)
                return days > before[0] or parts >= before[1] + more

            await until(moved)
            process.kill()
            await asyncio.to_thread(process.join)
            amid += (await taken(far.service))[1] > 0
        assert amid >= KILLS // 2, "most kills met a day half way"
        assert (await taken(far.service))[0] < DAYS, "and not all was dropped before the last one"
        database = await Database.open(path)
        homes = await homes_in(database)
        async with lane_to(far.port, far.secret, homes, now_ms=lambda: TOMORROW_MS) as lane:
            await until(lambda: none_due(lane))
        await database.close()
        drops = await far.drops()
        assert Counter(drop["day"] for drop in drops) == {f"2026-01-0{n}": 1 for n in range(1, 6)}
        rows = await far.rows()
        assert Counter(row["ChargePeriodStart"][:10] for row in rows) == {f"2026-01-0{n}": TEAMS for n in range(1, 6)}
        assert sum(Decimal(row["BilledCost"]) for row in rows) == sum(Decimal(each["cost"]["amount"]) for each in calls)
        assert await taken(far.service) == (DAYS, 0)
