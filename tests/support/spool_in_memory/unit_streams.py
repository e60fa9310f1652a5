"""Unit-cost streams in memory: what each holds, and how a record changes it.

`spool.unit_cost` states what the numbers mean.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from spool.record import Batch
from spool.unit_cost import (
    ALWAYS_WHOLE_MS,
    DELETE_STREAM,
    EXACT,
    NEVER_WHOLE_MS,
    ZERO,
    BaseRecord,
    Change,
    Operation,
    Shape,
    Ships,
    Total,
    TotalKey,
    changed,
    judged,
    next_bucket_ms,
    operation_of,
)

TOTAL_BYTES: Final = 100
"""About what a total takes besides its texts."""


@dataclass(slots=True)
class KeptTotal:
    total: Total
    since_ms: int
    """When the oldest of its records came that no batch holds."""
    touched_ms: int
    held: Decimal | None = None
    """What the upstream holds at the place; None where that is not known."""


@dataclass(slots=True)
class Item:
    """A total in a batch; or the creation or deletion of the stream."""

    place: TotalKey | None
    records: int
    """That it stands for: none once its stream was deleted."""
    since_ms: int
    body: bytes
    value: Decimal = ZERO
    """That is sent. Of an item of a read: what a total in doubt came to."""


@dataclass(slots=True)
class UnitBatch:
    batch: Batch
    operation: str
    frozen_ms: int
    items: list[Item]

    def records(self) -> int:
        return sum(item.records for item in self.items)


@dataclass(slots=True)
class UnitStream:
    stream_id: int
    name: str
    shape: Shape
    ships: Ships
    whole_from_ms: int | None = None
    is_gone: bool = False
    deleted_ms: int | None = None
    creating: int = 0
    """Items that wait to be sent as the stream's creation."""
    deleting: int = 0
    """Those that wait as its deletion."""
    asked_ms: int = 0
    """Since when either waits."""
    is_forced: bool = False
    blocked_until_ms: int = 0
    totals: dict[TotalKey, KeptTotal] = field(default_factory=dict)
    batches: list[UnitBatch] = field(default_factory=list)

    def size_bytes(self) -> int:
        return sum(TOTAL_BYTES + len(place.element) + len(place.filter) for place in self.totals)

    # ---- what it stands for

    def waiting(self) -> int:
        """Records that no batch holds yet."""
        return sum(kept.total.records for kept in self.totals.values())

    def pending(self) -> int:
        return self.creating + self.deleting + self.waiting() + sum(batch.records() for batch in self.batches)

    def holds_records(self) -> bool:
        """As far as it is known here: a total that was deleted is none."""
        return any(
            operation_of(kept.total) != "delete"
            for place, kept in self.totals.items()
            if not place.is_wide(self.shape.kind)
        )

    def oldest_ms(self) -> int | None:
        """When the oldest pending record came; None where none is."""
        times = [kept.since_ms for kept in self.totals.values() if kept.total.records]
        times += [item.since_ms for batch in self.batches for item in batch.items if item.records]
        times += [self.asked_ms] if self.creating or self.deleting else []
        return min(times, default=None)

    # ---- changes

    def begin_again(self, shape: Shape, ships: Ships) -> None:
        """A deletion left nothing at the upstream, so what follows it is whole."""
        self.shape, self.ships, self.is_gone = shape, ships, False
        if ships == "sum":
            self.whole_from_ms = NEVER_WHOLE_MS
        elif self.whole_from_ms == NEVER_WHOLE_MS:
            self.whole_from_ms = ALWAYS_WHOLE_MS

    def take(self, changes: Iterable[Change], now_ms: int) -> None:
        """Change the totals in that order."""
        for change in changes:
            starts_whole = self._starts_whole(change.place)
            if change.place.is_wide(self.shape.kind):
                self._delete_below(change.place, now_ms)
            kept = self.totals.get(change.place)
            self.put(change.place, changed(kept and kept.total, change, starts_whole=starts_whole), now_ms)

    def put(self, place: TotalKey, total: Total, now_ms: int) -> None:
        before = self.totals.get(place)
        since_ms = before.since_ms if before is not None and before.total.records else now_ms
        held = (ZERO if self._is_known_empty(place) else None) if before is None else before.held
        self.totals[place] = KeptTotal(total, since_ms, now_ms, held)

    def _delete_below(self, wide: TotalKey, now_ms: int) -> None:
        """At the upstream the wide delete itself does so. Where others send as well, nothing is
        whole for longer than it takes to freeze it.
        """
        for place in self.covered_by(wide):
            total = self.totals[place].total._replace(value=ZERO, is_whole=self.ships == "replace")
            self.put(place, total, now_ms)

    def covered_by(self, wide: TotalKey) -> list[TotalKey]:
        """The places below it, without its own."""
        return [place for place in self.totals if wide.covers(place) and place != wide]

    def _starts_whole(self, place: TotalKey) -> bool:
        """Whether the upstream holds nothing at a place that was never seen."""
        return self._is_known_empty(place) or (self.ships == "replace" and self._was_deleted_widely(place))

    def _is_known_empty(self, place: TotalKey) -> bool:
        return self.whole_from_ms is not None and place.bucket_ms >= self.whole_from_ms

    def _was_deleted_widely(self, place: TotalKey) -> bool:
        return any(wide.covers(place) for wide in self.totals if wide.is_wide(self.shape.kind))

    def ask_for(self, operation: str, items: int, now_ms: int) -> None:
        """Let the stream's creation or deletion wait, with the items that it stands for."""
        if not self.creating + self.deleting:
            self.asked_ms = now_ms
        if operation == DELETE_STREAM:
            self.deleting += items
        else:
            self.creating += items

    def delete(self, now_ms: int, *, forced: bool) -> None:
        """What waits in it goes with its deletion; what is under way stands for nothing more."""
        items = self.creating + self.waiting() + sum(batch.records() for batch in self.batches)
        for item in (item for batch in self.batches for item in batch.items):
            item.place, item.records = None, 0
        self.totals, self.creating = {}, 0
        self.ask_for(DELETE_STREAM, 1 + items, now_ms)
        self.is_gone, self.deleted_ms, self.is_forced = True, now_ms, self.is_forced or forced
        self.whole_from_ms = NEVER_WHOLE_MS if self.ships == "sum" else ALWAYS_WHOLE_MS

    # ---- what the upstream holds

    def reading(self, new: UnitBatch | None = None) -> UnitBatch:
        """The batch that reads; *new* where there is none."""
        found = next((unit for unit in self.batches if unit.operation == "read"), new)
        assert found is not None
        if found is new:
            self.batches.append(found)
        return found

    def links(self, place: TotalKey) -> list[Item]:
        """What waits in the total for a read."""
        return [item for unit in self.batches if unit.operation == "read" for item in unit.items if item.place == place]

    def learn_base(self, base: Sequence[BaseRecord], now_ms: int) -> list[Item]:
        """The upstream holds *base*, where it may list one place several times."""
        there: dict[TotalKey, Decimal] = {}
        for place, value in base:
            there[place] = EXACT.add(there.get(place, ZERO), value)
        goes_out = [at for at, x in self.totals.items() if at.is_wide(self.shape.kind) and x.total.records]
        for place, value in there.items():
            if place not in self.totals and not any(wide.covers(place) for wide in goes_out):
                self.totals[place] = KeptTotal(Total(value, True, 0), now_ms, now_ms, value)  # noqa: FBT003 - it is whole
        unclear = [self._settle(place, kept, there.get(place, ZERO)) for place, kept in self.totals.items()]
        self.whole_from_ms = ALWAYS_WHOLE_MS
        return [link for links in unclear for link in links]

    def _settle(self, place: TotalKey, kept: KeptTotal, found: Decimal) -> list[Item]:
        """What may have been delivered; all of it, or nothing."""
        if place.is_wide(self.shape.kind):
            return []
        links = self.links(place)
        done, value = 0, kept.total.value
        if not kept.total.is_whole:
            seen = judged(kept.held, [link.value for link in links], found)
            if seen is None:
                return self._unclear(place, kept)
            done, value = seen.delivered, EXACT.add(seen.total, value)
        self._wait_again(kept, links[done:])
        kept.total, kept.held = kept.total._replace(value=value, is_whole=True), found
        return []

    def _wait_again(self, kept: KeptTotal, links: list[Item]) -> None:
        for link in links:
            if link.records:
                kept.since_ms = min(link.since_ms, kept.since_ms if kept.total.records else link.since_ms)
                kept.total = kept.total._replace(records=kept.total.records + link.records)
            self._forget(link)

    def _unclear(self, place: TotalKey, kept: KeptTotal) -> list[Item]:
        kept.held = None
        links = self.links(place)
        for link in links:
            self._forget(link)
        return links

    def _forget(self, link: Item) -> None:
        unit = self.reading()
        unit.items = [item for item in unit.items if item is not link]

    def begin_with_sums(self, wall_ms: int) -> list[Item]:
        """What it holds cannot be known: the buckets that began go by `sum`."""
        self.whole_from_ms = next_bucket_ms(wall_ms, self.shape.granularity)
        unclear: list[Item] = []
        for place, kept in self.totals.items():
            links = self.links(place)
            if kept.total.is_whole:
                self._wait_again(kept, links)
            elif links or kept.held is not None or place.bucket_ms < self.whole_from_ms:
                unclear += self._unclear(place, kept)
            else:
                kept.total, kept.held = kept.total._replace(is_whole=True), ZERO
        return unclear

    # ---- upkeep

    def expire(self, before_ms: int, *, is_leased: bool) -> int:
        """Give up what waits for longer; how many records. A whole total is kept."""
        given_up = [] if is_leased else [batch for batch in self.batches if _is_older(batch, before_ms)]
        self.batches = [batch for batch in self.batches if batch not in given_up]
        expired = sum(batch.records() for batch in given_up)
        for kept in self.totals.values():
            if kept.total.records and kept.since_ms < before_ms:
                expired += kept.total.records
                value = kept.total.value if kept.total.is_whole else ZERO
                kept.total = Total(value, kept.total.is_whole, 0)
        if self.asked_ms < before_ms:
            expired, self.creating = expired + self.creating, 0
        return expired

    def prune(self, touched_before_ms: int) -> None:
        """Forget totals that nothing came to: what comes later to their bucket goes by `sum`."""
        for place in [place for place, kept in self.totals.items() if kept.touched_ms < touched_before_ms]:
            if self.totals[place].total.records or place in self._batched():
                continue
            del self.totals[place]
            if self.whole_from_ms is not None:
                ends_ms = next_bucket_ms(place.bucket_ms, self.shape.granularity)
                self.whole_from_ms = max(self.whole_from_ms, ends_ms)

    def _batched(self) -> Iterator[TotalKey | None]:
        return (item.place for batch in self.batches for item in batch.items)

    # ---- dead letters that come back

    def takes_back(self, place: TotalKey, operation: Operation, buried_ms: int) -> bool:
        """Whether a dead letter of that place wipes nothing that came since, and was not deleted
        with the stream.
        """
        if self.is_gone or (self.deleted_ms is not None and buried_ms <= self.deleted_ms):
            return False
        is_wide = place.is_wide(self.shape.kind)
        if not is_wide and (operation == "sum" or self.ships == "replace"):
            return True
        came = self.covered_by(place) if is_wide else [at for at in self.totals if at == place]
        return all(self.totals[at].touched_ms < buried_ms for at in came)

    def take_back(self, place: TotalKey, operation: Operation, carried: Decimal, records: int, now_ms: int) -> None:
        """Let a dead letter's records wait again, at the total as it stands now: what a `sum`
        carried is added, unless the place is whole by now.
        """
        kept = self.totals.get(place)
        total = kept.total if kept is not None else Total(ZERO, operation != "sum", 0)
        if kept is None:
            total = total._replace(value=carried)
        elif not total.is_whole:
            total = total._replace(value=EXACT.add(total.value, carried), is_whole=operation != "sum")
        self.put(place, total._replace(records=total.records + records), now_ms)


def _is_older(batch: UnitBatch, before_ms: int) -> bool:
    """Deletions wait for as long as it takes."""
    times = [item.since_ms for item in batch.items]
    return bool(times) and max(times) < before_ms and batch.operation != DELETE_STREAM
