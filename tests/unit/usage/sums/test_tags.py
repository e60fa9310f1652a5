"""Tags as dimensions of usage, on each home: exact sums, bounds that lose nothing, and what was
counted before a tag was configured.
"""

from decimal import Decimal
from typing import Any

import orjson
import pytest

from gateway.common.lists.conventions import BadListRequest
from gateway.operate.costs import LIST_TAGS
from gateway.operate.operation import OperationCall
from gateway.operate.usage import show
from gateway.usage.billing.content import day_content
from gateway.usage.sums import bounds, grains
from gateway.usage.sums.figures import Breakdown, together
from gateway.usage.sums.home import SumHome
from gateway.usage.sums.names import Absent, Name
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.tally import HOUR_MS, Tally
from gateway.usage.sums.timespan import TimeRange
from tests.support.native import IMPLEMENTATIONS
from tests.unit.usage.sums.test_tally import NOW_MS, record, store

TAGS = ("environment", "feature", "customer")
TODAY = TimeRange.last_days(1, NOW_MS)
WEEK = TimeRange.last_days(7, NOW_MS)
HOURS = TimeRange.last_hours(3, NOW_MS)


def of(cost: str = "1", team: str = "core", environment: str | None = None, **changes: Any) -> dict[str, Any]:
    """A call with labels."""
    ago_h = changes.pop("ago_h", 0)
    return record(
        ago_h=ago_h,
        attribution={"team": team, "environment": environment, "labels": changes},
        cost={"amount": cost, "currency": "USD", "source": "reported"},
    )


async def add(sums: SumHome, *records: object, tags: tuple[str, ...] = TAGS) -> None:
    await sums.begin(NOW_MS, tags)
    tally = Tally(tags=tags)
    tally.add([orjson.dumps(each) for each in records], now_ms=NOW_MS)
    await store(sums, tally)


def queries_of(sums: SumHome, *, tags: tuple[str, ...] = TAGS) -> UsageQueries:
    return UsageQueries(sums, now_ms=lambda: NOW_MS, tags=tags)


def costs(found: Breakdown) -> dict[tuple[Name, ...], Decimal]:
    assert together([*(group.sums for group in found.groups), *([found.rest] if found.rest else [])]) == found.total
    return {group.names: group.sums.costs["USD"] for group in found.groups}


@pytest.mark.parametrize("within", [TODAY, WEEK, HOURS])
async def test_a_tag_is_a_dimension(sums: SumHome, within: TimeRange) -> None:
    await add(sums, of("1", feature="search"), of("2", feature="chat"), of("4"), of("8", feature="chat", customer="a"))
    found = await queries_of(sums).by("tag:feature", within=within)
    assert costs(found) == {("chat",): 10, ("search",): 1, (Absent.UNKNOWN,): 4}
    assert costs(await queries_of(sums).by("tag:customer", within=within)) == {("a",): 8, (Absent.UNKNOWN,): 7}


async def test_a_tag_is_asked_for_with_other_dimensions_and_filters(sums: SumHome) -> None:
    await add(
        sums,
        of("1", "a", feature="x", customer="k"),
        of("2", "a", feature="y"),
        of("4", "b", feature="x"),
        of("8", "b", customer="k"),
    )
    queries = queries_of(sums)
    assert costs(await queries.by("team", "tag:feature", within=TODAY)) == {
        ("b", Absent.UNKNOWN): 8, ("b", "x"): 4, ("a", "y"): 2, ("a", "x"): 1,
    }  # fmt: skip
    assert costs(await queries.by("team", within=TODAY, where={"tag:feature": ["x"]})) == {("b",): 4, ("a",): 1}
    of_k = await queries.totals(TODAY, where={"tag:customer": ["k"], "tag:feature": ["x", Absent.UNKNOWN]})
    assert of_k.costs == {"USD": 9}
    assert costs(await queries.by("tags", within=TODAY)) == {
        ('{"customer":"k"}',): 8, ('{"feature":"x"}',): 4, ('{"feature":"y"}',): 2, ('{"customer":"k","feature":"x"}',): 1,
    }  # fmt: skip
    (bucket,) = await queries.over_time(TODAY, where={"tag:feature": ["y"]})
    assert bucket.sums.costs == {"USD": 2}


async def test_the_environment_is_a_field_of_the_record(sums: SumHome) -> None:
    await add(sums, of("1", environment="prod"), of("2", environment="test"))
    assert costs(await queries_of(sums).by("tag:environment", within=TODAY)) == {("test",): 2, ("prod",): 1}


async def test_calls_that_were_counted_before_a_tag_was_configured_have_none(sums: SumHome) -> None:
    await add(sums, of("1", feature="x", ago_h=30), of("2", feature="x"), tags=())
    await add(sums, of("4", feature="x", customer="k"), tags=("feature",))
    await add(sums, of("8", feature="x", customer="k"), tags=("feature", "customer"))
    queries = queries_of(sums)
    for within in (WEEK, TimeRange.last_hours(48, NOW_MS)):
        assert costs(await queries.by("tag:feature", within=within)) == {("x",): 12, (Absent.UNKNOWN,): 3}
        assert costs(await queries.by("tag:customer", within=within)) == {("k",): 8, (Absent.UNKNOWN,): 7}
        assert (await queries.totals(within, where={"tag:feature": [Absent.UNKNOWN]})).costs == {"USD": 3}
    assert (await queries.totals(WEEK)).costs == {"USD": 15}


async def test_a_tag_that_comes_back_has_what_was_counted_of_it(sums: SumHome) -> None:
    await add(sums, of("1", feature="x"))
    await add(sums, of("2", feature="x"), tags=())
    await add(sums, of("4", feature="x"))
    assert costs(await queries_of(sums).by("tag:feature", within=WEEK)) == {("x",): 5, (Absent.UNKNOWN,): 2}


async def test_the_tags_that_are_kept_are_bounded(sums: SumHome) -> None:
    first = tuple(f"t{n}" for n in range(20))
    await add(sums, of("1", t0="x", t1="y"), tags=first)
    await add(sums, of("2", t1="y", new="z"), tags=("t1", "new"))
    queries = queries_of(sums, tags=(*first, "new"))
    assert costs(await queries.by("tag:new", within=WEEK)) == {("z",): 2, (Absent.UNKNOWN,): 1}
    assert costs(await queries.by("tag:t1", within=WEEK)) == {("y",): 3}
    assert costs(await queries.by("tag:t0", within=WEEK)) == {(Absent.UNKNOWN,): 3}, "it was given up"
    await add(sums, of("4", t0="x"), tags=("t0", "new"))
    assert costs(await queries.by("tag:t0", within=WEEK)) == {("x",): 5, (Absent.UNKNOWN,): 2}


async def test_values_beyond_the_bound_of_a_day_are_other_and_no_total_changes(
    sums: SumHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grains, "tag_grain", lambda number: grains.Grain(100 + number, frozenset({"tags"}), 4, 0))
    for module in ("gateway.stores.sql.sums.rollups.tag_grain", "tests.support.memory_sums.tag_grain"):
        monkeypatch.setattr(module, grains.tag_grain)
    await add(sums, *(of(str(2**n), feature=f"f{n}") for n in range(8)))
    found = await queries_of(sums).by("tag:feature", within=TODAY, limit=50)
    assert found.count == 4
    assert found.total.costs == {"USD": 255}
    assert found.rest is not None, "which are the others"


async def test_sets_of_tags_beyond_the_bound_are_other(sums: SumHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_TAG_SETS", 3)
    await add(sums, *(of("1", feature=f"f{n}") for n in range(5)), of("1"))
    queries = queries_of(sums)
    assert costs(await queries.by("team", "tag:feature", within=TODAY, order_by="name")) == {
        ("core", "f0"): 1, ("core", "f1"): 1, ("core", "f2"): 1, ("core", Absent.UNKNOWN): 1, ("core", Absent.OTHER): 2,
    }  # fmt: skip
    await add(sums, of("4", feature="f1"), of("8", feature="f4"))
    assert (await queries.totals(TODAY, where={"tag:feature": ["f1"]})).costs == {"USD": 5}
    assert (await queries.totals(TODAY)).costs == {"USD": 18}


async def test_a_set_that_is_too_long_is_other(sums: SumHome) -> None:
    tags = tuple(f"t{n}" for n in range(20))
    await add(sums, record(attribution={"labels": dict.fromkeys(tags, "ä" * 100)}), tags=tags)
    found = await queries_of(sums, tags=tags).by("team", "tag:t1", within=TODAY)
    assert [group.names for group in found.groups] == [(Absent.UNKNOWN, Absent.OTHER)]


async def test_a_forgotten_users_calls_keep_their_tags(sums: SumHome) -> None:
    call = record(attribution={"user": "zoe", "team": "core", "labels": {"feature": "x"}})
    await add(sums, call)
    await sums.forget_users({"zoe"}, dry_run=False)
    found = await queries_of(sums).by("user", "tag:feature", within=TODAY)
    assert [group.names for group in found.groups] == [(Absent.FORGOTTEN, "x")]


async def test_names_of_values_stay_while_a_set_has_them(sums: SumHome, monkeypatch: pytest.MonkeyPatch) -> None:
    await add(sums, of("1", feature="x", customer="k"))
    monkeypatch.setattr(bounds, "MAX_NAMES", 1)
    await sums.drop_unused_names()
    assert costs(await queries_of(sums).by("tag:feature", "tag:customer", within=TODAY)) == {("x", "k"): 1}


@pytest.mark.parametrize("native", IMPLEMENTATIONS)
def test_both_tallies_count_tags_alike(native: Any) -> None:
    records = [of("1", feature="x"), of("2", feature="x\x07" * 90), of("4"), of("8", environment="prod", other="y")]
    made = Tally(native, tags=("feature", "environment"))
    made.add([orjson.dumps(each) for each in records], now_ms=NOW_MS)
    cut = "x\ufffd" * 60
    assert {key.tags for key in made.sums} == {
        "", '{"environment":"prod"}', f'{{"feature":"{cut}"}}', '{"feature":"x"}',
    }  # fmt: skip


async def test_a_tag_that_is_not_configured_is_named_with_those_that_are(sums: SumHome) -> None:
    await add(sums, of("1", feature="x"))
    for query in ([("group_by", "tag:featur")], [("tag", "featur=x")], [("unknown", "tag:featur")]):
        with pytest.raises(BadListRequest, match=r"tag:featur: no such tag .*tag:feature"):
            await show(queries_of(sums), OperationCall(None, query=query))
    with pytest.raises(BadListRequest, match="none is configured"):
        await show(queries_of(sums, tags=()), OperationCall(None, query=[("group_by", "tag:x")]))
    for query in ([("tag", "feature")], [("tag", "feature=")], [("tag", "Feature=x")]):
        with pytest.raises(BadListRequest, match="tag: NAME=VALUE is needed"):
            await show(queries_of(sums), OperationCall(None, query=query))


async def test_a_page_of_groups_by_a_tag_goes_on_by_its_cursor(sums: SumHome) -> None:
    await add(sums, *(of(str(n), feature=f"f{n}", customer="k") for n in range(1, 4)))
    query: tuple[tuple[str, str], ...] = (("group_by", "tag:feature"), ("tag", "customer=k"), ("limit", "2"))
    seen: list[str] = []
    while query:
        answer = await show(queries_of(sums), OperationCall(None, query=query))
        seen += [row["tag:feature"] for row in answer["usage"]]
        cursor = answer["pagination"]["cursor"]["next_cursor"]
        query = (("group_by", "tag:feature"), ("cursor", cursor)) if cursor else ()
    assert seen == ["f3", "f2", "f1"]


async def test_a_billing_drop_has_the_tags_of_a_day(sums: SumHome) -> None:
    await add(sums, of("1", feature="x"), of("2", feature="x"), of("4"))
    hour = NOW_MS // HOUR_MS // 24 * 24
    content = await sums.read(lambda kept: day_content(kept, hour, now_hour=NOW_MS // HOUR_MS))
    rows = [orjson.loads(line) for line in content.lines]
    assert {row["Tags"]: row["BilledCost"] for row in rows} == {
        '{"team": "core", "feature": "x"}': "3", '{"team": "core"}': "4",
    }  # fmt: skip


async def test_a_limited_caller_sees_the_calls_of_its_tag(sums: SumHome) -> None:
    await add(sums, of("1", "a", feature="x"), of("2", "b", feature="x"), of("4", "b", feature="y"), of("8", "b"))
    limited = queries_of(sums).limited((("tag:feature", ("x",)),))
    assert costs(await limited.by("team", within=TODAY)) == {("b",): 2, ("a",): 1}
    assert costs(await limited.by("tags", within=TODAY)) == {('{"feature":"x"}',): 3}
    unconfigured = queries_of(sums).limited((("tag:never", ("x",)),))
    assert (await unconfigured.totals(TODAY)).calls == 0


async def test_resource_tags_are_listed_with_their_values(sums: SumHome) -> None:
    await add(sums, of("1", feature="x"), of("2", feature="y", environment="prod"))
    found = await LIST_TAGS.handler(queries_of(sums), OperationCall(None))
    assert [(each["name"], each["values"], each["has_unknown"]) for each in found["resource_tags"]] == [
        ("customer", [], True), ("environment", ["prod"], True), ("feature", ["y", "x"], False),
    ]  # fmt: skip
