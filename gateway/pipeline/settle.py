"""Settling: when a chunk's time is up, what became of its reports is decided, written
down, and let go to the lanes.

The rules are `gateway.counting`'s; here is only the coming and going: rows of earlier chunks
are read back where a late report refers to them, records of one call are merged, and all
changes of a pass go to the spool in one commit.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter

import structlog

from gateway.common.traceback_summary import places
from gateway.counting.bases import LearntBases
from gateway.counting.calls.digest import call_ref, of_this_size, split_ref
from gateway.counting.calls.ledger import MOVED, Ledger
from gateway.counting.coverage import AiWithoutCalls, Coverage
from gateway.counting.readings import InputReading, InputReadings
from gateway.observability.telemetry.tracer import Tracer
from gateway.pipeline.late_chunks import LateChunks
from gateway.pipeline.metrics import MetricsPipeline, Price
from gateway.pipeline.metrics import Settings as MetricsSettings
from gateway.pipeline.settlement_pass import SettlementPass, loaded, parts_of, position
from spool.clock import ms_of
from spool.errors import SpoolError
from spool.histogram import LAG_S, Histogram
from spool.record import AI_TELEMETRY
from spool.settling import Change, Moved
from spool.store import CountingStore

log = structlog.get_logger()

PASS_S = 0.2
"""Chunks that fall due within this time are settled in one pass."""
PASS_REPORTS = 2_000
"""One pass ends with the chunk that brings it to so many: its changes are one commit, and
lie in memory until then."""
RETRY_S = 1.0
"""Before settling, or reading the ledger again, is tried once more."""
UNFINISHED_SETTLES = 30
"""A call of which only the beginning was reported waits for its end this many times as long as
others settle: 5 minutes by default."""
FORWARDED_SETTLES = 4
"""An aggregate of another gateway waits at most this many times as long as aggregates do here: 8
minutes by default, as gateways wait up to 5 minutes before they try their hub again."""
MAX_HELD_BACK = 5_000
"""Aggregates of other gateways that wait at once: each is written again in every settle time."""
HELD_LOOK_S = 0.2
"""How often it is looked whether what is held may go."""
BEHIND_S = 30.0
"""Calls that wait this much longer than `counting.settle` are reported."""
BEHIND_LOOK_S = 2.0
TURN_S = 30.0
"""How often the ledger forgets silent sources."""


HeldFrom = Callable[[], Awaitable[int | None]]


class Settler:
    """The ledger beside its spool: kept in step with what is on disk, and settled in time."""

    ledger_type = Ledger
    aggregates_type = MetricsPipeline

    def __init__(
        self,
        spool: CountingStore,
        *,
        settle_ms: int,
        window_ms: int,
        max_keys: int,
        now_ms: Callable[[], int],
        metrics: MetricsSettings | None = None,
        price: Price = lambda _record, _at_ms: None,
        held_from_ms: HeldFrom | None = None,
        bases: LearntBases | None = None,
        keep_bases: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """*held_from_ms*: from when on what was received is not to be let go yet,
        however long it has waited.

        *bases*: what was learnt before; *keep_bases* writes it down, before the calls that were
        read by it go on.
        """
        self.bases = LearntBases() if bases is None else bases
        """What instrumentations proved of their input."""
        self.readings = InputReadings()
        """How inputs were read since the start."""
        self._keep_bases = keep_bases
        self.ledger = self.ledger_type(max_keys)
        self._price = price
        self.aggregates = self.aggregates_type(spool, metrics or MetricsSettings(), price=price, now_ms=now_ms)
        self.coverage = Coverage()
        """Which sources report AI spans, and which report calls."""
        self._spool = spool
        self.settle_ms = settle_ms
        self._window_ms = window_ms
        self._max_keys = max_keys
        self._now_ms = now_ms
        self._held_from_ms = held_from_ms
        self._held_ms: int | None = None
        """Its last answer."""
        self._late = LateChunks(spool)
        self._counted = asyncio.Event()
        self._counting: list[int] = []
        """The first reference of each payload of which more is to be counted."""
        self.recovery: asyncio.Task[None] | None = None
        """Makes the ledger know what is on disk, after an append was lost; None before the first
        one.
        """
        self._is_distrusted = False
        """The ledger has to be read from disk again."""
        self._pass = asyncio.Lock()
        """Held while a pass decides by the ledger."""
        self.tracer: Tracer | None = None
        self.lag_seconds = Histogram(LAG_S)
        """Of each chunk of calls, from its receipt until it may be sent."""
        self.rebuilds = 0
        """How often the ledger was read from disk again."""
        spool.on_lost_append = self._lost_append

    async def rebuild(self) -> None:
        """Make the ledger know what the spool knows."""
        ledger = self.ledger_type(self._max_keys)
        now_ms = self._now_ms()
        settled_seq = await self._spool.settled_seq(AI_TELEMETRY)
        since_ms = now_ms - self._window_ms
        async for page in await self._spool.evidence(AI_TELEMETRY, since_ms, self._max_keys):
            for chunk in page:
                ledger.restore(
                    chunk.seq,
                    chunk.received_ms,
                    of_this_size(chunk.facts, chunk.n),
                    chunk.links,
                    chunk.dropped,
                    merged=chunk.merged,
                    settled=chunk.seq <= settled_seq,
                )
                await asyncio.sleep(0)
        ledger.turn_back(now_ms)
        ledger.take_over(self.ledger)
        await self.aggregates.load()
        self.ledger = ledger
        self._late = LateChunks(self._spool)
        self._counted.set()

    def distrust(self) -> None:
        """Something was counted that may not be in the spool: take nothing more until the
        truth is read from there.
        """
        self._spool.refuse_appends(SpoolError("the ledger is being read again"))

    def _lost_append(self, *, is_distrusted: bool) -> None:
        """What the ledger counted never came to disk: it is taken back before anything else is
        counted. With *is_distrusted* nothing of the ledger is believed.
        """
        self._is_distrusted |= is_distrusted
        if self.recovery is None or self.recovery.done():
            self.recovery = asyncio.create_task(self._recover(), name="ledger-recovery")

    async def _recover(self) -> None:
        while True:
            try:
                if self._is_distrusted or not await self._take_back():
                    self._is_distrusted = False
                    self.rebuilds += 1
                    await self.rebuild()
            except Exception as error:  # noqa: BLE001 nothing is taken until the truth is known, so it is asked for again
                self._is_distrusted = True
                log.warning("the ledger could not be rebuilt yet", error=type(error).__name__, at=places(error))
                await asyncio.sleep(RETRY_S)
            else:
                if not self._is_distrusted:
                    self._spool.accept_appends()
                    return

    async def _take_back(self) -> bool:
        """Let the ledger know nothing of the chunks that did not come to disk; False where only
        reading it again does that. It takes as long as these are many, whatever the ledger holds.
        """
        async with self._pass:
            chunks = self.ledger.open_chunks()
            kept = {*await self._spool.kept_chunks(AI_TELEMETRY, chunks[0])} if chunks else set()
            if not self.ledger.take_back([seq for seq in chunks if seq not in kept]):
                return False
            await self.aggregates.load()
            return True

    def now_ms(self) -> int:
        """The clock by which reports fall due."""
        return self._now_ms()

    def uncovered(self) -> list[AiWithoutCalls]:
        """Sources of AI spans without calls as of now."""
        return self.coverage.uncovered(self._now_ms())

    def input_readings(self) -> list[InputReading]:
        """How inputs were read of which no table knows whether they hold the cached tokens."""
        return self.readings.status(self.bases)

    def counted(self) -> None:
        """Reports were counted: there will be something to settle."""
        self._counted.set()

    @contextmanager
    def counting(self, first: int) -> Iterator[None]:
        """Count a payload from the reference *first* on, in pieces: none of its chunks is settled
        meanwhile, and no large cluster takes in a part of it.
        """
        self._counting.append(first)
        try:
            yield
        finally:
            self._counting.remove(first)

    async def run(self) -> None:
        """Settle what falls due, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._run(), name="settling of calls")
                tasks.create_task(self._report_behind(), name="settling behind")
                tasks.create_task(self.aggregates.run(lambda seq: self._announce(self._now_ms(), seq)), name="metrics")
        finally:
            if self.recovery is not None:
                self.recovery.cancel()

    async def _run(self) -> None:
        turned_ms = self._now_ms()
        while True:
            # A clock that jumped back must not hold records for longer than they settle.
            self.ledger.turn_back(self._now_ms())
            oldest_ms = self.ledger.oldest_ms()
            if oldest_ms is None:
                self._counted.clear()
                await self._counted.wait()
                continue
            wait_s = (oldest_ms + self.settle_ms - self._now_ms()) / 1000
            if wait_s > 0:
                await asyncio.sleep(min(wait_s, self.settle_ms / 1000) + min(PASS_S, self.settle_ms / 1000))
            await self._settle_or_wait()
            if self._now_ms() - turned_ms > TURN_S * 1000:
                turned_ms = self._now_ms()
                self.ledger.prune()

    async def _settle_or_wait(self) -> None:
        try:
            if not await self._settle_chunks(self._now_ms()):
                # The chunk that is due is still on its way to the disk, or held.
                await asyncio.sleep(0.01 if self._held_ms is None else HELD_LOOK_S)
        except Exception as error:  # noqa: BLE001 were this task to end, no call would ever be forwarded again
            log.warning("settling failed; it is tried again", error=type(error).__name__, at=places(error))
            await asyncio.sleep(RETRY_S)

    async def settle_due(self, now_ms: int) -> int:
        """Settle the aggregates and the chunks whose time is up at *now_ms*; how many chunks
        they were. Raises SpoolError.
        """
        await self.aggregates.settle_due(now_ms, partial(self._announce, now_ms))
        settled = 0
        while n := await self._settle_chunks(now_ms):
            settled += n
        return settled

    def _announce(self, now_ms: int, seq: int) -> None:
        """Chunk *seq* will hold aggregates whose time was up: it goes on as soon as
        what came before it does.
        """
        self.ledger.count((), (), seq, 0, now_ms - self.settle_ms)
        self._counted.set()

    async def _settle_chunks(self, now_ms: int) -> int:
        """Settle the chunks whose time is up at *now_ms*, as many as fit into
        one pass; how many they were.

        Raises SpoolError when that could not be written down; then nothing was decided.
        """
        if self.recovery is not None:
            await self.recovery
        async with self._pass:
            return await self._settle_pass(now_ms)

    async def _settle_pass(self, now_ms: int) -> int:
        ledger, lost_appends = self.ledger, self._spool.lost_appends
        sealed_seq = self._spool.sealed_seq  # before it is asked what is held: what comes meanwhile is not due
        end = min([call_ref(*self._spool.position(AI_TELEMETRY)), *self._counting])
        if self._counting:
            sealed_seq = min(sealed_seq, split_ref(end).seq - 1)
        due = ledger.due(await self._through_ms(now_ms), sealed_seq, max_reports=PASS_REPORTS)
        if not due:
            return 0
        received, began_s = {seq: ledger.received_ms(seq) for seq in due}, perf_counter()
        waiting = await self._waiting(ledger, due, now_ms)
        waiting_refs = {ref for reports in waiting for ref in reports}
        settlement = SettlementPass(
            ledger,
            self._spool,
            self._price,
            self._late,
            due,
            waiting_refs,
            lost_appends,
            end,
            self.bases,
            sealed_seq,
            self.aggregates.is_covered,
        )
        try:
            await settlement.decide()
            if self._keep_bases is not None:
                await self._keep_bases()
            await self._write(ledger, due[-1], settlement, waiting, now_ms, lost_appends)
        except BaseException:
            settlement.undo()
            raise
        ledger.written()
        self.readings.add(settlement.readings)
        for seq, received_ms in received.items():
            self.lag_seconds.observe(max(0, self._now_ms() - received_ms) / 1000)
            ledger.settled(seq)
        if self.tracer is not None:
            self.tracer.settled(due, began_s)
        return len(due)

    async def _through_ms(self, now_ms: int) -> int:
        """What was received up to then may be settled."""
        through_ms = now_ms - self.settle_ms
        if self._held_from_ms is None:
            return through_ms
        self._held_ms = await self._held_from_ms()
        return through_ms if self._held_ms is None else min(through_ms, self._held_ms - 1)

    @property
    def held_s(self) -> float | None:
        """For how long the oldest chunk that is held has waited beyond its time to
        settle; None when none is.
        """
        oldest_ms = self.ledger.oldest_ms()
        if oldest_ms is None or self._held_ms is None or oldest_ms < self._held_ms:
            return None
        waited_ms = self._now_ms() - oldest_ms - self.settle_ms
        return waited_ms / 1000 if waited_ms > 0 else None

    @property
    def behind_s(self) -> float | None:
        """For how long the oldest chunk has waited beyond its time to settle, where that is over
        `BEHIND_S` and nothing holds it; else None.
        """
        oldest_ms = self.ledger.oldest_ms()
        if oldest_ms is None or (self._held_ms is not None and oldest_ms >= self._held_ms):
            return None
        waited_s = (self._now_ms() - oldest_ms - self.settle_ms) / 1000
        return waited_s if waited_s > BEHIND_S else None

    async def _report_behind(self) -> None:
        """Log when settling falls behind, and when it has caught up."""
        was_behind = False
        while True:
            await asyncio.sleep(BEHIND_LOOK_S)
            behind_s = self.behind_s
            if behind_s is not None and not was_behind:
                log.warning("settling is behind", oldest_s=round(behind_s), settling=self.ledger.sizes()["settling"])
            elif behind_s is None and was_behind:
                log.info("settling has caught up")
            was_behind = behind_s is not None

    async def _waiting(self, ledger: Ledger, due: Sequence[int], now_ms: int) -> dict[tuple[int, ...], list[bytes]]:
        """Reports in the chunks *due* that wait on -> their records: of a call for its end, and of
        an aggregate of another gateway for calls that cover it.
        """
        waiting: dict[tuple[int, ...], list[bytes]] = {}
        # As the records were stamped; what a jump of that clock makes old or young waits no
        # longer.
        wall_ms = self._spool.wall_ms()
        for reports in sorted({tuple(reports) for seq in due for reports in ledger.unfinished(seq)}):
            found = await self._spool.read(AI_TELEMETRY, [position(ref) for ref in reports])
            records = [record for record in found if record is not None]
            oldest = loaded(records[0]) if len(records) == len(reports) else None
            if oldest is not None and 0 <= wall_ms - ms_of(oldest["received_at"]) < UNFINISHED_SETTLES * self.settle_ms:
                waiting[reports] = records
        return waiting | await self._held_back(ledger, due, now_ms)

    async def _held_back(self, ledger: Ledger, due: Sequence[int], now_ms: int) -> dict[tuple[int, ...], list[bytes]]:
        """Aggregates of other gateways in the chunks *due* that wait on -> their records. They wait
        as long as aggregates of this gateway, and as long again as they were on their way: the
        calls that cover them may be on their way too.
        """
        waiting: dict[tuple[int, ...], list[bytes]] = {}
        settle_ms = self.aggregates.settings.settle_ms
        wall_ms = self._spool.wall_ms()
        every = [each for seq in due for each in ledger.aggregates(seq)]
        every = every[max(0, ledger.n_aggregates() - MAX_HELD_BACK) :]  # those that came first go first
        young = [each for each in every if now_ms - each.since_ms < FORWARDED_SETTLES * settle_ms]
        for part in parts_of(young):
            found = await self._spool.read(AI_TELEMETRY, [position(each.ref) for each in part])
            for each, data in zip(part, found, strict=True):
                record = None if data is None else loaded(data)
                if data is not None and record is not None:
                    waited_ms = max(0, now_ms - each.since_ms)
                    on_the_way_ms = max(0, wall_ms - waited_ms - ms_of(record["received_at"]))
                    if waited_ms < min(settle_ms + on_the_way_ms, FORWARDED_SETTLES * settle_ms):
                        waiting[each.ref,] = [data]
        return waiting

    async def _write(
        self,
        ledger: Ledger,
        through_seq: int,
        settlement: SettlementPass,
        waiting: Mapping[tuple[int, ...], Sequence[bytes]],
        now_ms: int,
        lost_appends: int,
    ) -> None:
        """Release the chunks of *settlement* with its changes, in one commit; move the
        *waiting* calls into a chunk of their own.
        """
        calls = [reports for reports in waiting if all(map(settlement.waits, reports))]
        moved = [(ref, record) for reports in calls for ref, record in zip(reports, waiting[reports], strict=True)]
        written = [*settlement.changes.values(), *(Change(*position(ref), MOVED, None) for ref, _ in moved)]
        if not moved:
            await self._spool.settle(AI_TELEMETRY, through_seq, written, lost_appends=lost_appends)
            return
        try:
            with self._spool.reserve():
                seq = self._spool.number_chunk()
                facts = ledger.move(calls, seq, now_ms)
                chunk = Moved(seq, now_ms, [record for _, record in moved], facts)
                settled = self._spool.settle(AI_TELEMETRY, through_seq, written, lost_appends=lost_appends, moved=chunk)
            await settled
        except BaseException:
            self.distrust()  # the ledger moved what the spool did not
            raise
