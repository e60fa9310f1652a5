"""Names that no row has are deleted, and nothing waits for that."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.common.storage.database import Database
from gateway.stores.sqlite.sums import names, unused_names
from gateway.stores.sqlite.sums.home import SqliteSums
from gateway.stores.sqlite.sums.rollups import add
from gateway.stores.sqlite.sums.unused_names import drop_unused_names
from gateway.usage.sums import bounds, following
from gateway.usage.sums.following import UsageFollower
from gateway.usage.sums.tally import NOTHING, Key, Sums
from tests.support.polling import HANGS_S
from tests.support.spool_rig import Clock, Rig

HOUR = 490_000
USED = [f"user-{n}" for n in range(40)]
UNUSED = [f"gone-{n}" for n in range(60)]


@pytest.fixture
async def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    """More names than half of the bound, of which some are in use."""
    monkeypatch.setattr(bounds, "MAX_NAMES", 150)
    monkeypatch.setattr(unused_names, "ROWS", 1)
    monkeypatch.setattr(unused_names, "NAMES", 7)
    opened = await Database.open(tmp_path / "data" / "control.db")
    await SqliteSums.open(opened)
    sums = {series(user): [1, *NOTHING[1:]] for user in USED}
    await opened.write(lambda connection: add(connection, sums, now_hour=HOUR))
    await opened.write(lambda connection: names.ids_of(connection, UNUSED))
    yield opened
    await opened.close()


def series(user: str) -> Key:
    return Key(HOUR, "openai", "model", "team", "", user, "", "service", "key", "chat", "otlp", "USD", "reported")


async def held(database: Database) -> set[str]:
    return await database.read(
        lambda connection: {name for (name,) in connection.execute("SELECT name FROM usage_names")}
    )


async def test_names_without_a_row_are_deleted_and_the_others_stay(database: Database) -> None:
    before = await held(database)
    await drop_unused_names(database)
    assert await held(database) == before - set(UNUSED)


async def test_they_stay_below_half_of_the_bound(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_NAMES", 1000)
    await drop_unused_names(database)
    assert set(UNUSED) <= await held(database)


async def test_no_commit_and_no_question_waits_for_it(database: Database) -> None:
    dropping = asyncio.create_task(drop_unused_names(database))
    for n in range(20):
        await database.write(lambda connection, n=n: names.ids_of(connection, [f"new-{n}"]))
        await held(database)
    assert not dropping.done()
    await dropping
    assert not set(UNUSED) & await held(database)


async def test_a_commit_of_usage_deletes_none(database: Database) -> None:
    sums: dict[Key, Sums] = {series("new"): [1, *NOTHING[1:]]}
    await database.write(lambda connection: add(connection, sums, now_hour=HOUR + 1))
    assert set(UNUSED) <= await held(database)


async def test_the_follower_deletes_them_once_an_hour(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "WRITE_S", 0.0)
    rig = await Rig.opened(tmp_path / "spool", clock := Clock())
    follower = await UsageFollower.open(rig.spool, SqliteSums(database), now_ms=clock)
    running = asyncio.create_task(follower.run())
    try:
        async with asyncio.timeout(HANGS_S):
            while set(UNUSED) & await held(database):
                pass
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await rig.spool.close()
