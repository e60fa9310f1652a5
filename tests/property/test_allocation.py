"""Any calls and any rules: no total changes, to the last digit, and without allocation all is what
it was. Both homes answer alike.
"""

import asyncio
import tempfile
from contextlib import AsyncExitStack
from decimal import Decimal
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.usage.sums.allocated import AllocatedSumRows
from gateway.usage.sums.allocation import Definition, Rule, cells_at
from gateway.usage.sums.figures import COUNTS, UsageSums, together
from gateway.usage.sums.home import AskedGroups, SumRows
from gateway.usage.sums.names import Absent, Filters
from gateway.usage.sums.splitting import PART_OF, Share, Splitter
from gateway.usage.sums.timespan import TimeRange
from tests.property.test_sums_homes import ASKED, NOW_HOUR, Commits, series, store
from tests.support.stores import HOMES, home_of

TARGETS = ("team", "project", "tag:feature")
MATCHED = ("key", "service_name", "user", "model", "provider", "tag:region")
WHOLE = TimeRange(NOW_HOUR - 60, NOW_HOUR + 1)
NAMES = ("a", "gpt-4o", None)


@st.composite
def shares(draw: st.DrawFn) -> tuple[Share, ...]:
    cuts = sorted(draw(st.sets(st.integers(1, 10**8 - 1), max_size=3)))
    parts = [end - start for start, end in zip([0, *cuts], [*cuts, 10**8], strict=True)]
    return tuple(Share(f"t{n}", Decimal(part).scaleb(-6)) for n, part in enumerate(parts))


@st.composite
def rules(draw: st.DrawFn) -> Rule:
    dimensions = draw(st.sets(st.sampled_from(MATCHED), max_size=2))
    match = {each: tuple(draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))) for each in dimensions}
    return Rule(match, draw(shares()))


@st.composite
def definitions(draw: st.DrawFn) -> list[Definition]:
    targets = draw(st.lists(st.sampled_from(TARGETS), min_size=1, unique=True))
    return [Definition(each, 1, tuple(draw(st.lists(rules(), min_size=1, max_size=3)))) for each in targets]


QUESTIONS = st.lists(st.sampled_from((*TARGETS, *ASKED)), min_size=1, max_size=3, unique=True)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(series(), min_size=1, max_size=8, unique_by=lambda each: each[0]), min_size=1, max_size=2),
    definitions(),
    QUESTIONS,
    st.sampled_from([{}, {"provider": ("a",)}, {"model": ("gpt-4o", Absent.UNKNOWN)}]),
)
def test_no_total_changes(commits: Commits, by_rules: list[Definition], by: list[str], where: Filters) -> None:
    found = asyncio.run(of_each_home(commits, by_rules, by, where))
    assert found[0] == found[1]


async def of_each_home(
    commits: Commits, by_rules: list[Definition], by: list[str], where: Filters
) -> list[dict[tuple[object, ...], UsageSums]]:
    found = []
    async with AsyncExitStack() as stack:
        for name in HOMES:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            sums = await (await stack.enter_async_context(home_of(name, folder))).sums()
            await store(sums, commits, [["feature", "region"]])
            found.append(await sums.read(lambda kept: answered(kept, by_rules, by, where)))
    return found


def answered(
    kept: SumRows, by_rules: list[Definition], by: list[str], where: Filters
) -> dict[tuple[object, ...], UsageSums]:
    rows = AllocatedSumRows(kept, by_rules)
    asked = AskedGroups(by, where, limit=500, folds_versions="model" in by)
    before, after = (each.breakdown(WHOLE, asked, now_hour=NOW_HOUR) for each in (kept, rows))
    groups = {group.names: group.sums for group in after.groups}
    assert after.total == before.total
    rest = [after.rest] if after.rest is not None else []
    assert costs_and_counts(together([*groups.values(), *rest])) == costs_and_counts(before.total)
    assert kept.breakdown(WHOLE, asked, now_hour=NOW_HOUR) == before, "the original is what it was"
    for target in {each.target for each in by_rules} & {*by}:
        each_name = {names[by.index(target)] for names in groups}
        filtered = [rows.totals(WHOLE, now_hour=NOW_HOUR, where={**where, target: (name,)}) for name in each_name]
        days = [
            bucket.sums
            for name in each_name
            for bucket in rows.over_time(WHOLE, now_hour=NOW_HOUR, where={**where, target: (name,)})
        ]
        assert costs_and_counts(together(filtered)) == costs_and_counts(before.total)
        assert costs_and_counts(together(days)) == costs_and_counts(before.total)
    return groups  # type: ignore[return-value]  # names are texts and why there is none


def costs_and_counts(sums: UsageSums) -> list[object]:
    return [{name: cost for name, cost in sums.costs.items() if cost}, *(getattr(sums, name) or 0 for name in COUNTS)]


@given(shares(), st.integers(0, 10**15), st.decimals(-(10**9), 10**9, places=18))
def test_parts_add_up_to_the_whole(by: tuple[Share, ...], tokens: int, cost: Decimal) -> None:
    whole = UsageSums(calls=tokens, input_tokens=tokens, costs={"USD": cost}, estimated_costs={"USD": cost})
    parts = Splitter(by).split(whole)
    assert together(parts) == whole
    for share, part in zip(by[1:], parts[1:], strict=True):
        assert abs(part.costs["USD"] - cost * share.percent / 100) < Decimal(1).scaleb(-17)
    for share, part in zip(by, parts, strict=True):
        assert abs(part.calls - tokens * int(share.percent.scaleb(6)) / 10**8) < max(1, tokens / 10**15)
    assert all(part.output_tokens is None for part in parts)


@given(shares(), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5)), max_size=60))
def test_many_small_groups_come_to_the_share_of_all(by: tuple[Share, ...], groups: list[tuple[int, int, int]]) -> None:
    splitter, calls = Splitter(by), sum(max(group) for group in groups)
    given_to = [0] * len(by)
    for failed, without_cost, without_price in groups:
        whole = UsageSums(
            calls=max(failed, without_cost, without_price), failed_calls=failed,
            calls_without_cost=max(without_cost, without_price), calls_without_price=without_price,
        )  # fmt: skip
        parts = splitter.split(whole)
        assert together(parts) == whole
        for at, part in enumerate(parts):
            given_to[at] += part.calls
            assert all(0 <= getattr(part, name) <= getattr(part, PART_OF[name]) for name in CALLS_OF)
    for share, got in zip(by, given_to, strict=True):
        assert abs(got - calls * share.percent / 100) < len(by)


CALLS_OF = ("failed_calls", "calls_without_cost", "calls_without_price")


def test_a_call_an_hour_comes_to_the_share_of_all() -> None:
    rule = Rule(
        {}, tuple(Share(name, Decimal(percent)) for name, percent in (("a", "33.33"), ("b", "33.33"), ("c", "33.34")))
    )
    one = UsageSums(calls=1, input_tokens=1, calls_without_cost=1)
    cells = [*cells_at({(hour, (rule,)): one for hour in range(300)}, [Definition("team", 1, (rule,))])]
    calls = {name: sum(cell.sums.calls for cell in cells if cell.names == (name,)) for name in "abc"}
    assert calls == {"a": 100, "b": 100, "c": 100}
    assert all(cell.sums.calls == cell.sums.calls_without_cost for cell in cells)
