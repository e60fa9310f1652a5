"""What the lane of one connection's relayed drops has to send: one after the other, as they came.

A drop is on disk before its sender is answered. After a kill the same bytes go out under the same
id. Every DatabaseUnavailable leaves as SpoolError, so the pump tries again.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import structlog

from exporters.clock import Clock
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.usage.billing.relay_home import RelayHome
from spool.clock import rfc3339_ms
from spool.errors import SpoolError
from spool.record import Batch, Lane
from spool.store import Refusal

log = structlog.get_logger()

LANE: Final = "billing_relay"
ONCE_ONLY: Final = frozenset({"sum"})
"""Operations that count twice where the upstream carries them out twice."""


class RelayStore:
    """A `spool.store.LaneStore` over a `RelayHome`, for one connection and one batch at a time."""

    def __init__(self, home: RelayHome, connection: str, *, clock: Clock, now_ms: Callable[[], int]) -> None:
        self._home = home
        self._connection = connection
        self._clock = clock
        self._now_ms = now_ms
        self._due = asyncio.Event()
        self.operation = ""
        """Of the batch that was frozen last."""
        self.partial_batch_id: str | None = None
        """Of the batch behind which the upstream lacks parts of the day."""
        self.lost_batch_id: str | None = None
        """Of the last part of a day, where the upstream lacks parts that it took before."""

    def look_now(self) -> None:
        """Something waits."""
        self._due.set()

    async def freeze(self, lane: Lane, *, max_records: int, max_bytes: int) -> Batch | None:
        """The connection's oldest drop that waits."""
        self._due.clear()
        with _as_spool_errors():
            found = await self._home.read(lambda kept: kept.next_waiting(self._connection))
        if found is None:
            return None
        self.operation = found.operation
        frozen_at = rfc3339_ms(found.accepted_at_ms)
        return Batch(found.drop_id, lane, found.generation, found.attempts, frozen_at, (found.body,))

    async def is_last(self, batch: Batch) -> bool:
        """Whether the upstream was sent every other part of its day."""
        with _as_spool_errors():
            return await self._home.read(lambda kept: kept.has_other_parts(batch.batch_id))

    async def ack(self, batch: Batch, refused: Sequence[Refusal] = ()) -> None:
        if refused:
            await self.bury(batch, refused[0].code, refused[0].message)
            return
        is_partial, now_ms = self.partial_batch_id == batch.batch_id, self._now_ms()
        with _as_spool_errors():
            await self._home.commit(lambda kept: kept.delivered(batch.batch_id, is_partial=is_partial, now_ms=now_ms))
        log.info("a relayed drop was delivered", lane=LANE, connection=self._connection, drop=batch.batch_id)

    async def release(self, batch: Batch, *, answered: bool) -> None:
        all_parts = self.lost_batch_id == batch.batch_id
        with _as_spool_errors():
            await self._home.commit(lambda kept: kept.give_back(batch.batch_id, answered=answered, all_parts=all_parts))
        self.lost_batch_id = None

    async def split(self, batch: Batch) -> None:
        """A drop is one record, which no pump splits."""
        raise AssertionError

    async def bury(self, batch: Batch, code: str, message: str) -> None:
        """Set the drop aside with the upstream's reason, for an operator."""
        why, now_ms = f"{code}: {message}", self._now_ms()
        with _as_spool_errors():
            given_up = await self._home.commit(lambda kept: kept.refuse(batch.batch_id, why, now_ms))
        log.warning(
            "a relayed drop was refused", lane=LANE, connection=self._connection, drop=batch.batch_id, code=code
        )
        if given_up:
            log.warning("refused drops are given up for room", lane=LANE, drops=given_up)

    async def wait_ready(self, lane: Lane, timeout_s: float) -> None:
        await self._clock.wait(self._due, timeout_s)


@contextmanager
def _as_spool_errors() -> Iterator[None]:
    try:
        yield
    except DatabaseUnavailable as error:
        raise SpoolError(str(error)) from error
