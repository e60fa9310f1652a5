"""An edge of a cell: what a front read, priced and admitted goes into the journal, and is answered
when that is durable. The owner of the cell counts it.

Payloads that come within a few milliseconds share a row, and so a commit. Several commits may be on
their way at once: the order of the journal is that of commits, and counting does not depend on the
order of payloads.
"""

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final, TypeVar

import structlog

from gateway.common.contract.journal import JournalStore
from gateway.common.contract.parsed_payload import ParsedPayload
from gateway.common.futures import failure_of
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.fleet.senders.noting import NotingSenders
from gateway.observability.telemetry.tracer import Tracer
from gateway.pipeline.core import PIECE_CALLS, Counting, Kept
from gateway.pipeline.journal.form import FORMS, OLDEST, Entry, SentBy
from gateway.pipeline.journal.waiting import RETRY_AFTER_S, Waiting
from gateway.pipeline.journal.waiting_senders import WaitingSenders
from gateway.pipeline.parsing.parse import Parsed
from gateway.rules.context import Context
from gateway.rules.metrics import sender_of
from spool.errors import SpoolError, SpoolFull
from spool.histogram import ANSWER_S, Histogram

log = structlog.get_logger()

Refusal = TypeVar("Refusal", bound=SpoolError)

GATHER_S: Final = 0.002
"""How long the first payload of a row waits for others."""
MAX_COMMITS: Final = 4
"""On their way at once: further payloads gather."""
MAX_WAITING_BYTES: Final = 256 << 20
"""Of payloads in memory that wait for a commit."""
UNANSWERED_S: Final = 5.0
"""After so long without an answer to a commit, as while the standbys are gone, its senders are
asked to come again, and others are not taken before one is answered."""
MEASURE_S: Final = 1.0
NOTES_S: Final = 1.0
"""How often it is written what senders were seen to do, where nothing else is."""

_Waiting = tuple[Entry, "asyncio.Future[object]", int]
"""A payload, what is resolved when it is durable, and its size."""


class Edge:
    """What a `Front` gives its payloads to. Used on the event loop's thread."""

    tracer: Tracer | None = None
    """The owner follows what is sampled; here nothing is."""

    def __init__(
        self,
        journal: JournalStore,
        senders: NotingSenders,
        *,
        max_bytes: int,
        waiting: Waiting | None = None,
        waiting_senders: WaitingSenders | None = None,
        form: Callable[[], int] = lambda: OLDEST,
        unanswered_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """*max_bytes*: of the journal, and so of what waits for an owner; without *waiting_senders*
        none is refused for its metrics; *form*: of the rows that
        all gateways of the cell read now; *unanswered_s*: for how long another commit of this
        gateway has waited, also while no sender comes.
        """
        self._journal, self._senders, self._max_bytes = journal, senders, max_bytes
        self._waiting, self._form, self._unanswered_s = waiting or Waiting(), form, unanswered_s
        self._waiting_senders = waiting_senders
        self._room_bytes = max_bytes
        self._gathered: list[_Waiting] = []
        self.waiting_bytes = 0
        """About, of payloads in memory."""
        self._commits: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._fault: str | None = "the journal was not asked yet"
        self._answered_s = 0.0
        """When a commit was answered last, by the loop's clock."""
        self._is_unanswered = False
        self._is_said = False
        """Whether the log has it."""
        self.append_seconds = Histogram(ANSWER_S)
        """As `Core` has it."""

    # ---- what a front asks

    def admit(self, size: int) -> None:
        """As `IntakeStore` has it."""
        self.refuse_if_unwritten()
        beyond_bytes = self.journal_bytes + size - self._room_bytes
        if beyond_bytes > 0:
            raise self._full(beyond_bytes)
        if self.waiting_bytes + size > MAX_WAITING_BYTES:
            raise _retried(SpoolFull("too much waits for a commit of the journal"))

    def refuse_if_unwritten(self) -> None:
        """Raises SpoolError while the database takes nothing."""
        if self.fault is not None:
            raise _unwritten()

    def _full(self, beyond_bytes: int) -> SpoolFull:
        slow = self._room_bytes < self._max_bytes
        why = "more than its owner counts in ten minutes" if slow else "as much as spool.max_bytes allows"
        return _retried(SpoolFull(f"the journal of the cell holds {why}"), self._waiting.retry_after_s(beyond_bytes))

    def admit_metrics(self, context: Context) -> None:
        """Raises OverQuota for a sender that the owner lets wait."""
        if self._waiting_senders is not None:
            self._waiting_senders.admit(sender_of(context))

    async def take(self, kind: str, parsed: Parsed, context: Context) -> Kept:
        """Durable when this returns. Raises SpoolError."""
        began_s = perf_counter()
        await self._add(Entry(kind, parsed, SentBy.of(context)))
        self.append_seconds.observe(perf_counter() - began_s)
        return Kept(parsed, ())

    def takes_at_once(self, calls: ParsedPayload) -> bool:
        return len(calls.records) <= PIECE_CALLS

    def take_at_once(self, calls: ParsedPayload, context: Context, payloads: int) -> Counting:
        """`take` of *payloads* that were read together. Raises SpoolError."""
        began_s = perf_counter()
        kept: asyncio.Future[object] = self._add(Entry("traces", Parsed(calls), SentBy.of(context), payloads))

        def note(done: "asyncio.Future[object]") -> None:
            if failure_of(done) is None:
                self.append_seconds.observe(perf_counter() - began_s, payloads)

        kept.add_done_callback(note)
        return Counting(kept, ())

    # ---- rows

    def _add(self, entry: Entry) -> "asyncio.Future[object]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[object] = loop.create_future()
        size = _size_of(entry.parsed)
        self._gathered.append((entry, future, size))
        self.waiting_bytes += size
        if self._timer is None and len(self._commits) < MAX_COMMITS:
            self._timer = loop.call_later(GATHER_S, self._commit_gathered)
        return future

    def _commit_gathered(self) -> None:
        self._timer = None
        gathered, self._gathered = self._gathered, []
        task = asyncio.create_task(self._commit(gathered), name="commit to the journal")
        self._commits.add(task)
        task.add_done_callback(self._committed)

    def _committed(self, task: "asyncio.Task[None]") -> None:
        self._commits.discard(task)
        if self._gathered and self._timer is None:
            self._commit_gathered()

    async def _commit(self, gathered: Sequence[_Waiting]) -> None:
        error: SpoolError | None = None
        payloads = sum(entry.payloads for entry, _, _ in gathered)
        overdue = asyncio.get_running_loop().call_later(UNANSWERED_S, self._note_unanswered, gathered)
        try:
            form, notes = self._form(), self._senders.take()
            body = FORMS[form].write([entry for entry, _, _ in gathered], notes)
            await self._journal.keep(form, body, payloads)
            self._note_answered(None)
        except DatabaseUnavailable as fault:
            self._note_answered(str(fault))
            error = _unwritten()
        except BaseException as fault:
            error = _retried(SpoolError("the journal of the cell was not written"))
            error.__cause__ = fault
            raise
        finally:
            overdue.cancel()
            self.waiting_bytes -= sum(size for _, _, size in gathered)
            _end(gathered, error)

    def _note_unanswered(self, overdue: Sequence[_Waiting]) -> None:
        """Nobody knows what becomes of the payloads that are *overdue*: their senders send them
        again, and they are counted once. Those that wait for a commit to begin are dropped, where
        no other commit was answered meanwhile.
        """
        _end(overdue, _unwritten())
        if asyncio.get_running_loop().time() - self._answered_s < UNANSWERED_S:
            return
        self._is_unanswered = True
        self._say()
        dropped, self._gathered = self._gathered, []
        self.waiting_bytes -= sum(size for _, _, size in dropped)
        _end(dropped, _unwritten())

    def _note_answered(self, fault: str | None) -> None:
        """A commit ended, by that *fault* where it failed."""
        self._answered_s, self._is_unanswered = asyncio.get_running_loop().time(), False
        self._note(fault)

    async def run(self) -> None:
        """Measure the journal, and write what is noted of senders, until cancelled."""
        while True:
            await self.measure()
            await asyncio.sleep(MEASURE_S)

    async def measure(self) -> None:
        """Ask the journal how much waits there. Before the first answer, and while it gives none,
        nothing is taken.
        """
        try:
            waiting = self._waiting
            waiting.journal_bytes = await self._journal.waiting_bytes()
            self._room_bytes = waiting.room_bytes(self._max_bytes)
            self._note(None)
            if not self._gathered:
                await self._write_notes()
        except DatabaseUnavailable as fault:
            self._note(str(fault))

    def _note(self, fault: str | None) -> None:
        self._fault = fault
        self._say()

    def _say(self) -> None:
        """The log and `/readyz` say why; a sender is not told where the database is."""
        fault = self.fault
        if fault is not None and not self._is_said:
            log.warning("the journal cannot be written; senders are asked to come again", error=fault)
        elif fault is None and self._is_said:
            log.info("the journal can be written again")
        self._is_said = fault is not None

    async def _write_notes(self) -> None:
        notes = self._senders.take()
        if notes.sent or notes.refused:
            overdue = asyncio.get_running_loop().call_later(UNANSWERED_S, self._note_unanswered, ())
            try:
                form = self._form()
                await self._journal.keep(form, FORMS[form].write([], notes), 0)
                self._note_answered(None)
            except DatabaseUnavailable as fault:
                self._note_answered(str(fault))
            finally:
                overdue.cancel()

    @property
    def journal_bytes(self) -> int:
        """As measured last."""
        return self._waiting.journal_bytes

    @property
    def gathered(self) -> int:
        """Payloads and groups of them that wait for a commit to begin."""
        return len(self._gathered)

    @property
    def fault(self) -> str | None:
        """Why nothing can be kept now; None where all can."""
        if self._fault is None and (self._is_unanswered or self._unanswered_s() >= UNANSWERED_S):
            return f"Postgres has answered no commit for {UNANSWERED_S:g} s: are its standbys there?"
        return self._fault

    async def close(self) -> None:
        """Commit what was taken; no front gives more."""
        if self._timer is not None:
            self._timer.cancel()
            self._commit_gathered()
        while self._commits:
            await asyncio.gather(*self._commits, return_exceptions=True)


def _end(waiting: Sequence[_Waiting], error: SpoolError | None) -> None:
    for _, future, _ in waiting:
        if not future.done():
            future.set_result(None) if error is None else future.set_exception(error.copied())


def _size_of(parsed: Parsed) -> int:
    """About how many bytes a payload adds to a row before it is compressed."""
    calls, points = parsed.calls, parsed.points
    size = 0 if calls is None else sum(map(len, calls.records)) + len(calls.rows) + len(calls.links)
    return size + (0 if points is None else 200 * len(points.points))


def _unwritten() -> SpoolError:
    return _retried(SpoolError("the database of the cell does not take anything now; send the same again later"))


def _retried(error: Refusal, after_s: int = RETRY_AFTER_S) -> Refusal:
    error.retry_after_s = after_s
    return error
