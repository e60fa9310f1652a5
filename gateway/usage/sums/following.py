"""Sums settled records by the hour: it reads the spool behind settling, off the path of every
response.

The spool itself is the journal: sums are written about once a minute, in one commit with the chunk
they reach through, and later records are read again after a kill. The spool keeps them until then,
also when they are delivered and old. So no record is summed twice, and none is missing but those
that expired, or that a crowded spool could not keep.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Self

import structlog

from gateway.common.storage.errors import DatabaseUnavailable
from gateway.common.traceback_summary import places
from gateway.usage.sums.counters import UsageCounters, Values
from gateway.usage.sums.history import History
from gateway.usage.sums.home import Counted, SumHome
from gateway.usage.sums.tally import HOUR_MS, Tally
from spool.record import AI_TELEMETRY
from spool.store import SettledReader

log = structlog.get_logger()

LOOK_S: Final = 1.0
WRITE_S: Final = 60.0
PAGE_BYTES: Final = 64 * 1024
"""Read and counted at a time: a third of a millisecond of the loop, in Python."""
SHARE: Final = 0.05
"""Of the loop's time, at 4 µs a record, half of it for the JSON, and 1 µs with the extension: a
gateway at its limit counts later, from disk.
"""
WRITE_SHARE: Final = 0.2
"""Of the time, for writes of traffic whose every call is a series of its own."""
MAX_UNWRITTEN: Final = 1_000
"""Series in memory; beyond it they are written at once."""
CATCH_UP_S: Final = 0.5
"""How long a request for insights waits for records that are not counted yet."""


class UsageFollower:
    """Make with `open`; `run` until cancelled, then `close`."""

    def __init__(
        self, spool: SettledReader, sums: SumHome, now_ms: Callable[[], int], tags: Sequence[str] = ()
    ) -> None:
        self._spool = spool
        self._sums = sums
        self._now_ms = now_ms
        self._new_tally = partial(Tally, tags=tags)
        self._tally = self._new_tally()
        self._through_seq = 0
        self._written_seq = 0
        self._is_unsure = False
        """Whether the sums that were counted by now may be stored, though nobody knows of it."""
        self._storing: asyncio.Future[None] | None = None
        """The last commit, which a caller that was cancelled twice leaves under way."""
        self.as_of_ms: int | None = None
        """All calls whose outcome was final by then are counted; None before the first look."""
        self._turn = asyncio.Lock()
        self._counters = UsageCounters()
        self._stored_as_of_ms = now_ms()
        self._names_checked_hour = 0
        self.changes = 0
        """Increases when records were counted."""

    @classmethod
    async def open(
        cls, spool: SettledReader, sums: SumHome, *, now_ms: Callable[[], int], tags: Sequence[str] = ()
    ) -> Self:
        """Continue after the position stored in *sums*; *tags* distinguish series. Raises
        DatabaseUnavailable.
        """
        await sums.begin(now_ms(), tags)
        follower = cls(spool, sums, now_ms, tags)
        follower._through_seq = await sums.counted_through(spool.gateway_id)
        follower._written_seq = follower._through_seq
        spool.keep_after(AI_TELEMETRY, follower._written_seq)
        return follower

    def earlier_ms(self) -> int:
        """The earlier of the wall clock and the spool's: what is old by it is old, whatever the
        wall clock jumped.
        """
        return min(self._now_ms(), self._spool.age_ms())

    def counters(self) -> Values:
        """What was counted since the start, as of now."""
        return self._counters.values(self._tally.sums)

    def age_s(self) -> float:
        """How old the stored sums are: seconds since every final call was in them."""
        return max(0.0, (self._now_ms() - self._stored_as_of_ms) / 1000)

    async def run(self) -> None:
        """Count settled records until cancelled."""
        written_s = time.monotonic()
        while True:
            try:
                is_more = await self._count_page()
                if time.monotonic() - written_s > WRITE_S or len(self._tally) > MAX_UNWRITTEN:
                    written_s = time.monotonic()
                    await self.write()
                    wrote_s = time.monotonic() - written_s
                    await asyncio.sleep(min(wrote_s * (1 / WRITE_SHARE - 1), WRITE_S))
                    await self._drop_unused_names()
            except Exception as error:  # noqa: BLE001 - the next round repeats the work
                log.warning(
                    "usage was not counted; the next round retries", error=type(error).__name__, at=places(error)
                )
                is_more = False
            if not is_more:
                await asyncio.sleep(LOOK_S)

    async def _drop_unused_names(self) -> None:
        """Once an hour, while nothing is counted. Raises DatabaseUnavailable."""
        hour = self._now_ms() // HOUR_MS
        if hour != self._names_checked_hour:
            self._names_checked_hour = hour
            async with self._turn:
                await self._sums.drop_unused_names()

    async def history(self, now_ms: int) -> History:
        """The hourly usage that is kept, and the models of the last 30 days. Raises
        DatabaseUnavailable.
        """
        return await self._sums.history(now_ms)

    async def catch_up(self) -> None:
        """Count the records settled so far, for at most `CATCH_UP_S`. Raises SpoolError."""
        ends_s = time.monotonic() + CATCH_UP_S
        while await self._count_page() and time.monotonic() < ends_s:
            pass

    async def _count_page(self) -> bool:
        """Count the next page; return whether more follow. Uses at most `SHARE` of the loop's
        time.
        """
        async with self._turn:
            await self._make_sure()
            after_seq, asked_ms = self._through_seq, self._now_ms()
            page = await self._spool.settled_records(AI_TELEMETRY, after_seq, max_bytes=PAGE_BYTES)
            began_s = time.perf_counter()
            if page.records:
                self._tally.add(page.records, now_ms=max(self._now_ms(), self._spool.age_ms()))
                self.changes += 1
            self._through_seq = page.through_seq
            if not page.is_more:
                self.as_of_ms = asked_ms
                if self._through_seq == self._written_seq:
                    self._stored_as_of_ms = asked_ms
            took_s = time.perf_counter() - began_s
        if page.is_more:
            await asyncio.sleep(took_s * (1 / SHARE - 1))
        return page.is_more

    async def write(self) -> None:
        """Store the counted sums. Raises DatabaseUnavailable; the sums are then kept for the next
        call.
        """
        async with self._turn:
            await self._make_sure()
            if self._through_seq == self._written_seq:
                return
            try:
                await self._store(self._tally)
            except DatabaseUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, later calls have to be counted
                log.error(  # noqa: TRY400 - the error's text may quote a name
                    "sums of usage cannot be stored, and are left out",
                    always=True,
                    series=len(self._tally.sums),
                    error=type(error).__name__,
                    at=places(error),
                )
                await self._store(self._new_tally())

    async def _store(self, tally: Tally) -> None:
        """Store *tally*, and that everything counted so far is stored."""
        counted = Counted(
            tally=tally,
            source=self._spool.gateway_id,
            through_no=self._through_seq,
            as_of_ms=self.as_of_ms,
            now_ms=self._now_ms(),
            age_ms=self._spool.age_ms(),
        )
        self._is_unsure = True  # until it is over; whoever waits for it may be cancelled twice
        self._storing = writing = asyncio.ensure_future(self._sums.store(counted))
        try:
            await asyncio.shield(writing)
        finally:  # a cancelled caller must know whether the sums are stored, else they are added twice
            await asyncio.wait({writing})
            if writing.exception() is None:
                self._note_stored()

    def _note_stored(self) -> None:
        self._is_unsure = False
        self._counters.add(self._tally.sums)
        self._tally, self._written_seq = self._new_tally(), self._through_seq
        self._spool.keep_after(AI_TELEMETRY, self._written_seq)
        self._stored_as_of_ms = self.as_of_ms or self._stored_as_of_ms

    async def _make_sure(self) -> None:
        """After a commit of unknown outcome, before anything else is counted: whether it was kept.
        Raises DatabaseUnavailable.
        """
        if self._is_unsure:
            if self._storing is not None:
                await asyncio.wait({self._storing})
            if await self._sums.counted_through(self._spool.gateway_id) == self._through_seq:
                self._note_stored()
            self._is_unsure = False
