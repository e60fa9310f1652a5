"""Whatever is asked of a spool, in any order: SQLite and the plain home in memory answer alike.

Records of AI calls, dead letters and resends; usage events; one stream of unit cost, for the order
among several is free.
"""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from spool.dead_letters import Chosen
from spool.events import NewEvent, RepeatKey
from spool.record import AI_TELEMETRY, UNIT_COST, USAGE_EVENTS, Batch, Lane
from spool.store import Refusal
from spool.unit_cost import NAME_BLOCKED_MS, BaseRecord, Operation, Rules, Shape, TotalKey
from tests.support.sending_again import DAY_MS
from tests.support.spool_homes import HOMES, spool_home_of
from tests.support.spool_rig import SETTINGS, Clock, append
from tests.support.unit_streams import METRIC, SHAPE, STREAM, metered, place

FEW_BYTES = replace(SETTINGS, max_dead_letter_bytes=1500)
ARCHIVE = "archive"
LANES = st.sampled_from([AI_TELEMETRY, ARCHIVE, USAGE_EVENTS])
MARKS = st.none() | st.sampled_from(["m1", "m2"])
BASES = st.none() | st.sampled_from([(), (("a", 7), ("a", 1), ("z", 3))])
MOST = st.none() | st.integers(1, 2)
CHOSEN = st.tuples(st.sampled_from([(), (UNIT_COST,), (AI_TELEMETRY,)]), st.sampled_from([(), ("buried",)])).map(
    lambda drawn: Chosen(*drawn)
)
BAD = st.lists(st.integers(0, 4), max_size=2)
Step = tuple[str, tuple[Any, ...]]


def step(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.tuples(st.just(name), st.tuples(*arguments))


POSTED = step(
    "post", st.sampled_from(["sum", "sum", "replace", "delete"]), st.sampled_from("ab"), st.integers(-1, 2), MARKS
)
STEPS = st.lists(
    st.one_of(
        POSTED,
        POSTED,
        step("wide"),
        step("event", st.sampled_from("ef"), st.sampled_from(["", "else"]), st.booleans(), st.booleans()),
        step("create", st.sampled_from([SHAPE, METRIC])),
        step("remove", st.booleans(), MARKS),
        step("learn", BASES),
        step("ship", st.sampled_from([1, 9]), st.sampled_from([300, 1 << 20])),
        step("end", st.booleans(), st.sampled_from(["ack", "ack", "bury", "release"]), BAD),
        step("bring", LANES.filter(lambda lane: lane != ARCHIVE), st.integers(1, 3)),
        step("send", LANES, st.sampled_from([1, 9])),
        step("replay", CHOSEN, MOST),
        step("drop", CHOSEN, MOST),
        step("send_again", LANES, st.sampled_from([0, DAY_MS])),
        step("wait", st.sampled_from([NAME_BLOCKED_MS, DAY_MS, 8 * DAY_MS])),
        step("look_after", st.sampled_from([0, DAY_MS])),
        step("forget", st.sampled_from([0, 1000])),
        step("restart", st.booleans()),
    ),
    min_size=5,
    max_size=30,
)


class Course:
    """One course of steps at one home; each method is a step, and returns what was answered."""

    def __init__(self, name: str, folder: Path, ships: str) -> None:
        self._home = spool_home_of(name, folder / "data", clock := Clock())
        self._clock = clock
        self._rules = Rules("sum" if ships == "sum" else "replace", 3)
        self._made = 0
        self._open()

    def _open(self) -> None:
        self._spool = self._home.open(settings=FEW_BYTES, exporters=[ARCHIVE])
        self._store = self._spool.events(self._rules)
        self._lane = self._spool.unit_cost(can_read=lambda: True, can_create=lambda: True)
        self._held: dict[bool, list[Batch]] = {True: [], False: []}

    async def take(self, steps: Sequence[Step]) -> list[object]:
        answers: list[object] = []
        for name, arguments in steps:
            self._clock.now_ms += 1
            answers += [name, await getattr(self, name)(*arguments), await self._state()]
        await self._home.close()
        return answers

    async def _state(self) -> list[object]:
        await self._home.check()
        depths = [self._spool.depth(lane) for lane in self._spool.lanes()]
        figures = [(x.kept, x.delivered, x.pending, x.dead_lettered, x.expired) for x in depths]
        letters = await self._spool.operator().find(Chosen(), most=999)
        streams = [*await self._store.streams(), *await self._lane.streams()]
        return [figures, letters, streams, {**self._spool.edge()}, {**self._spool.reasons()}]

    async def post(self, operation: Operation, element: str, value: int, mark: str | None) -> object:
        key = None if mark is None else RepeatKey(mark.encode().ljust(16), operation.encode().ljust(8)[:8])
        amount = 0 if operation == "delete" else value
        return await self._store.keep_records([metered(amount, place(element), operation)], key)

    async def wide(self) -> object:
        everything = TotalKey(place().bucket_ms, "", "")
        shape = SHAPE._replace(dimensions=())
        return await self._store.keep_records([metered(operation="delete", at=everything, shape=shape)], None)

    async def event(self, name: str, says: str, adds: bool, is_event: bool) -> object:  # noqa: FBT001 - drawn
        key = RepeatKey(name.encode().ljust(16), says.encode().ljust(8))
        added = metered(1, place("a")) if adds or not is_event else None
        return await self._store.keep_events(
            [NewEvent(key, name.encode() if is_event else None, added)], Counter(odd=1)
        )

    async def create(self, shape: Shape) -> object:
        return await self._store.create_stream(STREAM, shape)

    async def remove(self, forced: bool, mark: str | None) -> object:  # noqa: FBT001 - drawn
        key = None if mark is None else RepeatKey(mark.encode().ljust(16), str(forced).encode().ljust(8))
        return await self._store.delete_stream(STREAM, key, forced=forced)

    async def learn(self, base: Sequence[tuple[str, int]] | None) -> None:
        held = None if base is None else [BaseRecord(place(element), Decimal(n)) for element, n in base]
        await self._lane.learn_base(STREAM, held)

    async def ship(self, max_records: int, max_bytes: int) -> object:
        return self._hold(
            await self._lane.freeze(UNIT_COST, max_records=max_records, max_bytes=max_bytes), is_unit=True
        )

    async def bring(self, lane: Lane, n: int) -> None:
        self._made += 1
        await append(self._spool, [b"%d-%d" % (self._made, i) for i in range(n)], lane)

    async def send(self, lane: Lane, max_records: int) -> object:
        return self._hold(await self._spool.freeze(lane, max_records=max_records, max_bytes=1 << 20), is_unit=False)

    def _hold(self, batch: Batch | None, *, is_unit: bool) -> object:
        if batch is None:
            return None
        self._held[is_unit].append(batch)
        return replace(batch, batch_id="")

    async def end(self, is_unit: bool, how: str, bad: Sequence[int]) -> None:  # noqa: FBT001 - drawn
        if not self._held[is_unit]:
            return
        store, batch = self._lane if is_unit else self._spool, self._held[is_unit].pop(0)
        if how == "ack":
            await store.ack(batch, [Refusal(index, f"code{index}", "no") for index in bad])
        elif how == "bury":
            await store.bury(batch, "buried", "no")
        else:
            await store.release(batch, answered=bool(bad))

    async def replay(self, chosen: Chosen, most: int | None) -> object:
        return await self._spool.operator().replay_dead_letters(chosen, most)

    async def drop(self, chosen: Chosen, most: int | None) -> object:
        return await self._spool.operator().drop_dead_letters(chosen, most)

    async def send_again(self, lane: Lane, ago_ms: int) -> object:
        return await self._spool.operator().replay_delivered([lane], self._clock.now_ms - ago_ms)

    async def wait(self, ms: int) -> None:
        self._clock.now_ms += ms

    async def look_after(self, keep_totals_ms: int) -> object:
        expired = await self._lane.run_maintenance(keep_totals_ms=keep_totals_ms)
        await self._spool.run_maintenance()
        oldest = [self._spool.depth(lane).oldest_pending_ms for lane in self._spool.lanes()]
        return expired, oldest, self._spool.dead_letter_summary()

    async def forget(self, ago_ms: int) -> object:
        return await self._store.forget(self._clock.now_ms - ago_ms)

    async def restart(self, is_killed: bool) -> None:  # noqa: FBT001 - drawn
        if is_killed:
            self._home.kill()
        await self._home.close()
        self._open()


@given(STEPS, st.sampled_from(["replace", "sum"]))
@settings(max_examples=20, deadline=None)
def test_both_homes_answer_alike(steps: list[Step], ships: str) -> None:
    async def answers(name: str, folder: Path) -> list[object]:
        return await Course(name, folder, ships).take(steps)

    with tempfile.TemporaryDirectory() as folder:
        sqlite, memory = [asyncio.run(answers(name, Path(folder))) for name in HOMES]
    assert sqlite == memory
