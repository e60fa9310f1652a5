"""Whatever is asked of a spool, in any order: SQLite and the plain home in memory answer alike.

Records of AI calls, dead letters and resends; usage events; one stream of unit cost, for the order
among several is free.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

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
COURSES, STEPS = 6, 60
LANES = (AI_TELEMETRY, ARCHIVE, USAGE_EVENTS)
MARKS = (None, None, "m1", "m2")
CHOSEN = [Chosen(lanes, reasons) for lanes in ((), (UNIT_COST,), (AI_TELEMETRY,)) for reasons in ((), ("buried",))]
BASES = (None, (), (("a", 7), ("a", 1), ("z", 3)))
Step = tuple[str, tuple[Any, ...]]


def any_step(chance: Random) -> Step:
    pick = chance.choice
    steps: list[tuple[int, str, Callable[[], tuple[Any, ...]]]] = [
        (8, "post", lambda: (pick(["sum", "sum", "replace", "delete"]), pick("ab"), pick([-1, 0, 1, 2]), pick(MARKS))),
        (1, "wide", tuple),
        (3, "event", lambda: (pick("ef"), pick(["", "else"]), pick([True, False]), pick([True, False]))),
        (1, "create", lambda: (pick([SHAPE, METRIC]),)),
        (2, "remove", lambda: (pick([True, False]), pick(MARKS))),
        (1, "learn", lambda: (pick(BASES),)),
        (6, "ship", lambda: (pick([1, 9]), pick([300, 1 << 20]))),
        (9, "end", lambda: (pick(["ack", "bury", "release"]), pick([(), (0,), (1, 2)]))),
        (5, "bring", lambda: (pick([AI_TELEMETRY, USAGE_EVENTS]), pick([1, 3]))),
        (6, "send", lambda: (pick(LANES), pick([1, 9]))),
        (2, "replay", lambda: (pick(CHOSEN), pick([None, 1, 2]))),
        (2, "drop", lambda: (pick(CHOSEN), pick([None, 1, 2]))),
        (1, "send_again", lambda: (pick(LANES), pick([0, DAY_MS]))),
        (1, "wait", lambda: (pick([NAME_BLOCKED_MS, DAY_MS, 8 * DAY_MS]),)),
        (1, "look_after", lambda: (pick([0, DAY_MS]),)),
        (1, "forget", lambda: (pick([0, 1000]),)),
        (1, "put_back", tuple),
        (1, "restart", lambda: (pick([True, False]),)),
    ]
    (_, name, arguments), *_ = chance.choices(steps, [weight for weight, *_ in steps])
    return name, arguments()


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
        self._held: list[Batch] = []

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
        return self._hold(await self._lane.freeze(UNIT_COST, max_records=max_records, max_bytes=max_bytes))

    async def put_back(self) -> None:
        await self._home.put_back()

    async def bring(self, lane: Lane, n: int) -> None:
        self._made += 1
        await append(self._spool, [b"%d-%d" % (self._made, i) for i in range(n)], lane)

    async def send(self, lane: Lane, max_records: int) -> object:
        return self._hold(await self._spool.freeze(lane, max_records=max_records, max_bytes=1 << 20))

    def _hold(self, batch: Batch | None) -> object:
        if batch is None:
            return None
        self._held.append(batch)
        return replace(batch, batch_id="")

    async def end(self, how: str, bad: Sequence[int]) -> None:
        if not self._held:
            return
        batch = self._held.pop(0)
        store = self._lane if batch.lane == UNIT_COST else self._spool
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
        for _ in range(2):  # what is sent again may be given up behind the look at the oldest record
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


async def test_both_homes_answer_alike(chance: Random, tmp_path: Path) -> None:
    for number in range(COURSES):
        steps = [any_step(chance) for _ in range(STEPS)]
        ships = chance.choice(["replace", "sum"])
        sqlite, memory = [await Course(name, tmp_path / f"{number}", ships).take(steps) for name in HOMES]
        assert sqlite == memory
