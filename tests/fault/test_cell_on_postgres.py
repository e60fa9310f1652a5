"""A cell whose owner's commits break, and whose owner is replaced: each call that an edge answered
is counted once.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from gateway.common.contract.intake import Sender
from gateway.fleet.senders.activity import Senders
from gateway.fleet.senders.noting import NotingSenders
from gateway.pipeline.core import Core
from gateway.pipeline.front import Front
from gateway.pipeline.journal import owner
from gateway.pipeline.journal.edge import Edge
from gateway.pipeline.journal.owner import JournalReader
from gateway.pipeline.parsing.parse import ParseRules, Payload
from gateway.pipeline.parsing.parser import Parser
from gateway.stores.postgres.cell import Itself, PostgresCell
from gateway.stores.postgres.database import PostgresDatabase
from gateway.stores.postgres.journal import PostgresJournal
from gateway.usage.pricing.prices import Prices
from spool.errors import Fenced, SpoolError
from spool.record import AI_TELEMETRY
from tests.support.cut_postgres import Cutter, cutter
from tests.support.polling import HANGS_S
from tests.support.postgres import needs_postgres, shared_server
from tests.support.spans import call_span
from tests.support.spool_homes import InPostgres
from tests.support.spool_rig import SETTINGS, Clock, Rig

pytestmark = needs_postgres
CALLS = 200
EDGES = 3
LEASE_S = 0.001
"""So short that another one may take the cell between any two commits."""


class Owner:
    """A member that owns the cell, until another one does."""

    def __init__(self, rig: Rig, home: InPostgres, reader: JournalReader) -> None:
        self.rig, self.home, self.reader = rig, home, reader
        self.running = asyncio.create_task(reader.run())

    @classmethod
    async def opened(cls, name: str, database: PostgresDatabase, dsn: str, clock: Clock, folder: Path) -> "Owner":
        cell = await PostgresCell.open(database, Itself(name, name, "1", [1], {}), LEASE_S)
        while (taken := await cell.take()) is None:  # noqa: ASYNC110 the one before renews it with each commit
            await asyncio.sleep(0)
        home = InPostgres(clock, dsn)
        fence = cell.ownership(taken.epoch).fence
        opened = partial(home.open, settings=SETTINGS, settling=(AI_TELEMETRY,), fence=fence)
        rig = Rig(folder, clock, open_spool=opened, max_keys=100_000)
        await rig.counting.rebuild()
        front = Front(rig.spool, Core(rig.spool, rig.counting), Parser(ParseRules(Prices())), now_ms=clock)
        return cls(rig, home, JournalReader(PostgresJournal(database), front, rig.spool, Senders(clock)))

    async def until_fenced(self) -> None:
        while True:
            try:
                await self.rig.spool.settled_seq(AI_TELEMETRY)
            except Fenced:
                return
            except SpoolError:
                await asyncio.sleep(0)  # its connection is lost, and not made again yet

    async def stop(self) -> None:
        self.running.cancel()
        with suppress(asyncio.CancelledError):
            await self.running
        if self.rig.counting.recovery is not None:
            self.rig.counting.recovery.cancel()
        await self.rig.spool.close()


@pytest.fixture
def cut() -> Iterator[tuple[Cutter, str, str]]:
    """A cutter, a DSN through it, and one beside it."""
    dsn = shared_server().new_schema()
    with cutter(shared_server(), dsn) as (found, through):
        yield found, through, dsn


@pytest.fixture
async def database(cut: tuple[Cutter, str, str]) -> AsyncIterator[PostgresDatabase]:
    opened = await PostgresDatabase.open(cut[2], durability="storage")
    yield opened
    await opened.close()


async def send_all(edges: list[Edge], clock: Clock, chance: random.Random) -> None:
    fronts = [Front(edge, edge, Parser(ParseRules(Prices())), now_ms=clock) for edge in edges]
    for number in range(CALLS):
        payload = Payload("traces", call_span(f"call {number}", (100, 20)), json=False)
        await chance.choice(fronts).put(payload, Sender(None, "peer"))


async def test_each_call_is_counted_once(
    cut: tuple[Cutter, str, str],
    database: PostgresDatabase,
    tmp_path: Path,
    chance: random.Random,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner, "RETRY_S", 0.01)
    relay, through, _ = cut
    clock = Clock()
    first = await Owner.opened("first", database, through, clock, tmp_path)
    edges = [Edge(PostgresJournal(database), NotingSenders(clock), max_bytes=1 << 30) for _ in range(EDGES)]
    for edge in edges:
        await edge.measure()
    sending = asyncio.create_task(send_all(edges, clock, chance))
    async with asyncio.timeout(HANGS_S):
        for cuts in range(4):
            relay.next_cut = chance.choice(["before", "after"])
            while relay.cuts == cuts and not sending.done():  # noqa: ASYNC110 commits follow each other
                await asyncio.sleep(0)
        relay.next_cut = None
        assert relay.cuts > 0
        second = await Owner.opened("second", database, through, clock, tmp_path)
        await sending
        journal = PostgresJournal(database)
        while await journal.read((0, 0), max_rows=1, max_bytes=1):  # noqa: ASYNC110 until the owner counted it
            await asyncio.sleep(0)
        await first.until_fenced()
    edge_counts = second.rig.spool.edge()
    assert (edge_counts["received"], edge_counts["kept"]) == (CALLS, CALLS)
    await second.rig.settle()
    assert await second.rig.totals() == (CALLS, 100 * CALLS, 20 * CALLS)
    await second.home.check()
    await first.stop()
    await second.stop()
    for edge in edges:
        await edge.close()
