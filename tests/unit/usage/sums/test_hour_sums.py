"""Hours that are over are summed by one dimension, and no answer changes by that."""

from collections.abc import Sequence
from typing import Any

import pytest

from gateway.common.storage.sql import SqlDatabase
from gateway.usage.sums import bounds
from gateway.usage.sums.figures import Breakdown
from gateway.usage.sums.grains import DIMENSIONS, HOUR
from gateway.usage.sums.home import SumHome
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.summing import to_sum
from gateway.usage.sums.tally import HOUR_MS
from gateway.usage.sums.timespan import KeptHours, TimeRange
from spool.sql.connection import Connection
from tests.support.stores import only_sql
from tests.unit.usage.sums.test_query import add, of
from tests.unit.usage.sums.test_tally import NOW_HOUR, NOW_MS

LAST_DAY = TimeRange(NOW_HOUR - 20, NOW_HOUR + 1)
TEAMS = 3
USERS = 20


def calls(hours_ago: Sequence[int]) -> list[dict[str, Any]]:
    """A call of each user in each of those hours."""
    return [
        of(f"team-{n % TEAMS}", ago_h=ago, cost=f"0.{n + 1:03}", provider=f"p{n % 2}", attribution={"user": f"u{n}"})
        for ago in hours_ago
        for n in range(USERS)
    ]


async def answers(sums: SumHome, hours: int = 0) -> list[Breakdown]:
    queries = UsageQueries(sums, now_ms=lambda: NOW_MS + hours * HOUR_MS)
    found = [await queries.by(name, within=LAST_DAY, limit=50) for name in DIMENSIONS]
    filtered = await queries.by("user", within=LAST_DAY, where={"team": ["team-1"]}, limit=50)
    return [*found, filtered, await queries.by("team", within=LAST_DAY, where={"team": ["team-1"]})]


async def test_an_hour_that_is_over_has_the_answers_that_it_had(sums: SumHome) -> None:
    await add(sums, *calls([0, 1, 2]))
    before = await answers(sums)
    await add(sums, now_ms=NOW_MS + HOUR_MS)
    assert await answers(sums, 1) == before


async def test_calls_that_come_after_their_hour_are_counted_once(sums: SumHome) -> None:
    for hours in range(3):
        await add(sums, *calls([0]), now_ms=NOW_MS + hours * HOUR_MS)
    found = await answers(sums, 2)
    assert {each.total.calls for each in found[:-2]} == {3 * USERS}
    assert [sum(group.sums.calls for group in each.groups) for each in found[:-2]] == [3 * USERS] * len(DIMENSIONS)


@only_sql
async def test_hours_by_one_dimension_are_few_rows(sums: SumHome, database: SqlDatabase[Connection]) -> None:
    await add(sums, *calls([0]))
    assert await rows_by_team(database) == 0
    await add(sums, now_ms=NOW_MS + HOUR_MS)
    assert await rows_by_team(database) == TEAMS


@only_sql
@pytest.mark.parametrize("has_rows", [False, True], ids=["of an earlier release", "summed before"])
async def test_earlier_hours_follow_one_a_commit(
    sums: SumHome, database: SqlDatabase[Connection], *, has_rows: bool
) -> None:
    await add(sums, *calls([0, 1, 2]))
    await add(sums, now_ms=NOW_MS + HOUR_MS)
    before = await answers(sums, 1)

    def begin_again(connection: Connection) -> None:
        connection.execute("UPDATE usage_rollup_state SET summed_from = 0, summed_to = 0")
        if not has_rows:
            connection.execute("DELETE FROM usage_rollups WHERE span = ? AND grain > 1", (HOUR,))

    await database.write(begin_again)
    seen = []
    for _ in range(4):
        assert await answers(sums, 1) == before
        seen.append(await rows_by_team(database) // TEAMS)
        await add(sums, now_ms=NOW_MS + HOUR_MS)
    assert seen == [3 if has_rows else 0, 1, 2, 3], "what was summed before is summed again, not added to"


async def rows_by_team(database: SqlDatabase[Connection]) -> int:
    found = await database.read(
        lambda connection: connection.execute(
            "SELECT count(*) FROM usage_rollups WHERE span = ? AND grain = 4", (HOUR,)
        ).fetchone()
    )
    return int(found[0])


@only_sql
async def test_older_hours_are_read_from_their_series(
    sums: SumHome, database: SqlDatabase[Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "SUMMED_HOURS", 2)
    await add(sums, *calls([0, 1, 2]))
    await add(sums, now_ms=NOW_MS + HOUR_MS)
    before = await answers(sums, 1)
    assert await rows_by_team(database) == 2 * TEAMS
    await add(sums, now_ms=NOW_MS + 2 * HOUR_MS)
    assert (await rows_by_team(database), await answers(sums, 2)) == (TEAMS, before)


OLDEST = 1000 - bounds.SUMMED_HOURS


@pytest.mark.parametrize(
    ("summed", "hours", "then"),
    [
        ((0, 0), [999], (999, 1000)),
        ((900, 1000), [899], (899, 1000)),
        ((850, 998), [998, 999, 849], (849, 1000)),
        ((850, 1005), [849], (849, 1005)),
        ((OLDEST, 1000), [], (OLDEST, 1000)),
        ((OLDEST - 1, 999), [999], (OLDEST, 1000)),
        ((10, OLDEST - 1), [999], (999, 1000)),
    ],
    ids=["a new store", "each commit", "two hours later", "the clock was ahead", "all", "the oldest", "a long rest"],
)
def test_the_hours_that_are_summed(summed: tuple[int, int], hours: list[int], then: tuple[int, int]) -> None:
    found = to_sum(KeptHours(500, TimeRange(*summed)), 1000)
    assert (found.hours, found.summed) == (hours, TimeRange(*then))
