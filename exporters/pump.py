"""One lane's pump: freeze -> send -> ack, retry, hold, bisect or dead-letter. Knows no vendor.

The loop freezes batches while the lane's `Pacing` lets it, and each batch flies in a task of
its own: send once, then settle by the outcome. Whatever happens, a batch ends acked,
dead-lettered, split, or given back; at shutdown what is under way gets a grace time, and is
then given back as unanswered, so the next start sends the same bytes under the same id.

Some batches stay leased after their flight, so that the next one tries another: those refused while
the brake is on (`Probing`), and those whose answers are not understood (`Narrowing`).
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePath
from typing import assert_never

import structlog

from exporters.attempts import CURRENT, Attempts
from exporters.backoff import full_jitter_s
from exporters.base import Delivered, Exporter, Hold, NotUnderstood, Outcome, Refused, Retry
from exporters.clock import Clock
from exporters.destination import Destination
from exporters.narrowing import Narrowing
from exporters.pacing import RECORD_BACKOFF, BackoffRules, LaneState, Pacing
from exporters.probing import GivenBack, Probing
from exporters.suspects import Suspects
from spool.errors import SpoolError
from spool.record import Batch, Lane
from spool.store import BrakeStore, LaneStore

WATCHDOG_S = 2.0
"""How often the spool is asked without a wake-up, since one may be lost."""

NO_ANSWER = "the upstream does not answer any lane"
NOT_UNDERSTOOD = "answer_not_understood"
"""Code of the dead letters that an operator makes of records whose answers are not understood."""

log = structlog.get_logger("exporters.pump")


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What one request to the upstream may hold, and how many may be under way."""

    max_records: int = 1000
    max_bytes: int = 4 * 1024 * 1024 - 16 * 1024
    """Of the records alone: 4 MiB less room for the envelope."""
    in_flight: int = 4
    backoff: BackoffRules = RECORD_BACKOFF
    parks_suspects: bool = True
    """False where the store itself delays what failed; see `exporters.suspects`."""


@dataclass(slots=True)
class Counts:
    """What the pump did since it was made; whole records and batches."""

    sent_batches: int = 0
    delivered_records: int = 0
    dead_lettered_records: int = 0
    retries: int = 0
    holds: int = 0
    splits: int = 0
    unnamed_refusals: int = 0
    """Of the dead letters, those that the upstream did not name: they have no record."""


class Pump:
    def __init__(
        self,
        lane: Lane,
        store: LaneStore,
        exporter: Exporter,
        *,
        limits: BatchLimits,
        clock: Clock,
        chance: Callable[[], float],
        destination: Destination | None = None,
        attempts: Attempts | None = None,
        brake: BrakeStore | None = None,
    ) -> None:
        """*destination* is what the lanes to one upstream share; None for a lane
        that has its upstream to itself. *attempts* are counted on where an earlier pump of the
        lane was replaced. Without *brake* a restart releases the lane's brake.
        """
        self.lane = lane
        self.counts = Counts()
        self.attempts = attempts or Attempts()
        self._destination = destination or Destination(clock, chance)
        self._store = store
        self._exporter = exporter
        self._limits = limits
        self._clock = clock
        self._chance = chance
        self._pacing = Pacing(max_bytes=limits.max_bytes, in_flight=limits.in_flight, backoff=limits.backoff)
        self._suspects = Suspects()
        self._narrowing = Narrowing()
        self._brake = brake
        self._is_brake_noted = False
        self._running = False
        self._grace_s = 0.0
        self._changed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._landed = asyncio.Event()
        self._ended = asyncio.Event()
        self._flights: set[asyncio.Task[None]] = set()
        self._sends: set[asyncio.Task[Outcome]] = set()
        self._parked: set[asyncio.Task[None]] = set()
        self._probing = Probing()
        self._kept_back: list[Batch] = []
        """Not understood, without their records."""

    @property
    def state(self) -> LaneState:
        if not self._running:
            return "off"
        if self._is_cut_off:
            return "retrying"
        if self._pacing.state == "ok" and self._narrowing.is_open:
            return "held" if self._kept_back or self._narrowing.is_last_round else "retrying"
        return self._pacing.state

    @property
    def reason(self) -> str | None:
        """Why the lane is not `ok`; safe to show."""
        if not self._running:
            return "not running"
        return NO_ANSWER if self._is_cut_off else self._pacing.reason or self._narrowing.reason

    @property
    def epoch(self) -> int:
        """Goes up when the lane is paused or held: an answer to a batch of
        an earlier epoch is stale.
        """
        return self._pacing.epoch

    @property
    def in_flight(self) -> int:
        """Batches that are being sent, or whose outcome is being settled."""
        return len(self._flights)

    @property
    def opens_at_s(self) -> float:
        """When the next batch may be frozen, on the pump's monotonic clock; past while it may."""
        return self._pacing.opens_at_s

    @property
    def _is_cut_off(self) -> bool:
        return self._pacing.state == "ok" and self._destination.is_down

    @property
    def holding(self) -> int:
        """How many batches it has leased: under way, or kept back for a reason."""
        return self.in_flight + len(self._parked) + len(self._probing) + len(self._kept_back)

    async def run(self) -> None:
        """Move the lane's records until `stop`, or until cancelled;
        then give back what is under way.
        """
        self._running = True
        forget = self._destination.on_answering(self._upstream_answers)
        try:
            await self._recall_brake()
            while not self._stopping.is_set():
                await self._step()
        except asyncio.CancelledError:
            self._grace_s = 0.0
            raise
        finally:
            forget()
            self._stopping.set()
            await self._land()
            self._running = False
            self._ended.set()

    async def stop(self, grace_s: float) -> None:
        """Freeze nothing more; what is under way gets *grace_s*, then is given back.

        Returns when all has landed.
        """
        self._grace_s = grace_s
        self._stopping.set()
        self._changed.set()
        if self._running:
            await self._ended.wait()

    def wake(self) -> None:
        """End a pause or hold now, for one try: an operator's word, or a changed key."""
        self._pacing.wake()
        self._destination.opens_at_s = float("-inf")
        self._changed.set()

    def set_aside(self, waiting: int) -> bool:
        """An operator's word: of the *waiting* records, those that the upstream refuses become dead
        letters, and so do records whose answers are not understood, as far as they hold the lane
        now. False, with nothing changed, where the lane is not held for either.
        """
        if self.state != "held":
            return False
        if self._pacing.is_braked:
            self._pacing.let_through(waiting)
        elif self._narrowing.is_open:
            self._narrowing.bury(max(1, len(self._kept_back)))
            self._narrowing.begin_last_round()
        else:
            return False
        self.wake()
        return True

    async def _recall_brake(self) -> None:
        if self._brake is None:
            return
        try:
            reason = await self._brake.brake_reason(self.lane)
        except SpoolError as error:
            self._spool_failed(error)
            return
        if reason is not None:
            self._is_brake_noted = True
            self._pacing.brake(reason)

    async def _note_brake(self) -> None:
        """Write down that the brake was put on or released."""
        brake, is_on = self._brake, self._pacing.is_braked
        if brake is not None and is_on != self._is_brake_noted:
            self._is_brake_noted = is_on
            await self._persist(lambda: brake.note_brake(self.lane, self._pacing.reason if is_on else None))

    def _upstream_answers(self) -> None:
        """Another lane got through to the upstream: a pause that its
        silence was the reason of is over.
        """
        self._pacing.upstream_answers()
        self._changed.set()

    async def _step(self) -> None:
        self._changed.clear()
        now_s = self._clock.monotonic_s()
        closed_s = self.opens_at_s - now_s
        if closed_s > 0:
            await self._clock.wait(self._changed, closed_s)
        elif (cut_off_s := self._destination.opens_at_s - now_s) > 0:
            await self._clock.wait(self._changed, min(cut_off_s, WATCHDOG_S))  # another lane's probe may move it
        elif self.in_flight >= self._slots:
            await self._changed.wait()
        else:
            await self._take_up()
            probe, epoch, state = self._destination.launch(), self._pacing.epoch, self._pacing.state
            narrows, is_braked = self._narrowing.is_open, self._pacing.is_braked
            batch = await self._freeze()
            if (narrows and await self._ends_round(batch)) or (is_braked and await self._is_skipped(batch)):
                self._destination.landed(probe=probe)
                return
            # One that fails at once must not keep its company from being sent: others that pass
            # are what makes it a suspect.
            if batch is not None and (epoch == self._pacing.epoch or state == self._pacing.state == "retrying"):
                self._launch(batch, epoch, probe=probe)
                return
            self._destination.landed(probe=probe)
            if batch is None:
                await self._idle()
            else:  # the lane closed while the batch was frozen
                await self._persist(lambda: self._store.release(batch, answered=False))

    @property
    def _slots(self) -> int:
        return 1 if self._narrowing.is_open else self._pacing.slots

    async def _take_up(self) -> None:
        """Before a batch is frozen: give back what need not be kept from it any more."""
        if not self._pacing.is_braked:
            await self._give_back(self._probing.end())
        if self._narrowing.is_last_round:
            await self._release_kept_back()
        await self._note_brake()

    async def _ends_round(self, batch: Batch | None) -> bool:
        """While answers are not understood: whether *batch* shows that all parts were tried, and
        some were kept back. Then these go again before it.
        """
        if batch is not None and self._narrowing.is_part(batch):
            return False
        if self._kept_back:
            self._narrowing.begin_last_round()
            if batch is not None:
                await self._persist(partial(self._store.release, batch, answered=False))
            return True
        self._narrowing.close()
        return False

    async def _is_skipped(self, batch: Batch | None) -> bool:
        """While the brake is on: whether *batch* is not to be probed in this round."""
        if batch is not None:
            return self._probing.skips(batch)
        again = self._probing.next_round()
        await self._give_back(again)
        return bool(again)

    async def _freeze(self) -> Batch | None:
        try:
            return await self._store.freeze(
                self.lane, max_records=self._limits.max_records, max_bytes=self._pacing.ceiling_bytes
            )
        except SpoolError as error:
            self._spool_failed(error)
            return None

    async def _idle(self) -> None:
        """Wait until the spool has something, a flight lands, or the watchdog's
        time is up, whichever is first.
        """
        ready = asyncio.ensure_future(self._store.wait_ready(self.lane, WATCHDOG_S))
        changed = asyncio.ensure_future(self._clock.wait(self._changed, WATCHDOG_S))
        try:
            await asyncio.wait({ready, changed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiting in (ready, changed):
                waiting.cancel()
            endings = await asyncio.gather(ready, changed, return_exceptions=True)
        for ending in endings:
            if isinstance(ending, SpoolError):
                self._spool_failed(ending)
            elif isinstance(ending, Exception):
                raise ending

    def _spool_failed(self, error: SpoolError) -> None:
        now_s = self._clock.monotonic_s()
        retry = Retry(f"the spool cannot be read: {type(error).__name__}", answered=False)
        self._pacing.failed(retry, now_s=now_s, epoch=self._pacing.epoch, chance=self._chance())
        log.warning("spool failed", lane=self.lane, error=type(error).__name__)

    def _launch(self, batch: Batch, epoch: int, *, probe: bool) -> None:
        flight = asyncio.create_task(self._fly(batch, epoch, probe=probe), name=f"{self.lane} {batch.batch_id}")
        self._flights.add(flight)
        flight.add_done_callback(self._land_one)

    def _land_one(self, flight: asyncio.Task[None]) -> None:
        self._flights.discard(flight)
        self._changed.set()
        if not self._flights:
            self._landed.set()
        if not flight.cancelled() and (error := flight.exception()) is not None:
            log.error("a batch was left leased until the next start", lane=self.lane, error=type(error).__name__)

    async def _fly(self, batch: Batch, epoch: int, *, probe: bool) -> None:
        began_s = self._clock.monotonic_s()
        try:
            outcome = await self._send(batch)
        finally:
            self._destination.landed(probe=probe)
        now_s = self._clock.monotonic_s()
        self.attempts.ended(batch, outcome, now_s - began_s, now_s)
        try:
            await self._settle(batch, outcome, epoch)
            await self._note_brake()
        except Exception as error:  # noqa: BLE001 - left leased, it would stand still until the next start
            kind = type(error).__name__
            log.error("a batch is not settled, and goes out again", lane=self.lane, error=kind, at=_place(error))  # noqa: TRY400 - as above
            retry = Retry(f"unforeseen {kind} after an answer", answered=False)
            self._pacing.failed(retry, now_s=self._clock.monotonic_s(), epoch=epoch, chance=self._chance())
            await self._persist(lambda: self._store.release(batch, answered=False))

    async def _send(self, batch: Batch) -> Outcome:
        CURRENT.set(self.attempts)  # in the context of this flight's task, which the next one copies
        sending = asyncio.ensure_future(self._exporter.send(batch))
        self._sends.add(sending)
        self.counts.sent_batches += 1
        try:
            return await sending
        except asyncio.CancelledError:  # by `_land`: no answer came, so the same bytes go out again under the same key
            return Retry("shut down before an answer came", answered=False)
        except Exception as error:  # noqa: BLE001 - an exporter's bug must neither lose the batch nor stop the lane
            log.error("exporter raised", lane=self.lane, error=type(error).__name__, at=_place(error))  # noqa: TRY400 - the traceback may quote a payload
            return Retry(f"unforeseen {type(error).__name__} in the exporter", answered=False)
        finally:
            self._sends.discard(sending)

    async def _settle(self, batch: Batch, outcome: Outcome, epoch: int) -> None:
        match outcome:
            case Delivered():
                await self._settle_delivered(batch, outcome, epoch)
            case Retry():
                await self._settle_retry(batch, outcome, epoch)
            case Hold():
                self._hold(outcome, epoch)
                await self._persist(lambda: self._store.release(batch, answered=outcome.answered))
            case Refused():
                await self._settle_refused(batch, outcome, epoch)
            case NotUnderstood():
                await self._settle_not_understood(batch, outcome, epoch)
            case _:
                assert_never(outcome)

    async def _settle_delivered(self, batch: Batch, delivered: Delivered, epoch: int) -> None:
        refused = delivered.refused
        dead = sum(each.records for each in refused)
        self._narrowing.understood()
        if refused and dead == len(batch.records):
            why = f"{refused[0].code}: {refused[0].message}"
            verdict = self._pacing.refused_all(dead, why, now_s=self._clock.monotonic_s(), epoch=epoch)
            if verdict == "keep":
                await self._give_back(self._probing.refused(batch))
                return
        else:
            self._pacing.delivered(len(batch.records), epoch=epoch)
        self._suspects.passed(batch.batch_id)
        for each in refused:
            if each.index is None:
                self.counts.unnamed_refusals += each.records
                log.warning("records refused and not named", lane=self.lane, records=each.records, message=each.message)
        await self._persist(lambda: self._store.ack(batch, refused))
        self.counts.delivered_records += len(batch.records) - dead
        self.counts.dead_lettered_records += dead

    async def _settle_retry(self, batch: Batch, retry: Retry, epoch: int) -> None:
        self.counts.retries += 1
        if (
            self._limits.parks_suspects
            and not retry.throttled
            and retry.after_s is None
            and not self._stopping.is_set()
        ):
            suspicion = self._suspects.failed(
                batch.batch_id,
                records=len(batch.records),
                answered=retry.answered,
                parked=len(self._parked),
                unreadable=retry.unreadable,
            )
            if suspicion == "split":
                log.warning("a batch fails and is halved", lane=self.lane, reason=retry.reason)
                await self._split(batch)
                return
            if suspicion == "park":
                self._park(batch, retry)
                return
        self._pacing.failed(retry, now_s=self._clock.monotonic_s(), epoch=epoch, chance=self._chance())
        await self._persist(lambda: self._store.release(batch, answered=retry.answered))

    async def _settle_refused(self, batch: Batch, refused: Refused, epoch: int) -> None:
        if refused.may_be_there:
            # The upstream is in trouble: what follows waits, so that not all of it ends like
            # this.
            retry = Retry(f"{refused.code}: {refused.message}", answered=True)
            self._pacing.failed(retry, now_s=self._clock.monotonic_s(), epoch=epoch, chance=self._chance())
            await self._bury(batch, refused.code, refused.message)
            return
        self._narrowing.understood()
        verdict = self._pacing.refused(
            refused,
            records=len(batch.records),
            size_bytes=sum(map(len, batch.records)),
            now_s=self._clock.monotonic_s(),
            epoch=epoch,
        )
        match verdict:
            case "split":
                await self._split(batch)
            case "bury":
                await self._bury(batch, refused.code, refused.message)
            case "keep":
                await self._give_back(self._probing.refused(batch))
            case _:
                assert_never(verdict)

    async def _settle_not_understood(self, batch: Batch, answer: NotUnderstood, epoch: int) -> None:
        now_s = self._clock.monotonic_s()
        step = self._narrowing.step(batch, answer)
        log.warning("an answer is not understood", lane=self.lane, reason=answer.reason, step=step)
        match step:
            case "again":
                again = Retry(answer.reason, answered=False, after_s=self._chance())
                self._pacing.failed(again, now_s=now_s, epoch=epoch, chance=self._chance())
                await self._persist(lambda: self._store.release(batch, answered=False))
            case "halve":
                self._pacing.wake()
                await self._split(batch)
            case "bury":
                self._pacing.open()
                await self._bury(batch, NOT_UNDERSTOOD, answer.reason)
            case "keep_back":
                self._kept_back.append(replace(batch, records=()))
                self._pacing.wake()
                if self._narrowing.is_hopeless:
                    self._hold(Hold(answer.reason, answered=False), epoch)
            case "hold":
                self._hold(Hold(answer.reason, answered=False), epoch)
                await self._persist(lambda: self._store.release(batch, answered=False))
            case _:
                assert_never(step)

    def _hold(self, hold: Hold, epoch: int) -> None:
        self.counts.holds += 1
        self._pacing.hold(hold, now_s=self._clock.monotonic_s(), epoch=epoch)

    async def _bury(self, batch: Batch, code: str, message: str) -> None:
        self._suspects.forget(batch.batch_id)
        log.warning("record refused", lane=self.lane, code=code)
        await self._persist(lambda: self._store.bury(batch, code, message))
        self.counts.dead_lettered_records += len(batch.records)

    async def _split(self, batch: Batch) -> None:
        self.counts.splits += 1
        await self._persist(lambda: self._store.split(batch))

    def _park(self, batch: Batch, retry: Retry) -> None:
        delay_s = full_jitter_s(self._suspects.failures(batch.batch_id), self._chance())
        parked = asyncio.create_task(self._unpark(batch, retry, delay_s))
        self._parked.add(parked)
        parked.add_done_callback(self._parked.discard)

    async def _unpark(self, batch: Batch, retry: Retry, delay_s: float) -> None:
        await self._clock.wait(self._stopping, delay_s)
        await self._persist(lambda: self._store.release(batch, answered=retry.answered))
        self._changed.set()

    async def _give_back(self, batches: Iterable[GivenBack]) -> None:
        for batch, is_answered in batches:
            await self._persist(partial(self._store.release, batch, answered=is_answered))

    async def _release_kept_back(self) -> None:
        batches, self._kept_back = self._kept_back, []
        await self._give_back(GivenBack(batch, is_answered=False) for batch in batches)

    async def _persist(self, change: Callable[[], Awaitable[None]]) -> None:
        """Repeat a change until the spool took it.

        Gives up at shutdown only: the batch stays leased and comes back.
        """
        attempt = 0
        while True:
            try:
                await change()
            except SpoolError as error:
                attempt += 1
                log.warning("spool failed", lane=self.lane, error=type(error).__name__)
                if self._stopping.is_set():
                    return
                await self._clock.wait(self._stopping, full_jitter_s(attempt, self._chance()))
            else:
                return

    async def _land(self) -> None:
        """Give what is under way its grace time, then take it back unanswered;
        nothing stays leased by us.
        """
        self._landed.clear()
        if self._flights and self._grace_s > 0:
            await self._clock.wait(self._landed, self._grace_s)
        for sending in self._sends:
            sending.cancel()
        with suppress(asyncio.CancelledError):  # a second cancel does not stop the giving back
            await asyncio.gather(*self._flights, *self._parked, return_exceptions=True)
        await self._give_back(self._probing.end())
        await self._release_kept_back()


def _place(error: BaseException) -> str | None:
    """`file:line` where *error* was raised; its text stays out of the log,
    since it may quote a payload.
    """
    frames = traceback.extract_tb(error.__traceback__)
    return f"{PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else None
