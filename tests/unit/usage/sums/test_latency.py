"""How long calls took, by group and over time, within the error that is stated."""

import random
from typing import Any

import orjson
import pytest

from gateway.common.contract.errors import Forbidden
from gateway.common.contract.reach import reach_of
from gateway.common.lists.conventions import BadListRequest
from gateway.common.storage.sql import SqlDatabase
from gateway.operate.operation import OperationCall
from gateway.operate.usage import show
from gateway.usage.sums.buckets import BOUNDS, PERCENTILES, bucket_of, latency_of
from gateway.usage.sums.home import SumHome
from gateway.usage.sums.latency import KEPT_BY, MAX_LATENCY_SERIES, Names, add_series, decoded, encoded
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.tally import HOUR_MS
from spool.sql.connection import Connection
from tests.support.stores import only_sql
from tests.unit.usage.sums.test_query import add, of
from tests.unit.usage.sums.test_tally import NOW_MS

ERROR = 0.045


async def ask(queries: UsageQueries, **query: str) -> dict[str, Any]:
    return await show(queries, OperationCall(None, query=list({"latency": "true", "limit": "50", **query}.items())))


def took(ms: int | None, team: str = "core", *, ago_h: int = 0, **changes: Any) -> dict[str, Any]:
    return of(team, ago_h=ago_h, duration_ms=ms, **changes)


def test_a_percentile_is_within_the_stated_error(chance: random.Random) -> None:
    for spread in (0.1, 1.0, 2.5):
        durations = sorted(round(chance.lognormvariate(6, spread)) for _ in range(5000))
        buckets: dict[int, int] = {}
        for ms in durations:
            buckets[bucket_of(ms)] = buckets.get(bucket_of(ms), 0) + 1
        found = latency_of(buckets).duration
        assert found is not None
        for percent, ms in zip(PERCENTILES, found.ms, strict=True):
            true = durations[-(-len(durations) * percent // 100) - 1]
            assert abs(ms - true) <= ERROR * true + 0.5, (spread, percent)


def test_small_durations_are_exact_and_the_longest_is_kept() -> None:
    assert [latency_of({bucket_of(ms): 1}).duration for ms in range(1, 12)] == [(1, (ms,) * 3) for ms in range(1, 12)]
    assert bucket_of(1 << 40) == bucket_of(BOUNDS[-1]) == len(BOUNDS) - 1 < 256


async def test_groups_and_totals_have_their_percentiles(sums: SumHome, queries: UsageQueries) -> None:
    slow = [took(1000 + n, "slow", time_to_first_token_ms=100) for n in range(100)]
    await add(sums, *slow, *(took(10, "fast") for _ in range(100)), took(None, "silent"))
    found = await ask(queries, group_by="team", sort_key="name", sort_order="asc")
    rows = {row["team"]: row["latency"] for row in found["usage"]}
    assert rows["fast"] == {
        "duration": {"calls": 100, "p50_ms": 10, "p90_ms": 10, "p99_ms": 10},
        "time_to_first_token": None,
    }
    assert rows["silent"] == {"duration": None, "time_to_first_token": None}
    assert rows["slow"]["duration"]["p50_ms"] == pytest.approx(1049, rel=ERROR)
    assert rows["slow"]["time_to_first_token"]["calls"] == 100
    assert found["totals"]["latency"]["duration"]["calls"] == 200
    assert found["totals"]["latency"]["duration"]["p50_ms"] == 10


async def test_failed_calls_and_aggregates_are_left_out(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, took(20), took(9000, status="error"), took(9000, kind="aggregate", calls=3))
    assert (await ask(queries, group_by="team"))["totals"]["latency"]["duration"]["calls"] == 1


async def test_any_range_and_filter_is_answered(sums: SumHome, queries: UsageQueries) -> None:
    """By hours that last, hours and days that are over, and what comes late."""
    for ahead in range(3):
        await add(sums, *(took(100, ago_h=ago) for ago in range(60)), now_ms=NOW_MS + ahead * HOUR_MS)
    await add(sums, took(100, "other", provider="x"), now_ms=NOW_MS + 3 * HOUR_MS)

    async def calls(**query: str) -> int:
        found = await ask(queries, group_by="team", **query)
        assert sum(row["latency"]["duration"]["calls"] for row in found["usage"]) == found["totals"]["calls"]
        return int(found["totals"]["latency"]["duration"]["calls"])

    assert await calls(range="last_30_days") == 181
    assert await calls(range="last_24_hours") == 73
    assert await calls(range="last_24_hours", time_zone="Asia/Kolkata") == 73
    assert await calls(range="last_30_days", team="other") == await calls(provider="x") == 1
    assert await calls(range="last_30_days", search="cor") == 180


async def test_hours_and_days_have_their_own(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, *(took(100 * (ago + 1), ago_h=ago) for ago in range(30)))
    for query in ({"interval": "hour", "range": "last_24_hours"}, {"interval": "day"}):
        found = await ask(queries, **query)
        assert [row["latency"]["duration"]["calls"] for row in found["usage"]] == [
            row["calls"] for row in found["usage"]
        ]
    berlin = await ask(queries, interval="day", time_zone="Europe/Berlin")
    assert sum(row["latency"]["duration"]["calls"] for row in berlin["usage"]) == 30
    assert [row["calls"] for row in berlin["usage"]] == [row["latency"]["duration"]["calls"] for row in berlin["usage"]]


async def test_dated_names_are_in_their_model(sums: SumHome, queries: UsageQueries) -> None:
    await add(
        sums,
        took(10, response_model="gpt-4o-2024-08-06"),
        took(10, response_model="gpt-4o"),
        took(10, response_model="o3"),
    )
    found = await ask(queries, group_by="model", model="gpt-4o")
    assert [row["latency"]["duration"]["calls"] for row in found["usage"]] == [2]


async def test_users_and_devices_have_none(queries: UsageQueries) -> None:
    for query in ({"group_by": "user"}, {"group_by": "team", "device_id": "d"}, {"unknown": "user", "interval": "day"}):
        with pytest.raises(BadListRequest, match=r"^latency: it is kept by provider, .* and source only"):
            await ask(queries, **query)
    with pytest.raises(BadListRequest, match=r"^latency: true or false"):
        await ask(queries, latency="yes")


async def test_it_is_answered_when_it_is_asked_for(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, took(10))
    found = await ask(queries, latency="false")
    assert "latency" not in found["totals"] | found["usage"][0]


async def test_a_limited_caller_has_the_latency_of_its_own_calls(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, took(10, "mine"), took(5000, "theirs"))
    limited = queries.limited(reach_of({"team": ["mine"]}))
    for query in ({"group_by": "team"}, {"group_by": "provider"}, {"interval": "day"}):
        found = await ask(limited, **query)
        assert found["totals"]["latency"]["duration"] == {"calls": 1, "p50_ms": 10, "p90_ms": 10, "p99_ms": 10}
        assert [row["latency"]["duration"]["calls"] for row in found["usage"]] == [1]
    with pytest.raises(Forbidden, match="latency is not kept by tags"):
        await ask(queries.limited(reach_of({"tag:feature": ["search"]})), group_by="provider")


@only_sql
async def test_parts_of_a_period_become_one(sums: SumHome, database: SqlDatabase[Connection]) -> None:
    for _ in range(70):
        await add(sums, took(10))
    assert await parts(database) == [(1, 6)], "65 became one"
    await add(sums, took(10), now_ms=NOW_MS + HOUR_MS)
    assert await parts(database) == [(1, 1), (24, 1)]


async def parts(database: SqlDatabase[Connection]) -> list[tuple[int, int]]:
    return await database.read(
        lambda connection: connection.execute(
            "SELECT span, count(*) FROM usage_latency GROUP BY span ORDER BY span"
        ).fetchall()
    )


def test_series_beyond_the_bound_are_folded_and_no_call_is_lost() -> None:
    most, into = MAX_LATENCY_SERIES[1], dict[Names, dict[int, int]]()
    add_series(into, ((tuple(f"{name} {n}" for name in KEPT_BY), {7: 1}) for n in range(4 * most)), most)
    assert len(into) <= most + most // 4 + 1
    assert sum(sum(buckets.values()) for buckets in into.values()) == 4 * most
    assert dict(decoded(encoded(into))) == into


def test_rows_of_the_first_form_are_read() -> None:
    names = [None, "", "core", "gpt-4o"]
    series = [[[1, 3, 2, 1, 1, 1, 1, 1], [7, 2, 263, 1]], [[0] * len(KEPT_BY), [9, 1]]]
    read = dict(decoded(orjson.dumps([names, series])))
    assert read == {("", "gpt-4o", "core", *[""] * 5): {7: 2, 263: 1}, (None,) * len(KEPT_BY): {9: 1}}
    assert dict(decoded(encoded(read))) == read
