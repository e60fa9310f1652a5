"""The tables of insights: those of a release before, and a write that fails."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.common.storage.database import Database, scripts_of
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.stores.sql.insights import open_insights
from gateway.usage.insights.store import InsightStore
from tests.support.spool_rig import Clock
from tests.unit.usage.insights.test_store import finding, listed, set_status, statuses


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await Database.open(tmp_path / "control.db")
    yield opened
    await opened.close()


async def test_a_table_of_the_release_before_is_brought_along(database: Database, clock: Clock) -> None:
    await database.migrate("insights", scripts_of("gateway.stores.sqlite.migrations.insights")[:1])
    rows = [(finding(str(n)).insight_id, n, status) for n, status in enumerate(("new", "addressed", "ignored"))]
    put = "INSERT INTO insights VALUES (?, ?, 'no_price', 't', 'pricing', 'low', NULL, ?, 0)"
    await database.write(lambda c: c.executemany(put, rows))
    store = await InsightStore.open(await open_insights(database), now_ms=clock)
    await store.note([finding("0"), finding("1"), finding("2")])
    found = {item["id"]: item["status"] for item in await listed(store)}
    assert found == {rows[0][0]: "new", rows[1][0]: "new", rows[2][0]: "ignored"}, "what was addressed had been gone"


async def test_what_stood_in_the_release_before_is_still_there(database: Database, clock: Clock) -> None:
    await database.migrate("insights", scripts_of("gateway.stores.sqlite.migrations.insights")[:1])
    put = "INSERT INTO insights VALUES (?, 1, 'no_price', 't', 'pricing', 'low', NULL, 'new', 0)"
    await database.write(lambda c: c.execute(put, (finding().insight_id,)))
    store = await InsightStore.open(await open_insights(database), now_ms=clock)
    await set_status(store, "addressed")
    await store.note([finding()])
    assert await statuses(store) == ["addressed"]


async def test_a_round_that_could_not_be_written_is_made_up_for(database: Database, clock: Clock) -> None:
    store = await InsightStore.open(await open_insights(database), now_ms=clock)
    await database.write(
        lambda c: c.execute("CREATE TRIGGER broken BEFORE INSERT ON insights BEGIN SELECT raise(ABORT, 'x'); END")
    )
    with pytest.raises(DatabaseUnavailable):
        await store.note([finding()])
    await database.write(lambda c: c.execute("DROP TRIGGER broken"))
    await store.note([finding()])
    assert len(await listed(store)) == 1
