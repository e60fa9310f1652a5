"""Any calls and any question: a limited caller gets what a gateway answers that only has the calls
inside the limit.
"""

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.common.contract.errors import Forbidden
from gateway.common.contract.reach import Reach, narrowed, reach_of
from gateway.usage.sums.home import SumRows
from gateway.usage.sums.latency import KEPT_BY, AskedLatency
from gateway.usage.sums.limited import LimitedSumRows
from gateway.usage.sums.tags import set_text, tags_in
from gateway.usage.sums.tally import Key, Sums
from gateway.usage.sums.timespan import TimeRange
from tests.property.test_sums_homes import NOW_HOUR, Commits, Question, questions, series, store
from tests.support.stores import home_of

LIMITS = [{"team": ["a"]}, {"team": ["a", "ä"], "project": ["a", "gpt-4o"]}, {"tag:feature": ["a"]}]
TAGS = [["feature", "region"]]
EVERY = 500


def is_inside(key: Key, reach: Reach) -> bool:
    def name_of(dimension: str) -> str:
        tag = dimension.removeprefix("tag:")
        return tags_in(key.tags).get(tag, "") if tag != dimension else str(getattr(key, dimension))

    return all(name_of(dimension) in names for dimension, names in reach)


def answers(kept: SumRows, question: Question) -> list[Any]:
    """Without the order of equal groups, which is that in which names were seen first."""
    within, asked = question
    where, every = asked.where, asked._replace(offset=0, limit=EVERY)
    found = kept.breakdown(within, every, now_hour=NOW_HOUR)
    return [
        kept.totals(within, now_hour=NOW_HOUR, where=where),
        kept.over_time(within, now_hour=NOW_HOUR, interval="hour", where=where),
        kept.over_time(within, now_hour=NOW_HOUR, where=where),
        {group.names: (group.sums, {each.names: each.sums for each in group.versions}) for group in found.groups},
        (found.count, found.rest, found.total),
        {frozenset(names) for names in kept.names(within, asked.by[0], now_hour=NOW_HOUR, most=EVERY, where=where)},
    ]


def latencies(kept: SumRows, question: Question, reach: Reach) -> object:
    """None where they are not kept by what is asked or limited."""
    within, asked = question
    if not {*asked.by, *asked.where, *dict(reach)} <= {*KEPT_BY}:
        return None
    return kept.latencies(within, AskedLatency(list(asked.by), dict(asked.where), None), now_hour=NOW_HOUR)  # type: ignore[arg-type]  # dimensions


async def found_in(home_name: str, commits: Commits, asked: Sequence[Question], reach: Reach) -> list[object]:
    async with AsyncExitStack() as stack:

        async def holding(stored: Commits) -> Any:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            sums = await (await stack.enter_async_context(home_of(home_name, folder))).sums()
            await store(sums, stored, TAGS)
            return sums

        everything = await holding(commits)
        own = await holding([[each for each in commit if is_inside(each[0], reach)] for commit in commits])
        differences: list[object] = []
        for question in asked:

            def limited(kept: SumRows, question: Question = question) -> object:
                part = LimitedSumRows(kept, reach)
                return answers(part, question), latencies(part, question, reach)

            def alone(kept: SumRows, question: Question = question) -> object:
                return answers(kept, question), latencies(kept, question, reach)

            seen, expected = await everything.read(limited), await own.read(alone)
            differences += [] if seen == expected else [(question, seen, expected)]
        return differences


@st.composite
def calls(draw: st.DrawFn) -> tuple[Key, Sums]:
    """Of several teams and projects, most of them with a tag."""
    key, sums = draw(series())
    team, project = draw(st.sampled_from(["a", "ä", "b", ""])), draw(st.sampled_from(["a", "gpt-4o", "b", ""]))
    tags = set_text({"feature": draw(st.sampled_from(["a", "b"]))})
    return key._replace(team=team, project=project, tags=draw(st.sampled_from([tags, tags, ""]))), sums


WHOLE = TimeRange(NOW_HOUR - 60, NOW_HOUR + 1)
asked_questions = st.tuples(questions(), st.booleans()).map(
    lambda drawn: (WHOLE, drawn[0][1]) if drawn[1] else drawn[0]
)


@pytest.mark.parametrize("limits", LIMITS, ids=["team", "team and project", "tag"])
@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.lists(calls(), min_size=3, max_size=12, unique_by=lambda each: each[0]), min_size=1, max_size=3),
    st.lists(asked_questions, min_size=2, max_size=4),
)
def test_a_limited_caller_gets_what_the_own_calls_alone_come_to(
    limits: dict[str, list[str]], commits: Commits, asked: list[Question]
) -> None:
    reach = reach_of(limits)
    inside = [question for question in asked if is_allowed(question, reach)]
    assert asyncio.run(found_in("sqlite", commits, inside, reach)) == []


def is_allowed(question: Question, reach: Reach) -> bool:
    try:
        narrowed(question[1].where, reach)
    except Forbidden:
        return False
    return True
