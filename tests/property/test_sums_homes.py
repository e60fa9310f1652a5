"""Any calls, stored in any order, and any question: control.db, Postgres and the plain home in
memory answer alike.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.usage.sums.buckets import FIRST_TOKEN, add_buckets
from gateway.usage.sums.figures import Breakdown
from gateway.usage.sums.grains import DIMENSIONS, Dimension
from gateway.usage.sums.home import AskedGroups, Counted, SumHome, SumRows
from gateway.usage.sums.latency import KEPT_BY, AskedLatency
from gateway.usage.sums.names import Absent, Filters
from gateway.usage.sums.request import OrderBy
from gateway.usage.sums.tags import set_text
from gateway.usage.sums.tally import COST as COST_AT
from gateway.usage.sums.tally import FAILED_COSTS_BY, HOUR_MS, NOTHING, Key, LatencyKey, Sums, Tally
from gateway.usage.sums.timespan import TimeRange
from tests.support.postgres import needs_postgres
from tests.support.stores import HOMES, home_of

NOW_HOUR = 490_000
NAMES = st.sampled_from(["", "a", "gpt-4o", "gpt-4o-2024-08-06", "gpt-4o-2024-11-20", "ä"])
COUNT = st.integers(0, 3)
"""Few, so that groups are of equal rank."""
COST = st.sampled_from([0, 10**17, -(10**12) - 1])
TOKENS = st.none() | COUNT
AGO = (4, 3, 1, 0)
"""How many hours before now each commit is."""
TAGS = ("feature", "region")
ASKED = (*DIMENSIONS, "tag:feature", "tag:feature", "tag:region", "tag:unknown", "tags")
Question = tuple[TimeRange, AskedGroups]
ORDERS: tuple[OrderBy, ...] = ("cost", "calls", "input_tokens", "output_tokens", "name")


@st.composite
def series(draw: st.DrawFn) -> tuple[Key, Sums]:
    several = draw(st.sets(st.sampled_from(DIMENSIONS), max_size=3)) | {"model"}
    names = [draw(NAMES) if name in several else "a" for name in DIMENSIONS]
    currency = draw(st.sampled_from(["", "USD", "USD", "EUR"]))
    source = draw(st.sampled_from(["estimated", "reported"])) if currency else ""
    cost = draw(COST) if currency else 0
    counts = [draw(COUNT) for _ in range(6)]
    tags = set_text({name: value for name in TAGS if (value := draw(st.sampled_from(["", "", "a", "ä"])))})
    return Key(NOW_HOUR - draw(st.integers(0, 60)), *names, currency, source, tags), [
        *counts,
        *(draw(TOKENS) for _ in range(7)),
        cost,
    ]


@st.composite
def questions(draw: st.DrawFn) -> Question:
    first = draw(st.integers(0, 60))
    dimension = draw(st.sampled_from(ASKED))
    where: Filters = (
        {dimension: draw(st.lists(NAMES.map(_name), min_size=1, max_size=3))} if draw(st.integers(0, 2)) == 0 else {}
    )
    several = st.lists(st.sampled_from(ASKED), min_size=1, max_size=3, unique=True)
    group_by: list[Dimension] = draw(several | st.sampled_from([["tag:feature"], ["tag:region"]]))
    asked: dict[str, Any] = {
        "where": where,
        "by": group_by,
        "order_by": draw(st.sampled_from((*ORDERS, "cost", "cost", "cost"))),
        "currency": draw(st.sampled_from([None, "USD", "EUR", "XYZ"])),
        "ascending": draw(st.booleans()),
        "offset": draw(st.integers(0, 4)),
        "limit": draw(st.integers(1, 5)),
        "folds_versions": "model" in group_by,
    }
    return TimeRange(NOW_HOUR - first, NOW_HOUR + 1), AskedGroups(**asked)


def _name(text: str) -> str | Absent:
    return text or Absent.UNKNOWN


def answers(kept: SumRows, question: Question) -> list[object]:
    within, asked = question
    where = asked.where
    hours = kept.over_time(within, now_hour=NOW_HOUR, interval="hour", where=where)
    days = kept.over_time(within, now_hour=NOW_HOUR, where=where)
    found: Breakdown = kept.breakdown(within, asked, now_hour=NOW_HOUR)
    names = [
        (name, {*versions})
        for name, *versions in kept.names(within, asked.by[0], now_hour=NOW_HOUR, most=3, where=where)
    ]
    by = [name for name in asked.by if name in KEPT_BY]
    filters = {name: names for name, names in where.items() if name in KEPT_BY}
    latencies = [
        kept.latencies(within, AskedLatency(by, filters, interval), now_hour=NOW_HOUR)
        for interval in (None, "hour", "day")
    ]
    revisions = [kept.revision(day) for day in range(NOW_HOUR // 24 * 24 - 96, NOW_HOUR, 24)]
    failed = kept.failed_costs(TimeRange(within.first_hour // 24 * 24, NOW_HOUR // 24 * 24 + 24))
    failures = (failed.since_hour, sorted(failed.cells, key=repr))
    total = kept.totals(within, now_hour=NOW_HOUR, where=where)
    return [total, hours, days, found, names, latencies, revisions, failures]


def latency_key(key: Key) -> LatencyKey:
    return LatencyKey(key.hour, *(getattr(key, name) for name in KEPT_BY))


def note_failed(tally: Tally, key: Key, sums: Sums) -> None:
    summed_over: dict[str, Any] = dict.fromkeys({*DIMENSIONS, "tags"} - {*FAILED_COSTS_BY}, "")
    apart = key._replace(**summed_over)
    mine = tally.failed_costs.setdefault(apart, [*NOTHING])
    for column in (0, 1, COST_AT):
        mine[column] = (mine[column] or 0) + (sums[column] or 0)


async def store(home: SumHome, commits: list[list[tuple[Key, Sums]]], kept: Sequence[Sequence[str]]) -> None:
    for number, stored in enumerate(commits):
        await home.begin(NOW_HOUR * HOUR_MS, kept[number % len(kept)])
        tally = Tally()
        tally.sums = {key: [*sums] for key, sums in stored}
        for key, sums in stored:
            if sums[COST_AT]:
                note_failed(tally, key, sums)
            add_buckets(tally.latencies.setdefault(latency_key(key), {}), {sums[0] or 0: 1, FIRST_TOKEN + 9: 2})
        now_ms = (NOW_HOUR - AGO[number]) * HOUR_MS
        await home.store(Counted(tally, "spool", number, None, now_ms, now_ms))


Commits = list[list[tuple[Key, Sums]]]
given_usage = given(
    st.lists(st.lists(series(), min_size=2, max_size=12, unique_by=lambda each: each[0]), max_size=4),
    st.lists(questions(), min_size=1, max_size=4),
    NAMES,
    st.lists(st.sampled_from([["feature"], ["region"], ["region", "feature"], []]), min_size=1, max_size=3),
)


@settings(max_examples=200, deadline=None)
@given_usage
def test_both_homes_answer_alike(
    commits: Commits, asked: list[Question], forgotten: str, kept: list[list[str]]
) -> None:
    sqlite, memory = found_in(HOMES, commits, asked, forgotten, kept)
    assert sqlite == memory


@needs_postgres
@settings(max_examples=25, deadline=None)
@given_usage
def test_postgres_answers_as_sqlite(
    commits: Commits, asked: list[Question], forgotten: str, kept: list[list[str]]
) -> None:
    sqlite, postgres = found_in(("sqlite", "postgres"), commits, asked, forgotten, kept)
    assert sqlite == postgres


def found_in(
    homes: Sequence[str], commits: Commits, asked: list[Question], forgotten: str, kept_tags: list[list[str]]
) -> list[list[object]]:
    async def of_each() -> list[list[object]]:
        found: list[list[object]] = []
        async with AsyncExitStack() as stack:
            for name in homes:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                sums = await (await stack.enter_async_context(home_of(name, folder))).sums()
                await store(sums, commits, kept_tags)
                before = [await sums.read(lambda kept, each=each: answers(kept, each)) for each in asked]
                rows = await sums.forget_users({forgotten} - {""}, dry_run=False)
                after = [await sums.read(lambda kept, each=each: answers(kept, each)) for each in asked]
                history = await sums.history(NOW_HOUR * HOUR_MS)
                found.append([before, rows, after, sorted(history.usage), sorted(history.models), history.began_hour])
        return found

    return asyncio.run(of_each())
