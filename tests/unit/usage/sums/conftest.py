"""A control.db with the tables of sums, and questions on it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.common.storage.database import Database
from gateway.usage.sums import rollups
from gateway.usage.sums.query import UsageQueries
from tests.unit.usage.sums.test_tally import NOW_MS


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await Database.open(tmp_path / "control.db")
    await rollups.make_rollup_tables(opened)
    yield opened
    await opened.close()


@pytest.fixture
def queries(database: Database) -> UsageQueries:
    return UsageQueries(database, now_ms=lambda: NOW_MS)
