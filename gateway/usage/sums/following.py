"""Sums settled records by the hour: it reads the spool behind settling, off the path of every
response.

The spool itself is the journal: sums are written about once a minute, in one commit with the chunk
they reach through, and later records are read again after a kill. The spool keeps them until then,
also when they are delivered and old. So no record is summed twice, and none is missing but those
that expired, or that a crowded spool could not keep.
"""

import asyncio
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from typing import Final, Self

import structlog

from gateway.common.storage.database import Database
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.common.traceback_summary import places
from gateway.usage.sums.counters import UsageCounters, Values
from gateway.usage.sums.history import History, Usage
from gateway.usage.sums.rollups import add, make_rollup_tables, note_as_of, take_over
from gateway.usage.sums.table import make_usage_tables, read, through_no, write
from gateway.usage.sums.tally import ATTO, HOUR_MS, PICO, Key, Sums, Tally
from gateway.usage.sums.unused_names import drop_unused_names
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

    def __init__(self, spool: SettledReader, database: Database, now_ms: Callable[[], int]) -> None:
        self._spool = spool
        self._database = database
        self._now_ms = now_ms
        self._tally = Tally()
        self._through_seq = 0
        self._written_seq = 0
        self.as_of_ms: int | None = None
        """All calls whose outcome was final by then are counted; None before the first look."""
        self._turn = asyncio.Lock()
        self._counters = UsageCounters()
        self._stored_as_of_ms = now_ms()
        self._names_checked_hour = 0
        self.changes = 0
        """Increases when records were counted."""

    @classmethod
    async def open(cls, spool: SettledReader, database: Database, *, now_ms: Callable[[], int]) -> Self:
        """Continue after the position stored in *database*. Raises DatabaseUnavailable."""
        await make_usage_tables(database)
        await make_rollup_tables(database)
        await database.write(partial(take_over_history, now_ms=now_ms()))
        follower = cls(spool, database, now_ms)
        follower._through_seq = await database.read(partial(through_no, source=spool.gateway_id))
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
                await drop_unused_names(self._database)

    async def history(self, now_ms: int) -> History:
        """The hourly usage that is kept, and the models of the last 30 days. Raises
        DatabaseUnavailable.
        """
        return await self._database.read(partial(read, now_ms=now_ms))

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
            after_seq, asked_ms = self._through_seq, self._now_ms()
            page = await self._spool.settled_records(AI_TELEMETRY, after_seq, most_bytes=PAGE_BYTES)
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
                await self._store(Tally())

    async def _store(self, tally: Tally) -> None:
        """Store *tally*, and that everything counted so far is stored."""
        change = partial(
            store,
            tally=tally,
            source=self._spool.gateway_id,
            through_no=self._through_seq,
            now_ms=self._now_ms(),
            age_ms=self._spool.age_ms(),
            as_of_ms=self.as_of_ms,
        )
        writing = asyncio.ensure_future(self._database.write(change))
        try:
            await asyncio.shield(writing)
        finally:  # a cancelled caller must know whether the sums are stored, else they are added twice
            await asyncio.wait({writing})
            if writing.exception() is None:
                self._counters.add(self._tally.sums)
                self._tally, self._written_seq = Tally(), self._through_seq
                self._spool.keep_after(AI_TELEMETRY, self._written_seq)
                self._stored_as_of_ms = self.as_of_ms or self._stored_as_of_ms


def store(
    connection: sqlite3.Connection,
    tally: Tally,
    *,
    source: str,
    through_no: int,
    now_ms: int,
    age_ms: int,
    as_of_ms: int | None,
) -> None:
    """Add *tally*, which covers the spool *source* through that number, to all tables.

    Nothing is too old by *now_ms*, the wall clock, alone: by *age_ms*, the spool's, it has to be
    too.
    """
    earlier_ms, later_ms = sorted((now_ms, age_ms))
    write(connection, tally, source=source, through_no=through_no, now_ms=later_ms, kept_ms=earlier_ms)
    add(connection, tally.sums, now_hour=now_ms // HOUR_MS, kept_hour=earlier_ms // HOUR_MS)
    if as_of_ms is not None:
        note_as_of(connection, as_of_ms)


def take_over_history(connection: sqlite3.Connection, *, now_ms: int) -> None:
    """Begin with what an earlier release counted for the detectors."""
    take_over(connection, sums_of_history(read(connection, now_ms)), now_hour=now_ms // HOUR_MS)


def sums_of_history(history: History) -> dict[Key, Sums]:
    """What the detectors' hours hold, as sums; what they do not hold is unknown."""
    sums: dict[Key, Sums] = {}
    for usage in history.usage:  # no two have the same names
        names = (usage.provider, usage.model, usage.team, "", "", "", usage.service_name, "", "", "")
        key = Key(usage.hour, *names, usage.currency, usage.cost_source)
        sums[key] = _sums_of(usage)
    return sums


def _sums_of(usage: Usage) -> Sums:
    return [
        usage.calls,
        usage.failed_calls,
        usage.calls_without_usage,
        usage.calls_without_usage,
        0 if usage.currency else usage.calls,
        usage.calls_without_price,
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens if usage.cacheable_tokens else None,
        None,
        None,
        usage.cacheable_tokens or None,
        usage.cache_read_tokens if usage.cacheable_tokens else None,
        usage.cost_pico * (ATTO // PICO),
    ]
