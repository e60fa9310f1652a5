"""Metrics on their way: points are counted by their series, become held aggregates, and
go on or are dropped in time.

The rules are `gateway.counting`'s (`series`, `fold`, `sources`, `gaps`); here is the coming and
going. Payloads that come while one is written wait and go together in the next commit, so that
each is counted upon what is on disk. Of series the latest used are in memory (`MAX_CACHED`);
any other is read from the spool before it is counted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, cast

import orjson
import structlog

from gateway.common.contract.parsed_payload import Caller, Used
from gateway.common.futures import failure_of
from gateway.common.in_thread import clear_in_steps, gc_paused, in_thread
from gateway.common.lru import forget_oldest
from gateway.counting.calls.ledger import ForwardedAggregate
from gateway.counting.metrics.forwarded import ForwardedCalls, forwarded_source, gateway_in, topic_of_gateway
from gateway.counting.metrics.gaps import Gap, Totals
from gateway.counting.metrics.grouping import Folded, fold
from gateway.counting.metrics.new_series import NewSeries, too_many_series
from gateway.counting.metrics.pending import Facts, add_tally, facts_in, facts_of, tally_of, topics_of
from gateway.counting.metrics.series import Delta, PointReport, State, advance
from gateway.counting.metrics.sources import (
    CALLS,
    CALLS_REPORTED,
    MAX_PERIOD_MS,
    RENEW_MS,
    SourceActivity,
    cost_topic,
    is_repeated,
    outcome,
    since_ms,
)
from gateway.rules.context import Context
from gateway.rules.metrics import sender_of
from gateway.rules.points import MetricSource, UsagePoints
from gateway.rules.record import record_json
from spool.clock import ms_of
from spool.record import Record
from spool.series import FORGET_AT_ONCE, KEYS_AT_ONCE, SORT_AT_ONCE, Ending, Held, NewHeld, SeriesRow, SightingRow
from spool.store import CountingStore, ItemCounts

log = structlog.get_logger()

MAX_CACHED: Final = 50_000
"""Series in memory: about 20 MB."""
END_AT_ONCE: Final = 500
"""Held aggregates decided in one commit; one chunk takes as many."""
SUM_AGE_MS: Final = 62 * 86_400_000
"""Sums of a day or a month (`gateway.products.sums`) are remembered for two months: they are
reported again until the month is closed."""
WRITE_SIGHTING_MS: Final = 60_000
"""A source that reports all the time is written down once in this time."""
POINTS_AT_ONCE: Final = 10_000
"""Points of one commit, but for a payload that has more: as aggregates they take 4 KiB each."""
POINTS_HERE: Final = 1_000
"""More points than this are counted beside the loop: some ten milliseconds."""
NOTE_AT_ONCE: Final = 500
"""Sources noted in one turn of the loop."""
MAX_RECENT_SOURCES: Final = 10_000
FORGET_EVERY_MS: Final = 10_000
RETRY_S: Final = 1.0
_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000

Price = Callable[[Record, int], None]
Sighting = tuple[str, MetricSource]
"""(topic, reporter): who reported what."""


class Settings(NamedTuple):
    """What an operator sets; times in ms."""

    settle_ms: int = 120_000
    window_ms: int = 600_000
    max_age_ms: int = 7 * 86_400_000
    """Series that no one repeats for so long are forgotten."""
    prefer_metrics: frozenset[str] = frozenset()
    """Services that are billed by their metrics."""
    max_source_series: int = 200_000
    """New series of one source within the window."""


@dataclass(slots=True)
class Waiting:
    measured: UsagePoints
    context: Context
    done: "asyncio.Future[None]"


class CountedPoints(NamedTuple):
    """What one payload came to."""

    steps: Sequence[Delta]
    """What each point adds."""
    folded: Folded
    states: Mapping[bytes, State]
    """Changed ones."""
    tally: ItemCounts


class _Found(NamedTuple):
    """The series that payloads name."""

    states: dict[bytes, State]
    """Of those that are in memory."""
    missing: list[bytes]


class _Changes(NamedTuple):
    """What payloads come to, as it is written."""

    held: list[NewHeld]
    series: list[SeriesRow]
    seen: list[Sighting]
    tally: ItemCounts
    states: dict[bytes, State]
    """Of all their series, for the memory."""


class MetricsPipeline:
    """One gateway's metrics. `load` before anything is taken."""

    def __init__(self, spool: CountingStore, settings: Settings, *, price: Price, now_ms: Callable[[], int]) -> None:
        self._store = spool.series
        self.settings = settings
        self._price = price
        self._now_ms = now_ms
        self._cached: dict[bytes, State] = {}
        self._sightings = SourceActivity()
        self._forwarded = ForwardedCalls()
        self._written_ms: dict[Sighting, int] = {}
        self._wall_ms = spool.wall_ms
        self._totals = Totals(spool.wall_ms())
        self._waiting: list[Waiting] = []
        self._worker: asyncio.Task[None] | None = None
        self._oldest_held_ms: int | None = None
        self.n_held = 0
        """Aggregates that wait: kept and pending until it is known whether calls cover them."""
        self._held = asyncio.Event()
        self._forget_at_ms = 0
        self._new_series = NewSeries(settings.max_source_series, settings.window_ms)

    async def load(self) -> None:
        """Know what the spool knows."""
        now_ms = self._now_ms()
        self._written_ms.clear()  # what was lost is to be written again
        for row in await self._store.sightings(self._remembered_ms(now_ms), MAX_RECENT_SOURCES):
            topic, *parts = orjson.loads(row.whose)
            self._see(topic, MetricSource(*parts), min(row.seen_ms, now_ms))
        self.n_held = await self._store.held_count()
        self._oldest_held_ms = await self._store.oldest_held_ms()  # each as of its answer: payloads go on
        self._held.set()

    def _remembered_ms(self, now_ms: int) -> int:
        """SourceActivity before this decide nothing any more."""
        return since_ms(now_ms - self.settings.settle_ms, _HOUR_MS * 24, self.settings.window_ms) - WRITE_SIGHTING_MS

    # ---- in

    def admit(self, sender: str) -> None:
        """Raises OverQuota where *sender* brought too many new series."""
        wait_ms = self._new_series.wait_ms(sender, self._now_ms())
        if wait_ms:
            raise too_many_series(self.settings.max_source_series, self.settings.window_ms, wait_ms)

    def waiting_senders_ms(self) -> dict[str, int]:
        """Senders that `admit` refuses, and for how long."""
        return self._new_series.waiting_ms(self._now_ms())

    async def take(self, measured: UsagePoints, context: Context) -> None:
        """Count one payload; done when it is on disk.

        Raises SpoolError, and then nothing of it was counted.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiting(measured, context, done))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work(), name="metrics")
        await done

    async def _work(self) -> None:
        """Write what waits, again and again until nothing does."""
        while self._waiting:
            payloads = self._next()
            for some in (payloads,) if len(payloads) == 1 else (payloads, *([one] for one in payloads)):
                open_ones = [payload for payload in some if not payload.done.done()]
                if open_ones:
                    await self._keep(open_ones, is_last=len(some) == 1)

    def _next(self) -> list[Waiting]:
        """What goes into one commit: payloads of at most `POINTS_AT_ONCE` together, or one."""
        n = 0
        for number, payload in enumerate(self._waiting):
            n += len(payload.measured.points)
            if n > POINTS_AT_ONCE and number:
                break
        else:
            number = len(self._waiting)
        payloads, self._waiting = self._waiting[:number], self._waiting[number:]
        return payloads

    async def _keep(self, payloads: Sequence[Waiting], *, is_last: bool) -> None:
        """Count and write *payloads*, and resolve the futures of their senders; after a failure
        only if this *is_last* of the tries.
        """
        try:
            await self._count_and_write(payloads)
        except Exception as error:  # noqa: BLE001 whatever it was, it is its sender's answer, and not another's
            if is_last:
                for payload in payloads:
                    if not payload.done.done():
                        payload.done.set_exception(error)
        else:
            for payload in payloads:
                if not payload.done.done():
                    payload.done.set_result(None)

    async def _count_and_write(self, payloads: Sequence[Waiting]) -> None:
        """One commit for all of it.

        What is long is done beside the loop, over what no one but `_work` touches.
        """
        is_long = sum(len(payload.measured.points) for payload in payloads) > POINTS_HERE
        with gc_paused(is_long=is_long):
            now_ms = self._now_ms()
            known = await self._states(payloads, is_long=is_long)
            changes = await in_thread(partial(self._changes, payloads, known, now_ms), is_long=is_long)
            unwritten = self._unwritten(changes.seen, now_ms)
            sightings = await self._rows_in_turns(unwritten, now_ms)
            await self._store.keep(changes.held, changes.series, sightings, changes.tally, now_ms)
            await self._see_in_turns(changes.seen, now_ms)
            self._wrote(unwritten, now_ms)
            if changes.held:
                self.n_held += len(changes.held)
                self._oldest_held_ms = now_ms if self._oldest_held_ms is None else min(self._oldest_held_ms, now_ms)
                self._held.set()
            await in_thread(partial(self._remember, changes), is_long=is_long)

    def _changes(self, payloads: Sequence[Waiting], known: Mapping[bytes, State], now_ms: int) -> _Changes:
        """Count *payloads* one upon the other."""
        states, changed = dict(known), dict[bytes, State]()
        tally, held = ItemCounts(), list[NewHeld]()
        deltas, sums, seen = set[bytes](), set[bytes](), set[Sighting]()
        for payload in payloads:
            counted = self.count(payload, states, now_ms)
            self._new_series.note(sender_of(payload.context), len(counted.states.keys() - states.keys()), now_ms)
            states |= counted.states
            changed |= counted.states
            add_tally(tally, counted.tally)
            aggregates = list(counted.folded.aggregates)
            del counted
            held += [NewHeld(facts_of(x), record_json(x.record)) for x in aggregates]
            clear_in_steps(aggregates)
            deltas |= {point.key for point in payload.measured.points if point.is_delta}
            sums |= {point.key for point in payload.measured.points if point.until_ns}
            seen |= {each for point in payload.measured.points for each in topics_of(point)}
        series = [
            self._row(key, state, now_ms, is_delta=key in deltas, is_sum=key in sums) for key, state in changed.items()
        ]
        return _Changes(held, series, list(seen), tally, states)

    def count(self, payload: Waiting, known: Mapping[bytes, State], now_ms: int) -> CountedPoints:
        """What the points of one payload add to *known*."""
        changed: dict[bytes, State] = {}
        steps: list[Delta] = []
        for point in payload.measured.points:
            before = changed.get(point.key) or known.get(point.key)
            measurements = -1 if point.measurements is None else point.measurements
            report = PointReport(point.is_delta, point.start_ns, point.time_ns, point.value, measurements)
            step, after = advance(before, report, now_ms)
            steps.append(step)
            if step.is_new or now_ms - after.seen_ms > self.settings.max_age_ms // 8:
                changed[point.key] = after._replace(seen_ms=now_ms)
        folded = fold(payload.measured, steps, payload.context)
        return CountedPoints(steps, folded, changed, tally_of(payload.measured, folded))

    async def _states(self, payloads: Sequence[Waiting], *, is_long: bool) -> dict[bytes, State]:
        """The states of the payloads' series that are known, from memory or from disk."""
        states, missing = await in_thread(partial(self._found, payloads), is_long=is_long)
        for start in range(0, len(missing), KEYS_AT_ONCE):
            for row in await self._store.series(missing[start : start + KEYS_AT_ONCE]):
                states[row.key] = State(row.start_ns, row.time_ns, row.value, row.measurements, row.seen_ms)
        return states

    def _found(self, payloads: Sequence[Waiting]) -> _Found:
        cached = self._cached
        keys = {point.key for payload in payloads for point in payload.measured.points}
        missing = [key for key in keys if key not in cached]
        for start in range(0, len(missing), SORT_AT_ONCE):  # each page of the table is then read about once
            missing[start : start + SORT_AT_ONCE] = sorted(missing[start : start + SORT_AT_ONCE])
        return _Found({key: cached[key] for key in keys if key in cached}, missing)

    def _remember(self, changes: _Changes) -> None:
        """Know the states that are on disk now."""
        cached = self._cached
        for key, state in changes.states.items():
            cached.pop(key, None)  # so that it moves to the end: the first one is the longest unused
            cached[key] = state
        forget_oldest(cached, MAX_CACHED)
        clear_in_steps(changes.held, changes.series, changes.seen)

    def _row(self, key: bytes, state: State, now_ms: int, *, is_delta: bool, is_sum: bool) -> SeriesRow:
        """The row to write. Its end is rounded up, so that the index of ends rarely changes."""
        max_age_ms = max(self.settings.max_age_ms, SUM_AGE_MS) if is_sum else self.settings.max_age_ms
        until_ms = now_ms + (self.settings.window_ms if is_delta else max_age_ms)
        step_ms = _MINUTE_MS if is_delta else _HOUR_MS
        return SeriesRow(key, *state, until_ms=until_ms - until_ms % -step_ms)

    async def _rows_in_turns(self, unwritten: Sequence[Sighting], now_ms: int) -> list[SightingRow]:
        """Of some in each turn of the loop."""
        rows = rows_of(unwritten[:NOTE_AT_ONCE], now_ms)
        for start in range(NOTE_AT_ONCE, len(unwritten), NOTE_AT_ONCE):
            await asyncio.sleep(0)
            rows += rows_of(unwritten[start : start + NOTE_AT_ONCE], now_ms)
        return rows

    async def _see_in_turns(self, seen: Sequence[Sighting], now_ms: int) -> None:
        """Some in each turn of the loop."""
        self._see_all(seen[:NOTE_AT_ONCE], now_ms)
        for start in range(NOTE_AT_ONCE, len(seen), NOTE_AT_ONCE):
            await asyncio.sleep(0)
            self._see_all(seen[start : start + NOTE_AT_ONCE], now_ms)

    # ---- calls

    def note_used(
        self,
        used: Iterable[Used],
        sender: str,
        now_ms: int,
        forwarded: Iterable[Caller] = (),
        *,
        kept: "asyncio.Future[None]",
    ) -> Awaitable[None] | None:
        """Sources of *sender* reported calls, and those of other gateways whose calls it
        *forwarded*; it is so once the calls are *kept*. None unless what this gives is to be
        awaited too, until it is on disk with the calls.
        """
        seen = {(topic_of_gateway(gateway), MetricSource(*source)) for gateway, *source in forwarded}
        for service, device, instance, session, model, tokens in used:
            seen.add((CALLS, MetricSource(sender, service or "", device or "", str(instance or ""), session or "")))
            self._totals.add_calls(sender, service or "", model, tokens)
        unwritten = self._unwritten(seen, now_ms)
        if unwritten:
            written = asyncio.ensure_future(self._store.note(rows_of(unwritten, now_ms)))
            self._see_if_kept(written, seen, unwritten, now_ms)
            return written
        if not all(self._is_fresh(topic, reporter, now_ms) for topic, reporter in seen):
            self._see_if_kept(kept, seen, (), now_ms)
        return None

    def _see_if_kept(
        self, kept: "asyncio.Future[None]", seen: Iterable[Sighting], unwritten: Sequence[Sighting], now_ms: int
    ) -> None:
        """A payload that was lost was never seen, and its rows are yet to be written."""

        def see(done: "asyncio.Future[None]") -> None:
            if failure_of(done) is None:
                self._see_all(seen, now_ms)
                self._wrote(unwritten, now_ms)

        kept.add_done_callback(see)

    def _unwritten(self, seen: Iterable[Sighting], now_ms: int) -> list[Sighting]:
        """Those of *seen* that were not written lately."""
        written_ms, after_ms = self._written_ms, now_ms - WRITE_SIGHTING_MS
        return [whose for whose in seen if written_ms.get(whose, after_ms) <= after_ms]

    def _wrote(self, unwritten: Sequence[Sighting], now_ms: int) -> None:
        written_ms = self._written_ms
        for whose in unwritten:
            written_ms.pop(whose, None)
            written_ms[whose] = now_ms
        if unwritten:
            forget_oldest(written_ms, MAX_RECENT_SOURCES)

    def _see_all(self, seen: Iterable[Sighting], now_ms: int) -> None:
        for topic, reporter in seen:
            self._see(topic, reporter, now_ms)

    def _see(self, topic: str, reporter: MetricSource, now_ms: int) -> None:
        gateway = gateway_in(topic)
        if gateway is not None:
            self._forwarded.note(gateway, reporter, now_ms)
        elif not self._is_fresh(topic, reporter, now_ms):
            self._sightings.note(topic, reporter, now_ms)

    def _is_fresh(self, topic: str, reporter: MetricSource, now_ms: int) -> bool:
        return self._sightings.is_fresh(topic, reporter, now_ms - RENEW_MS)

    # ---- settling

    async def run(self, announce: Callable[[int], None]) -> None:
        """Settle what falls due, until cancelled. *announce*: see `settle_due`."""
        last_ms = self._now_ms()
        while True:
            oldest_ms = self._oldest_held_ms
            if oldest_ms is None:
                self._held.clear()
                await self._held.wait()
                continue
            now_ms = self._now_ms()
            wait_s = (oldest_ms + self.settings.settle_ms - now_ms) / 1000
            if wait_s > 0 and now_ms >= last_ms:
                await asyncio.sleep(min(wait_s, RETRY_S))
                last_ms = now_ms
                continue
            try:
                if now_ms < last_ms:
                    await self._turn_back(now_ms)
                await self.settle_due(now_ms, announce)
            except Exception as error:  # noqa: BLE001 whatever one round met, the others must go on
                log.warning("settling of metrics failed; it is tried again", error=type(error).__name__)
                await asyncio.sleep(RETRY_S)
            last_ms = now_ms

    async def _turn_back(self, now_ms: int) -> None:
        """The clock jumped back: nothing waits for longer than if it had come now."""
        await self._store.turn_back(now_ms)
        self._oldest_held_ms = await self._store.oldest_held_ms()

    async def settle_due(self, now_ms: int, announce: Callable[[int], None]) -> int:
        """Let go or drop the aggregates whose time is up; how many. *announce* gets the
        number of each new chunk.

        Raises SpoolError when that could not be written down; then nothing of
        the last commit was decided.
        """
        ended = 0
        through_ms = now_ms - self.settings.settle_ms
        while self._oldest_held_ms is not None and self._oldest_held_ms <= through_ms:
            due = await self._store.due(through_ms, END_AT_ONCE)
            if due:
                decided = [self._decide(held) for held in due]
                await self._store.end([ending for ending, _ in decided], now_ms, announce)
                self.n_held -= len(due)
                for held, (ending, facts) in zip(due, decided, strict=True):
                    self._add_total(held, ending, facts)
                ended += len(due)
            self._oldest_held_ms = await self._store.oldest_held_ms()
        return ended

    def _add_total(self, held: Held, ending: Ending, facts: Facts | None) -> None:
        """Compare one aggregate that ended with the calls of its source, unless a better
        metric of that states the same.
        """
        if facts is None or is_repeated(self._sightings, facts.reporter, facts.family, self._since_ms(held, facts)):
            return
        whose, is_left_out = facts.reporter, ending.outcome == CALLS_REPORTED
        self._totals.add_metrics(
            whose.sender, whose.service_name, facts.model, facts.tokens, facts.start_ms, is_left_out=is_left_out
        )

    def _since_ms(self, held: Held, facts: Facts) -> int:
        """From when on other reports of the source cover an aggregate."""
        return since_ms(held.received_ms, facts.end_ms - facts.start_ms, self.settings.window_ms)

    def _decide(self, held: Held) -> tuple[Ending, Facts | None]:
        """What becomes of one aggregate, and what it states.

        A row that cannot be read goes on as it is: the upstream refuses it.
        """
        try:
            return self.decided(held, facts_in(held.facts))
        except (ValueError, TypeError, KeyError):
            log.warning("an aggregate in the spool cannot be read")
            return Ending(held.held_id, None, held.record if isinstance(held.record, bytes) else b""), None

    def decided(self, held: Held, facts: Facts) -> tuple[Ending, Facts | None]:
        """How the pending aggregate *held* ends by what is known now, and
        its facts where it counts.
        """
        since = self._since_ms(held, facts)
        reason = outcome(self._sightings, facts.reporter, facts.family, since, self.settings.prefer_metrics)
        if reason is not None:
            return Ending(held.held_id, reason, b""), facts
        record = cast("Record", orjson.loads(held.record))
        if record.get("cost") is None and not facts.is_costed:
            topic = cost_topic(facts.family.scope, facts.model)
            if not self._sightings.seen_since(topic, facts.reporter, since):
                self._price(record, facts.start_ms)
        return Ending(held.held_id, None, record_json(record)), facts

    # ---- of other gateways

    def is_covered(self, record: Record, aggregate: ForwardedAggregate) -> bool:
        """Whether calls cover the *aggregate* with that *record*."""
        source = forwarded_source(aggregate.source, record["attribution"])
        if source.service_name in self.settings.prefer_metrics:
            return False
        waited_ms = self._wall_ms() - ms_of(record["received_at"])
        period_ms = ms_of(record["period"]["end"]) - ms_of(record["period"]["start"])
        received_ms = self._now_ms() - min(max(0, waited_ms), MAX_PERIOD_MS)
        since = since_ms(received_ms, period_ms, self.settings.window_ms)
        return self._forwarded.by_another(aggregate.gateway, source, since)

    # ---- what it holds

    def gaps(self) -> list[Gap]:
        """Where metrics state more than calls do."""
        return self._totals.gaps()

    async def run_maintenance(self) -> None:
        """Forget, now and then, what no one repeated for long."""
        now_ms = self._now_ms()
        if now_ms >= self._forget_at_ms or self._forget_at_ms > now_ms + FORGET_EVERY_MS:
            self._forget_at_ms = now_ms + FORGET_EVERY_MS
            while await self._store.forget(now_ms, self._remembered_ms(now_ms)) >= FORGET_AT_ONCE:
                pass

    async def close(self) -> None:
        """Write what still waits."""
        if self._worker is not None:
            await asyncio.gather(self._worker, return_exceptions=True)


def rows_of(sightings: Iterable[Sighting], now_ms: int) -> list[SightingRow]:
    return [SightingRow(orjson.dumps([topic, *reporter]).decode(), now_ms) for topic, reporter in sightings]
