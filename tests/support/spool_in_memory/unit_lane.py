"""`spool.store.UnitCostLane` in memory."""

from collections.abc import Callable, Sequence

from spool.clock import rfc3339_ms
from spool.record import UNIT_COST, Batch, Lane
from spool.store import Depth, Refusal
from spool.unit_cost import DELETE_STREAM, BaseRecord, Stream
from tests.support.spool_in_memory import unit_batches, unit_doubts
from tests.support.spool_in_memory.committing import Committing
from tests.support.spool_in_memory.disk import Disk
from tests.support.spool_in_memory.unit_batches import Limits, May, Moment
from tests.support.spool_in_memory.unit_streams import UnitBatch, UnitStream


class UnitLaneInMemory:
    def __init__(
        self,
        spool: Committing,
        can_read: Callable[[], bool],
        can_create: Callable[[], bool],
        can_delete: Callable[[], bool],
    ) -> None:
        self._spool = spool
        self._can = (can_read, can_create, can_delete)
        self.keeps_deletions = False
        self._leased: dict[str, str] = {}
        """Batch -> its stream, while the pump has it."""
        self._ready_ms: int | None = None
        self._may_have_gone_out = True

    @property
    def gateway_id(self) -> str:
        return self._spool.gateway_id

    def _may(self) -> May:
        return May(*(can() for can in self._can))

    def _streams_under_way(self) -> set[str]:
        return set(self._leased.values())

    async def freeze(self, lane: Lane, *, max_records: int, max_bytes: int) -> Batch | None:
        spool, may = self._spool, self._may()
        limits = Limits(max_records, max_bytes, spool.settings.linger_ms)
        moment = Moment(spool.age_ms(), spool.wall_ms(), spool.batch_id(), rfc3339_ms(spool.wall_ms()))

        def freeze(disk: Disk) -> tuple[UnitStream, UnitBatch] | int | None:
            if self._may_have_gone_out:
                unit_batches.note_silence(disk)
            found = unit_batches.freeze(disk, self._streams_under_way(), limits, moment, may)
            self.keeps_deletions = not may.delete and any(_waits_for_deletion(x) for x in disk.streams.values())
            return found

        found = await spool.ask(freeze)
        self._may_have_gone_out = False
        self._ready_ms = found if isinstance(found, int) else None
        if not isinstance(found, tuple):
            return None
        stream, unit = found
        self._leased[unit.batch.batch_id] = stream.name
        return unit.batch

    async def ack(self, batch: Batch, refused: Sequence[Refusal] = ()) -> None:
        now_ms = self._spool.age_ms()
        await self._spool.ask(lambda disk: unit_batches.ack(disk, batch, refused, now_ms))
        self._let_go(batch)

    async def release(self, batch: Batch, *, answered: bool) -> None:
        def release(disk: Disk) -> None:
            if known := unit_batches.found(disk, batch):
                unit_batches.release(known[1], answered=answered)

        await self._spool.ask(release)
        self._let_go(batch)

    async def split(self, batch: Batch) -> None:
        ids = self._spool.batch_id(), self._spool.batch_id()
        await self._spool.ask(lambda disk: unit_batches.split(disk, batch, ids))
        self._let_go(batch)

    async def bury(self, batch: Batch, code: str, message: str) -> None:
        now_ms, why = self._spool.age_ms(), Refusal(None, code, message)
        await self._spool.ask(lambda disk: unit_batches.finish(disk, batch, lambda _: why, now_ms))
        self._let_go(batch)

    def _let_go(self, batch: Batch) -> None:
        self._leased.pop(batch.batch_id, None)
        self._spool.wake(UNIT_COST)

    def depth(self, lane: Lane) -> Depth:
        return self._spool.depth(lane)

    async def wait_ready(self, lane: Lane, timeout_s: float) -> None:
        if self._ready_ms is not None:
            timeout_s = min(timeout_s, max(0.0, (self._ready_ms - self._spool.age_ms()) / 1000))
        await self._spool.wait_ready(lane, timeout_s)

    async def is_ready(self, lane: Lane, *, max_records: int, max_bytes: int) -> bool:
        now_ms, linger_ms, may = self._spool.age_ms(), self._spool.settings.linger_ms, self._may()

        def is_ready(disk: Disk) -> bool:
            if self._leased or unit_batches.frozen_before(disk, (), now_ms, may):
                return True
            found = unit_batches.longest_waiting(disk, now_ms, may)
            return found is not None and found[1] <= now_ms - linger_ms

        return await self._spool.ask(is_ready)

    def forget_leases(self, lane: Lane) -> None:
        self._leased.clear()
        self._may_have_gone_out = True
        self._spool.wake(UNIT_COST)

    # ---- beside the pump

    async def learn_base(self, stream: str, base: Sequence[BaseRecord] | None) -> None:
        wall_ms, now_ms = self._spool.wall_ms(), self._spool.age_ms()

        def learn(disk: Disk) -> None:
            known = disk.streams.get(stream)
            if known is None or known.whole_from_ms is not None:
                return
            unclear = known.begin_with_sums(wall_ms) if base is None else known.learn_base(base, now_ms)
            unit_doubts.set_aside(disk, unclear, now_ms)

        await self._spool.ask(learn)

    async def streams(self) -> list[Stream]:
        def read(disk: Disk) -> list[Stream]:
            found = sorted(disk.streams.values(), key=lambda stream: stream.name)
            return [Stream(x.stream_id, x.name, x.shape, x.ships, x.whole_from_ms, x.is_gone) for x in found]

        return await self._spool.ask(read)

    async def block(self, stream: str, for_s: float) -> None:
        until_ms = self._spool.age_ms() + int(for_s * 1000)

        def block(disk: Disk) -> None:
            if known := disk.streams.get(stream):
                known.blocked_until_ms = max(known.blocked_until_ms, until_ms)

        await self._spool.ask(block)

    async def run_maintenance(self, *, keep_totals_ms: int) -> int:
        now_ms, leased = self._spool.age_ms(), self._streams_under_way()
        waited_ms = now_ms - self._spool.settings.max_age_ms

        def maintain(disk: Disk) -> int:
            expired = sum(x.expire(waited_ms, is_leased=x.name in leased) for x in disk.streams.values())
            unit_batches.end(disk, expired, "expired")
            for stream in list(disk.streams.values()):
                stream.prune(now_ms - keep_totals_ms)
                if _is_forgotten(stream, now_ms - keep_totals_ms):
                    del disk.streams[stream.name]
            return expired

        return await self._spool.ask(maintain)


def _waits_for_deletion(stream: UnitStream) -> bool:
    return bool(stream.deleting) or any(unit.operation == DELETE_STREAM for unit in stream.batches)


def _is_forgotten(stream: UnitStream, deleted_before_ms: int) -> bool:
    """Whether it is gone for long, and nothing of it is to be sent."""
    is_old = stream.deleted_ms is not None and stream.deleted_ms < deleted_before_ms
    return stream.is_gone and is_old and not stream.deleting and not stream.batches
