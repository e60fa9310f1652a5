"""On each home: whatever senders post and whatever happens to batches in between, the upstream ends
with the sums that a dict comes to.
"""

import asyncio
import tempfile
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from exporters.base import Outcome, Retry
from exporters.cost_service.doubts import Doubts
from spool.record import UNIT_COST, Batch
from spool.unit_cost import NAME_BLOCKED_MS, Operation, TotalKey
from tests.support.postgres import needs_postgres
from tests.support.spool_homes import HOMES, spool_home_of
from tests.support.spool_rig import Clock
from tests.support.unit_streams import SHAPE, STREAM, UnitRig, metered, place

VALUES = st.decimals(min_value="0.000001", max_value="99999999", places=6, allow_nan=False)
POSTED = st.tuples(
    st.just("post"), st.sampled_from(["sum", "sum", "sum", "replace", "delete"]), st.sampled_from("ab"),
    st.integers(0, 1), VALUES,
)  # fmt: skip
Step = tuple[object, ...]
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(
        POSTED,
        POSTED,
        st.tuples(st.just("wide"), st.integers(0, 1)),
        st.tuples(st.just("freeze"), st.integers(1, 4)),
        st.tuples(st.sampled_from(["create", "remove", "unblock"])),
        st.tuples(st.sampled_from(["acked", "lost_answer", "refused", "split", "reopen", "killed_unheard"])),
    ),
    min_size=1,
    max_size=30,
)


def sum_that(*endings: str) -> list[Step]:
    steps: list[Step] = [("post", "sum", "a", 0, Decimal(1))]
    for ending in endings:
        steps += [("freeze", 1), (ending,)]
    return steps


DELETED_UNDER_WAY: list[Step] = [
    *sum_that()[:1],
    ("freeze", 1),
    ("remove",),
    ("post", "sum", "b", 0, Decimal(2)),
    ("killed_unheard",),
]


@example(steps=sum_that("lost_answer", "refused", "acked"), can_read=False, ships="sum")
@example(steps=sum_that("killed_unheard", "refused", "acked"), can_read=False, ships="sum")
@example(steps=DELETED_UNDER_WAY, can_read=False, ships="replace")
@pytest.mark.parametrize("home_name", HOMES)
@given(steps=STEPS, can_read=st.booleans(), ships=st.sampled_from(["replace", "sum"]))
@settings(max_examples=2500, deadline=None)
def test_the_upstream_ends_with_what_the_senders_said(
    home_name: str,
    steps: list[Step],
    can_read: bool,  # noqa: FBT001 - drawn
    ships: str,
) -> None:
    run_course(home_name, steps, can_read, ships)


@needs_postgres
@example(steps=DELETED_UNDER_WAY, can_read=False, ships="replace")
@given(steps=STEPS, can_read=st.booleans(), ships=st.sampled_from(["replace", "sum"]))
@settings(max_examples=15, deadline=None)
def test_in_postgres_it_does_as_well(steps: list[Step], can_read: bool, ships: str) -> None:  # noqa: FBT001 - drawn
    """A schema takes a while to be made, so these are few."""
    run_course("postgres", steps, can_read, ships)


def run_course(home_name: str, steps: list[Step], can_read: bool, ships: str) -> None:  # noqa: FBT001 - drawn
    async def run(folder: Path) -> None:
        home = spool_home_of(home_name, folder / "data", clock := Clock())
        course = Course(UnitRig(home, clock, ships=ships, can_read=can_read))
        for name, *arguments in steps:
            await getattr(course, str(name))(*arguments)
        await course.finish()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))


class Course:
    """One course of events; each method is a step."""

    def __init__(self, rig: UnitRig) -> None:
        self.rig = rig
        self.model: dict[TotalKey, Decimal] = defaultdict(Decimal)
        self.posted = 0
        self.flying: Batch | None = None
        self.doubts = Doubts()
        self.seen: set[tuple[str, int]] = set()

    async def post(self, operation: Operation, element: str, hour: int, value: Decimal) -> None:
        at = place(element, hour)
        amount = Decimal(0) if operation == "delete" else value
        if await self.rig.keep(metered(str(amount), at, operation)) == "kept":
            self.posted += 1
            self.model[at] = self.model[at] + amount if operation == "sum" else amount

    async def wide(self, hour: int) -> None:
        bucket_ms = place(hour=hour).bucket_ms
        shape = SHAPE._replace(dimensions=())
        if await self.rig.keep(metered(operation="delete", at=TotalKey(bucket_ms, "", ""), shape=shape)) == "kept":
            self.posted += 1
            self.model |= {at: Decimal(0) for at in self.model if at.bucket_ms == bucket_ms}

    async def create(self) -> None:
        self.posted += await self.rig.store.create_stream(STREAM, SHAPE) == "made"

    async def remove(self) -> None:
        if await self.rig.store.delete_stream(STREAM, None, forced=True) == "kept":
            self.posted += 1
            self.model.clear()

    async def unblock(self) -> None:
        """The name of a deleted stream is free again at the upstream."""
        self.rig.clock.now_ms += NAME_BLOCKED_MS

    async def freeze(self, most: int) -> None:
        if self.flying is None:
            self.flying = await self.rig.freeze(max_records=most)

    async def arrive(self, batch: Batch) -> None:
        """At the upstream, which knows a repeat under the same key as
        its own idempotency cache does.
        """
        if b'"operation":"read"' in batch.records[0]:
            await self.rig.lane.learn_base(STREAM, self.rig.base())
        elif (batch.batch_id, batch.generation) not in self.seen:
            self.seen.add((batch.batch_id, batch.generation))
            self.rig.far.apply(batch)

    async def acked(self) -> None:
        if self.flying is not None:
            await self.arrive(self.flying)
            await self.rig.lane.ack(self.flying)
            self.flying = None

    async def lost_answer(self) -> None:
        if self.flying is not None:
            await self.arrive(self.flying)
            silence = Retry("no answer", answered=False, may_be_there=True)
            await self.rig.lane.release(self.flying, answered=self.understood(silence))
            self.flying = None

    def understood(self, said: Retry) -> bool:
        assert self.flying is not None
        found: Outcome = said
        if b'"operation":"sum"' in self.flying.records[0]:
            found = self.doubts.settled(self.flying, said)
        assert isinstance(found, Retry)
        return found.answered

    async def refused(self) -> None:
        """By an upstream in trouble, as the exporter understands it."""
        if self.flying is not None:
            await self.rig.lane.release(self.flying, answered=self.understood(Retry("HTTP 503", answered=True)))
            self.flying = None

    async def split(self) -> None:
        if self.flying is not None and len(self.flying.records) > 1:
            await self.rig.lane.split(self.flying)
            self.flying = None

    async def reopen(self) -> None:
        self.flying = None
        self.doubts = Doubts()
        await self.rig.reopen()

    async def killed_unheard(self) -> None:
        """The batch arrived, and no one lived to hear of it."""
        if self.flying is not None:
            await self.arrive(self.flying)
        await self.reopen()

    async def finish(self) -> None:
        await self.lost_answer()
        for _ in range(2):
            while (batch := await self.rig.freeze()) is not None:
                await self.arrive(batch)
                await self.rig.lane.ack(batch)
            await self.unblock()
        held = {(key[1], key[2]): value for key, value in self.rig.far.values.items()}
        wanted = {
            (f"2026-01-05T{10 + hour}:00:00Z", element): self.model[place(element, hour)]
            for element in "ab"
            for hour in (0, 1)
        }
        assert held == {key: value for key, value in wanted.items() if value}
        depth = self.rig.spool.depth(UNIT_COST)
        assert (depth.kept, depth.delivered, depth.pending) == (self.posted, self.posted, 0)
        await self.rig.close()
