"""One row a model, with the dated names that are versions of it inside; filters of a model hold
them too. The sums keep each name by itself.
"""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway.common.model_versions import model_of
from gateway.common.storage.database import Database, scripts_of
from gateway.common.storage.sql import SqlDatabase
from gateway.operate.usage import ANSWER_KEYS
from gateway.stores.sql.sums import names
from gateway.stores.sql.sums.home import SqlSums
from gateway.usage.export.period import period_rows
from gateway.usage.sums import bounds
from gateway.usage.sums.answer_json import group_json
from gateway.usage.sums.bounds import MAX_VERSIONS
from gateway.usage.sums.figures import Group
from gateway.usage.sums.home import SumHome
from gateway.usage.sums.names import Absent
from gateway.usage.sums.query import UsageQueries
from spool.sql.connection import Connection
from tests.support.stores import only_sql
from tests.unit.usage.sums.test_query import ALL, MONTH, NOW_MS, TODAY, add
from tests.unit.usage.sums.test_tally import NOW_HOUR, record


def call(model: str | None, **changes: Any) -> dict[str, Any]:
    return record(request_model=model, response_model=model, **changes)


NEWEST, OLDER = "gpt-4o-2024-11-20", "gpt-4o-2024-08-06"
CALLS = (*(call(NEWEST),) * 3, *(call(OLDER),) * 2, call("gpt-4o"), call("o3-mini"), call(None))


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-3-5-sonnet@20240620", "claude-3-5-sonnet"),
        ("anthropic.claude-sonnet-4-5-20250929-v1:0", "anthropic.claude-sonnet-4-5"),
        ("amazon.nova-pro-v1:0", "amazon.nova-pro"),
        ("gpt-4-0613", "gpt-4"),
        ("gpt-3.5-turbo-1106", "gpt-3.5-turbo"),
        ("mistral-large-2407", "mistral-large"),
        ("command-r-08-2024", "command-r"),
        ("doubao-1-5-pro-32k-250115", "doubao-1-5-pro-32k"),
        ("gemini-2.5-flash-preview-05-20", "gemini-2.5-flash-preview"),
        ("anthropic.claude-3-5-sonnet-20241022-v2:0", "anthropic.claude-3-5-sonnet"),
        ("gemini-2.0-flash-001", "gemini-2.0-flash"),
        *((name, name) for name in (
            "gpt-4o", "o3-mini", "llama-3.1-8b", "llama3-70b-8192", "text-embedding-ada-002", "text-embedding-004",
            "text-embedding-3-small", "gpt-4-1106-preview", "mistral-7b-1234", "titan-image-1024", "gemini-embedding-001",
            "amazon.titan-embed-text-v1", "amazon.titan-embed-text-v2:0", "anthropic.claude-v2:1", "qwen-262144",
            "mistral.mistral-7b-instruct-v0:2", "gpt-4.1", "claude-sonnet-4-5", "o3-99-99", "claude-3-7-sonnet-latest", "grok-2-1212x", "-2024-08-06", "",
        )),
    ],
)  # fmt: skip
def test_only_a_date_or_a_version_is_cut_off(name: str, model: str) -> None:
    assert model_of(name) == model


async def test_a_model_is_one_row_with_its_dated_names_inside(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, *CALLS)
    found = await queries.by("model", within=TODAY, order_by="calls")
    assert [(group.names, group.sums.calls) for group in found.groups] == [
        (("gpt-4o",), 6),
        ((Absent.UNKNOWN,), 1),
        (("o3-mini",), 1),
    ]
    assert inside(found.groups[0]) == [(NEWEST, 3), (OLDER, 2), ("gpt-4o", 1)]
    assert [inside(group) for group in found.groups[1:]] == [[], []]
    assert (found.count, found.rest, found.total.calls) == (3, None, 8)
    row = group_json(("model",), found.groups[0])
    assert [(each["model"], each["calls"]) for each in row["versions"]] == inside(found.groups[0])
    described = ANSWER_KEYS["usage"]["items"]["properties"]["versions"]
    assert [each.keys() for each in row["versions"]] == [described["items"]["properties"].keys()] * 3
    assert described["maxItems"] == MAX_VERSIONS
    assert "versions" not in group_json(("model",), found.groups[1])


def inside(group: Group) -> list[tuple[Any, int]]:
    return [(*version.names, version.sums.calls) for version in group.versions]


async def test_a_model_that_only_dated_names_state_has_a_row_of_its_own_name(
    sums: SumHome, queries: UsageQueries
) -> None:
    await add(sums, call(OLDER))
    (group,) = (await queries.by("provider", "model", within=MONTH)).groups
    assert (group.names[1], inside(group)) == ("gpt-4o", [(OLDER, 1)])


async def test_pages_and_orders_are_of_models(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, *CALLS)
    first, last = [await queries.by("model", within=TODAY, order_by="name", offset=at, limit=2) for at in (0, 2)]
    assert (first.count, last.count) == (3, 3)
    assert [group.names for group in (*first.groups, *last.groups)] == [("o3-mini",), ("gpt-4o",), (Absent.UNKNOWN,)]


@pytest.mark.parametrize(("model", "calls"), [("gpt-4o", 6), (OLDER, 2), ("o3-mini", 1), ("gpt", 0)])
async def test_a_filter_of_a_model_holds_its_versions(
    sums: SumHome, queries: UsageQueries, model: str, calls: int
) -> None:
    await add(sums, *CALLS)
    where = {"model": (model,)}
    assert (await queries.totals(TODAY, where=where)).calls == calls
    assert sum(bucket.sums.calls for bucket in await queries.over_time(TODAY, where=where)) == calls
    assert (await queries.by("team", within=TODAY, where=where)).total.calls == calls


async def test_an_export_keeps_each_name(sums: SumHome) -> None:
    await add(sums, *CALLS)
    rows = await sums.read(partial(period_rows, within=TODAY, group_by=("model",), now_hour=NOW_HOUR))
    assert {row["model"] for row in rows} == {NEWEST, OLDER, "gpt-4o", "o3-mini", None}


async def test_names_that_an_earlier_release_counted_are_related_once_it_is_updated(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "control.db")
    scripts = scripts_of("gateway.stores.sqlite.migrations.usage_rollups")
    try:
        await database.migrate("usage_rollups", scripts[:2])
        await database.write(_count_as_before)
        earlier = await SqlSums.open(database)
        (group,) = (await UsageQueries(earlier, now_ms=lambda: NOW_MS).by("model", within=ALL)).groups
        assert (group.names, inside(group)) == (("gpt-4o",), [(OLDER, 5)])
    finally:
        await database.close()


def _count_as_before(connection: Any) -> None:
    number = names.ids_of(connection, [OLDER])[OLDER]
    columns = [row[1] for row in connection.execute("PRAGMA table_info(usage_rollups)")]
    row = dict.fromkeys(columns, 0) | {"span": 24, "grain": 3, "hour": NOW_HOUR // 24 * 24, "model": number, "calls": 5}
    for grain in (1, 3):
        row |= {"grain": grain, "model": number if grain == 3 else 0}
        marks = ", ".join("?" * len(columns))
        connection.execute(
            f"INSERT INTO usage_rollups ({', '.join(columns)}) VALUES ({marks})", [row[x] for x in columns]
        )


@pytest.mark.parametrize("is_forgotten", [True, False], ids=["as a user's", "as unused"])
async def test_a_models_own_name_stays_as_long_as_a_version_refers_to_it(
    sums: SumHome, queries: UsageQueries, monkeypatch: pytest.MonkeyPatch, *, is_forgotten: bool
) -> None:
    if is_forgotten:
        await add(sums, call(OLDER, attribution={"user": "gpt-4o"}))
        await sums.forget_users({"gpt-4o"}, dry_run=False)
    else:
        await add(sums, call(OLDER))
        monkeypatch.setattr(bounds, "MAX_NAMES", 2)  # so that unused ones are dropped
        await sums.drop_unused_names()
    (group,) = (await queries.by("model", within=TODAY)).groups
    assert (group.names, inside(group)) == (("gpt-4o",), [(OLDER, 1)])


async def test_a_user_of_the_same_name_hides_no_version(sums: SumHome, queries: UsageQueries) -> None:
    await add(sums, call(OLDER, attribution={"user": OLDER}))
    (group,) = (await queries.by("user", "model", within=TODAY)).groups
    assert (group.names, inside(group)) == ((OLDER, "gpt-4o"), [(OLDER, 1)])


@only_sql
async def test_a_name_that_is_forgotten_as_a_users_is_no_version_any_more(
    database: SqlDatabase[Connection], sums: SumHome, queries: UsageQueries
) -> None:
    """Its id may be given to another name."""
    await add(sums, call(OLDER, attribution={"user": OLDER}))
    await database.write(_drop_models)
    await sums.forget_users({OLDER}, dry_run=False)
    await database.write(lambda connection: names.ids_of(connection, ["o3-mini"]))
    await add(sums, call("o3-mini"))
    (group,) = (await queries.by("model", within=TODAY, where={"model": ("o3-mini",)})).groups
    assert (group.names, inside(group)) == (("o3-mini",), [])
    assert await database.read(_version_count) == 0


def _drop_models(connection: Any) -> None:
    """As once a model's calls are too old."""
    connection.execute("UPDATE usage_rollups SET model = 0")


def _version_count(connection: Any) -> int:
    (count,) = connection.execute("SELECT count(*) FROM usage_model_versions").fetchone()
    return int(count)


async def test_a_filter_of_a_model_with_many_versions_holds_them_all(sums: SumHome, queries: UsageQueries) -> None:
    days = [
        f"gpt-4o-20{year}-{month:02}-{day:02}" for year in (24, 25) for month in range(1, 13) for day in range(1, 26)
    ]
    await add(sums, *map(call, days))
    assert (await queries.totals(TODAY, where={"model": ("gpt-4o",), "provider": ("openai",)})).calls == len(days)
    (group,) = (await queries.by("model", within=TODAY)).groups
    assert (group.sums.calls, len(group.versions)) == (len(days), MAX_VERSIONS)
