"""Names that no row has are deleted, and nothing waits for that."""

import asyncio
from pathlib import Path

import pytest

from gateway.common.storage.sql import SqlDatabase
from gateway.stores.sql.sums import names, unused_names
from gateway.stores.sql.sums.home import SqlSums
from gateway.stores.sql.sums.rollups import add
from gateway.stores.sql.sums.unused_names import drop_unused_names
from gateway.usage.sums import bounds, following
from gateway.usage.sums.following import UsageFollower
from gateway.usage.sums.tally import NOTHING, Key, Sums
from spool.sql.connection import Connection
from tests.support.polling import HANGS_S
from tests.support.spool_rig import Clock, Rig
from tests.support.stores import only_sql

pytestmark = [only_sql, pytest.mark.usefixtures("names_held")]

HOUR = 490_000
USED = [f"user-{n}" for n in range(40)]
UNUSED = [f"gone-{n}" for n in range(60)]


@pytest.fixture
async def names_held(database: SqlDatabase[Connection], monkeypatch: pytest.MonkeyPatch) -> None:
    """More names than half of the bound, of which some are in use."""
    monkeypatch.setattr(bounds, "MAX_NAMES", 150)
    monkeypatch.setattr(unused_names, "ROWS", 1)
    monkeypatch.setattr(unused_names, "NAMES", 7)
    sums = {series(user): [1, *NOTHING[1:]] for user in USED}
    await database.write(lambda connection: add(connection, sums, now_hour=HOUR))
    await database.write(lambda connection: names.ids_of(connection, UNUSED))


def series(user: str) -> Key:
    return Key(HOUR, "openai", "model", "team", "", user, "", "service", "key", "chat", "otlp", "USD", "reported")


async def held(database: SqlDatabase[Connection]) -> set[str]:
    return await database.read(
        lambda connection: {name for (name,) in connection.execute("SELECT name FROM usage_names")}
    )


async def test_names_without_a_row_are_deleted_and_the_others_stay(database: SqlDatabase[Connection]) -> None:
    before = await held(database)
    await drop_unused_names(database)
    assert await held(database) == before - set(UNUSED)


async def test_they_stay_below_half_of_the_bound(
    database: SqlDatabase[Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MAX_NAMES", 1000)
    await drop_unused_names(database)
    assert set(UNUSED) <= await held(database)


async def test_no_commit_and_no_question_waits_for_it(database: SqlDatabase[Connection]) -> None:
    dropping = asyncio.create_task(drop_unused_names(database))
    for n in range(20):
        await database.write(lambda connection, n=n: names.ids_of(connection, [f"new-{n}"]))
        await held(database)
    assert not dropping.done()
    await dropping
    assert not set(UNUSED) & await held(database)


async def test_a_commit_of_usage_deletes_none(database: SqlDatabase[Connection]) -> None:
    sums: dict[Key, Sums] = {series("new"): [1, *NOTHING[1:]]}
    await database.write(lambda connection: add(connection, sums, now_hour=HOUR + 1))
    assert set(UNUSED) <= await held(database)


async def test_the_follower_deletes_them_once_an_hour(
    database: SqlDatabase[Connection], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "WRITE_S", 0.0)
    rig = await Rig.opened(tmp_path / "spool", clock := Clock())
    follower = await UsageFollower.open(rig.spool, SqlSums(database), now_ms=clock)
    running = asyncio.create_task(follower.run())
    try:
        async with asyncio.timeout(HANGS_S):
            while set(UNUSED) & await held(database):
                pass
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await rig.spool.close()
