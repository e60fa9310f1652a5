"""Homes of sums, and questions on them."""

import pytest

from gateway.common.storage.sql import SqlDatabase
from gateway.usage.sums.home import SumHome
from gateway.usage.sums.query import UsageQueries
from spool.sql.connection import Connection
from tests.support.stores import Home, PostgresHome, SqliteHome
from tests.unit.usage.sums.test_tally import NOW_MS


@pytest.fixture
async def sums(home: Home) -> SumHome:
    return await home.sums()


@pytest.fixture
async def database(home: Home, sums: SumHome) -> SqlDatabase[Connection]:
    """With tables; for tests that are `only_sql` or `only_sqlite`."""
    assert isinstance(home, SqliteHome | PostgresHome)
    return home.database


@pytest.fixture
def queries(sums: SumHome) -> UsageQueries:
    return UsageQueries(sums, now_ms=lambda: NOW_MS)
