"""The spool, on each of its homes, against a model of plain lists, with restarts and crashes: each
record has one outcome, in order, and it is counted.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from spool.errors import SpoolFull
from spool.record import AI_TELEMETRY, DEVICES, Batch
from spool.settling import Change
from spool.store import Refusal, Spool
from tests.support.postgres import needs_postgres
from tests.support.spool_homes import letters_of, spool_home_of
from tests.support.spool_rig import SETTINGS, Clock, append, freeze

T = TypeVar("T")
ARCHIVE = "archive"
LANES = (AI_TELEMETRY, ARCHIVE, DEVICES)
DAY_MS = 86_400_000
AGED = replace(
    SETTINGS, max_age_ms=100 * DAY_MS, keep_dead_letters_ms=10_000 * DAY_MS, keep_delivered_ms=1000, window_ms=1000
)
"""Of age after more days than a run has stops: a stop under a wrong clock counts as at most one.
Dead letters outlast every run.
"""
YEARS_MS = 10 * 365 * DAY_MS
FEW_BYTES = 60
"""Of dead letters: a handful of records."""


@dataclass
class Lane:
    """What one lane should hold."""

    waiting: list[bytes] = field(default_factory=list)
    frozen: list[Batch] = field(default_factory=list)
    """In the order in which they are given again."""
    leased: set[str] = field(default_factory=set)
    delivered: list[bytes] = field(default_factory=list)
    dead: list[bytes] = field(default_factory=list)
    """Counted as such, whether their bytes are still kept or not."""
    expired: list[bytes] = field(default_factory=list)

    def pending(self) -> int:
        return len(self.waiting) + sum(len(batch.records) for batch in self.frozen)

    def position(self, batch: Batch) -> int:
        return [known.batch_id for known in self.frozen].index(batch.batch_id)

    def forget(self, batch: Batch) -> None:
        del self.frozen[self.position(batch)]
        self.leased.discard(batch.batch_id)


@dataclass
class Unsettled:
    seq: int
    idx: int
    record: bytes
    is_old: bool = False
    """Received longer ago than records may wait."""


class SpoolMachine(RuleBasedStateMachine):
    """Every rule does the same to the spool and to the model."""

    home_name = "sqlite"

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="spool-model-"))
        self.runner = asyncio.Runner()
        self.clock = Clock()
        self.home = spool_home_of(self.home_name, self.folder / "data", self.clock)
        self.settings = AGED
        self.letters: list[tuple[str, bytes]] = []
        """Dead letters whose bytes are kept, with their lane, the oldest first."""
        self.letter_bytes = AGED.dead_letter_bytes
        """That they may take."""
        self.made = 0
        self.dropped = 0
        self.lanes = {lane: Lane() for lane in LANES}
        self.unsettled: list[Unsettled] = []
        self.old: set[bytes] = set()
        """Records that are too old, but settled only then or were under way."""
        self.spool: Spool

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    async def open(self) -> None:
        self.spool = self.home.open(settings=self.settings, exporters=(ARCHIVE,), settling=(AI_TELEMETRY,))
        self.letter_bytes = max(self.letter_bytes, self.settings.dead_letter_bytes)

    @initialize()
    def start(self) -> None:
        """The first maintenance notes the time: without it a crash goes by a wrong wall clock."""
        self.run(self.open())
        self.run(self.spool.run_maintenance())

    # ---- in

    @rule(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=4), parts=st.integers(1, 3))
    def append_ai(self, sizes: list[int], parts: int) -> None:
        """*parts* appends in one commit."""

        async def work() -> None:
            waiting = []
            with self.spool.reserve():
                for _ in range(parts):
                    records = self.records(sizes)
                    seq, idx = self.spool.position(AI_TELEMETRY)
                    waiting.append(append(self.spool, records))
                    self.unsettled += [Unsettled(seq, idx + i, record) for i, record in enumerate(records)]
            await asyncio.gather(*waiting)

        self.run(work())

    @rule(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=4))
    def append_device(self, sizes: list[int]) -> None:
        async def work() -> None:
            records = self.records(sizes)
            await append(self.spool, records, DEVICES)
            self.lanes[DEVICES].waiting += records

        self.run(work())

    def records(self, sizes: list[int]) -> list[bytes]:
        """New records, no two alike."""
        made = [b"%06d" % (self.made + i) + b"." * size for i, size in enumerate(sizes)]
        self.made += len(made)
        return made

    @precondition(lambda self: self.unsettled)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        through = data.draw(st.sampled_from(sorted({x.seq for x in self.unsettled})), label="through")
        drops = data.draw(st.sets(st.integers(0, len(self.unsettled) - 1), max_size=3), label="drops")
        merges = data.draw(st.sets(st.integers(0, len(self.unsettled) - 1), max_size=2), label="merges") - drops
        changes = [
            Change(x.seq, x.idx, "duplicate.twin", None) if i in drops else Change(x.seq, x.idx, "kept.merged", b"m")
            for i, x in enumerate(self.unsettled)
            if i in drops | merges
        ]
        changes = [c if c.record is None else c._replace(record=b"merged %d.%d" % c[:2]) for c in changes]
        self.run(self.spool.settle(AI_TELEMETRY, through, changes))
        self.dropped += len(drops)
        replaced = {c[:2]: c.record for c in changes if c.record is not None}
        left = [x for i, x in enumerate(self.unsettled) if i not in drops]
        left = [replace(x, record=replaced.get((x.seq, x.idx), x.record)) for x in left]
        self.old |= {x.record for x in left if x.seq <= through and x.is_old}
        for lane in (AI_TELEMETRY, ARCHIVE):
            self.lanes[lane].waiting += [x.record for x in left if x.seq <= through]
        self.unsettled = [x for x in left if x.seq > through]

    # ---- out

    @rule(lane=st.sampled_from(LANES), most=st.integers(1, 7), max_bytes=st.integers(1, 200))
    def freeze(self, lane: str, most: int, max_bytes: int) -> None:
        batch = self.run(freeze(self.spool, lane, max_records=most, max_bytes=max_bytes))
        model = self.lanes[lane]
        again = next((known for known in model.frozen if known.batch_id not in model.leased), None)
        if again is not None:
            assert batch == again, "the same batch, id, generation, time and bytes"
        elif not model.waiting:
            assert batch is None
        else:
            assert batch is not None
            taken = self.take(model.waiting, most, max_bytes)
            assert batch.records == tuple(model.waiting[:taken])
            del model.waiting[:taken]
            model.frozen.append(batch)
        if batch is not None:
            model.leased.add(batch.batch_id)

    @staticmethod
    def take(waiting: list[bytes], most: int, max_bytes: int) -> int:
        """How many records fit: at least one."""
        size_bytes = n = 0
        for record in waiting[:most]:
            size_bytes += len(record) + 1
            if n and size_bytes > max_bytes:
                break
            n += 1
        return n

    def leased(self, lane: str) -> list[Batch]:
        model = self.lanes[lane]
        return [batch for batch in model.frozen if batch.batch_id in model.leased]

    @rule(lane=st.sampled_from(LANES), data=st.data(), twice=st.booleans())
    def ack(self, lane: str, data: st.DataObject, twice: bool) -> None:  # noqa: FBT001 hypothesis passes by name
        if not (batches := self.leased(lane)):
            return
        batch = data.draw(st.sampled_from(batches))
        bad = data.draw(st.lists(st.integers(-1, len(batch.records)), max_size=3))
        refused = [Refusal(index, "bad", "no") for index in bad]

        async def work() -> None:
            await self.spool.ack(batch, refused)
            if twice:
                await self.spool.ack(batch)

        self.run(work())
        model = self.lanes[lane]
        model.forget(batch)
        dead = {index for index in bad if 0 <= index < len(batch.records)}
        model.delivered += [record for i, record in enumerate(batch.records) if i not in dead]
        self.set_aside(lane, [batch.records[i] for i in sorted(dead)])

    @rule(lane=st.sampled_from(LANES), data=st.data(), answered=st.booleans())
    def release(self, lane: str, data: st.DataObject, answered: bool) -> None:  # noqa: FBT001 hypothesis passes by name
        if not (batches := self.leased(lane)):
            return
        batch = data.draw(st.sampled_from(batches))
        self.run(self.spool.release(batch, answered=answered))
        model = self.lanes[lane]
        again = replace(batch, attempts=batch.attempts + 1, generation=batch.generation + answered)
        model.frozen[model.position(batch)] = again
        model.leased.discard(batch.batch_id)

    @rule(lane=st.sampled_from(LANES), data=st.data())
    def split(self, lane: str, data: st.DataObject) -> None:
        batches = [batch for batch in self.leased(lane) if len(batch.records) > 1]
        if not batches:
            return
        batch = data.draw(st.sampled_from(batches))
        model = self.lanes[lane]

        async def work() -> list[Batch]:
            """The halves' ids are the spool's own: read them as the next who freezes would."""
            await self.spool.split(batch)
            rest = [known for known in model.frozen if known.batch_id not in model.leased]
            got = [await freeze(self.spool, lane) for _ in range(len(rest) + 2)]
            return [x for x in got if x is not None and x not in rest]

        halves = self.run(work())
        middle = len(batch.records) // 2
        assert [half.records for half in halves] == [batch.records[:middle], batch.records[middle:]]
        assert [(half.generation, half.attempts, half.sent_at) for half in halves] == [(0, 0, batch.sent_at)] * 2
        at = model.position(batch)
        model.frozen[at : at + 1] = halves
        model.leased = {known.batch_id for known in model.frozen}

    @rule(lane=st.sampled_from(LANES), data=st.data())
    def bury(self, lane: str, data: st.DataObject) -> None:
        if not (batches := self.leased(lane)):
            return
        batch = data.draw(st.sampled_from(batches))
        self.run(self.spool.bury(batch, "too_large", "no"))
        self.lanes[lane].forget(batch)
        self.set_aside(lane, batch.records)

    def set_aside(self, lane: str, records: Sequence[bytes]) -> None:
        self.lanes[lane].dead += records
        self.letters += [(lane, record) for record in records]

    # ---- time and accidents

    @rule()
    def look_after(self) -> None:
        """Long enough for what is delivered to be deleted, too short for
        anything to become too old.
        """
        self.clock.now_ms += 2000
        self.run(self.spool.run_maintenance())
        self.expire(self.old)
        self.bound_dead_letters()

    @rule()
    def wait_until_all_is_too_old(self) -> None:
        self.clock.now_ms += AGED.max_age_ms + 1
        self.run(self.spool.run_maintenance())
        for x in self.unsettled:
            x.is_old = True
        for model in self.lanes.values():
            self.old.update(*(batch.records for batch in model.frozen))
        self.expire(None)
        self.bound_dead_letters()

    def bound_dead_letters(self) -> None:
        """The oldest go; what is kept above a lowered limit stays, and all of it
        while nothing new is taken in.
        """
        while (size := sum(len(record) for _, record in self.letters)) > self.letter_bytes:
            del self.letters[0]
        needed = self.letter_bytes if self.settings.max_bytes == 1 else min(self.letter_bytes, size)
        self.letter_bytes = max(self.settings.dead_letter_bytes, needed)

    def expire(self, old: set[bytes] | None) -> None:
        """What waits and is among *old*, all of it for None, is given
        up, but for what is under way.
        """
        for model in self.lanes.values():
            gone = [record for record in model.waiting if old is None or record in old]
            model.expired += gone
            del model.waiting[: len(gone)]  # the old ones came first
            for batch in [batch for batch in model.frozen if batch.batch_id not in model.leased]:
                if old is None or old.issuperset(batch.records):
                    model.expired += batch.records
                    model.frozen.remove(batch)

    @rule(wrong_ms=st.sampled_from([0, YEARS_MS, -YEARS_MS]))
    def jump_clock(self, wrong_ms: int) -> None:
        """Only the wall clock's: it changes nothing."""
        self.clock.wrong_ms = wrong_ms

    @rule(size=st.integers(0, 100))
    def ask_for_room(self, size: int) -> None:
        """What the spool holds counts; so a limit below that refuses, and a roomy one does not."""
        if self.settings.max_bytes < self.spool.used_bytes:
            with pytest.raises(SpoolFull):
                self.spool.admit(size)
        else:
            self.spool.admit(size)

    @rule()
    def restart(self) -> None:
        async def work() -> None:
            await self.spool.close()
            await self.open()

        self.run(work())
        self.end_leases()

    @rule(
        max_bytes=st.sampled_from([AGED.max_bytes, 1]),
        letter_bytes=st.sampled_from([AGED.max_dead_letter_bytes, FEW_BYTES]),
    )
    def restart_with_other_limits(self, max_bytes: int, letter_bytes: int) -> None:
        """Below what it holds it starts all the same, and delivers."""
        self.settings = replace(AGED, max_bytes=max_bytes, max_dead_letter_bytes=letter_bytes)
        self.restart()

    @rule()
    def crash(self) -> None:
        """Go on with what was kept while it was open."""

        async def work() -> None:
            self.home.kill()
            await self.spool.close()
            await self.open()

        self.run(work())
        self.end_leases()

    @rule(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=4), after=st.booleans())
    def crash_at_an_append(self, sizes: list[int], after: bool) -> None:  # noqa: FBT001 hypothesis passes by name
        """All of it is there when the commit was made, answered or not, and
        nothing of it when it was not.
        """
        records = self.records(sizes)
        self.run(self.crash_at_commit(lambda: append(self.spool, records, DEVICES), after=after))
        if after:
            self.lanes[DEVICES].waiting += records
        else:
            self.made -= len(records)

    @rule(lane=st.sampled_from(LANES), data=st.data(), after=st.booleans())
    def crash_at_an_ack(self, lane: str, data: st.DataObject, after: bool) -> None:  # noqa: FBT001 as above
        """The batch is gone, or comes again as it was."""
        if not (batches := self.leased(lane)):
            return
        batch = data.draw(st.sampled_from(batches))
        self.run(self.crash_at_commit(lambda: self.spool.ack(batch), after=after))
        if after:
            self.lanes[lane].forget(batch)
            self.lanes[lane].delivered += batch.records

    async def crash_at_commit(self, begin: Callable[[], Awaitable[None]], *, after: bool) -> None:
        """Go on with what is kept before, or *after*, the commit of what is begun; no one was
        answered by then.
        """
        await self.home.kill_at_commit(begin, after=after)
        await self.spool.close()
        await self.open()
        self.end_leases()

    def end_leases(self) -> None:
        for model in self.lanes.values():
            model.leased.clear()

    # ---- what must hold

    @invariant()
    def figures_are_those_of_the_model(self) -> None:
        if not hasattr(self, "spool"):
            return
        self.run(self.home.check())
        assert self.spool.edge()["received"] == self.made
        assert self.spool.edge()["duplicate"] == self.dropped
        for lane, model in self.lanes.items():
            unsettled = 0 if lane == DEVICES else len(self.unsettled)
            depth = self.spool.depth(lane)
            assert depth.pending == model.pending() + unsettled
            assert (depth.delivered, depth.dead_lettered, depth.expired) == (
                len(model.delivered),
                len(model.dead),
                len(model.expired),
            )

    def teardown(self) -> None:
        if hasattr(self, "spool"):
            self.restart()
            if self.unsettled:
                self.run(self.spool.settle(AI_TELEMETRY, max(x.seq for x in self.unsettled)))
            for lane, model in self.lanes.items():
                left = [record for batch in model.frozen for record in batch.records] + model.waiting
                left += [] if lane == DEVICES else [x.record for x in self.unsettled]
                assert self.run(drained_whole(self.spool, lane)) == left
                letters = [record for _, _, record in self.run(letters_of(self.spool, lane))]
                assert letters == [record for of, record in self.letters if of == lane]
                outcomes = [*model.delivered, *model.dead, *model.expired, *left]
                assert len(set(outcomes)) == len(outcomes), "a record had two fates"
            self.run(self.spool.close())
        self.runner.close()
        shutil.rmtree(self.folder)


async def drained_whole(spool: Spool, lane: str) -> list[bytes]:
    records: list[bytes] = []
    while (batch := await freeze(spool, lane)) is not None:
        records += batch.records
        await spool.ack(batch)
    return records


class MemoryMachine(SpoolMachine):
    home_name = "memory"


TestSpoolModel = SpoolMachine.TestCase
TestSpoolModel.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
TestMemorySpoolModel = MemoryMachine.TestCase
TestMemorySpoolModel.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)


class PostgresMachine(SpoolMachine):
    home_name = "postgres"


@needs_postgres
class TestPostgresSpoolModel(PostgresMachine.TestCase):  # type: ignore[misc,name-defined]  # made by hypothesis
    settings = settings(max_examples=5, stateful_step_count=30, deadline=None)
