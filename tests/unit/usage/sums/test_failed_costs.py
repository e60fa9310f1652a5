"""What failed calls cost, as it is kept of each day."""

from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson
import pytest

from gateway.common.contract.errors import Forbidden
from gateway.common.storage.database import Database, scripts_of
from gateway.stores.sql.sums import hours
from gateway.stores.sql.sums.home import SqlSums
from gateway.usage.sums.grains import DAY, FAILED_COSTS
from gateway.usage.sums.home import FailedCosts, SumHome
from gateway.usage.sums.limited import LimitedSumRows
from gateway.usage.sums.names import Absent, Name
from gateway.usage.sums.tally import FAILED, Tally
from gateway.usage.sums.timespan import TimeRange
from tests.support.native import IMPLEMENTATIONS
from tests.unit.usage.sums.test_tally import NOW_HOUR, NOW_MS, counted, record, store

TODAY = NOW_HOUR // DAY * DAY
WEEK = TimeRange(TODAY - 6 * DAY, TODAY + DAY)
Amounts = dict[tuple[Name, ...], tuple[int, dict[str, Decimal]]]


def failed(amount: str | None = "0.5", **changes: Any) -> dict[str, Any]:
    cost = None if amount is None else {"amount": amount, "currency": "USD", "source": "reported"}
    return record(status="error", cost=cost, **changes)


async def kept(sums: SumHome, within: TimeRange = WEEK) -> FailedCosts:
    return await sums.read(lambda rows: rows.failed_costs(within))


def amounts(found: FailedCosts) -> Amounts:
    return {cell.names: (cell.sums.calls, dict(cell.sums.costs)) for cell in found.cells}


async def test_failed_calls_are_kept_by_service_provider_and_model(sums: SumHome) -> None:
    await store(sums, counted(failed(), failed("0.25", response_model="gpt-4o-2024-11-20"), record()))
    nobody = failed("2", attribution={"team": "b", "user": "ada"}, operation="embeddings")
    await store(sums, counted(nobody, failed("1", kind="aggregate", calls=3)), number=2)
    found = await kept(sums)
    assert found.since_hour == WEEK.first_hour
    assert amounts(found) == {
        ("app", "openai", "gpt-4o"): (5, {"USD": Decimal("1.75")}),
        (Absent.UNKNOWN, "openai", "gpt-4o"): (1, {"USD": Decimal(2)}),
    }


@pytest.mark.parametrize("native", IMPLEMENTATIONS)
@pytest.mark.parametrize("amount", [None, "0", "0.000"])
def test_a_failed_call_without_a_cost_is_not_among_them(amount: str | None, native: ModuleType | None) -> None:
    tally = Tally(native=native)
    tally.add([orjson.dumps(failed(amount)), orjson.dumps(record())], now_ms=NOW_MS)
    assert tally.failed_costs == {}
    assert sum(sums[FAILED] or 0 for sums in tally.sums.values()) == 1


async def test_they_are_of_the_day_in_which_the_call_began(sums: SumHome) -> None:
    await store(sums, counted(failed("1"), failed("2", ago_h=24), failed("4", ago_h=48)))
    yesterday = await kept(sums, TimeRange(TODAY - DAY, TODAY))
    assert amounts(yesterday) == {("app", "openai", "gpt-4o"): (1, {"USD": Decimal(2)})}
    last = await kept(sums, TimeRange(TODAY - 2 * DAY, TODAY))
    assert amounts(last) == {("app", "openai", "gpt-4o"): (2, {"USD": Decimal(6)})}


async def test_services_beyond_the_bound_of_a_day_are_other_and_no_cost_is_lost(sums: SumHome) -> None:
    max_rows = FAILED_COSTS.max_of_day
    await store(sums, counted(*(failed("0.5", attribution={"service_name": f"s{n}"}) for n in range(max_rows + 40))))
    found = amounts(await kept(sums))
    assert len(found) == max_rows + 1
    assert found[Absent.OTHER, "openai", "gpt-4o"] == (40, {"USD": Decimal(20)})
    assert sum(costs["USD"] for _, costs in found.values()) == Decimal(max_rows + 40) / 2


async def test_days_that_an_earlier_release_counted_are_unknown(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "earlier.db")
    await database.migrate("usage_rollups", scripts_of("gateway.stores.sqlite.migrations.usage_rollups")[:6])
    days = [(TODAY - 3 * DAY, 7), (TODAY - 2 * DAY, 1)]
    await database.write(lambda sql: sql.executemany("INSERT INTO usage_days (hour, revision) VALUES (?, ?)", days))
    sums = await SqlSums.open(database)
    await sums.begin(NOW_MS)
    await store(sums, counted(failed("4", ago_h=48), failed("2", ago_h=24), failed("1")))
    found = await kept(sums)
    assert found.since_hour == TODAY - DAY
    assert amounts(found) == {("app", "openai", "gpt-4o"): (2, {"USD": Decimal(3)})}
    assert (await kept(sums, TimeRange(TODAY - 3 * DAY, TODAY - DAY))) == FailedCosts(TODAY - DAY, [])
    await database.close()


async def test_usage_that_an_earlier_release_kept_for_detectors_alone_is_unknown(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "first.db")
    sums = await SqlSums.open(database)
    earlier = counted(failed(ago_h=48))
    await database.write(lambda sql: hours.write(sql, earlier, source="spool", through_no=1, now_ms=NOW_MS))
    await sums.begin(NOW_MS)
    await store(sums, counted(failed("1", ago_h=24)), number=2)
    found = await kept(sums)
    assert (found.since_hour, amounts(found)) == (TODAY - DAY, {("app", "openai", "gpt-4o"): (1, {"USD": Decimal(1)})})
    await database.close()


async def test_a_limited_caller_sees_none(sums: SumHome) -> None:
    with pytest.raises(Forbidden):
        await sums.read(lambda rows: LimitedSumRows(rows, (("team", ("core",)),)).failed_costs(WEEK))
