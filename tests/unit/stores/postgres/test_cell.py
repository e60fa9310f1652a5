"""One gateway at a time owns a cell; what another one still writes fails."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from gateway.common.contract.errors import CannotStart
from gateway.stores.postgres.cell import ALIVE_S, MAX_LEASE_S, Itself, PostgresCell, renews_every_s
from gateway.stores.postgres.database import PostgresConnection, PostgresDatabase
from spool.errors import Fenced
from tests.support.polling import until_true
from tests.support.postgres import needs_postgres, shared_server

pytestmark = needs_postgres

LEASE_S = 60.0


class Members:
    """Two gateways of one cell, and what an operator sees."""

    def __init__(self, database: PostgresDatabase, first: PostgresCell, second: PostgresCell) -> None:
        self.database, self.first, self.second = database, first, second

    async def end_lease(self) -> None:
        await self.database.commit(lambda c: c.execute("UPDATE cell SET until = clock_timestamp() - interval '1 s'"))


def itself(name: str) -> Itself:
    return Itself(f"id-{name}", name, "0.2.0", [1], {"pepper": "d1"})


@pytest.fixture
async def cell() -> AsyncIterator[Members]:
    dsn = shared_server().new_schema()
    databases = [await PostgresDatabase.open(dsn, durability="storage") for _ in range(3)]
    first, second = [
        await PostgresCell.open(database, itself(name), LEASE_S)
        for database, name in zip(databases, ("a", "b"), strict=False)
    ]
    yield Members(databases[2], first, second)
    for database in databases:
        await database.close()


async def test_of_gateways_that_start_together_one_owns_the_cell(cell: Members) -> None:
    taken = await asyncio.gather(*(each.take() for each in (cell.first, cell.second) * 5))
    assert [(x.epoch, x.why) for x in taken if x is not None] == [(1, "start")]


async def test_a_lease_that_ended_is_taken_by_another_one(cell: Members) -> None:
    assert await cell.first.take() is not None
    assert await cell.second.take() is None
    assert await cell.first.renew(1)
    await cell.end_lease()
    taken = await cell.second.take()
    assert taken == (2, "expired")
    assert not await cell.first.renew(1)
    owner = await cell.first.owner()
    assert (owner.epoch, owner.member, owner.why, owner.is_alive) == (2, "id-b", "expired", True)


async def test_a_cell_that_is_as_it_was_before_what_was_seen_is_not_taken(cell: Members) -> None:
    assert await cell.first.take() is not None
    assert await cell.first.renew(1)
    turn = (await cell.first.owner()).turn
    assert turn == 2
    await cell.end_lease()
    assert await cell.second.take(turn + 1) is None
    assert await cell.second.take(turn) is not None


async def test_a_lease_of_a_clock_that_was_ahead_keeps_nobody_waiting(cell: Members) -> None:
    """As after a failover to a server whose clock is minutes behind."""
    await cell.first.take()
    await cell.database.commit(lambda c: c.execute("UPDATE cell SET until = clock_timestamp() + interval '5 min'"))
    assert await cell.second.take() == (2, "expired")
    assert await cell.first.take() is None, "the lease of a clock that is right is kept"


async def test_a_gateway_that_was_seen_by_a_clock_that_was_ahead_is_not_alive(cell: Members) -> None:
    for each in (cell.first, cell.second):
        await each.note_itself(None, None)
    ahead = "UPDATE member SET seen_at = clock_timestamp() + interval '5 min' WHERE id = 'id-a'"
    await cell.database.commit(lambda c: c.execute(ahead))
    assert {each.name: each.is_alive for each in await cell.second.members()} == {"a": False, "b": True}


async def test_what_an_owner_counted_is_of_no_account_once_its_lease_ended(cell: Members) -> None:
    await cell.first.take()
    await cell.first.note_itself("h:1", None, 1000.0, {"key:a": 90_000})
    owner = await cell.second.owner()
    assert (owner.bytes_per_s, owner.waiting_senders) == (1000.0, '{"key:a": 90000}')
    await cell.end_lease()
    owner = await cell.second.owner()
    assert (owner.bytes_per_s, owner.waiting_senders) == (None, None)


async def test_it_is_known_for_how_long_a_sign_of_life_was_not_answered(cell: Members) -> None:
    assert cell.first.unanswered_s() == 0
    is_held, may_end = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def hold(connection: PostgresConnection) -> None:
        connection.execute("LOCK TABLE member")
        loop.call_soon_threadsafe(is_held.set)
        may_end.wait(60)

    holding = asyncio.create_task(cell.database.commit(hold))
    await is_held.wait()
    noting = asyncio.create_task(cell.first.note_itself(None, None))
    try:
        await until_true(lambda: cell.first.unanswered_s() > 0, what="a commit under way")
    finally:
        may_end.set()
    await asyncio.gather(holding, noting)
    assert cell.first.unanswered_s() == 0


async def test_an_owner_whose_database_went_back_commits_nothing(cell: Members) -> None:
    """As where a standby that lacks its last commits was promoted below it."""
    await cell.first.take()
    assert await cell.first.renew(1)
    seen_turn = (await cell.first.owner()).turn
    ownership = cell.first.ownership(1, lambda: seen_turn)
    for fence in (ownership.fence, ownership.share_fence):
        await cell.database.commit(fence)
    await cell.database.commit(lambda c: c.execute("UPDATE cell SET turn = 1"))
    for fence in (ownership.share_fence, ownership.fence):
        with pytest.raises(Fenced, match="earlier moment"):
            await cell.database.commit(fence)
    assert not await cell.first.renew(1, seen_turn)


async def test_an_owner_that_stops_gives_the_cell_back(cell: Members) -> None:
    assert await cell.first.take() is not None
    await cell.first.release(1)
    assert await cell.second.take() == (2, "released")
    await cell.first.release(1)  # comes too late, and releases nothing
    assert (await cell.first.owner()).member == "id-b"


async def test_commits_of_an_epoch_that_ended_fail(cell: Members) -> None:
    assert await cell.first.take() is not None
    owned = cell.first.ownership(1)
    await cell.database.commit(owned.fence)
    await cell.database.commit(owned.share_fence)
    await cell.end_lease()
    await cell.database.commit(owned.fence)  # nobody took it: the commit renews the lease
    assert await cell.second.take() is None
    await cell.end_lease()
    assert await cell.second.take() is not None
    for fence in (owned.fence, owned.share_fence):
        with pytest.raises(Fenced):
            await cell.database.commit(fence)


@pytest.mark.parametrize("fence", ["fence", "share_fence"])
async def test_a_new_owner_waits_for_the_commit_that_is_under_way(cell: Members, fence: str) -> None:
    """Else what the one before commits behind it would be written by two."""
    assert await cell.first.take() is not None
    await cell.end_lease()
    begun, go_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(connection: PostgresConnection) -> None:
        getattr(cell.first.ownership(1), fence)(connection)
        connection.execute("UPDATE cell SET until = clock_timestamp() - interval '1 s'")
        loop.call_soon_threadsafe(begun.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()

    under_way = asyncio.create_task(cell.database.commit(slow))
    await begun.wait()
    taking = asyncio.create_task(cell.second.take())
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE cell SET epoch%'"
    async with asyncio.timeout(30):
        while await cell.database.read(lambda c: c.execute(waiting).fetchone()) is None:
            assert not taking.done()
    go_on.set()
    await under_way
    assert await taking == (2, "expired")


@pytest.mark.parametrize("lease_s", [1.0, 5.0, float(MAX_LEASE_S)])
def test_an_owner_notes_often_enough_to_be_alive_whatever_its_lease_is(lease_s: float) -> None:
    assert renews_every_s(lease_s) <= min(lease_s / 5, ALIVE_S / 5)


async def test_members_are_listed_until_they_leave(cell: Members) -> None:
    await cell.first.note_itself("127.0.0.1:4001", "127.0.0.1:4002")
    await cell.second.note_itself(None, None)
    assert await cell.second.take() is not None
    await cell.second.note_itself("127.0.0.1:5001", "127.0.0.1:5002")
    members = await cell.first.members()
    assert [(x.name, x.release, x.forms, x.secrets, x.is_alive) for x in members] == [
        ("a", "0.2.0", [1], {"pepper": "d1"}, True),
        ("b", "0.2.0", [1], {"pepper": "d1"}, True),
    ]
    owner = await cell.first.owner()
    assert (owner.http, owner.admin, owner.bytes_per_s) == ("127.0.0.1:5001", "127.0.0.1:5002", None)
    await cell.second.note_itself("127.0.0.1:5001", "127.0.0.1:5002", 4096.5)
    assert (await cell.first.owner()).bytes_per_s == 4096.5
    await cell.first.leave()
    assert [x.name for x in await cell.second.members()] == ["b"]


async def test_a_copied_data_directory_is_refused(cell: Members) -> None:
    """With its instance-id two gateways would be one member: each would say of the other that it
    owns nothing.
    """

    async def run() -> None:
        while True:
            await cell.first.note_itself(None, None)
            await asyncio.sleep(0.1)

    running = asyncio.create_task(run())
    await cell.first.note_itself(None, None)
    try:
        with pytest.raises(CannotStart, match="on a runs with the same instance-id"):
            await PostgresCell.open(cell.database, itself("a"), 1.0)
    finally:
        running.cancel()
    assert [each.name for each in await cell.second.members()] == ["a"]


async def test_a_gateway_that_starts_again_after_a_kill_is_what_it_is_now(cell: Members) -> None:
    await cell.first.note_itself("127.0.0.1:4001", "127.0.0.1:4002")
    now = Itself("id-a", "a", "0.3.0", [1, 2], {"pepper": "d2"})
    again = await PostgresCell.open(cell.database, now, LEASE_S)
    await again.note_itself(None, None)
    (member,) = await again.members()
    assert (member.release, member.forms, member.secrets) == ("0.3.0", [1, 2], {"pepper": "d2"})
