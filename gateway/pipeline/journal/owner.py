"""The owner of a cell: takes what edges kept in the journal, and counts it.

A row leaves the journal in the commit that has its calls, so that none is counted twice or left
out. Only a payload that needs several commits (of metrics, of more than 500 calls, of stated
traces) is on disk before its row leaves: after a kill between the two it is read again, and its
items are duplicates.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from itertools import takewhile
from typing import Any, Final, NamedTuple, Protocol

import structlog

from gateway.common.contract.journal import JournalStore, Row, Transaction
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.common.traceback_summary import places
from gateway.fleet.senders.activity import Senders
from gateway.fleet.senders.noting import SenderNotes
from gateway.pipeline.front import Front
from gateway.pipeline.journal.form import FORMS, Entry, JournalCorrupt
from gateway.pipeline.journal.waiting import Progress
from gateway.pipeline.parsing.parse import Parsed
from gateway.rules.context import Context
from spool.errors import SpoolError

log = structlog.get_logger()

POLL_S: Final = 0.05
"""How often an empty journal is asked."""
FIRST_S: Final = 0.5
"""How often the journal is read from its first row, for what committed late."""
RETRY_S: Final = 1.0
TRIES: Final = 3
PASSED_OVER_S: Final = 600.0
"""For how long a row is passed over that fails alone, while others do not."""
MAX_ROWS: Final = 128
MAX_BYTES: Final = 1 << 20
"""Of rows that are counted at once, as they are stored; one row may be larger."""
LARGE_BYTES: Final = 64 << 10
"""A larger row is read in a thread."""
START: Final = (0, 0)
"""Before every row."""


class OwnerSpool(Protocol):
    """The owner's spool, in the database of the journal."""

    def reserve(self) -> AbstractContextManager[object]:
        """What is appended and asked while it is held is in one commit."""

    def ask_with_appends(self, operation: Callable[[Any, Any], Any]) -> Awaitable[Any]:
        """Run *operation*(connection, counters) in the commit of what was appended in the same
        `reserve`. Raises SpoolError, with nothing of it done, also where an append was lost.
        """


class _Admitted(NamedTuple):
    kind: str
    parsed: Parsed
    context: Context
    payloads: int


class JournalReader:
    """`run` it while this process owns the cell."""

    def __init__(self, journal: JournalStore, front: Front, spool: OwnerSpool, senders: Senders) -> None:
        self._journal, self._front, self._spool, self._senders = journal, front, spool, senders
        self._after = START
        """What was read last. All before it left the journal, but for what committed late."""
        self._next_first_s = 0.0
        """When the journal is read from its first row again, by `time.monotonic`."""
        self._one_by_one = 0
        """How many rows are yet taken alone, since some failed together."""
        self._failed = (START, 0)
        """The row that failed last, and how often in a row."""
        self._passed_over: dict[tuple[int, int], float] = {}
        """Until when, by `time.monotonic`."""
        self.rows = 0
        self.payloads = 0
        """Counted since the start."""
        self.progress = Progress()
        """Behind while more waits than is counted at once, and while nothing can be counted."""
        self.newer_form: int | None = None
        """Of a row that only a newer release reads; None where none was met."""

    async def run(self) -> None:
        while True:
            try:
                if not await self.take_page():
                    await asyncio.sleep(POLL_S)
            except (SpoolError, DatabaseUnavailable) as error:
                self.progress.note(0, is_behind=True)
                self._after = START
                log.warning("the journal could not be counted; it is tried again", error=str(error))
                await asyncio.sleep(RETRY_S)
            except Exception as error:  # noqa: BLE001 were this task to end, nothing would ever be counted again
                self.progress.note(0, is_behind=True)
                self._after = START
                log.error("unforeseen error", error=type(error).__name__, at=places(error))  # noqa: TRY400 - its text may quote a payload
                await asyncio.sleep(RETRY_S)

    async def take_page(self) -> int:
        """Count the next rows; how many they were. Raises SpoolError, DatabaseUnavailable."""
        if (now_s := time.monotonic()) >= self._next_first_s:
            self._after, self._next_first_s = START, now_s + FIRST_S
        max_rows = 1 if self._one_by_one else MAX_ROWS
        found = await self._journal.read(self._after, max_rows=max_rows, max_bytes=MAX_BYTES)
        rows: Sequence[Row] = [row for row in found if self._passed_over.get(row.place, 0.0) <= now_s]
        if rows:
            rows = self._known(rows)
            await self._take_or_pass_over(rows)
        if found:
            self._after = (rows or found)[-1].place
        self.progress.note(sum(row.size_bytes for row in rows), is_behind=is_full(found))
        return len(found)

    async def _take_or_pass_over(self, rows: Sequence[Row]) -> None:
        """Count *rows*. Those of a page that failed for no foreseen reason are taken one by one;
        the one that fails alone stays in the journal and is passed over for a while; others go on.
        """
        try:
            await self._take(rows)
        except (SpoolError, DatabaseUnavailable):
            raise
        except Exception:
            self._one_by_one = MAX_ROWS
            if len(rows) == 1:
                self._pass_over_if_tried(rows[0].place)
            raise
        self._one_by_one = max(0, self._one_by_one - len(rows))
        for row in rows:
            self._passed_over.pop(row.place, None)

    def _pass_over_if_tried(self, place: tuple[int, int]) -> None:
        self._failed = (place, self._failed[1] + 1 if self._failed[0] == place else 1)
        if self._failed[1] >= TRIES:
            self._passed_over[place] = time.monotonic() + PASSED_OVER_S
            log.error("a row of the journal cannot be counted; it stays, and others go on", place=place)

    def _known(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Those before the first of a newer release, which is read again and again until this
        gateway is upgraded. Raises SpoolError where that is the first.
        """
        known = list(takewhile(lambda row: row.form in FORMS, rows))
        if not known:
            self.newer_form = rows[0].form
            raise SpoolError("a row of the journal is of a newer release: upgrade this gateway")
        return known

    async def _take(self, rows: Sequence[Row]) -> None:
        at_once: list[_Admitted] = []
        noted: list[SenderNotes] = []
        damaged: list[Row] = []
        for row in rows:
            try:
                entries, notes = await _read(row)
            except JournalCorrupt:
                log.error("a row of the journal is damaged; it is set aside", place=row.place)  # noqa: TRY400 - the row is at fault
                damaged.append(row)
                continue
            noted.append(notes)
            for entry in entries:
                await self._admit(entry, at_once)
        await self._commit(rows, at_once, damaged)
        for notes in noted:
            notes.put_into(self._senders)

    async def _admit(self, entry: Entry, at_once: list[_Admitted]) -> None:
        """Put *entry* among those that go *at_once*, or count it here where that takes several
        commits.
        """
        front, context = self._front, entry.sent_by.context(self._front.base)
        parsed = await front.admitted(entry.parsed, context)
        admitted = _Admitted(entry.kind, parsed, context, entry.payloads)
        calls = parsed.calls
        if calls is not None and parsed.points is None and not parsed.names_traces and front.core.takes_at_once(calls):
            at_once.append(admitted)
        else:
            await front.core.take(entry.kind, parsed, context)
        self.payloads += entry.payloads

    async def _commit(self, rows: Sequence[Row], at_once: Sequence[_Admitted], damaged: Sequence[Row]) -> None:
        core, journal = self._front.core, self._journal
        places_ = [row.place for row in rows]

        def leave(connection: Transaction, _: object) -> None:
            journal.setting_aside([row.place for row in damaged])(connection)
            journal.dropping(places_)(connection)

        waiting: list[Awaitable[object]] = []
        with self._spool.reserve():
            for each in at_once:
                assert each.parsed.calls is not None  # noqa: S101 - `_admit` looked
                waiting.append(core.take_at_once(each.parsed.calls, each.context, each.payloads).kept)
            waiting.append(self._spool.ask_with_appends(leave))
        for error in await asyncio.gather(*waiting, return_exceptions=True):
            if error is not None and isinstance(error, BaseException):
                raise error
        self.rows += len(rows)


async def _read(row: Row) -> tuple[list[Entry], SenderNotes]:
    if row.body is None:
        raise JournalCorrupt
    read = FORMS[row.form].read
    if len(row.body) > LARGE_BYTES:
        return await asyncio.to_thread(read, row.body)
    return read(row.body)


def is_full(rows: Sequence[Row]) -> bool:
    """Whether *rows* are as many as are counted at once, so that more may wait."""
    return len(rows) == MAX_ROWS or sum(row.size_bytes for row in rows) > MAX_BYTES // 2
