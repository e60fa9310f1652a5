"""The lane of billing drops: a pump over the days that are due, and what is shown of it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypedDict

import structlog

from exporters.attempts import Attempts
from exporters.base import Delivered, Hold, NotUnderstood, Outcome, Refused, Retry
from exporters.clock import Clock
from exporters.cost_service.billing import DROP_SCOPE, BillingCalls
from exporters.keyring import no_key_grants
from exporters.pacing import LaneState
from exporters.pump import BatchLimits, Pump
from gateway.common.contract.billing import MAX_BYTES
from gateway.common.contract.json_types import Count, Time
from gateway.common.lane_work import LaneWork
from gateway.common.traceback_summary import places
from gateway.usage.billing.book import BillingBook
from gateway.usage.billing.content import DayContent, bodies
from gateway.usage.billing.home import Summary
from gateway.usage.billing.lane_store import LANE, BillingLaneStore
from spool.clock import rfc3339_ms
from spool.record import Batch

log = structlog.get_logger()

PART_BYTES: Final = MAX_BYTES - 500_000
LIMITS: Final = BatchLimits(max_records=1, max_bytes=PART_BYTES, in_flight=1, parks_suspects=False)
SUMMARY_S: Final = 2.0
"""Between two readings of control.db for the status."""


class BillingStatus(TypedDict):
    connection: str
    state: LaneState
    reason: str | None
    """Why it is not ok."""
    days_due: Count
    """Closed days whose usage is not in force at the upstream as it is counted."""
    days_refused: Count
    days_dropped: Count
    """In force at the upstream."""
    last_dropped_at: Time | None


class BillingLane:
    """Make inside a running loop; `start`, then `stop`."""

    def __init__(
        self,
        book: BillingBook,
        calls: BillingCalls,
        *,
        clock: Clock,
        chance: Callable[[], float],
        count: Callable[[], Awaitable[None]],
        attempts: Attempts | None = None,
    ) -> None:
        """*count* brings the sums of usage up to date; *chance* draws from [0, 1)."""
        self.book = book
        self._calls = calls
        self._clock = clock
        self._chance = chance
        self._attempts = attempts or Attempts()
        self._store = BillingLaneStore(book, clock=clock, count=count)
        self._summary = Summary(0, 0, 0, None, 0)
        self._work = LaneWork(_note_fault)
        self.pump = self._make_pump()

    def _make_pump(self) -> Pump:
        return Pump(
            LANE,
            self._store,
            _Sender(self._store, self._calls),
            limits=LIMITS,
            clock=self._clock,
            chance=self._chance,
            destination=self._calls.client.destination,
            attempts=self._attempts,
        )

    # ---- what the status shows

    @property
    def is_on(self) -> bool:
        return self._calls.is_granted

    def status(self) -> BillingStatus | None:
        """None once it stops."""
        if self._work.is_stopping:
            return None
        state = self.pump.state if self.is_on else "off"
        last_ms = self._summary.last_dropped_ms
        return {
            "connection": self.book.settings.connection,
            "state": state,
            "reason": self.pump.reason if self.is_on else no_key_grants([DROP_SCOPE]),
            "days_due": self._summary.due,
            "days_refused": self._summary.refused,
            "days_dropped": self._summary.dropped,
            "last_dropped_at": None if last_ms is None else rfc3339_ms(last_ms),
        }

    # ---- running

    async def start(self) -> None:
        self._work.start({"billing summary": self._read_summary, "billing pump": self._run_pump})

    async def stop(self) -> None:
        """Let a request that is under way land; what is left goes out after the next start."""
        await self._work.stop(self.pump)

    def wake(self) -> None:
        """A key changed, or a command asked for days: try at once."""
        self._store.look_now()
        self.pump.wake()

    async def refusal(self, day: DayContent) -> str | None:
        """Why the upstream would refuse *day*, which it checks and does not store; None where it
        would take it.
        """
        for n, body in enumerate(bodies(day, self.book.source, PART_BYTES)):
            match await self._calls.validate(Batch(f"dry run {n}", LANE, 0, 0, "", (body,))):
                case Delivered():
                    continue
                case Refused(code, message):
                    return f"{code}: {message}"
                case Retry(reason) | Hold(reason) | NotUnderstood(reason):
                    return f"not checked: {reason}"
        return None

    async def _run_pump(self) -> None:
        try:
            await self.pump.run()
        finally:
            if not self._work.is_stopping:  # it ended by a fault
                self.pump = self._make_pump()

    async def _read_summary(self) -> None:
        self._summary = await self.book.summary()
        await asyncio.sleep(SUMMARY_S)


class _Sender:
    """An `exporters.base.Exporter` for the batches of the store."""

    def __init__(self, store: BillingLaneStore, calls: BillingCalls) -> None:
        self._store = store
        self._calls = calls
        self._is_validated = False

    async def send(self, batch: Batch) -> Outcome:
        """Drop *batch*; the first one after a start is validated before."""
        if not self._is_validated and (answer := await self._validated(batch)) is not None:
            return answer
        dropped = await self._calls.drop(batch)
        if dropped.is_partial and await self._store.is_last(batch):
            self._store.incomplete_batch_id = batch.batch_id
            return Retry("the upstream lacks parts of the day", answered=True)
        return dropped.outcome

    async def _validated(self, batch: Batch) -> Retry | Refused | NotUnderstood | None:
        """Why the body is not to be dropped; None also where the upstream or the key offers no
        validation: the drop's own answer decides then.
        """
        found = await self._calls.validate(batch) if self._calls.can_validate else Delivered()
        if isinstance(found, Retry | Refused | NotUnderstood):
            return found
        self._is_validated = True
        return None

    async def close(self) -> None:
        """The client's owner closes it."""


def _note_fault(error: Exception) -> None:
    log.error("the lane of billing met a fault", error=type(error).__name__, at=places(error))
