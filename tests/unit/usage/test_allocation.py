"""Allocation rules on each home: versions, what they move, and what stays as it was."""

from decimal import Decimal
from itertools import islice, product
from typing import Any

import orjson
import pytest

from gateway.common.contract.errors import BadPayload, NameInUse, NotFound
from gateway.common.lists.conventions import BadListRequest
from gateway.operate import allocation as operations
from gateway.operate.allocation import AllocationRequests
from gateway.operate.operation import OperationCall
from gateway.operate.usage import show
from gateway.usage.allocation import book as books
from gateway.usage.allocation.body import NewDefinition, NewVersion, Preview
from gateway.usage.allocation.book import Allocations
from gateway.usage.sums import allocated
from gateway.usage.sums.allocation import Definition, Rule
from gateway.usage.sums.home import SumHome
from gateway.usage.sums.names import Absent
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.splitting import Share
from gateway.usage.sums.tally import Tally
from gateway.usage.sums.timespan import TimeRange
from tests.support.stores import Home
from tests.unit.usage.sums.test_tally import NOW_MS, record, store

WEEK = TimeRange.last_days(7, NOW_MS)
HALVES = [{"name": "a", "percent": "50"}, {"name": "b", "percent": "50"}]
ALL_TO_C = [{"match": {}, "shares": [{"name": "c", "percent": "100"}]}]
OF_BATCH = {"match": {"key": ["batch"]}, "shares": [{"name": "a", "percent": "33.4"}, {"name": "b", "percent": "66.6"}]}


@pytest.fixture
async def sums(home: Home) -> SumHome:
    kept = await home.sums()
    await kept.begin(NOW_MS, ("feature",))
    tally = Tally(tags=("feature",))
    calls = [
        call("1", team="a", ago_h=30),
        call("0.100000000000000001", key="batch", ago_h=30),
        call("2", key="batch"),
        call("4", user="zoe", labels={"feature": "x"}),
    ]
    tally.add([orjson.dumps(each) for each in calls], now_ms=NOW_MS)
    await store(kept, tally)
    return kept


def call(cost: str, *, ago_h: float = 0, **attribution: Any) -> dict[str, Any]:
    price = {"amount": cost, "currency": "USD", "source": "reported"}
    return record(ago_h=ago_h, attribution=attribution, cost=price)


@pytest.fixture
async def book(home: Home) -> Allocations:
    return await Allocations.open(await home.allocation(), lambda: NOW_MS)


@pytest.fixture
def store_of_requests(sums: SumHome, book: Allocations) -> AllocationRequests:
    queries = UsageQueries(sums, now_ms=lambda: NOW_MS, tags=("feature",))
    queries.allocation = book.current
    return AllocationRequests(book, queries)


async def made(book: Allocations, rules: list[Any], target: str = "team") -> None:
    await book.create(NewDefinition.checked({"target": target, "rules": rules}), by="ann")


async def by(store: AllocationRequests, *dimensions: str, **more: Any) -> dict[Any, Decimal]:
    found = await store.queries.by(*dimensions, within=WEEK, **more)
    return {(group.names if len(dimensions) > 1 else group.names[0]): group.sums.costs["USD"] for group in found.groups}


async def test_rules_hold_for_past_days_and_the_original_stays(store_of_requests: AllocationRequests) -> None:
    store = store_of_requests
    before = await by(store, "team")
    assert before == {"a": 1, Absent.UNKNOWN: Decimal("6.100000000000000001")}
    await made(store.book, [OF_BATCH, *ALL_TO_C])
    share = Decimal("2.100000000000000001") * 666 / 1000
    b = share.quantize(Decimal(1).scaleb(-18), "ROUND_DOWN")
    assert await by(store, "team") == {"a": 1 + Decimal("2.100000000000000001") - b, "b": b, "c": 4}
    assert (await store.queries.totals(WEEK)).costs == {"USD": Decimal("7.100000000000000001")}
    original = await show(store.queries, OperationCall(None, query=[("group_by", "team"), ("allocation", "none")]))
    assert {row["team"]: row["costs"]["USD"] for row in original["usage"]} == {"a": "1", None: "6.100000000000000001"}
    assert original["allocation"] == []
    applied = await show(store.queries, OperationCall(None, query=[("group_by", "team")]))
    assert applied["allocation"] == [{"target": "team", "version": 1}]
    assert applied["totals"] == original["totals"]
    assert (await show(store.queries, OperationCall(None, query=[("group_by", "model")])))["allocation"] == []
    await store.book.add_version("team", NewVersion.checked({"rules": []}), by="ann")
    assert await by(store, "team") == before


async def test_the_first_rule_that_matches_takes_the_call(store_of_requests: AllocationRequests) -> None:
    to_d = {"match": {"user": ["zoe"], "tag:feature": ["x"]}, "shares": [{"name": "d", "percent": "100"}]}
    other = {"match": {"user": ["zoe"], "tag:feature": ["y"]}, "shares": [{"name": "e", "percent": "100"}]}
    unknown = {"match": {"user": [None]}, "shares": [{"name": "f", "percent": "100"}]}
    await made(store_of_requests.book, [other, to_d, unknown])
    assert await by(store_of_requests, "team") == {"a": 1, "d": 4, "f": Decimal("2.100000000000000001")}


async def test_filters_groups_and_hours_see_what_is_allocated(store_of_requests: AllocationRequests) -> None:
    store = store_of_requests
    await made(store.book, ALL_TO_C)
    assert await by(store, "key", where={"team": ["c"]}) == {
        "batch": Decimal("2.100000000000000001"),
        Absent.UNKNOWN: 4,
    }
    assert await by(store, "team", "key") == {
        ("a", Absent.UNKNOWN): 1, ("c", Absent.UNKNOWN): 4, ("c", "batch"): Decimal("2.100000000000000001"),
    }  # fmt: skip
    days = await store.queries.over_time(WEEK, where={"team": ["c"]})
    assert [day.sums.costs["USD"] for day in days] == [Decimal("0.100000000000000001"), 6]
    hours = await store.queries.over_time(TimeRange.last_hours(48, NOW_MS), interval="hour", where={"team": ["c"]})
    assert sum(hour.sums.calls for hour in hours) == 3
    assert (await store.queries.totals(WEEK, where={"team": [Absent.UNKNOWN]})).calls == 0
    compared = await show(store.queries, OperationCall(None, query=[("group_by", "team"), ("search", "C")]))
    assert [row["team"] for row in compared["usage"]] == ["c"]


async def test_targets_are_allocated_each_by_its_own_rules(store_of_requests: AllocationRequests) -> None:
    store = store_of_requests
    await made(store.book, ALL_TO_C)
    await made(
        store.book,
        [
            {"match": {"team": ["c"]}, "shares": HALVES},
            {"match": {"team": [None]}, "shares": [{"name": "p", "percent": "100"}]},
        ],
        "project",
    )
    assert await by(store, "team", "project") == {
        ("a", Absent.UNKNOWN): 1, ("c", "p"): Decimal("6.100000000000000001"),
    }, "rules see what calls bring, not what other rules gave"  # fmt: skip
    await made(store.book, [{"match": {"key": ["batch"]}, "shares": [{"name": "y", "percent": "100"}]}], "tag:feature")
    assert await by(store, "tag:feature") == {"x": 4, "y": Decimal("2.100000000000000001"), Absent.UNKNOWN: 1}


async def test_a_preview_states_what_moves_and_changes_nothing(store_of_requests: AllocationRequests) -> None:
    store = store_of_requests
    body = Preview.checked({"target": "team", "rules": [OF_BATCH, *ALL_TO_C], "range": "last_7_days"})
    found = (await operations.preview(store, OperationCall(body)))["preview"]
    assert [(rule["calls"], rule["costs"]["USD"]) for rule in found["rules"]] == [(2, "2.100000000000000001"), (1, "4")]
    calls = {row["team"]: [each and each["calls"] for each in (row["before"], row["after"])] for row in found["names"]}
    assert calls == {"a": [1, 2], "b": [None, 1], "c": [None, 1], None: [3, None]}
    assert found["totals"]["costs"] == {"USD": "7.100000000000000001"}
    assert store.book.current() == []
    await made(store.book, [OF_BATCH, *ALL_TO_C])
    applied = await store.queries.by("team", within=WEEK)
    assert {group.names[0]: group.sums.calls for group in applied.groups} == {"a": 2, "b": 1, "c": 1}
    found = (await operations.preview(store, OperationCall(body)))["preview"]
    assert [row["applied"] for row in found["names"]] == [row["after"] for row in found["names"]]
    none = Preview.checked({"target": "team", "rules": [], "range": "last_7_days"})
    found = (await operations.preview(store, OperationCall(none)))["preview"]
    assert {row["team"]: [row[side] and row[side]["calls"] for side in ("before", "applied", "after")] for row in found["names"]} == {
        "a": [1, 2, 1], "b": [None, 1, None], "c": [None, 1, None], None: [3, None, 3],
    }  # fmt: skip


async def test_a_preview_of_a_range_that_ends_before_it_begins_is_refused(
    store_of_requests: AllocationRequests,
) -> None:
    body = Preview.checked({"target": "team", "rules": ALL_TO_C, "range": "2026-01-09/2026-01-02"})
    with pytest.raises(BadListRequest, match="range: its first time is to be before its second"):
        await operations.preview(store_of_requests, OperationCall(body))


async def test_versions_are_kept_over_a_restart(
    home: Home, store_of_requests: AllocationRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = store_of_requests.book
    await made(book, ALL_TO_C)
    await book.add_version("team", NewVersion.checked({"rules": [OF_BATCH], "note": "as agreed"}), by="bo")
    again = await Allocations.open(await home.allocation(), lambda: NOW_MS)
    assert [(each.version, each.note, each.created_by) for each in again.versions("team")] == [
        (1, "", "ann"), (2, "as agreed", "bo"),
    ]  # fmt: skip
    listed = await operations.versions(
        AllocationRequests(again, store_of_requests.queries), OperationCall(None, {"target": "team"})
    )
    assert [each["version"] for each in listed["versions"]] == [2, 1]
    shown = await operations.show(store_of_requests, OperationCall(None, {"target": "team", "version": "1"}))
    assert shown["definition"]["rules"] == ALL_TO_C
    (current,) = again.current()
    assert current.rules[0].match == {"key": ("batch",)}
    monkeypatch.setattr(books, "MAX_VERSIONS", 2)
    await again.add_version("team", NewVersion.checked({"rules": []}), by="bo")
    assert [each.version for each in again.versions("team")] == [2, 3]


async def test_what_is_not_there_or_there_already_is_refused(store_of_requests: AllocationRequests) -> None:
    store = store_of_requests
    with pytest.raises(NotFound):
        await store.book.add_version("team", NewVersion.checked({"rules": []}), by="ann")
    await made(store.book, ALL_TO_C)
    with pytest.raises(NameInUse, match="target: it has rules already"):
        await made(store.book, ALL_TO_C)
    with pytest.raises(BadPayload, match=r"rules\[0\].match: only calls without a team"):
        await store.book.add_version(
            "team", NewVersion.checked({"rules": [{"match": {"team": ["a"]}, "shares": HALVES}]}), by=""
        )
    for version in ("2", "0", "x", "9" * 30):
        with pytest.raises(NotFound):
            await operations.show(store, OperationCall(None, {"target": "team", "version": version}))


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ([{"shares": [{"name": "a", "percent": "99.5"}]}], r"rules\[0\].shares: they add up to 99.5; 100 is needed"),
        ([{"shares": [*HALVES, {"name": "c", "percent": "0"}]}], r"rules\[0\].shares: a percent above 0"),
        ([{"shares": [HALVES[0], HALVES[0]]}], r"rules\[0\].shares: each name once"),
        ([{"match": {"team": ["x"]}, "shares": HALVES}], r"rules\[0\].match: only calls without a team are allocated"),
        ([{"match": {"colour": ["x"]}, "shares": HALVES}], r"rules\[0\].match: an object of provider"),
        ([{"shares": HALVES}, {"shares": []}], r"rules\[1\].shares: a list of 1 to 50 shares"),
        ([{"shares": [{"name": "a", "percent": "1e2"}]}], r"rules\[0\].shares\[0\].percent: a number as text"),
        ([{"shares": [{"percent": "100"}]}], r"rules\[0\].shares\[0\].name: a name of 1 to 120 characters is needed"),
        ([{"colour": 1}], "rules: a list of at most 100 rules"),
        ([{"shares": HALVES}] * 101, "rules: a list of at most 100 rules"),
    ],
)
def test_a_fault_in_rules_is_named_with_its_remedy(rules: list[Any], said: str) -> None:
    with pytest.raises(BadPayload, match=said):
        NewDefinition.checked({"target": "team", "rules": rules})


async def test_any_number_of_currencies_is_told_apart(home: Home) -> None:
    """Sums over all dimensions have 1,500 of a day, those of series more."""
    sums = await home.sums()
    await sums.begin(NOW_MS)
    currencies = ["".join(letters) for letters in islice(product("ABCDEFGHIJKLM", repeat=3), 2100)]
    calls = [record(ago_h=30, attribution={}, cost={"amount": "1", "currency": each}) for each in currencies]
    tally = Tally()
    tally.add([orjson.dumps(each) for each in calls], now_ms=NOW_MS)
    await store(sums, tally)
    queries = UsageQueries(sums, now_ms=lambda: NOW_MS)
    queries.allocation = lambda: [Definition("team", 1, (Rule({}, (Share("a", Decimal(100)),)),))]
    found = await queries.by("team", "key", within=WEEK)
    assert [group.names for group in found.groups] == [("a", Absent.UNKNOWN)]
    assert found.groups[0].sums.costs == dict.fromkeys(currencies, Decimal(1))


async def test_too_many_combinations_are_refused_with_the_remedy(
    store_of_requests: AllocationRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made(store_of_requests.book, ALL_TO_C)
    monkeypatch.setattr(allocated, "MAX_CELLS", 1)
    with pytest.raises(BadListRequest, match=r"allocation: .* allocation=none"):
        await by(store_of_requests, "team", "key")


async def test_all_pages_of_one_asker_are_of_one_reading(store_of_requests: AllocationRequests) -> None:
    """A file is made of many pages: they add up, and the rules are applied once."""
    queries = store_of_requests.queries
    await made(store_of_requests.book, [OF_BATCH, *ALL_TO_C])
    async with queries.apart() as apart:
        first = await apart.by("team", within=WEEK, limit=1)
        more = Tally(tags=("feature",))
        more.add([orjson.dumps(call("100", key="batch"))], now_ms=NOW_MS)
        await store(queries.sums, more, number=2)
        others = await apart.by("team", within=WEEK, offset=1)
    costs = [group.sums.costs["USD"] for group in (*first.groups, *others.groups)]
    assert sum(costs) == first.total.costs["USD"] == Decimal("7.100000000000000001")
    assert (await queries.totals(WEEK)).costs["USD"] == Decimal("107.100000000000000001")


async def test_too_many_shares_of_several_targets_are_refused(store_of_requests: AllocationRequests) -> None:
    shares = [{"name": f"s{number}", "percent": "2"} for number in range(50)]
    for target in ("team", "project", "tag:feature"):
        await made(store_of_requests.book, [{"match": {}, "shares": shares}], target)
    with pytest.raises(BadListRequest, match=r"allocation: .* allocation=none"):
        await by(store_of_requests, "team", "project", "tag:feature")
    assert len(await by(store_of_requests, "team", "project", limit=500)) == 500


async def test_a_limited_caller_sees_its_own_calls_as_they_are(store_of_requests: AllocationRequests) -> None:
    await made(store_of_requests.book, [{"match": {}, "shares": [{"name": "a", "percent": "100"}]}])
    limited = store_of_requests.queries.limited((("team", ("a",)),))
    assert (await limited.totals(WEEK)).costs == {"USD": 1}
    assert (await store_of_requests.queries.totals(WEEK, where={"team": ["a"]})).calls == 4


async def test_a_forgotten_user_is_in_no_version(home: Home, book: Allocations) -> None:
    named = [{"match": {"user": ["zoe"]}, "shares": HALVES}, {"match": {"user": ["zoe", "bo"]}, "shares": HALVES}]
    await made(book, named)
    await book.add_version("team", NewVersion.checked({"rules": ALL_TO_C}), by="ann")
    assert await book.forget_users({"zoe"}, dry_run=True) == 1
    assert len(book.version("team", 1).rules) == 2
    assert await book.forget_users({"zoe"}, dry_run=False) == 1
    again = await Allocations.open(await home.allocation(), lambda: NOW_MS)
    assert [rule.match for rule in again.version("team", 1).rules] == [{"user": ("bo",)}]
    assert await again.forget_users({"zoe"}, dry_run=False) == 0
