"""Homes of sums, and questions on them."""

import pytest

from gateway.common.storage.database import Database
from gateway.usage.sums.home import SumHome
from gateway.usage.sums.query import UsageQueries
from tests.support.stores import Home, SqliteHome
from tests.unit.usage.sums.test_tally import NOW_MS


@pytest.fixture
async def sums(home: Home) -> SumHome:
    return await home.sums()


@pytest.fixture
async def database(home: Home, sums: SumHome) -> Database:
    """With tables; for tests that are `only_sqlite`."""
    assert isinstance(home, SqliteHome)
    return home.database


@pytest.fixture
def queries(sums: SumHome) -> UsageQueries:
    return UsageQueries(sums, now_ms=lambda: NOW_MS)
