"""Forgetting a user on a real spool and control.db: nothing is lost, no byte of it is left."""

from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from gateway.common.storage.database import Database
from gateway.rules.context import UserPolicy
from gateway.stores.sql.sums.home import SqlSums
from gateway.usage.sums.following import UsageFollower
from gateway.usage.sums.forgetting import Removed, UserForgetter
from gateway.usage.sums.home import SumHome
from gateway.usage.sums.names import Absent
from gateway.usage.sums.query import UsageQueries
from gateway.usage.sums.timespan import TimeRange
from spool.forgetting import Forgotten
from spool.record import AI_TELEMETRY
from tests.support.calls import call
from tests.support.spool_rig import Clock, Rig

USER = "zoë@example.com"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def rig(tmp_path: Path, clock: Clock) -> AsyncIterator[Rig]:
    opened = await Rig.opened(tmp_path / "data", clock)
    yield opened
    await opened.spool.close()


@pytest.fixture
async def queries(rig: Rig, sums: SumHome, clock: Clock) -> UsageQueries:
    follower = await UsageFollower.open(rig.spool, sums, now_ms=clock)
    return UsageQueries(sums, now_ms=clock, follower=follower)


@pytest.fixture
def forgetter(rig: Rig, queries: UsageQueries, tmp_path: Path) -> UserForgetter:
    return UserForgetter(rig.spool.operator(), queries, tmp_path / "user-secret")


async def users(queries: UsageQueries, clock: Clock) -> dict[object, int]:
    found = await queries.by("user", within=TimeRange.last_days(2, clock()))
    return {group.names[0]: group.sums.calls for group in found.groups}


def user_of(record: bytes) -> object:
    return orjson.loads(record)["attribution"].get("user")


async def test_a_settled_record_loses_its_user_and_keeps_its_id_and_numbers(
    rig: Rig, queries: UsageQueries, forgetter: UserForgetter, clock: Clock
) -> None:
    await rig.send(call("a", user=USER), call("b", trace="u", user="other"))
    await rig.settle()
    dry = await forgetter.forget(USER, dry_run=True)
    assert dry.spool == Forgotten(records=1)
    assert USER in await users(queries, clock), "a dry run changes nothing"
    removed = await forgetter.forget(USER, dry_run=False)
    assert removed == dry
    assert await users(queries, clock) == {"other": 1, Absent.FORGOTTEN: 1}
    batch = await rig.spool.freeze(AI_TELEMETRY, max_records=10, max_bytes=1 << 20)
    assert batch is not None
    assert sorted(map(str, map(user_of, batch.records))) == ["None", "other"]
    assert (await forgetter.forget(USER, dry_run=False)) == Removed(0, Forgotten())


async def test_a_batch_on_its_way_keeps_its_bytes_until_it_is_acked(rig: Rig, forgetter: UserForgetter) -> None:
    await rig.send(call("a", user=USER))
    await rig.settle()
    batch = await rig.spool.freeze(AI_TELEMETRY, max_records=10, max_bytes=1 << 20)
    assert batch is not None
    assert (await forgetter.forget(USER, dry_run=False)).spool == Forgotten(waiting=1)
    await rig.spool.release(batch, answered=True)
    again = await rig.spool.freeze(AI_TELEMETRY, max_records=10, max_bytes=1 << 20)
    assert again is not None
    assert again.records == batch.records
    await rig.spool.ack(again)
    assert (await forgetter.forget(USER, dry_run=False)).spool == Forgotten(records=1), "it is kept for a replay"


async def test_a_record_that_settles_waits(rig: Rig, forgetter: UserForgetter) -> None:
    await rig.send(call("a", user=USER))
    assert (await forgetter.forget(USER, dry_run=False)).spool == Forgotten(waiting=1)


async def test_a_merged_record_and_what_it_was_merged_from_lose_it(rig: Rig, forgetter: UserForgetter) -> None:
    await rig.send(
        call("a", response="r1", user=USER), call("b", trace="u", response="r1", scope="other", cost="0.5", team="core")
    )
    await rig.settle()
    assert (await forgetter.forget(USER, dry_run=False)).spool.records >= 1
    batch = await rig.spool.freeze(AI_TELEMETRY, max_records=10, max_bytes=1 << 20)
    assert batch is not None
    assert [user_of(record) for record in batch.records] == [None]
    assert (await rig.spool.verify()).findings == []


async def test_a_dead_letter_loses_it(rig: Rig, forgetter: UserForgetter) -> None:
    await rig.send(call("a", user=USER))
    await rig.settle()
    batch = await rig.spool.freeze(AI_TELEMETRY, max_records=10, max_bytes=1 << 20)
    assert batch is not None
    await rig.spool.bury(batch, "invalid", "no")
    removed = (await forgetter.forget(USER, dry_run=False)).spool
    assert removed.dead_letters == 1
    assert (await forgetter.forget(USER, dry_run=True)).spool == Forgotten()


async def test_a_hashed_user_is_found_by_the_name(rig: Rig, queries: UsageQueries, tmp_path: Path) -> None:
    (tmp_path / "user-secret").write_bytes(b"secret")
    hashed = UserPolicy("hash", b"secret").apply(USER)
    assert hashed is not None
    await rig.send(call("a", user=hashed))
    await rig.settle()
    forgetter = UserForgetter(rig.spool.operator(), queries, tmp_path / "user-secret")
    assert (await forgetter.forget(USER, dry_run=False)).spool == Forgotten(records=1)


async def test_no_byte_of_the_name_is_left_in_the_files(tmp_path: Path, clock: Clock) -> None:
    folder = tmp_path / "closed"
    rig, database = await Rig.opened(folder, clock), await Database.open(folder / "control.db")
    sums = await SqlSums.open(database)
    follower = await UsageFollower.open(rig.spool, sums, now_ms=clock)
    queries = UsageQueries(sums, now_ms=clock, follower=follower)
    await rig.send(call("a", user=USER))
    await rig.settle()
    await UserForgetter(rig.spool.operator(), queries, tmp_path / "none").forget(USER, dry_run=False)
    await rig.spool.close()
    await database.close()
    assert [file for file in folder.rglob("*") if file.is_file() and USER.encode() in file.read_bytes()] == []
