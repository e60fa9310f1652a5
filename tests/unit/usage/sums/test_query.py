"""Questions about usage on a real control.db: exact sums, unknown apart from other, bounds that
lose nothing.
"""

import asyncio
import threading
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.common.contract.errors import Overloaded
from gateway.common.storage.database import Database, scripts_of
from gateway.common.storage.sql import SqlDatabase
from gateway.operate.operation import OperationCall
from gateway.operate.usage import show
from gateway.stores.sql.sums import rollups
from gateway.stores.sql.sums.home import SqlSums
from gateway.usage.export.period import period_rows
from gateway.usage.sums import bounds, grains
from gateway.usage.sums.figures import Breakdown, UsageSums, money_text
from gateway.usage.sums.grains import DIMENSIONS, Dimension
from gateway.usage.sums.home import SumHome
from gateway.usage.sums.names import Absent, Name
from gateway.usage.sums.query import MAX_ASKERS, UsageQueries
from gateway.usage.sums.tally import HOUR_MS
from gateway.usage.sums.timespan import BadRange, TimeRange
from spool.sql.connection import Connection
from tests.support.growth import LEAST_S, LINEAR
from tests.support.polling import HANGS_S
from tests.support.stores import only_sql
from tests.unit.usage.sums.test_tally import NOW_HOUR, NOW_MS, counted, record, store

TODAY = TimeRange.last_days(1, NOW_MS)
MONTH = TimeRange.last_days(30, NOW_MS)
ALL = TimeRange.last_days(400, NOW_MS)


async def add(sums: SumHome, *records: object, now_ms: int = NOW_MS) -> None:
    await store(sums, counted(*records, now_ms=now_ms), now_ms=now_ms)


def of(team: str | None = "core", *, cost: str | None = "0.5", **changes: Any) -> dict[str, Any]:
    """A call of *team*."""
    price = None if cost is None else {"amount": cost, "currency": "USD", "source": "estimated"}
    return record(attribution={"team": team, **changes.pop("attribution", {})}, cost=price, **changes)


def costs(found: Breakdown) -> dict[tuple[Name, ...], str | None]:
    return {group.names: amount(group.sums) for group in found.groups}


def amount(sums: UsageSums | None) -> str | None:
    return None if sums is None or "USD" not in sums.costs else money_text(sums.costs["USD"])


async def test_totals_hold_every_number_of_the_calls(sums: SumHome, queries: UsageQueries) -> None:
    usage = {"status": "reported", "input_tokens": 100, "cache_read_input_tokens": 40, "output_tokens": 20}
    more = {**usage, "cache_creation_input_tokens": 7, "reasoning_output_tokens": 3}
    missing = {"status": "missing", "input_tokens": None, "output_tokens": None}
    await add(sums, of(usage=usage), of(usage=more, status="error"), of(cost=None), of(usage=missing, cost=None))
    assert await queries.totals(TODAY) == UsageSums(
        calls=4, failed_calls=1, calls_without_usage=1, calls_missing_usage=1, calls_without_cost=2,
        calls_without_price=1, input_tokens=300, output_tokens=60, cache_read_tokens=120, cache_creation_tokens=7,
        reasoning_tokens=3, cacheable_tokens=300, cached_tokens=120, costs={"USD": Decimal(1)},
        estimated_costs={"USD": Decimal(1)},
    )  # fmt: skip


async def test_tokens_that_no_call_states_are_unknown_and_not_0(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, of(usage={"status": "missing"}), of("b", usage={"status": "reported", "output_tokens": 0}))
    assert (await queries.totals(TODAY)).input_tokens is None
    found = {group.names: group.sums.output_tokens for group in (await queries.by("team", within=TODAY)).groups}
    assert found == {("core",): None, ("b",): 0}


async def test_no_calls_are_no_costs(queries: UsageQueries) -> None:
    assert await queries.totals(TODAY) == UsageSums()
    assert await queries.over_time(TODAY) == []
    assert await queries.by("model", within=TODAY) == Breakdown((), 0, None, UsageSums())


async def test_money_is_exact_and_currencies_are_never_added(sums: SumHome, queries: UsageQueries) -> None:
    amounts = ["0.000712345678901234", "100.001", "-0.25", "123456789.000000000000000001"]
    calls = [record(cost={"amount": x, "currency": "USD", "source": "reported"}) for x in amounts]
    await add(sums, *calls, record(cost={"amount": "100.001", "currency": "EUR", "source": "reported"}))
    await add(sums, *calls)
    total = await queries.totals(TODAY)
    assert total.costs == {"USD": 2 * sum(map(Decimal, amounts)), "EUR": Decimal("100.001")}
    assert total.estimated_costs == {}


@pytest.mark.parametrize("dimension", DIMENSIONS)
async def test_each_dimension_is_distinguished(sums: SumHome, queries: UsageQueries, dimension: Dimension) -> None:
    await add(sums, with_name(dimension, "one"), with_name(dimension, "two"), with_name(dimension, None))
    found = await queries.by(dimension, within=TODAY)
    assert {group.names[0]: group.sums.calls for group in found.groups} == {"one": 1, "two": 1, Absent.UNKNOWN: 1}
    assert (await queries.totals(TODAY, where={dimension: ["one", Absent.UNKNOWN]})).calls == 2
    assert (await queries.totals(TODAY, where={dimension: ["nobody"]})).calls == 0


def with_name(dimension: Dimension, name: str | None) -> dict[str, Any]:
    if dimension == "source":
        return record(source={"format": name})
    if dimension == "model":
        return record(response_model=None, request_model=name)
    return record(**{dimension: name}) if dimension in {"provider", "operation"} else of(attribution={dimension: name})


async def test_groups_are_listed_by_cost_and_unknown_costs_last(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, of("a", cost="1"), of("b", cost="2.000000000001"), of("c", cost="2"), of("d", cost=None))
    found = await queries.by("team", within=TODAY)
    assert costs(found) == {("b",): "2.000000000001", ("c",): "2", ("a",): "1", ("d",): None}
    assert list(costs(await queries.by("team", within=TODAY, order_by="name", ascending=True))) == [
        ("a",), ("b",), ("c",), ("d",),
    ]  # fmt: skip


async def test_a_page_states_what_it_leaves(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, *(of(f"t{n}", cost=str(n)) for n in range(1, 6)))
    first = await queries.by("team", within=TODAY, limit=2)
    assert (list(costs(first)), first.count, amount(first.rest), amount(first.total)) == (
        [("t5",), ("t4",)], 5, "6", "15",
    )  # fmt: skip
    assert first.rest is not None
    assert (first.rest.calls, first.rest.input_tokens) == (3, 300)
    last = await queries.by("team", within=TODAY, limit=2, offset=4)
    assert (list(costs(last)), last.count) == ([("t1",)], 5)
    beyond = await queries.by("team", within=TODAY, offset=9)
    assert (beyond.groups, beyond.count, amount(beyond.rest)) == ((), 5, "15")


async def test_dimensions_combine(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, of("a", provider="x"), of("a", provider="y"), of("b", provider="x", cost="3"))
    found = await queries.by("team", "provider", within=TODAY)
    assert costs(found) == {("b", "x"): "3", ("a", "x"): "0.5", ("a", "y"): "0.5"}
    assert costs(await queries.by("team", within=TODAY, where={"provider": ["x"]})) == {("b",): "3", ("a",): "0.5"}


async def test_hours_and_days_hold_the_same(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, *(of(ago_h=ago, cost="1") for ago in range(60)))
    hours, days = [await queries.over_time(MONTH, interval=interval) for interval in ("hour", "day")]
    assert [bucket.start_ms // HOUR_MS for bucket in hours] == list(range(NOW_HOUR - 59, NOW_HOUR + 1))
    assert sum(bucket.sums.costs["USD"] for bucket in days) == sum(bucket.sums.costs["USD"] for bucket in hours) == 60
    assert {bucket.start_ms % (24 * HOUR_MS) for bucket in days} == {0}


@pytest.mark.parametrize("ends", [(0, 0), (5, 0), (0, 7), (5, 7), (30, 20)])
async def test_a_range_of_any_hours_is_added_from_days_and_hours(
    sums: SumHome, queries: UsageQueries, ends: tuple[int, int]
) -> None:
    await add(sums, *(of(ago_h=ago) for ago in range(80)))
    within = TimeRange(NOW_HOUR - 70 + ends[0], NOW_HOUR - ends[1])
    assert (await queries.totals(within)).calls == within.end_hour - within.first_hour
    assert (await queries.by("team", within=within)).total.calls == within.end_hour - within.first_hour


async def test_days_outlive_hours(sums: SumHome, queries: UsageQueries) -> None:
    ago = bounds.KEPT_HOURS + 30
    await add(sums, of(ago_h=ago), of(ago_h=bounds.KEPT_DAYS * 24 - 30), of(ago_h=bounds.KEPT_DAYS * 24 + 48))
    assert (await queries.totals(ALL)).calls == 2
    with pytest.raises(BadRange, match=r"^from: hours are kept since 20"):
        await queries.totals(TimeRange(NOW_HOUR - ago, NOW_HOUR))
    with pytest.raises(BadRange, match=r"^from: "):
        await queries.over_time(ALL, interval="hour")


@only_sql
async def test_sums_are_not_kept_longer_than_stated(database: SqlDatabase[Connection], sums: SumHome) -> None:
    await add(sums, of(), of(ago_h=500))
    later_ms = NOW_MS + (bounds.KEPT_DAYS + 2) * 24 * HOUR_MS
    await add(sums, now_ms=later_ms)
    assert await database.read(lambda c: c.execute("SELECT count(*) FROM usage_rollups").fetchone()) == (0,)


async def test_users_beyond_the_bound_are_other_and_no_call_is_lost(
    sums: SumHome, queries: UsageQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound(monkeypatch, 10)
    for page in range(4):
        await add(sums, *(of("a", attribution={"user": f"u{n}"}) for n in range(page * 7, page * 7 + 7)))
    await add(sums, of("a", attribution={"user": "(other)"}))
    users = await queries.by("user", within=TODAY)
    assert (users.count, users.total.calls) == (10, 29)
    assert users.rest is not None
    assert (users.rest.calls, amount(users.rest)) == (19, "9.5")
    assert costs(await queries.by("team", within=TODAY)) == {("a",): "14.5"}
    both = await queries.by("team", "user", within=TODAY)
    assert costs(both)["a", Absent.OTHER] == "9.5"
    assert costs(both)["a", "u0"] == "0.5"


async def test_whole_series_beyond_the_bound_are_other(
    sums: SumHome, queries: UsageQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound(monkeypatch, 8)
    await add(sums, *(of(f"team {n}", provider=f"p{n}", response_model=f"m{n}") for n in range(40)))
    for dimension in ("provider", "model", "team"):
        found = await queries.by(dimension, within=TODAY)
        assert (found.total.calls, amount(found.total)) == (40, "20")
        assert found.count <= 12
    assert (await queries.by(*DIMENSIONS, within=TODAY, limit=100)).count <= 12


async def test_a_currency_beyond_the_bound_has_no_cost(
    sums: SumHome, queries: UsageQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound(monkeypatch, 4)
    prices: list[Mapping[str, str]] = [{"amount": "1", "currency": f"C{n:02}"} for n in range(20)]
    await add(sums, *(record(cost=price) for price in prices))
    total = await queries.totals(TODAY)
    assert (total.calls, len(total.costs), total.calls_without_cost) == (20, 6, 14)


async def test_the_oldest_days_are_folded_when_there_are_too_many_rows(
    sums: SumHome, queries: UsageQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = [of("a", ago_h=day * 24, attribution={"user": f"u{n}"}) for day in range(10) for n in range(9)]
    await add(sums, *days)
    before = await queries.over_time(MONTH)
    monkeypatch.setattr(bounds, "MAX_DAY_ROWS", 150)
    later_ms = NOW_MS + HOUR_MS
    await add(sums, now_ms=later_ms)
    assert await queries.over_time(MONTH) == before
    assert ("u0",) in costs(await queries.by("user", within=TODAY))
    oldest = TimeRange((NOW_HOUR // 24 - 9) * 24, (NOW_HOUR // 24 - 8) * 24)
    found = await queries.by("user", within=oldest)
    assert (found.count, found.total.calls) == (0, 9)


async def test_the_oldest_hours_go_when_there_are_too_many_rows(
    sums: SumHome, queries: UsageQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add(sums, *(of(ago_h=ago) for ago in range(0, 800, 10)))
    monkeypatch.setattr(bounds, "MAX_HOUR_ROWS", 100)
    await add(sums, now_ms=NOW_MS + HOUR_MS)
    state = await UsageQueries(sums, now_ms=lambda: NOW_MS + HOUR_MS).as_of()
    kept = TimeRange(state.hours_from_ms // HOUR_MS, NOW_HOUR + 1)
    assert bounds.LEAST_HOURS <= kept.end_hour - kept.first_hour < 800
    assert (await queries.over_time(kept, interval="hour"))[0].start_ms >= state.hours_from_ms
    with pytest.raises(BadRange):
        await queries.over_time(TimeRange(kept.first_hour - 1, kept.end_hour), interval="hour")


async def test_names_are_bounded_and_unused_ones_go(
    sums: SumHome, queries: UsageQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MAX_NAMES", 20)
    await add(sums, *(of(f"t{n:02}") for n in range(40)))
    teams = await queries.by("team", within=TODAY, limit=100)
    assert teams.count < 20
    assert (await queries.by("team", within=TODAY)).total.calls == 40
    ahead_h = (bounds.KEPT_DAYS + 2) * 24
    later_ms = NOW_MS + ahead_h * HOUR_MS
    await add(sums, now_ms=later_ms)
    await add(sums, now_ms=later_ms + HOUR_MS)
    await sums.drop_unused_names()
    await add(sums, *(of(f"new {n:02}", ago_h=-ahead_h) for n in range(15)), now_ms=later_ms)
    later = await UsageQueries(sums, now_ms=lambda: later_ms).by("team", within=TimeRange.last_days(1, later_ms))
    assert later.count >= 10


async def test_names_of_senders_are_not_taken_for_unknown_or_other(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, of("(other)"), of("unknown"), of(None), of("(forgotten)"))
    found = await queries.by("team", within=TODAY)
    assert {group.names[0] for group in found.groups} == {"(other)", "unknown", "(forgotten)", Absent.UNKNOWN}


@only_sql
async def test_sums_beyond_what_a_column_holds_stop_there(sums: SumHome, queries: UsageQueries) -> None:
    tally = counted(of())
    (numbers,) = tally.sums.values()
    numbers[6] = 2**62
    for _ in range(3):
        await store(sums, tally)
    assert (await queries.totals(TODAY)).input_tokens == rollups.MAX_COUNT


def bound(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Let every grain have *most* series."""
    small = [replaced(grain, most) for grain in grains.GRAINS]
    monkeypatch.setattr(grains, "GRAINS", tuple(small))


def replaced(grain: grains.Grain, most: int) -> grains.Grain:
    return grain._replace(max_of_day=most, max_of_hour=most)


async def test_a_question_costs_as_much_as_the_bounds_admit(sums: SumHome, queries: UsageQueries) -> None:
    """Four times the models beyond the bound are the same rows."""
    costs_s = []
    for n in (1500, 6000):
        await add(sums, *(of(response_model=f"m{k}") for k in range(n)))
        found = await queries.by("model", within=TODAY)
        assert found.count <= 1500
        costs_s.append(min([await cpu_of(queries) for _ in range(5)]))
    assert costs_s[1] < LINEAR / 2 * max(costs_s[0], LEAST_S)


async def cpu_of(queries: UsageQueries) -> float:
    begun_s = time.process_time()
    await queries.by("model", within=TODAY)
    return time.process_time() - begun_s


async def test_names_with_any_character_are_found_again(sums: SumHome, queries: UsageQueries) -> None:
    teams = ["'; --", '"', "\u2028", "\ufffd", "Ä" * 120, "1", "null"]
    for _ in range(2):
        await add(sums, *[of(team) for team in teams])
    found = await queries.by("team", within=TODAY, limit=100)
    assert {group.names[0]: group.sums.calls for group in found.groups} == dict.fromkeys(teams, 2)


async def test_sums_beyond_64_bits_are_answered(sums: SumHome, queries: UsageQueries) -> None:
    """A sender with the wrong unit: the row has its bound, and every question its answer."""
    tokens = {"status": "reported", "input_tokens": 1 << 40, "output_tokens": 1 << 40}
    for n in range(12):
        await add(sums, *[of(cost="999999999999", usage=tokens, ago_h=n % 3) for _ in range(12)], of("b", ago_h=n % 3))
    total = await queries.totals(TODAY)
    assert total.calls == 12 * 13
    assert total.costs["USD"] >= 10**12
    assert total.input_tokens is not None
    assert total.input_tokens >= 1 << 43
    assert [group.names for group in (await queries.by("team", within=TODAY)).groups] == [("core",), ("b",)]


async def test_hundreds_of_currencies_have_an_answer(sums: SumHome, queries: UsageQueries) -> None:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    names = [f"Q{x}{y}" for x in letters for y in letters]
    for some in (names[:300], names[300:]):
        prices = [{"amount": "1", "currency": name, "source": "reported"} for name in some]
        await add(sums, *[record(cost=price, response_model=f"m{n % 40}") for n, price in enumerate(prices)])
    found = await queries.by("model", within=TODAY, currency="QAA")
    assert sum(group.sums.calls for group in found.groups) + (found.rest.calls if found.rest else 0) == len(names)
    assert found.total.calls == len(names)
    assert found.total.costs == dict.fromkeys(names, Decimal(1))


async def test_users_leave_room_for_models_and_currencies(
    sums: SumHome, queries: UsageQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MAX_NAMES_WITH_MANY", 100)
    await add(sums, *[of(attribution={"user": f"u{n}"}) for n in range(300)])
    euro = {"amount": "1000", "currency": "EUR", "source": "reported"}
    await add(sums, of(attribution={"user": "new"}) | {"cost": euro, "response_model": "new-model"})
    found = await queries.by("model", within=TODAY)
    assert ("new-model",) in [group.names for group in found.groups]
    assert found.total.costs["EUR"] == 1000


async def test_a_model_that_costs_nothing_is_listed_with_one_that_costs(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, of(response_model="paid"), of(response_model="free", cost="0"))
    found = await queries.by("model", within=TODAY)
    assert costs(found) == {("paid",): "0.5", ("free",): "0"}
    assert found.rest is None


@only_sql
async def test_the_interface_asks_in_place_of_the_page(
    database: SqlDatabase[Connection], queries: UsageQueries
) -> None:
    ended = threading.Event()
    slow_page = asyncio.create_task(database.read(lambda _: ended.wait(30)))
    try:
        async with asyncio.timeout(HANGS_S):
            answer = await show(queries, OperationCall(None))
        assert answer["usage"] == []
        assert not slow_page.done()
    finally:
        ended.set()
        await slow_page


async def test_few_ask_at_once(queries: UsageQueries) -> None:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(queries.apart())
        waiting = [asyncio.create_task(show(queries, OperationCall(None))) for _ in range(MAX_ASKERS - 1)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded):
            await show(queries, OperationCall(None))
    assert len(await asyncio.gather(*waiting)) == MAX_ASKERS - 1


async def test_the_rows_of_a_day_are_the_same_however_many_pages_they_take(
    sums: SumHome, queries: UsageQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [of(f"team {n}", cost=f"0.{n:02}") for n in range(1, 12)]
    await add(sums, *calls, of(None, cost=None), of(None, cost="2"))
    read = partial(period_rows, within=TODAY, group_by=("provider", "model", "team"), now_hour=NOW_MS // HOUR_MS)
    rows = await sums.read(read)
    assert {row["period_start"] for row in rows} == {"2026-01-05T00:00:00Z"}
    monkeypatch.setattr("gateway.usage.export.period.MAX_GROUPS", 5)
    assert await sums.read(read) == rows
    total = await queries.totals(TODAY)
    assert sum(row["cost"] for row in rows if row["cost"] is not None) == total.costs["USD"] == Decimal("2.66")
    assert sum(row["calls"] for row in rows) == total.calls == 13


async def test_a_day_states_by_its_revision_that_usage_was_added(sums: SumHome) -> None:
    days = [NOW_HOUR // 24 * 24 - 24, NOW_HOUR // 24 * 24]

    async def revisions() -> list[int]:
        return await sums.read(lambda kept: [kept.revision(day) for day in days])

    await add(sums, of())
    await add(sums, of(ago_h=30))
    assert await revisions() == [1, 1]
    await add(sums, of(ago_h=30))
    assert await revisions() == [2, 1]
    await add(sums, of(), now_ms=NOW_MS + 402 * 24 * HOUR_MS)
    assert await revisions() == [0, 0], "days that are no longer kept have no revision"


async def test_days_of_an_earlier_release_have_a_revision(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "earlier.db")
    await database.migrate("usage_rollups", scripts_of("gateway.stores.sqlite.migrations.usage_rollups")[:1])
    await database.write(
        lambda sql: sql.execute(
            f"INSERT INTO usage_rollups SELECT 24, 1, 490896, {', '.join('0' * 27)} UNION ALL"
            f" SELECT 1, 1, 490900, {', '.join('0' * 27)}"
        )
    )
    await SqlSums.open(database)
    assert await database.read(lambda sql: sql.execute("SELECT * FROM usage_days").fetchall()) == [(490896, 1, None)]
    counted_from = await database.read(
        lambda sql: sql.execute("SELECT counted_from FROM usage_rollup_state").fetchone()
    )
    assert counted_from == (490896,)
    await database.close()
