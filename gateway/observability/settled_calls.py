"""Search of settled calls in the spool, the newest first, from any place on in either direction.

A search reads so many bytes and no more. So a page may hold fewer calls than its limit, or none,
while more are kept: its end states where to go on.
"""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from gateway.observability.tap import Filters, Line, line_of, passes
from spool.record import AI_TELEMETRY, Lane
from spool.settling import Outcomes

READ_BYTES: Final = 256 << 10
SEARCH_BYTES: Final = 8 << 20
"""Of records that one search reads."""
COUNT_BYTES: Final = 2 << 20
"""Of them, those that it reads only to count the calls after its page."""
EVERY_CHUNK: Final = 2**62


class CallReader(Protocol):
    """The part of `SettledReader` that is searched."""

    async def settled_seq(self, lane: Lane) -> int:
        """The last settled chunk."""

    async def settled_outcomes(self, lane: Lane, after_seq: int, *, max_bytes: int, max_behind: int) -> Outcomes: ...

    async def outcomes_before(self, lane: Lane, before_seq: int, *, max_bytes: int) -> Outcomes: ...


class Place(NamedTuple):
    """A place between two calls that pass the filters."""

    before_seq: int
    """Older calls are in chunks before this one ..."""
    passed_over: int
    """... after so many calls."""
    newer: int
    """Calls between the newest one of the list and the place."""


class Found(NamedTuple):
    lines: list[Line]
    """The newest first."""
    start: Place
    end: Place | None
    """None: no older call is kept."""
    total: int | None
    """Calls of the list; None where the search ended before it had read them all."""


class _Read(NamedTuple):
    lines: list[Line]
    through_seq: int
    is_more: bool


class Search:
    """One search. Its methods raise SpoolError."""

    def __init__(self, spool: CallReader, filters: Filters) -> None:
        self._spool = spool
        self._filters = filters
        self._left_bytes = SEARCH_BYTES

    async def newest(self, limit: int) -> Found:
        return await self.older(Place(await self._spool.settled_seq(AI_TELEMETRY) + 1, 0, 0), limit)

    async def older(self, start: Place, limit: int) -> Found:
        """Up to *limit* calls after *start*."""
        lines, end = await self._older_lines(start, limit)
        return await self._counted(lines, start, end)

    async def newer(self, end: Place, limit: int) -> Found:
        """Up to *limit* calls just before *end*."""
        lines, start = await self._newer_lines(end, min(limit, end.newer))
        return await self._counted(lines, start, end)

    async def _older_lines(self, start: Place, limit: int) -> tuple[list[Line], Place | None]:
        lines: list[Line] = []
        before_seq, passed_over, newer = start
        while True:
            read = await self._read_older(before_seq)
            passing = read.lines[passed_over:]
            room = limit - len(lines)
            lines += passing[:room]
            if len(passing) > room:
                return lines, Place(before_seq, passed_over + room, newer + len(lines))
            if not read.is_more:
                return lines, None
            before_seq, passed_over = read.through_seq, max(0, passed_over - len(read.lines))
            if self._left_bytes <= 0:
                return lines, Place(before_seq, passed_over, newer + len(lines))

    async def _newer_lines(self, end: Place, wanted: int) -> tuple[list[Line], Place]:
        """*wanted* of them; fewer where the bytes are spent, or calls are no longer kept."""
        lines, n = await self._passed_over(end, wanted)
        if n >= wanted:
            return lines, Place(end.before_seq, n - wanted, end.newer - wanted)
        after_seq = end.before_seq - 1
        while self._left_bytes > 0:
            read = await self._read_newer(after_seq)
            room = wanted - len(lines)
            lines = [*reversed(read.lines[:room]), *lines]
            after_seq = read.through_seq
            if len(read.lines) >= room:
                return lines, Place(after_seq + 1, len(read.lines) - room, end.newer - len(lines))
            if not read.is_more:
                return lines, Place(after_seq + 1, 0, 0)
        return lines, Place(after_seq + 1, 0, end.newer - len(lines))

    async def _passed_over(self, end: Place, wanted: int) -> tuple[list[Line], int]:
        """The oldest calls that *end* passes over, *wanted* at most, and their number in all."""
        lines: list[Line] = []
        n, before_seq = 0, end.before_seq
        while n < end.passed_over and self._left_bytes > 0:
            read = await self._read_older(before_seq)
            passing = read.lines[: end.passed_over - n]
            n += len(passing)
            lines = [*lines, *passing][max(0, len(lines) + len(passing) - wanted) :]
            before_seq = read.through_seq
            if not read.is_more:
                break
        return lines, n

    async def _counted(self, lines: list[Line], start: Place, end: Place | None) -> Found:
        if end is None:
            return Found(lines, start, None, start.newer + len(lines))
        older = await self._count(end)
        if older is None:
            return Found(lines, start, end, None)
        return Found(lines, start, end if older else None, end.newer + older)

    async def _count(self, start: Place) -> int | None:
        """How many calls are after *start*; None where the bytes end before the calls."""
        self._left_bytes = min(self._left_bytes, COUNT_BYTES)
        n, before_seq = -start.passed_over, start.before_seq
        while self._left_bytes > 0:
            read = await self._read_older(before_seq)
            n += len(read.lines)
            if not read.is_more:
                return max(0, n)
            before_seq = read.through_seq
        return None

    async def _read_older(self, before_seq: int) -> _Read:
        page = await self._spool.outcomes_before(AI_TELEMETRY, before_seq, max_bytes=READ_BYTES)
        return await self._read(page.items, page.through_seq, is_more=page.is_more)

    async def _read_newer(self, after_seq: int) -> _Read:
        """The oldest first."""
        page = await self._spool.settled_outcomes(AI_TELEMETRY, after_seq, max_bytes=READ_BYTES, max_behind=EVERY_CHUNK)
        return await self._read(page.items, page.through_seq, is_more=page.is_more)

    async def _read(self, items: list[tuple[str, bytes]], through_seq: int, *, is_more: bool) -> _Read:
        self._left_bytes -= sum(len(record) for _, record in items)
        read = _Read(list(_passing(items, self._filters)), through_seq, is_more)
        await asyncio.sleep(0)
        return read


def _passing(items: Iterable[tuple[str, bytes]], filters: Filters) -> Iterator[Line]:
    for outcome, record in items:
        line = line_of(outcome, record)
        if line is not None and passes(line, filters):
            yield line
