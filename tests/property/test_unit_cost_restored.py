"""Whatever was delivered after the moment that a restore goes back to: no record is added twice,
and none that waited is lost.
"""

import asyncio
import tempfile
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spool.record import UNIT_COST, Batch
from spool.unit_cost import TotalKey
from tests.support.spool_homes import HOMES, spool_home_of
from tests.support.spool_rig import Clock
from tests.support.unit_streams import STREAM, UnitRig, metered, place

Step = tuple[str, str, int]
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(st.sampled_from(["add", "add", "ship", "freeze", "arrives", "ack", "split"]), st.sampled_from("abc"),
              st.integers(1, 9)),
    max_size=12,
)  # fmt: skip


@example(before=[("add", "a", 1), ("freeze", "a", 1)], since=[("arrives", "a", 1)], later=[("add", "a", 1)])
@pytest.mark.parametrize("home_name", HOMES)
@given(before=STEPS, since=STEPS, later=STEPS)
@settings(max_examples=40, deadline=None)
def test_a_restore_adds_each_record_once(
    home_name: str, before: list[Step], since: list[Step], later: list[Step]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run_course(home_name, Path(folder), before, since, later))


async def run_course(home_name: str, folder: Path, *steps: list[Step]) -> None:
    await Course(home_name, folder).run(*steps)


class Course:
    """Totals of one stream, which this gateway alone sends, and which only grow."""

    def __init__(self, home_name: str, folder: Path) -> None:
        clock = Clock()
        self._rig = UnitRig(spool_home_of(home_name, folder / "data", clock), clock, can_read=True)
        self._added: dict[TotalKey, Decimal] = defaultdict(Decimal)

    async def run(self, before: list[Step], since: list[Step], later: list[Step]) -> None:
        rig = self._rig
        await rig.keep(metered(1, place("first")))
        await rig.ship()
        await self._take(before)
        rig.home.kill()  # the moment: what is kept now is found again
        wanted = dict(self._added)
        await self._take(since)
        await rig.spool.close()
        rig.open_spool()
        await rig.home.put_back()
        for at, value in rig.base():
            wanted[at] = max(value, wanted.get(at, value))
        self._added.clear()
        await self._take(later)
        for at, value in self._added.items():
            wanted[at] = wanted.get(at, Decimal(0)) + value
        await rig.reopen()
        await rig.ship()
        assert dict(rig.base()) == {**wanted, place("first"): 1}
        depth = rig.spool.depth(UNIT_COST)
        assert (depth.pending, depth.dead_lettered) == (0, 0)
        await rig.close()

    async def _take(self, steps: list[Step]) -> None:
        batch = None
        for what, element, value in steps:
            self._rig.clock.now_ms += 1
            if what == "add":
                await self._rig.keep(metered(value, place(element)))
                self._added[place(element)] += value
            elif what == "ship":
                batch = await self._shipped(batch)
            elif batch is None:
                batch = await self._rig.freeze(max_records=2) if what == "freeze" else None
            elif b'"read"' in batch.records[0]:
                await self._rig.lane.learn_base(STREAM, self._rig.base())
                await self._rig.lane.ack(batch)
                batch = None
            elif what == "arrives":
                self._rig.far.apply(batch)
            elif what == "ack":
                self._rig.far.apply(batch)
                await self._rig.lane.ack(batch)
                batch = None
            elif what == "split" and len(batch.records) > 1:
                await self._rig.lane.split(batch)
                batch = None

    async def _shipped(self, batch: Batch | None) -> None:
        """All that waits, what is under way first."""
        if batch is not None:
            await self._rig.lane.release(batch, answered=False)
        await self._rig.ship()
