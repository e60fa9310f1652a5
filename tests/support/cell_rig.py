"""A cell on one clock: three edges keep payloads in a journal, and an owner counts them."""

import random
from pathlib import Path

from gateway.common.contract.intake import Sender
from gateway.fleet.senders.activity import Senders
from gateway.fleet.senders.noting import NotingSenders
from gateway.pipeline.core import Core
from gateway.pipeline.front import Front
from gateway.pipeline.journal.edge import Edge
from gateway.pipeline.journal.owner import JournalReader
from gateway.pipeline.parsing.parse import ParseRules, Payload
from gateway.pipeline.parsing.parser import Parser
from gateway.usage.pricing.prices import Prices
from tests.support.memory_journal import MemoryJournal
from tests.support.metrics_rig import METRICS_SETTLE_MS
from tests.support.spool_homes import SpoolHome, spool_home_of
from tests.support.spool_rig import Clock, Rig, drained

EDGES = 3
SENDER = Sender(None, "peer")


class CellRig:
    """Open with `CellRig.opened`."""

    def __init__(self, rig: Rig, home: SpoolHome) -> None:
        self.rig, self.home, self.clock = rig, home, rig.clock
        self.journal, self.senders = MemoryJournal(), Senders(rig.clock)
        rules = ParseRules(Prices())
        self.fronts = []
        self.edges = [Edge(self.journal, NotingSenders(self.clock), max_bytes=1 << 30) for _ in range(EDGES)]
        for edge in self.edges:
            self.fronts.append(Front(edge, edge, Parser(rules), now_ms=self.clock))
        self.rules = rules
        self.take_over()

    @classmethod
    async def opened(cls, folder: Path, home_name: str) -> "CellRig":
        clock = Clock()
        home = spool_home_of(home_name, folder / home_name, clock)
        cell = cls(await Rig.opened(folder, clock, home=home), home)
        for edge in cell.edges:
            await edge.measure()
        return cell

    def take_over(self) -> None:
        """A new owner, whose spool is open and whose ledger is rebuilt."""
        front = Front(self.rig.spool, Core(self.rig.spool, self.rig.counting), Parser(self.rules), now_ms=self.clock)
        self.reader = JournalReader(self.journal, front, self.rig.spool, self.senders)

    async def taken_over(self) -> None:
        """Another owner, which finds what `home` was left with."""
        await self.rig.reopen()
        self.take_over()

    async def put(self, payload: Payload, edge: int) -> None:
        await self.fronts[edge].put(payload, SENDER)

    async def count(self) -> None:
        """All that is in the journal."""
        while await self.reader.take_page():
            pass

    async def forwarded(self) -> list[bytes]:
        """What goes on when all has settled."""
        await self.rig.settle(after_ms=METRICS_SETTLE_MS)
        await self.rig.settle()
        found = await drained(self.rig.spool)
        await self.home.check()
        return found

    def shuffle(self, draw: random.Random) -> None:
        """The journal in another order: edges commit as they come."""
        places = [row.place for row in self.journal.rows]
        draw.shuffle(self.journal.rows)
        self.journal.rows = [row._replace(place=place) for row, place in zip(self.journal.rows, places, strict=True)]
