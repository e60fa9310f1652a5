"""The lane of unit cost as a pump sees it: `spool.store.UnitCostLane` over running
totals in place of chunks.
"""

import os
from collections.abc import Callable, Sequence

import structlog

from spool.clock import rfc3339_ms, uuid7
from spool.counters import Counters
from spool.record import UNIT_COST, Batch, Lane
from spool.sql import unit_base, unit_batches, unit_streams, unit_totals
from spool.sql.commits import Commits
from spool.sql.connection import Connection
from spool.sql.rows import FreezeLimits, Waiting
from spool.sql.unit_batches import Frozen, Moment
from spool.sql.unit_streams import May
from spool.sql.unit_waiting import WaitingStreams
from spool.store import Depth, Refusal
from spool.unit_cost import BaseRecord, Stream

log = structlog.get_logger()


class SqlUnitCostLane:
    """Make inside a running loop; use on its thread only."""

    def __init__(
        self,
        spool: Commits,
        *,
        can_read: Callable[[], bool] = lambda: False,
        can_create: Callable[[], bool] = lambda: False,
        can_delete: Callable[[], bool] = lambda: True,
    ) -> None:
        """*can_read* states whether the upstream may be asked what it
        holds of a stream that is new here; the others, whether streams may be made and deleted
        there.
        """
        self._spool = spool
        self._can_read = can_read
        self._can_create = can_create
        self._can_delete = can_delete
        self.keeps_deletions = False
        """Whether a deletion waits that may not be sent."""
        self._leased: dict[str, int] = {}
        """Batch -> its stream, while the pump has it."""
        self._waiting = WaitingStreams()
        """Used by the writer's thread alone."""
        self._ready_ms: int | None = None
        self._may_have_gone_out = True
        """Frozen batches may have been sent before a restart, with an outcome that nobody knows."""

    @property
    def gateway_id(self) -> str:
        return self._spool.gateway_id

    @property
    def _may(self) -> May:
        return May(self._can_create(), self._can_delete())

    async def freeze(self, lane: Lane, *, max_records: int, max_bytes: int) -> Batch | None:
        """A batch holds totals of one stream, which has none other under way;
        `max_records` counts totals.
        """
        limits = FreezeLimits(max_records, max_bytes, self._spool.settings.linger_ms)
        wall_ms = self._spool.wall_ms()
        moment = Moment(self._spool.age_ms(), wall_ms, uuid7(wall_ms, os.urandom(10)), rfc3339_ms(wall_ms))
        leased, can_read, may_have_gone_out = set(self._leased.values()), self._can_read(), self._may_have_gone_out
        may = self._may

        def freeze(connection: Connection, counters: Counters) -> tuple[Frozen | Waiting | None, bool]:
            if may_have_gone_out:
                unit_batches.note_silence(connection)
            found = unit_batches.freeze(
                connection, counters, leased, self._waiting, limits, moment, can_read=can_read, may=may
            )
            return found, not may.delete and unit_streams.waits_for_a_key(connection)

        found, self.keeps_deletions = await self._spool.ask(freeze)
        self._may_have_gone_out = False
        self._ready_ms = found.ready_ms if isinstance(found, Waiting) else None
        if not isinstance(found, Frozen):
            return None
        self._leased[found.batch.batch_id] = found.stream_id
        return found.batch

    async def ack(self, batch: Batch, refused: Sequence[Refusal] = ()) -> None:
        now_ms = self._spool.age_ms()
        await self._spool.ask(lambda c, counters: unit_batches.acked(c, counters, batch, refused, now_ms))
        self._let_go(batch)

    async def release(self, batch: Batch, *, answered: bool) -> None:
        await self._spool.ask(lambda c, _: unit_batches.released(c, batch, answered=answered))
        self._let_go(batch)

    async def split(self, batch: Batch) -> None:
        wall_ms = self._spool.wall_ms()
        ids = (uuid7(wall_ms, os.urandom(10)), uuid7(wall_ms, os.urandom(10)))
        await self._spool.ask(lambda c, _: unit_batches.split(c, batch, ids))
        self._let_go(batch)

    async def bury(self, batch: Batch, code: str, message: str) -> None:
        now_ms = self._spool.age_ms()
        await self._spool.ask(lambda c, counters: unit_batches.buried(c, counters, batch, code, message, now_ms))
        self._let_go(batch)

    def _let_go(self, batch: Batch) -> None:
        """The stream's next batch may be frozen."""
        self._leased.pop(batch.batch_id, None)
        self._spool.wake(UNIT_COST)

    def depth(self, lane: Lane) -> Depth:
        return self._spool.depth(lane)

    async def wait_ready(self, lane: Lane, timeout_s: float) -> None:
        if self._ready_ms is not None:
            timeout_s = min(timeout_s, max(0.0, (self._ready_ms - self._spool.age_ms()) / 1000))
        await self._spool.wait_ready(lane, timeout_s)

    async def is_ready(self, lane: Lane, *, max_records: int, max_bytes: int) -> bool:
        now_ms, linger_ms = self._spool.age_ms(), self._spool.settings.linger_ms
        leased, may = set(self._leased.values()), self._may
        waited_ms = now_ms - linger_ms
        return await self._spool.look(lambda c: unit_batches.is_ready(c, leased, self._waiting, waited_ms, now_ms, may))

    def forget_leases(self, lane: Lane) -> None:
        self._leased.clear()
        self._may_have_gone_out = True
        self._spool.wake(UNIT_COST)

    # ---- beside the pump

    async def learn_base(self, stream: str, base: Sequence[BaseRecord] | None) -> None:
        """What the upstream holds of a stream that nothing was sent of yet, or whose totals are in
        doubt; None when it cannot be known. On disk when this returns.
        """
        wall_ms, now_ms = self._spool.wall_ms(), self._spool.age_ms()
        set_aside = await self._spool.ask(
            lambda c, counters: unit_base.learn_base(c, counters, stream, base, wall_ms, now_ms)
        )
        if set_aside:
            log.warning("unit-cost records may have been delivered before", stream=stream, records=set_aside)

    async def streams(self) -> list[Stream]:
        return await self._spool.look(unit_totals.streams)

    async def block(self, stream: str, for_s: float) -> None:
        """The upstream does not take the name of *stream* yet."""
        until_ms = self._spool.age_ms() + int(for_s * 1000)
        await self._spool.ask(lambda c, _: unit_streams.block(c, stream, until_ms))

    async def run_maintenance(self, *, keep_totals_ms: int) -> int:
        """What is due now and then: expire records that wait for too long, and forget totals that
        nothing came to. How many expired.
        """
        now_ms, leased = self._spool.age_ms(), set(self._leased.values())
        waited_ms = now_ms - self._spool.settings.max_age_ms
        expired = await self._spool.ask(lambda c, counters: unit_batches.expire(c, counters, waited_ms, leased))
        while (
            await self._spool.ask(lambda c, _: unit_totals.prune(c, now_ms - keep_totals_ms))
            >= unit_totals.PRUNE_AT_ONCE
        ):
            pass
        await self._spool.ask(lambda c, _: unit_streams.prune(c, now_ms - keep_totals_ms))
        if expired:
            log.warning("unit-cost records expired", records=expired)
        return expired
