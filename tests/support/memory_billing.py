"""Billing drops in memory: `billing.home` and `billing.relay_home` with plain dictionaries."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from gateway.common.lists.conventions import ListRequest, Page, SortValue
from gateway.common.lists.memory import page_of
from gateway.usage.billing import relay_home
from gateway.usage.billing.home import Day, Part, Summary
from gateway.usage.billing.relay_home import Kept, NewDrop, Queue, RelayedRow, State, Waiting, relayed_item
from tests.support.memory_sums import KeptSums


@dataclass
class OfDay:
    """What is known of one day at one target."""

    seen_revision: int = 0
    content: str | None = None
    row_count: int | None = None
    costs: str | None = None
    calls_without_cost: int | None = None
    dropped_at_ms: int | None = None
    refused: str | None = None
    refused_revision: int | None = None
    is_wanted: bool = False


@dataclass
class OfPart:
    """A part of the day under way."""

    part: Part
    revision: int
    manifest: dict[str, Any]
    is_taken: bool = False


@dataclass
class MemoryBillingRows:
    sums: KeptSums
    """Whose days are dropped; they are not copied with these rows."""
    targets: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Target -> its first hour, and its source."""
    known: dict[tuple[str, int], OfDay] = field(default_factory=dict)
    """(target, first hour of the day) -> the day."""
    parts: dict[str, list[OfPart]] = field(default_factory=dict)

    def __deepcopy__(self, memo: dict[int, Any]) -> "MemoryBillingRows":
        mine = copy.deepcopy((self.targets, self.known, self.parts), memo)
        return MemoryBillingRows(self.sums, *mine)

    def begin(self, target: str, *, from_hour: int, is_stated: bool, gateway_id: str) -> None:
        before, source = self.targets.get(target, (from_hour, gateway_id))
        self.targets[target] = from_hour if is_stated else before, source

    def source_of(self, target: str) -> str:
        return self.targets.get(target, (0, ""))[1]

    def due_day(self, target: str, last_hour: int) -> int | None:
        return min(self._due(target, last_hour), default=None)

    def _due(self, target: str, last_hour: int) -> list[int]:
        begins = max(self.targets[target][0], self.sums.counted_from or 0) if target in self.targets else None
        return [
            hour
            for hour, revision in self.sums.revisions.items()
            if hour <= last_hour and _is_due(self.known.get((target, hour)), hour, revision, begins)
        ]

    def dropped_content(self, target: str, hour: int) -> str | None:
        day = self.known.get((target, hour))
        return None if day is None or day.is_wanted else day.content

    def note_unchanged(self, target: str, hour: int, revision: int) -> None:
        if (day := self.known.get((target, hour))) is not None:
            day.seen_revision, day.refused, day.refused_revision = revision, None, None

    def freeze(
        self,
        target: str,
        hour: int,
        revision: int,
        manifest: dict[str, Any],
        requests: Sequence[tuple[str, bytes]],
        frozen_at: str,
    ) -> None:
        self.parts[target] = [
            OfPart(Part(n, batch_id, hour, body, frozen_at, 0, 0), revision, manifest)
            for n, (batch_id, body) in enumerate(requests, 1)
        ]

    def next_part(self, target: str) -> Part | None:
        return next((each.part for each in self._waiting(target)), None)

    def waiting_parts(self, target: str) -> list[str]:
        return [each.part.batch_id for each in self._waiting(target)]

    def _waiting(self, target: str) -> list[OfPart]:
        return [each for each in self.parts.get(target, []) if not each.is_taken]

    def take(self, target: str, batch_id: str, *, now_ms: int) -> dict[str, Any] | None:
        parts = self.parts.get(target, [])
        for each in parts:
            each.is_taken = each.is_taken or each.part.batch_id == batch_id
        if not parts or self._waiting(target):
            return None
        manifest, hour = parts[0].manifest, parts[0].part.hour
        self.known[target, hour] = OfDay(
            parts[0].revision,
            manifest["revision"],
            manifest["row_count"],
            orjson.dumps(manifest["costs"]).decode(),
            manifest["calls_without_cost"],
            now_ms,
        )
        self.discard(target)
        return manifest

    def give_back(self, target: str, batch_id: str, *, answered: bool, all_parts: bool) -> None:
        for each in self.parts.get(target, []):
            part = each.part
            if all_parts and each.is_taken:
                each.is_taken, each.part = False, part._replace(generation=part.generation + 1)
            elif part.batch_id == batch_id:
                each.part = part._replace(attempts=part.attempts + 1, generation=part.generation + answered)

    def discard(self, target: str) -> None:
        self.parts.pop(target, None)

    def refuse(self, target: str, why: str) -> None:
        for each in self.parts.get(target, [])[:1]:
            day = self.known.setdefault((target, each.part.hour), OfDay())
            day.refused, day.refused_revision, day.is_wanted = why, each.revision, False
        self.discard(target)

    def want(self, target: str, hours: Sequence[int]) -> None:
        for hour in hours:
            self.known.setdefault((target, hour), OfDay()).is_wanted = True

    def days(self, target: str, first_hour: int, end_hour: int) -> list[Day]:
        found = []
        for hour, revision in sorted(self.sums.revisions.items()):
            if first_hour <= hour < end_hour:
                day = self.known.get((target, hour), OfDay())
                is_whole = hour >= (self.sums.counted_from or 0)
                found.append(Day(hour, revision, **{**vars(day), "is_wanted": int(day.is_wanted)}, is_whole=is_whole))
        return found

    def summary(self, target: str, last_hour: int) -> Summary:
        days = [day for (of, _), day in self.known.items() if of == target]
        return Summary(
            len(self._due(target, last_hour)),
            sum(day.refused is not None for day in days),
            sum(day.content is not None for day in days),
            max((day.dropped_at_ms for day in days if day.dropped_at_ms is not None), default=None),
            len(self._waiting(target)),
        )


def _is_due(day: OfDay | None, hour: int, revision: int, begins: int | None) -> bool:
    if day is None:
        return begins is not None and hour >= begins
    return day.is_wanted or revision not in {day.seen_revision, day.refused_revision}


@dataclass
class OfDrop:
    new: NewDrop
    accepted_at_ms: int
    state: State = "waiting"
    generation: int = 0
    attempts: int = 0
    refused: str | None = None
    ended_at_ms: int | None = None

    def end(self, state: State, now_ms: int) -> None:
        self.state, self.ended_at_ms = state, now_ms


@dataclass
class MemoryRelayRows:
    drops: dict[int, OfDrop] = field(default_factory=dict)
    """By their numbers, in the order in which they were accepted."""
    last_drop: int = 0

    def keep(self, new: NewDrop, now_ms: int) -> Kept:
        self.drops = {
            no: drop
            for no, drop in self.drops.items()
            if drop.state not in {"delivered", "expired"} or (drop.ended_at_ms or 0) >= now_ms - relay_home.KNOWN_MS
        }
        for drop in self.drops.values():
            if new.repeat_key is not None and drop.new.repeat_key == new.repeat_key:
                return Kept("duplicate", drop.new.drop_id) if drop.new.content == new.content else Kept("reused")
        if (
            sum(len(drop.new.body) for drop in self._in("waiting", "sent")) + len(new.body)
            > relay_home.MAX_WAITING_BYTES
        ):
            return Kept("full")
        for drop in self._in("sent"):
            if (
                new.source_day is not None
                and _whose(drop.new)[:2] == _whose(new)[:2]
                and _whose(drop.new) != _whose(new)
            ):
                drop.end("delivered", now_ms)
        self.last_drop += 1
        self.drops[self.last_drop] = OfDrop(new, now_ms)
        return Kept("kept", new.drop_id)

    def connections(self) -> list[str]:
        return sorted({drop.new.connection for drop in self._in("waiting", "sent")})

    def next_waiting(self, to: str) -> Waiting | None:
        for drop in self._in("waiting"):
            new = drop.new
            if new.connection == to:
                return Waiting(
                    new.drop_id, new.body, new.operation, drop.accepted_at_ms, drop.generation, drop.attempts
                )
        return None

    def has_other_parts(self, drop_id: str) -> bool:
        own = self._find(drop_id)
        if own is None or own.new.division is None:
            return False
        sent = sum(_whose(part.new) == _whose(own.new) for part in self._in("sent"))
        return sent + 1 >= int(own.new.division.rpartition("/")[2])

    def delivered(self, drop_id: str, *, is_partial: bool, now_ms: int) -> None:
        own = self._find(drop_id)
        if own is not None and is_partial:
            own.state = "sent"
        elif own is not None:
            own.end("delivered", now_ms)
            for part in self._parts_of(own):
                part.end("delivered", now_ms)

    def give_back(self, drop_id: str, *, answered: bool, all_parts: bool) -> None:
        own = self._find(drop_id)
        if own is not None:
            own.attempts, own.generation = own.attempts + 1, own.generation + answered
            for part in self._parts_of(own) if all_parts else ():
                part.state, part.generation = "waiting", part.generation + 1

    def refuse(self, drop_id: str, why: str, now_ms: int) -> int:
        own = self._find(drop_id)
        if own is not None:
            own.end("refused", now_ms)
            own.refused = why
        held_bytes, expired = 0, 0
        refused = [(drop.ended_at_ms or 0, no) for no, drop in self.drops.items() if drop.state == "refused"]
        for _, no in sorted(refused, reverse=True):
            held_bytes += len(self.drops[no].new.body)
            if held_bytes > relay_home.MAX_REFUSED_BYTES:
                self.drops[no].end("expired", now_ms)
                expired += 1
        return expired

    def retry(self, drop_id: str) -> str | None:
        own = self._find(drop_id)
        if own is None or own.state != "refused":
            return None
        own.state, own.refused, own.ended_at_ms, own.generation = "waiting", None, None, own.generation + 1
        return own.new.connection

    def remove(self, drop_id: str) -> bool:
        gone = [no for no, drop in self.drops.items() if drop.new.drop_id == drop_id and drop.state in _HELD]
        for no in gone:
            del self.drops[no]
        return bool(gone)

    def queues(self) -> Sequence[Queue]:
        by_connection: dict[str, list[OfDrop]] = {}
        for drop in self._in(*_HELD):
            by_connection.setdefault(drop.new.connection, []).append(drop)
        return [_queue(connection, drops) for connection, drops in sorted(by_connection.items())]

    def page(self, request: ListRequest) -> Page:
        numbers = [*self.drops]
        return page_of(
            request,
            numbers,
            field_of=self._field,
            id_of=lambda no: no,
            item_of=lambda no: relayed_item(self._row(no)),
        )

    def _field(self, no: int, name: str) -> SortValue:
        values: Mapping[str, SortValue] = {
            "accepted_at": self.drops[no].accepted_at_ms,
            "connection": self.drops[no].new.connection,
            "state": self.drops[no].state,
        }
        return values[name]

    def _row(self, no: int) -> RelayedRow:
        drop, new = self.drops[no], self.drops[no].new
        return RelayedRow(
            new.drop_id, new.connection, new.month, new.operation, new.row_count, len(new.body), new.key_name,
            drop.state, drop.refused, drop.accepted_at_ms, drop.ended_at_ms,
        )  # fmt: skip

    def _find(self, drop_id: str) -> OfDrop | None:
        return next((drop for drop in self.drops.values() if drop.new.drop_id == drop_id), None)

    def _in(self, *states: State) -> list[OfDrop]:
        return [drop for drop in self.drops.values() if drop.state in states]

    def _parts_of(self, own: OfDrop) -> list[OfDrop]:
        """Other parts of its day that were sent."""
        if own.new.source_day is None:
            return []
        return [part for part in self._in("sent") if part is not own and _whose(part.new) == _whose(own.new)]


_HELD: tuple[State, ...] = ("waiting", "sent", "refused")


def _whose(new: NewDrop) -> tuple[str | None, ...]:
    return new.connection, new.source_day, new.division


def _queue(connection: str, drops: Sequence[OfDrop]) -> Queue:
    waiting = [drop for drop in drops if drop.state != "refused"]
    return Queue(connection, len(waiting), sum(len(drop.new.body) for drop in waiting), len(drops) - len(waiting))
