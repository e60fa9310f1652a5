"""The time of a gateway of a cell is that of the database, whatever its own wall clock shows."""

from collections.abc import AsyncIterator

import pytest

from gateway.common.wall_clock import wall_ms
from gateway.stores.postgres.clock import DatabaseClock
from gateway.stores.postgres.database import PostgresDatabase
from spool.age import monotonic_ms
from tests.support.postgres import needs_postgres, shared_server

pytestmark = needs_postgres

YEAR_MS = 365 * 86_400_000
TEN_MINUTES_MS = 600_000


@pytest.fixture
async def database() -> AsyncIterator[PostgresDatabase]:
    opened = await PostgresDatabase.open(shared_server().new_schema(), durability="storage", connections=1)
    yield opened
    await opened.close()


@pytest.mark.parametrize("wrong_ms", [YEAR_MS, -YEAR_MS, TEN_MINUTES_MS, -TEN_MINUTES_MS])
async def test_a_wrong_wall_clock_counts_only_until_the_database_answers(
    database: PostgresDatabase, wrong_ms: int
) -> None:
    clock = DatabaseClock(lambda: wall_ms() + wrong_ms)
    assert (clock() - wall_ms()) / wrong_ms > 0.5
    asked_ms = wall_ms()
    await clock.learn(database)
    took_ms = wall_ms() - asked_ms
    assert abs(clock() - wall_ms()) <= took_ms + 2, "the server is on this machine"


class Delayed:
    """A monotonic clock; the process that reads it is stopped for so long before each reading."""

    def __init__(self) -> None:
        self.stops_ms: list[int] = []
        self._passed_ms = 0

    def __call__(self) -> int:
        self._passed_ms += self.stops_ms.pop(0) if self.stops_ms else 0
        return monotonic_ms() + self._passed_ms


async def test_an_answer_that_took_its_time_changes_no_more_than_it_proves_wrong(database: PostgresDatabase) -> None:
    monotonic = Delayed()
    clock = DatabaseClock(wall_ms, monotonic)
    await clock.learn(database)
    ahead_ms = clock() - monotonic()
    monotonic.stops_ms = [0, TEN_MINUTES_MS]
    await clock.learn(database)
    assert monotonic.stops_ms == []
    assert abs(clock() - monotonic() - ahead_ms) < TEN_MINUTES_MS / 100


async def test_time_goes_on_by_the_monotonic_clock_while_the_database_does_not_answer(
    database: PostgresDatabase,
) -> None:
    passed_ms = [1_000]
    clock = DatabaseClock(wall_ms, lambda: passed_ms[0])
    await clock.learn(database)
    before_ms = clock()
    passed_ms[0] += TEN_MINUTES_MS
    assert clock() == before_ms + TEN_MINUTES_MS
