"""A wall clock ten years wrong, either way, while usage is summed, budgets alert and days are
dropped: no sum is lost, no alert comes twice, each day is there once and whole.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path

import pytest

from exporters.secret import Secret
from gateway.common.storage.database import Database
from gateway.stores.sql.budgets import open_budgets
from gateway.stores.sql.sums.home import SqlSums
from gateway.usage.billing.content import day_text
from gateway.usage.billing.lane import BillingLane
from gateway.usage.budgets.body import NewBudget
from gateway.usage.budgets.book import Budgets
from gateway.usage.budgets.budget import DAY_MS
from gateway.usage.budgets.delivering import DEFAULT, LEAST_ATTEMPTS
from gateway.usage.budgets.home import Alert
from gateway.usage.budgets.webhook import Webhook
from gateway.usage.sums.following import UsageFollower
from gateway.usage.sums.home import Counted, SumHome
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.tally import HOUR_MS, Tally
from gateway.usage.sums.timespan import TimeRange
from spool.clock import rfc3339_ms
from tests.support.billing_lane import homes_in, lane_to
from tests.support.calls import EPOCH_MS, call
from tests.support.polling import until_true
from tests.support.spool_rig import Clock, Rig
from tests.unit.usage.billing.rig import call as billed
from tests.unit.usage.billing.rig import count, far_end, none_due, until

YEARS_MS = 10 * 365 * DAY_MS

wrong = pytest.mark.parametrize("wrong_ms", [YEARS_MS, -YEARS_MS], ids=["ten years ahead", "ten years behind"])


class Summing:
    """A spool, the follower that sums what settles there, and budgets on it."""

    def __init__(self, rig: Rig, database: Database, sums: SumHome) -> None:
        self.rig, self.database, self.sums, self.clock = rig, database, sums, rig.clock
        self.follower: UsageFollower
        self.budgets: Budgets

    async def start(self, webhooks: dict[str, Webhook]) -> None:
        """Again: as after a restart."""
        self.follower = await UsageFollower.open(self.rig.spool, self.sums, now_ms=self.clock)
        home = await open_budgets(self.database)
        self.budgets = await Budgets.open(home, self.sums, now_ms=self.clock, webhooks=webhooks, follower=self.follower)

    async def spend(self, name: str, cost: str, *, at_ms: int | None = None) -> None:
        """A call that began at *at_ms* after `EPOCH_MS`, by default now; summed and looked at."""
        began_ms = self.clock.now_ms - EPOCH_MS if at_ms is None else at_ms
        await self.rig.send(call(name, trace=name, at=(began_ms, began_ms + 1000), cost=cost))
        await self.rig.settle()
        await self.follower.catch_up()
        await self.follower.write()
        await self.budgets.look()

    async def total(self) -> tuple[int, dict[str, Decimal]]:
        found = await UsageQueries(self.sums, now_ms=self.clock).totals(TimeRange.last_days(9, self.clock()))
        return found.calls, dict(found.costs)

    async def alerts(self, budget_id: str) -> list[Alert]:
        return (await self.budgets.alerts(budget_id))[::-1]


@pytest.fixture
async def summing(tmp_path: Path) -> AsyncIterator[Summing]:
    rig = await Rig.opened(tmp_path / "data")
    database = await Database.open(tmp_path / "control.db")
    made = Summing(rig, database, await SqlSums.open(database))
    await made.start({})
    yield made
    await database.close()
    await rig.spool.close()


def half_of_one() -> NewBudget:
    threshold = {"of": "actual", "percent": 50}
    fields = {"name": "b", "amount": "1", "currency": "USD", "period": "month", "thresholds": [threshold]}
    return NewBudget.model_validate(fields)


@wrong
async def test_no_sum_is_lost_and_each_call_stays_in_its_hour(summing: Summing, wrong_ms: int) -> None:
    await summing.spend("before", "0.25")
    summing.clock.wrong_ms = wrong_ms
    await summing.spend("meanwhile", "0.5")
    summing.clock.wrong_ms = 0
    await summing.spend("after", "1")
    assert await summing.total() == (3, {"USD": Decimal("1.75")})
    as_of = await UsageQueries(summing.sums, now_ms=summing.clock).as_of()
    assert as_of.counted_through_ms == summing.clock(), "not what the wrong clock stated"


@wrong
async def test_a_threshold_that_alerted_alerts_no_second_time_after_a_jump_and_back(
    summing: Summing, wrong_ms: int
) -> None:
    standing = await summing.budgets.create(half_of_one(), by="ops")
    budget_id = standing.budget.budget_id
    await summing.spend("before", "0.5")
    (first,) = await summing.alerts(budget_id)
    summing.clock.wrong_ms = wrong_ms
    await summing.spend("wrong", "0.5", at_ms=wrong_ms)  # the sender is on the same machine
    summing.clock.wrong_ms = 0
    await summing.start({})
    await summing.spend("after", "0.25")
    now = [alert for alert in await summing.alerts(budget_id) if alert.first_day == first.first_day]
    assert now == [first]
    assert (await summing.budgets.standing(budget_id)).spend.spent == Decimal("0.75")


async def test_a_jump_gives_up_no_webhook(summing: Summing) -> None:
    nowhere = {DEFAULT: Webhook(Secret("http://127.0.0.1:1/"), b"k" * 24)}
    await summing.start(nowhere)
    standing = await summing.budgets.create(half_of_one(), by="ops")
    await summing.spend("a", "0.5")
    tried = f"UPDATE budget_alerts SET attempts = {LEAST_ATTEMPTS}"
    await summing.database.write(lambda each: each.execute(tried))

    async def outcome(name: str) -> str:
        calls = summing.budgets.deliverer.calls
        before = calls.total()
        async with running(summing.budgets):
            await until_true(lambda: calls.total() > before, what=name)
        return (await summing.alerts(standing.budget.budget_id))[0].delivery

    summing.clock.wrong_ms = YEARS_MS
    assert await outcome("a call on a wrong clock") == "pending"
    summing.clock.wrong_ms = 0
    summing.clock.now_ms += 4 * DAY_MS
    summing.budgets.deliverer._retries.clear()
    assert await outcome("a call four days later") == "failed", "time that was spent counts"


@asynccontextmanager
async def running(budgets: Budgets) -> AsyncIterator[None]:
    task = asyncio.create_task(budgets.deliverer.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@wrong
async def test_days_are_dropped_once_and_whole_and_months_end_right(tmp_path: Path, wrong_ms: int) -> None:
    """The last day of January, in the middle of which the clock jumps, and back."""
    clock = Clock(EPOCH_MS + 26 * DAY_MS + 2 * HOUR_MS)
    database = await Database.open(tmp_path / "control.db")
    homes = await homes_in(database)

    async def counted(cost: str) -> None:
        at = rfc3339_ms(clock.now_ms)
        await count(homes, billed(cost, started_at=at), now_ms=clock.now_ms)
        await homes.sums.store(Counted(Tally(), "spool", 1, clock(), clock.now_ms, clock.now_ms))

    async def days(lane: BillingLane, month: str) -> dict[str, str]:
        return {day["day"]: day["state"] for day in await lane.book.days(month)}

    async with far_end(tmp_path / "service") as far, lane_to(far.port, far.secret, homes, now_ms=clock) as lane:
        await counted("1")
        clock.wrong_ms = wrong_ms
        await counted("2")
        lane.wake()
        await until(lambda: none_due(lane))
        clock.wrong_ms = 0
        await counted("4")
        clock.now_ms += DAY_MS
        assert day_text(await lane.book.last_closed_hour()) == "2026-01-30", (
            "January is counted to noon of its last day"
        )
        await counted("8")
        lane.wake()
        await until(lambda: none_due(lane))
        assert await days(lane, "2026-01") == {"2026-01-31": "dropped"}
        assert await days(lane, "2026-02") == {"2026-02-01": "open"}
        assert {drop["day"] for drop in await far.drops()} == {"2026-01-31"}, "ahead, it was dropped at noon too"
        assert (await far.costs(), await far.rows("2026-02")) == (["7"], [])
    await database.close()
