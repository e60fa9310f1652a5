"""Billing drops that senders give to this gateway under keys of "Send Billing Data". Each is
checked, on disk before its sender is answered, and goes out under the gateway's own key.

Drops of one connection go out one after the other; connections do not wait for each other. A
connection that this gateway fills itself takes none: they would replace each other's rows.
"""

import asyncio
import hashlib
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, TypedDict

import structlog

from exporters.attempts import Attempts
from exporters.base import Delivered, Hold, Outcome, Retry
from exporters.clock import Clock
from exporters.cost_service.billing import BillingCalls
from exporters.cost_service.doubts import Doubts
from exporters.pacing import LaneState
from exporters.pump import BatchLimits, Pump
from gateway.common.contract.billing import CONNECTION_ID
from gateway.common.contract.errors import BadRecord, ConnectionInUse, Overloaded, StreamMismatch, TooLarge
from gateway.common.contract.intake import Receipt, Sender
from gateway.common.contract.json_types import Count
from gateway.common.in_thread import in_thread
from gateway.common.lane_work import LaneWork
from gateway.common.traceback_summary import places
from gateway.usage.billing.relay_home import MAX_WAITING_BYTES, NewDrop, Queue, RelayHome
from gateway.usage.billing.relay_store import LANE, ONCE_ONLY, RelayStore
from spool.clock import uuid7
from spool.record import Batch

log = structlog.get_logger()

MAX_DROP_BYTES: Final = 4_500_000
"""Of one body, decompressed: the upstream takes 5 MB."""
MAX_CONNECTIONS: Final = 32
"""For which drops come in one run of the gateway."""
LARGE_BYTES: Final = 64 * 1024
"""Reading such a body takes too long for the loop."""
FULL_RETRY_S: Final = 60
SUMMARY_S: Final = 2.0
"""Between two readings of control.db for the status."""
LIMITS: Final = BatchLimits(max_records=1, max_bytes=MAX_DROP_BYTES, in_flight=1, parks_suspects=False)
OWN_CONNECTION: Final = "this gateway drops to the connection itself (billing.connection): name another one"


class ReadDrop(NamedTuple):
    """What a sound body states."""

    month: str
    """YYYY-MM"""
    row_count: int
    operation: str
    source_day: str | None = None
    """Of a part of a FOCUS day."""
    division: str | None = None
    """The same: its revision, and behind a slash the number of parts."""


class BillingRelayStatus(TypedDict):
    connection: str
    state: LaneState
    reason: str | None
    """Why it is not ok."""
    waiting: Count
    """Drops that the upstream does not have yet, or of whose day it lacks parts."""
    waiting_bytes: Count
    refused: Count


@dataclass(slots=True)
class _Line:
    """The lane of one connection."""

    store: RelayStore
    pump: Pump
    work: LaneWork


class BillingRelay:
    """Make inside a running loop; `start`, then `stop`."""

    def __init__(
        self,
        home: RelayHome,
        calls_to: Callable[[str], BillingCalls],
        read: Callable[[bytes], ReadDrop],
        *,
        own_connection: str | None,
        clock: Clock,
        chance: Callable[[], float],
        now_ms: Callable[[], int],
        attempts: Attempts,
    ) -> None:
        """*calls_to* makes the calls of a connection. *read* checks a body and raises BadRecord.
        *own_connection*: the one that this gateway fills itself. *chance* draws from [0, 1).
        """
        self.home = home
        self._calls_to = calls_to
        self._read = read
        self._own_connection = own_connection
        self._clock = clock
        self._chance = chance
        self._now_ms = now_ms
        self._attempts = attempts
        self._lines: dict[str, _Line] = {}
        self._arriving: Counter[str] = Counter()
        self._queues: list[Queue] = []
        self._watching: asyncio.Task[None] | None = None

    # ---- in

    async def validate(self, body: bytes) -> Receipt:
        """Check a drop and keep nothing. Raises TooLarge, BadRecord."""
        read = await self._checked(body)
        return Receipt(read.row_count, (), answer={"month": read.month, "row_count": read.row_count})

    async def take(self, connection: str, body: bytes, sender: Sender) -> Receipt:
        """Keep a drop for *connection*; it is on disk when this returns.

        Raises TooLarge, BadRecord, ConnectionInUse, StreamMismatch, Overloaded,
        DatabaseUnavailable.
        """
        if CONNECTION_ID.fullmatch(connection) is None:
            raise BadRecord("invalid_connection_id", "connection_id: 1 to 64 letters, digits, _ . and - are needed")
        if connection == self._own_connection:
            raise ConnectionInUse(OWN_CONNECTION)
        with self._room_for(connection):
            return await self._take(connection, body, sender)

    @contextmanager
    def _room_for(self, connection: str) -> Iterator[None]:
        """Raises Overloaded. Connections of drops that are being checked count as well."""
        known = self._lines.keys() | self._arriving.keys()
        if connection not in known and len(known) >= MAX_CONNECTIONS:
            raise Overloaded(f"drops for {MAX_CONNECTIONS} connections came already", retry_after_s=FULL_RETRY_S)
        self._arriving[connection] += 1
        try:
            yield
        finally:
            self._arriving[connection] -= 1
            self._arriving += Counter()  # without those that are at 0

    async def _take(self, connection: str, body: bytes, sender: Sender) -> Receipt:
        read = await self._checked(body)
        now_ms = self._now_ms()
        new = NewDrop(
            uuid7(now_ms, secrets.token_bytes(10)), connection, body, hashlib.sha256(body).digest(),
            repeat_key_of(connection, sender), read.month, read.row_count, read.operation, read.source_day,
            read.division, sender.key,
        )  # fmt: skip
        kept = await self.home.commit(lambda kept: kept.keep(new, now_ms))
        if kept.outcome == "full":
            text = f"drops of {MAX_WAITING_BYTES >> 20} MiB wait for the upstream already"
            raise Overloaded(text, retry_after_s=FULL_RETRY_S)
        if kept.outcome == "reused":
            raise StreamMismatch(
                "idempotency_key_reused", "the idempotency key was used for another drop: use a new one"
            )
        self._line(connection).store.look_now()
        answer = {"drop_id": kept.drop_id, "month": read.month, "row_count": read.row_count, "state": "waiting"}
        return Receipt(read.row_count, (), answer=answer)

    async def _checked(self, body: bytes) -> ReadDrop:
        if len(body) > MAX_DROP_BYTES:
            raise TooLarge(f"the drop is larger than {MAX_DROP_BYTES} bytes: send it in several")
        return await in_thread(partial(self._read, body), is_long=len(body) > LARGE_BYTES)

    # ---- an operator's words

    async def retry(self, drop_id: str) -> bool:
        """Send a refused drop again; False where it is none."""
        connection = await self.home.commit(lambda kept: kept.retry(drop_id))
        if connection is not None:
            self._line(connection).store.look_now()
        return connection is not None

    # ---- out

    async def start(self) -> None:
        """Raises DatabaseUnavailable."""
        for connection in await self.home.read(lambda kept: kept.connections()):
            self._line(connection)
        self._watching = asyncio.create_task(self._watch(), name="relayed drops")

    async def stop(self) -> None:
        """Let requests that are under way land; what is left goes out after the next start."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await asyncio.gather(*(line.work.stop(line.pump) for line in self._lines.values()))

    def wake(self) -> None:
        """A key changed: try at once."""
        for line in self._lines.values():
            line.pump.wake()

    def status(self) -> list[BillingRelayStatus]:
        """By connection, of those with drops that wait or were refused."""
        return [self._status_of(queue) for queue in self._queues]

    def _status_of(self, queue: Queue) -> BillingRelayStatus:
        line = self._lines.get(queue.connection)
        return {
            "connection": queue.connection,
            "state": "ok" if line is None else line.pump.state,
            "reason": None if line is None else line.pump.reason,
            "waiting": queue.waiting,
            "waiting_bytes": queue.waiting_bytes,
            "refused": queue.refused,
        }

    async def _watch(self) -> None:
        """Keep what the status shows up to date."""
        while True:
            try:
                self._queues = list(await self.home.read(lambda kept: kept.queues()))
            except Exception as error:  # noqa: BLE001 - the status shows what was read last
                _note_fault(error)
            await asyncio.sleep(SUMMARY_S)

    def _line(self, connection: str) -> _Line:
        """The lane of *connection*, started where there is none yet."""
        if connection not in self._lines:
            store = RelayStore(self.home, connection, clock=self._clock, now_ms=self._now_ms)
            sender = _Sender(store, self._calls_to(connection), is_own=connection == self._own_connection)
            line = self._lines[connection] = _Line(store, self._pump(store, sender), LaneWork(_note_fault))
            line.work.start({f"billing relay {connection}": partial(self._run, line, sender)})
        return self._lines[connection]

    async def _run(self, line: _Line, sender: "_Sender") -> None:
        try:
            await line.pump.run()
        finally:
            if not line.work.is_stopping:  # it ended by a fault
                line.pump = self._pump(line.store, sender)

    def _pump(self, store: RelayStore, sender: "_Sender") -> Pump:
        return Pump(
            LANE,
            store,
            sender,
            limits=LIMITS,
            clock=self._clock,
            chance=self._chance,
            destination=sender.calls.client.destination,
            attempts=self._attempts,
        )


class _Sender:
    """An `exporters.base.Exporter` for the drops of one connection."""

    def __init__(self, store: RelayStore, calls: BillingCalls, *, is_own: bool) -> None:
        self.calls = calls
        self._store = store
        self._is_own = is_own
        self._doubts = Doubts()

    async def send(self, batch: Batch) -> Outcome:
        """Drop *batch* as it came."""
        if self._is_own:  # since the drop was taken
            return Hold(OWN_CONNECTION, answered=False)
        is_repeatable = self._store.operation not in ONCE_ONLY
        if not is_repeatable:
            self._doubts.begin(batch)
        dropped = await self.calls.drop(batch, repeatable=is_repeatable)
        if dropped.is_partial:
            return await self._partial(batch)
        return dropped.outcome if is_repeatable else self._doubts.settled(batch, dropped.outcome)

    async def _partial(self, batch: Batch) -> Outcome:
        """The upstream took the part, and lacks others of the day: some are still to be sent, or it
        lost them.
        """
        if await self._store.is_last(batch):
            self._store.lost_batch_id = batch.batch_id
            return Retry("the upstream lacks parts of the day", answered=True)
        self._store.partial_batch_id = batch.batch_id
        return Delivered()

    async def close(self) -> None:
        """The client's owner closes it."""


def repeat_key_of(connection: str, sender: Sender) -> bytes | None:
    """By what a repeat of the request is known: a forwarding gateway's batch, else the sender's
    idempotency key; None without either.
    """
    if sender.batch is not None:
        named = ("batch", *sender.batch)
    elif sender.repeat_key is not None:
        named = ("key", sender.counted_as or sender.peer, sender.repeat_key)
    else:
        return None
    return hashlib.sha256("\x00".join(("billing drop", connection, *named)).encode("utf-8", "replace")).digest()


def _note_fault(error: Exception) -> None:
    log.error("the lane of relayed drops met a fault", error=type(error).__name__, at=places(error))
