"""Once another process owns the spool, this one writes nothing any more."""

import asyncio
import threading
from typing import Any

import psycopg
import pytest

from spool.errors import Fenced, SpoolError
from spool.postgres.connection import PostgresConnection
from spool.postgres.spool import PostgresSpool
from spool.record import AI_TELEMETRY
from tests.support.polling import HANGS_S, until_true
from tests.support.postgres import needs_postgres
from tests.support.spool_homes import InPostgres
from tests.support.spool_rig import SETTINGS, Clock, append, drained, frozen

pytestmark = needs_postgres


class Lease:
    """An epoch in the database, as an owner's fence."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def __call__(self, connection: PostgresConnection) -> None:
        if not connection.execute("UPDATE lease SET renewed=renewed+1 WHERE epoch=?", (self.epoch,)).rowcount:
            raise Fenced(f"epoch {self.epoch} is over")


@pytest.fixture
def lease(dsn: str) -> str:
    """A table of epochs, the first of which runs."""
    execute(dsn, "CREATE TABLE lease (epoch BIGINT, renewed BIGINT); INSERT INTO lease VALUES (1, 0)")
    return dsn


def execute(dsn: str, sql: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql)


def take_over(dsn: str) -> None:
    execute(dsn, "UPDATE lease SET epoch=2")


def rows(dsn: str) -> list[tuple[Any, ...]]:
    """Everything that an append or an operation would change."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        return [
            row
            for table in ("meta", "chunk", "lane", "batch", "lease")
            for row in connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()
        ]


async def test_between_two_commits_nothing_is_written_and_all_is_refused(lease: str, home: InPostgres) -> None:
    fenced: list[str] = []
    spool = home.open(fence=Lease(1), on_fenced=lambda: fenced.append("now"))
    spool.on_lost_append = lambda **_: pytest.fail("there is nothing to rebuild")
    await append(spool, [b"1"])
    batch = await frozen(spool)
    take_over(lease)
    before = rows(lease)
    waiting = [append(spool, [b"2"]), append(spool, [b"3"])]
    for refused in [*waiting, spool.ack(batch), spool.settled_seq(AI_TELEMETRY), spool.run_maintenance()]:
        with pytest.raises(Fenced):
            await refused
    for refuses in (lambda: spool.admit(1), lambda: spool.position(AI_TELEMETRY), lambda: append(spool, [b"4"])):
        with pytest.raises(Fenced):
            refuses()
    assert fenced == ["now"]
    assert rows(lease) == before
    await spool.close()
    assert rows(lease) == before


async def test_it_stays_refused_where_the_fence_would_hold_again(lease: str, home: InPostgres) -> None:
    spool = home.open(fence=Lease(1))
    take_over(lease)
    with pytest.raises(Fenced):
        await append(spool, [b"1"])
    execute(lease, "UPDATE lease SET epoch=1")
    spool.accept_appends()
    with pytest.raises(Fenced):
        append(spool, [b"2"])
    with pytest.raises(Fenced):
        await spool.settled_seq(AI_TELEMETRY)
    await spool.close()


async def test_a_spool_is_not_opened_by_who_does_not_own_it(lease: str, home: InPostgres) -> None:
    take_over(lease)
    with pytest.raises(Fenced):
        home.open(fence=Lease(1))


async def test_two_spools_at_once_and_every_answered_append_is_found_by_the_second(
    lease: str, home: InPostgres, clock: Clock
) -> None:
    first = home.open(fence=Lease(1))
    kept: list[bytes] = []

    async def send() -> None:
        for number in range(1_000_000):
            try:
                await append(first, [b"%d" % number])
            except SpoolError:
                return
            kept.append(b"%d" % number)

    sending = asyncio.create_task(send())
    await until_true(lambda: len(kept) >= 20, what="appends")
    await asyncio.to_thread(take_over, lease)
    second = InPostgres(clock, lease).open(fence=Lease(2))
    async with asyncio.timeout(HANGS_S):
        await sending
    assert second.gateway_id == first.gateway_id
    await append(second, [b"last"])
    assert await drained(second) == [*kept, b"last"]
    assert second.counters.is_balanced()
    await first.close()
    await second.close()


async def test_a_commit_that_began_before_is_over_when_the_second_one_reads(
    lease: str, home: InPostgres, clock: Clock
) -> None:
    first = home.open(fence=Lease(1))
    begun, go_on = threading.Event(), threading.Event()

    def slow(*_: object) -> None:
        begun.set()
        go_on.wait()

    with first.reserve():
        appended, asked = append(first, [b"1"]), first.ask(slow)
    await asyncio.to_thread(begun.wait)
    taking = asyncio.create_task(asyncio.to_thread(take_over, lease))
    with psycopg.connect(lease, autocommit=True) as other:
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE lease%'"
        await until_true(lambda: other.execute(waits).fetchone() == (1,), what="a new owner that waits")
    go_on.set()
    await appended
    await asked
    await taking
    second = InPostgres(clock, lease).open(fence=Lease(2))
    assert await drained(second) == [b"1"]
    await first.close()
    await second.close()


async def test_gateways_that_start_at_once_make_one_spool(dsn: str, clock: Clock) -> None:
    spools = await asyncio.gather(
        *(PostgresSpool.open(dsn, SETTINGS, durability="storage", now_ms=clock) for _ in range(4))
    )
    assert len({spool.gateway_id for spool in spools}) == 1
    for spool in spools:
        await spool.close()
