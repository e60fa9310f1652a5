"""What the lane of billing drops has to send: the parts of one day after the other.

A day is frozen before its first part is sent: after a kill the same bytes go out under the same
ids, and the upstream knows what it has. Every DatabaseUnavailable leaves as SpoolError, so the pump
tries again.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import structlog

from exporters.clock import Clock
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.usage.billing.book import BillingBook
from gateway.usage.billing.content import DayContent, bodies, day_text
from gateway.usage.billing.home import Part
from spool.clock import rfc3339_ms, uuid7
from spool.errors import SpoolError
from spool.record import Batch, Lane
from spool.store import Refusal

log = structlog.get_logger()

LANE: Final = "billing"
SMALLEST_BYTES: Final = 256 * 1024
"""A body that is no longer is not made smaller."""


class BillingLaneStore:
    """A `spool.store.LaneStore` over a `BillingHome`, for one batch at a time."""

    def __init__(self, book: BillingBook, *, clock: Clock, count: Callable[[], Awaitable[None]]) -> None:
        """*count* brings the sums of usage up to date."""
        self._book = book
        self._clock = clock
        self._count = count
        self._look_at_s = float("-inf")
        self._due = asyncio.Event()
        self.incomplete_batch_id: str | None = None
        """Of the batch to which the upstream answered that it lacks other parts of the day."""

    @property
    def _target(self) -> str:
        return self._book.settings.target

    def look_now(self) -> None:
        """Something may have become due."""
        self._look_at_s = float("-inf")
        self._due.set()

    async def freeze(self, lane: Lane, *, max_records: int, max_bytes: int) -> Batch | None:
        """The next part of the day under way, or the first of the next day that is due."""
        with _as_spool_errors():
            part = await self._next_part()
            if part is None and self._look_at_s <= self._clock.monotonic_s():
                self._due.clear()
                await self._count()
                if await self._freeze_day(max_bytes):
                    part = await self._next_part()
                elif not self._due.is_set():  # by `look_now` since the look began
                    self._look_at_s = self._clock.monotonic_s() + self._book.settings.every_s
        return None if part is None else _batch(part, lane)

    async def _next_part(self) -> Part | None:
        return await self._book.home.read(lambda kept: kept.next_part(self._target))

    async def _freeze_day(self, max_bytes: int) -> bool:
        """Put the oldest day that is due under way; False where none is."""
        home, last_hour = self._book.home, await self._book.last_closed_hour()
        while True:
            hour = await home.read(lambda kept: kept.due_day(self._target, last_hour))
            if hour is None:
                return False
            content = await self._book.content(hour)
            if await self._dropped(hour) == content.digest:
                await self._note_unchanged(content)
                continue
            await self._freeze_content(content, max_bytes)
            if content.other_currencies:
                others = list(content.other_currencies)
                log.warning(
                    "costs in no currency are left out of a day", lane=LANE, day=content.text, currencies=others
                )
            return True

    async def _dropped(self, hour: int) -> str | None:
        return await self._book.home.read(lambda kept: kept.dropped_content(self._target, hour))

    async def _note_unchanged(self, day: DayContent) -> None:
        await self._book.home.commit(lambda kept: kept.note_unchanged(self._target, day.hour, day.usage_revision))

    async def _freeze_content(self, day: DayContent, max_bytes: int) -> None:
        now_ms, source = self._book.now_ms(), self._book.source
        manifest = day.manifest(source)
        requests = [(uuid7(now_ms, secrets.token_bytes(10)), body) for body in bodies(day, source, max_bytes)]
        frozen_at = rfc3339_ms(now_ms)
        await self._book.home.commit(
            lambda kept: kept.freeze(self._target, day.hour, day.usage_revision, manifest, requests, frozen_at)
        )

    async def is_last(self, batch: Batch) -> bool:
        """Whether the upstream took every other part of its day."""
        with _as_spool_errors():
            waiting = await self._book.home.read(lambda kept: kept.waiting_parts(self._target))
        return waiting == [batch.batch_id]

    async def ack(self, batch: Batch, refused: Sequence[Refusal] = ()) -> None:
        """Note that the upstream has the part; with the last one, the day is in force."""
        if refused:
            await self.bury(batch, refused[0].code, refused[0].message)
            return
        with _as_spool_errors():
            now_ms = self._book.now_ms()
            manifest = await self._book.home.commit(lambda kept: kept.take(self._target, batch.batch_id, now_ms=now_ms))
        if manifest is not None:
            log.info("a day was dropped", lane=LANE, day=manifest["day"], rows=manifest["row_count"])

    async def release(self, batch: Batch, *, answered: bool) -> None:
        all_parts = self.incomplete_batch_id == batch.batch_id
        with _as_spool_errors():
            await self._book.home.commit(
                lambda kept: kept.give_back(self._target, batch.batch_id, answered=answered, all_parts=all_parts)
            )
        self.incomplete_batch_id = None

    async def split(self, batch: Batch) -> None:
        """Discard the parts: the day is frozen again, in smaller ones."""
        with _as_spool_errors():
            await self._book.home.commit(lambda kept: kept.discard(self._target))
        self.look_now()

    async def bury(self, batch: Batch, code: str, message: str) -> None:
        """Note the day as refused, until usage is added to it or a command asks for it."""
        if code == "too_large" and len(batch.records[0]) > SMALLEST_BYTES:
            await self.split(batch)
            return
        with _as_spool_errors():
            part = await self._next_part()
            why = f"{code}: {message}"
            await self._book.home.commit(lambda kept: kept.refuse(self._target, why))
        day = None if part is None else day_text(part.hour)
        log.warning("a day was refused by the billing connection", lane=LANE, day=day, code=code)
        self.look_now()

    async def wait_ready(self, lane: Lane, timeout_s: float) -> None:
        await self._clock.wait(self._due, timeout_s)


def _batch(part: Part, lane: Lane) -> Batch:
    return Batch(part.batch_id, lane, part.generation, part.attempts, part.frozen_at, (part.body,))


@contextmanager
def _as_spool_errors() -> Iterator[None]:
    try:
        yield
    except DatabaseUnavailable as error:
        raise SpoolError(str(error)) from error
