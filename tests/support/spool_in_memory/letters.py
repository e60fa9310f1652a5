"""`spool.store.DeadLetterStore` in memory: each change of one lane is one commit."""

from collections.abc import Collection, Sequence
from typing import Final

import orjson

from spool.dead_letters import Chosen, DeadLetter, LetterPage, Place, ReasonCount, Requeued, SortKey, place_of
from spool.errors import NoSuchLane
from spool.forgetting import Forgotten
from spool.record import AI_TELEMETRY, DEVICES, OWN_LANES, UNIT_COST, Lane
from spool.settling import Position
from tests.support.spool_in_memory import unit_batches
from tests.support.spool_in_memory.committing import Committing
from tests.support.spool_in_memory.disk import (
    AGAIN,
    FIRST,
    ONCE_MORE,
    Chunk,
    Disk,
    LaneState,
    Letter,
    Stretch,
    with_record,
)

MAX_REASONS: Final = 100
STATE_LANES: Final = (DEVICES, UNIT_COST)


class LettersInMemory:
    def __init__(self, spool: Committing) -> None:
        self._spool = spool

    async def letter_lanes(self) -> list[Lane]:
        return await self._spool.ask(_letter_lanes)

    async def reasons(self) -> list[ReasonCount]:
        return await self._spool.ask(by_reason)

    async def missing(self, ids: Sequence[int]) -> list[int]:
        def missing(disk: Disk) -> list[int]:
            there = {letter.shown.id for letter in disk.letters}
            return [id_ for id_ in dict.fromkeys(ids) if id_ not in there]

        return await self._spool.ask(missing)

    async def count(self, chosen: Chosen) -> int:
        return await self._spool.ask(lambda disk: len(_those(disk, chosen)))

    async def page(
        self, chosen: Chosen, *, sort: SortKey, descending: bool, beyond: Place | None, most: int
    ) -> LetterPage:
        def page(disk: Disk) -> LetterPage:
            letters = [letter.shown for letter in _those(disk, chosen)]
            letters.sort(key=lambda letter: place_of(letter, sort), reverse=descending)
            first = 0 if beyond is None else sum(not _is_beyond(x, sort, beyond, descending) for x in letters)
            return LetterPage(letters[first : first + most], first == 0, len(letters))

        return await self._spool.ask(page)

    async def find(
        self,
        chosen: Chosen,
        *,
        sort: SortKey = "buried_at",
        descending: bool = False,
        beyond: Place | None = None,
        most: int,
    ) -> list[DeadLetter]:
        return (await self.page(chosen, sort=sort, descending=descending, beyond=beyond, most=most)).letters

    async def forget_user(self, users: Collection[str], *, dry_run: bool) -> Forgotten:
        return await self._spool.ask(lambda disk: _forget_user(disk, users, writes=not dry_run))

    async def replay_dead_letters(self, chosen: Chosen, most: int | None = None) -> Requeued:
        seqs = {lane: self._spool.number_chunk() for lane in self._spool.lanes()}
        now_ms = self._spool.age_ms()

        def replay(disk: Disk) -> Requeued:
            _refuse_unknown(disk, chosen.lanes)
            replayed: dict[Lane, int] = {}
            for lane, seq in sorted(seqs.items()):
                left = None if most is None else most - sum(replayed.values())
                if n := _put_back(disk, _of_lane(disk, chosen, lane), lane, seq, now_ms, most=left):
                    replayed[lane] = n
            tried = [lane for lane in seqs if lane != UNIT_COST or sum(replayed.values()) == most]
            left_over = [x for x in _those(disk, chosen) if x.shown.lane not in tried or not x.can_go_back]
            return Requeued(replayed, len(left_over))

        requeued = await self._spool.ask(replay)
        for lane in requeued.replayed:
            self._spool.wake_lane(lane)
        return requeued

    async def drop_dead_letters(self, chosen: Chosen, most: int | None = None) -> int:
        def drop(disk: Disk) -> int:
            _refuse_unknown(disk, chosen.lanes)
            dropped = _those(disk, chosen)[:most]
            disk.forget_letters(dropped, "dead_letters.dropped")
            return len(dropped)

        return await self._spool.ask(drop)

    async def replay_delivered(self, lanes: Sequence[Lane], received_from_ms: int) -> dict[Lane, int]:
        def replay(disk: Disk) -> dict[Lane, int]:
            found = _delivered(disk, lanes, received_from_ms)
            for lane, positions in found.items():
                if positions:
                    disk.lanes[lane].again.append(Stretch(positions, ONCE_MORE))
            return {lane: len(positions) for lane, positions in found.items()}

        sent = await self._spool.ask(replay)
        for lane in sent:
            self._spool.wake_lane(lane)
        return sent

    async def count_delivered(self, lanes: Sequence[Lane], received_from_ms: int) -> dict[Lane, int]:
        def count(disk: Disk) -> dict[Lane, int]:
            found = _delivered(disk, lanes, received_from_ms)
            return {lane: len(positions) for lane, positions in found.items()}

        return await self._spool.ask(count)


# ---- which ones


def _those(disk: Disk, chosen: Chosen) -> list[Letter]:
    """The oldest first."""
    return [letter for letter in disk.letters if _is_chosen(letter.shown, chosen)]


def _is_chosen(letter: DeadLetter, chosen: Chosen) -> bool:
    return (
        (not chosen.lanes or letter.lane in chosen.lanes)
        and (not chosen.reasons or letter.reason in chosen.reasons)
        and (not chosen.ids or letter.id in chosen.ids)
        and (chosen.since_ms is None or letter.buried_ms >= chosen.since_ms)
        and (chosen.until_ms is None or letter.buried_ms < chosen.until_ms)
    )


def _of_lane(disk: Disk, chosen: Chosen, lane: Lane) -> list[Letter]:
    return [letter for letter in _those(disk, chosen) if letter.shown.lane == lane]


def _is_beyond(letter: DeadLetter, sort: SortKey, place: Place, descending: bool) -> bool:  # noqa: FBT001 - as asked
    return place_of(letter, sort) < place if descending else place_of(letter, sort) > place


def _letter_lanes(disk: Disk) -> list[Lane]:
    return sorted({*disk.lanes, *(letter.shown.lane for letter in disk.letters)})


def _refuse_unknown(disk: Disk, lanes: Sequence[Lane]) -> None:
    known = _letter_lanes(disk)
    if not set(lanes) <= set(known):
        raise NoSuchLane(f"lane: one of {', '.join(known)} is needed")


def by_reason(disk: Disk) -> list[ReasonCount]:
    """The most frequent of a lane first; what is beyond `MAX_REASONS` stands under `other`."""
    counts: list[ReasonCount] = []
    for lane in sorted({letter.shown.lane for letter in disk.letters}):
        letters = [letter for letter in disk.letters if letter.shown.lane == lane]
        reasons = {letter.shown.reason for letter in letters}
        each = [_counted(lane, reason, [x for x in letters if x.shown.reason == reason]) for reason in reasons]
        each.sort(key=lambda count: (-count.records, count.reason))
        counts += each[:MAX_REASONS]
        if rare := {count.reason for count in each[MAX_REASONS:]}:
            counts.append(_counted(lane, "other", [x for x in letters if x.shown.reason in rare]))
    return counts


def _counted(lane: Lane, reason: str, letters: Sequence[Letter]) -> ReasonCount:
    times = [letter.shown.buried_ms for letter in letters]
    records = sum(letter.records for letter in letters)
    return ReasonCount(lane, reason, records, sum(x.shown.size_bytes for x in letters), min(times), max(times))


# ---- sent again


def _put_back(disk: Disk, letters: Sequence[Letter], lane: Lane, seq: int, now_ms: int, *, most: int | None) -> int:
    """Make up to *most* of *letters* pending again, as chunk *seq*; how many. Those of unit cost go
    back into the totals that they were part of.
    """
    able = [letter for letter in letters if letter.can_go_back]
    if lane == UNIT_COST:
        back: list[Letter] = []
        for letter in able:
            if len(back) != most and unit_batches.put_back(disk, letter, now_ms):
                back.append(letter)
    else:
        back = able[:most]
        if back:
            disk.add(Chunk(seq, f"again:{lane}", now_ms, [letter.shown.record for letter in back]))
            disk.lanes[lane].again.append(Stretch([Position(seq, idx) for idx in range(len(back))], AGAIN))
    records = sum(letter.records for letter in back)
    disk.forget_letters(back)
    disk.counters.lane(lane).dead_lettered -= records
    disk.counters.lane(lane).pending += records
    disk.beside[lane, "dead_letters.replayed"] += records
    return len(back)


def _delivered(disk: Disk, lanes: Sequence[Lane], received_from_ms: int) -> dict[Lane, list[Position]]:
    """What each of *lanes* is done with of the records received since then, less what is on its
    way. Raises NoSuchLane.
    """
    for lane in lanes:
        if lane in STATE_LANES or lane not in disk.lanes:
            raise NoSuchLane(f"lane: one of {', '.join(sorted({*disk.lanes} - {*STATE_LANES}))} is needed")
    return {lane: _done(disk, disk.lanes[lane], received_from_ms) for lane in lanes}


def _done(disk: Disk, state: LaneState, received_from_ms: int) -> list[Position]:
    since = [chunk.seq for chunk in disk.of(state.source) if chunk.received_ms >= received_from_ms]
    positions = [
        Position(chunk.seq, idx)
        for chunk in disk.of(state.source, min(since, default=state.next.seq + 1), state.next.seq)
        for idx, _ in chunk.left()
    ]
    on_their_way = {*state.sent_again(FIRST), *state.sent_again(ONCE_MORE)}
    return [position for position in positions if position < state.next and position not in on_their_way]


# ---- forgotten


def _forget_user(disk: Disk, users: Collection[str], *, writes: bool) -> Forgotten:
    batched = {x.seq for state in disk.lanes.values() for frozen in state.frozen for x in frozen.positions}
    found = Forgotten()
    for chunk in disk.chunks.values():
        may_change = chunk.lane.startswith("again:") or chunk.seq <= disk.settled[AI_TELEMETRY]
        if chunk.lane in OWN_LANES and chunk.lane != AI_TELEMETRY:
            continue
        may_change = may_change and chunk.seq not in batched
        n = _forget_in(chunk, users, writes=writes and may_change)
        found += Forgotten(records=n) if may_change else Forgotten(waiting=n)
    for i, letter in enumerate(disk.letters):
        if letter.shown.lane not in OWN_LANES[1:] and _names(letter.shown.record, users):
            found += Forgotten(dead_letters=1)
            if writes:
                disk.letters[i] = with_record(letter, _without(letter.shown.record, users))
    return found + Forgotten(waiting=sum(_names(held.record, users) for held in disk.held.values()))


def _forget_in(chunk: Chunk, users: Collection[str], *, writes: bool) -> int:
    """How many of its records name one of *users*; each counts once, merged or not."""
    merged = {idx: record for idx, (_, record) in chunk.changes.items() if record is not None}
    named = {idx for idx, record in enumerate(chunk.records) if _names(record, users)}
    named |= {idx for idx, record in merged.items() if _names(record, users)}
    if writes:
        chunk.records = [_without(record, users) for record in chunk.records]
        for idx, record in merged.items():
            chunk.changes[idx] = (chunk.changes[idx][0], _without(record, users))
    return len(named)


def _names(record: bytes, users: Collection[str]) -> bool:
    try:
        attribution = orjson.loads(record).get("attribution")
    except (orjson.JSONDecodeError, AttributeError):
        return False
    return isinstance(attribution, dict) and attribution.get("user") in users


def _without(record: bytes, users: Collection[str]) -> bytes:
    if not _names(record, users):
        return record
    changed = orjson.loads(record)
    changed["attribution"]["user"] = None
    return orjson.dumps(changed)
