"""What the lane of devices has to send: one enrolment, heartbeat or probe a batch.

Enrolments go at the rate of a token bucket, heartbeats at their slots. A failed one is due
again after a back-off of its own. A device that the upstream does not know any more is enrolled
again; when the upstream seems to have lost the fleet (`throttling.MassNotFoundBreaker`), none
is: heartbeats stop, and a ping now and then shows whether it was an outage. Every
DatabaseUnavailable leaves as SpoolError, so the pump tries again.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, assert_never

import orjson
import structlog

from exporters.backoff import full_jitter_s, probe_delay_s
from exporters.clock import Clock
from exporters.cost_service.devices import DeviceAnswer, DeviceCall, DeviceCalls
from exporters.rate import TokenBucket
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.fleet.devices.heartbeats import spoken_for
from gateway.fleet.devices.outbox import FORGOTTEN_BY_ALL, LAST_CLAIM, Enrolment
from gateway.fleet.devices.rows import Device
from gateway.fleet.devices.store import DeviceStore
from gateway.fleet.devices.throttling import MassNotFoundBreaker
from spool.errors import SpoolError
from spool.record import Batch, Lane
from spool.store import Refusal

T = TypeVar("T")

log = structlog.get_logger()

LOOK_S: Final = 1.0
"""Between two looks for what became due by itself."""
MAX_TAKE: Final = 16
"""Enrolments or heartbeats read from control.db at once."""
FRESH_S: Final = 10.0
"""What was read and not sent for so long is read again: it may have been replaced."""
LONGEST_S: Final = 600.0
"""Between two tries of one enrolment or heartbeat."""
FORBIDDEN_S: Final = 60.0
"""Before the next try after a 403."""


@dataclass(frozen=True, slots=True)
class EnrolmentRate:
    per_s: float = 10.0
    burst: float = 50.0


@dataclass(slots=True)
class Flight:
    """A call that the pump has taken, and what `sender.DeviceSender` learnt of it."""

    call: DeviceCall
    item: "Enrolment | Device | LostProbe"
    answer: DeviceAnswer | None = None
    """None until the upstream answered about the device."""
    is_answered: bool = False
    """An answer came about the key, the path or the upstream: the try counts."""
    retry_after_s: float | None = None
    """Before the next try; None when no failure was seen."""


@dataclass(frozen=True, slots=True)
class LostProbe:
    """One of the devices that the upstream seems to have lost is asked for."""

    device: Device


class _Ahead(Generic[T]):
    """Items read from control.db and not sent yet; read again when stale, or
    `LOOK_S` after none was found.
    """

    def __init__(self) -> None:
        self.items: deque[T] = deque()
        self.look_at_s = float("-inf")
        """Monotonic time of the next reading, once nothing is left."""
        self._read_at_s = 0.0

    def is_stale(self, now_s: float) -> bool:
        return bool(self.items) and self._read_at_s < now_s - FRESH_S

    async def fill(self, now_s: float, read: Callable[[], Awaitable[Iterable[T]]]) -> None:
        if not self.items and self.look_at_s <= now_s:
            self._read_at_s, self.look_at_s = now_s, now_s + LOOK_S
            self.items.extend(await read())

    def pop(self) -> T:
        """The oldest; after the last one the next reading is due at once."""
        item = self.items.popleft()
        if not self.items:
            self.look_at_s = float("-inf")
        return item


class DeviceLaneStore:
    """A `spool.store.LaneStore` over control.db. `open` before use, `close` after."""

    def __init__(
        self,
        store: DeviceStore,
        calls: DeviceCalls,
        *,
        rate: EnrolmentRate,
        clock: Clock,
        now_ms: Callable[[], int],
        chance: Callable[[], float],
        said_by: Callable[[str], Mapping[str, Any]] = lambda _: {},
    ) -> None:
        """*now_ms* is the store's clock; *chance* draws from [0, 1). *said_by*: device id -> what a
        heartbeat that the gateway makes for it states beyond `spoken_for`.
        """
        self._said_by = said_by
        self.flights: dict[str, Flight] = {}
        """Batch id -> the call under way."""
        self.is_lost = False
        """The upstream seems to have lost the fleet."""
        self._store = store
        self._calls = calls
        self._rate = rate
        self._clock = clock
        self._now_ms = now_ms
        self._chance = chance
        self._breaker = MassNotFoundBreaker()
        self._bucket = TokenBucket(per_s=rate.per_s, burst=rate.burst)
        self._token_at_s: float | None = None
        """From when the token taken for the next enrolment is valid; None when none is taken."""
        self._claimed = _Ahead[Enrolment]()
        self._beats = _Ahead[Device]()
        self._is_beats_turn = False
        self._due = asyncio.Event()
        self._retry_at_s: dict[int, float] = {}
        """Devices whose heartbeat waits for another try -> monotonic time of that."""
        self._tries: dict[int, int] = {}
        self._lost_probes = 0
        self._probe_at_s = 0.0
        self._probed_no = 0
        """The lost device that was asked for last."""
        store.on_due = self.look_now

    async def open(self) -> None:
        """Take over what an earlier run noted. Raises DatabaseUnavailable."""
        self.is_lost = bool(await self._store.noted(FORGOTTEN_BY_ALL))
        self._probe_at_s = self._clock.monotonic_s() + probe_delay_s(0)
        last_ms = await self._store.noted(LAST_CLAIM)
        if last_ms is not None:  # a restart is no second burst: the bucket counts as empty at the last claim
            since_s = max(0.0, (self._now_ms() - last_ms) / 1000)
            for _ in range(max(0, int(self._rate.burst - since_s * self._rate.per_s))):
                self._bucket.take(self._clock.monotonic_s())

    async def close(self) -> None:
        """Give back what was read and not sent. Raises DatabaseUnavailable."""
        while self._claimed.items:
            await self._store.put_back(self._claimed.pop(), 0.0, answered=False, tried=False)

    def look_now(self) -> None:
        """Something may be due."""
        self._claimed.look_at_s = self._beats.look_at_s = float("-inf")
        self._due.set()

    def beats_under_way(self) -> list[int]:
        """Devices whose heartbeat is in flight."""
        return [each.item.device_no for each in self.flights.values() if isinstance(each.item, Device)]

    # ---- as the pump uses it

    async def freeze(self, lane: Lane, *, max_records: int, max_bytes: int) -> Batch | None:
        """The next call as a batch of one, None when none is due;
        enrolments and heartbeats alternate.
        """
        del max_records, max_bytes
        self._due.clear()
        takers = [self._take_enrolment, self._take_beat]
        if self._is_beats_turn:
            takers.reverse()
        self._is_beats_turn = not self._is_beats_turn
        with _as_spool_error():
            for take in (self._take_probe, *takers):
                if (flight := await take()) is not None:
                    batch_id = _batch_id(flight.item)
                    self.flights[batch_id] = flight
                    return Batch(batch_id, lane, flight.call.generation, 0, "", (flight.call.body,))
        return None

    async def wait_ready(self, lane: Lane, timeout_s: float) -> None:
        del lane
        wait_s = min(timeout_s, LOOK_S)
        if self._token_at_s is not None and self._claimed.items:
            wait_s = min(wait_s, self._token_at_s - self._clock.monotonic_s())
        if wait_s > 0:
            await self._clock.wait(self._due, wait_s)

    async def ack(self, batch: Batch, refused: Sequence[Refusal] = ()) -> None:
        """Settle what the upstream answered about the device."""
        del refused
        flight = self.flights[batch.batch_id]
        answer = flight.answer
        if answer is not None:
            with _as_spool_error():
                await self._settle(flight.item, answer)
        self._land(batch)

    async def bury(self, batch: Batch, code: str, message: str) -> None:
        """The upstream will never take it (too large): the device is
        quarantined, a heartbeat expires.
        """
        flight = self.flights[batch.batch_id]
        with _as_spool_error():
            match flight.item:
                case Enrolment(device=device) as enrolment:
                    refusal = DeviceAnswer("enroll", device.device_id, "quarantined", message=f"{code}: {message}")
                    await self._store.enrolled(enrolment, refusal)
                case Device() as device:
                    await self._store.given_up(device)
                    self._forget_tries(device)
                case LostProbe():
                    pass
                case _:
                    assert_never(flight.item)
        self._land(batch)

    async def release(self, batch: Batch, *, answered: bool) -> None:
        """It is due again, after a back-off of its own where a failure was seen."""
        flight = self.flights[batch.batch_id]
        after_s = flight.retry_after_s
        match flight.item:
            case Enrolment() as enrolment:
                delay_s = 0.0 if after_s is None else max(after_s, self._backoff_s(enrolment.attempts))
                tried = after_s is not None or flight.is_answered
                with _as_spool_error():
                    await self._store.put_back(enrolment, delay_s, answered=answered, tried=tried)
            case Device() as device:
                tries = self._tries[device.device_no] = self._tries.get(device.device_no, 0) + 1
                delay_s = max(0.01, self._backoff_s(tries))
                self._retry_at_s[device.device_no] = self._clock.monotonic_s() + delay_s
            case LostProbe():
                pass
            case _:
                assert_never(flight.item)
        self._land(batch)

    async def split(self, batch: Batch) -> None:
        raise AssertionError(batch.batch_id)  # of one call

    def _land(self, batch: Batch) -> None:
        del self.flights[batch.batch_id]

    def _backoff_s(self, attempts: int) -> float:
        return full_jitter_s(attempts, self._chance(), longest_s=LONGEST_S)

    # ---- what is due

    async def _take_enrolment(self) -> Flight | None:
        if not self._calls.grants("enroll"):
            return None
        now_s = self._clock.monotonic_s()
        if self._claimed.is_stale(now_s):
            await self.close()
        await self._claimed.fill(now_s, self._claim)
        if not self._claimed.items:
            return None
        if self._token_at_s is None:
            self._token_at_s = now_s + self._bucket.take(now_s)
        if self._token_at_s > now_s:
            return None
        self._token_at_s = None
        enrolment = self._claimed.pop()
        sent_id = enrolment.device.sent_id
        call = DeviceCall("enroll", sent_id, enrolment.body, enrolment.enrollment_id, enrolment.generation)
        return Flight(call, enrolment)

    async def _claim(self) -> Iterable[Enrolment]:
        """An enrolment that lasts longer than its lease is not sent beside itself."""
        claimed = await self._store.claim(MAX_TAKE, again=not self.is_lost)
        return [each for each in claimed if each.enrollment_id not in self.flights]

    async def _take_beat(self) -> Flight | None:
        if self.is_lost or not self._calls.grants("heartbeat"):
            return None
        now_s = self._clock.monotonic_s()
        if self._beats.is_stale(now_s):
            self._beats.items.clear()
        await self._beats.fill(now_s, lambda: self._store.due_beats(MAX_TAKE, self._not_now()))
        if not self._beats.items:
            return None
        device = self._beats.pop()
        return Flight(self._beat_call(device), device)

    def _not_now(self) -> list[int]:
        """Devices whose heartbeat is in flight, or must wait before it is tried again."""
        now_s = self._clock.monotonic_s()
        for device_no in [no for no, at_s in self._retry_at_s.items() if at_s < now_s - LONGEST_S]:
            del self._retry_at_s[device_no]
            self._tries.pop(device_no, None)
        return self.beats_under_way() + [no for no, at_s in self._retry_at_s.items() if at_s > now_s]

    def _beat_call(self, device: Device) -> DeviceCall:
        """Without the scope to ping, a heartbeat is sent in place of a device's ping."""
        wall_ms = self._store.to_wall_ms
        if device.beat == b"" and self._calls.grants("ping"):
            return DeviceCall("ping", device.sent_id)
        if device.beat:
            return DeviceCall("heartbeat", device.sent_id, device.beat)
        body = spoken_for(self._store.gateway_id, wall_ms(device.last_contact_ms), wall_ms(self._now_ms()))
        return DeviceCall("heartbeat", device.sent_id, orjson.dumps({**body, **self._said_by(device.device_id)}))

    async def _take_probe(self) -> Flight | None:
        """A ping for one lost device, now and then while the fleet is lost."""
        now_s = self._clock.monotonic_s()
        if not self.is_lost or now_s < self._probe_at_s:
            return None
        self._lost_probes += 1
        self._probe_at_s = now_s + probe_delay_s(self._lost_probes)
        lost = await self._store.lost(after_no=self._probed_no)
        if lost is None:
            await self._found_again()
            return None
        self._probed_no = lost.device_no
        call = DeviceCall("ping", lost.sent_id) if self._calls.grants("ping") else self._beat_call(lost)
        return Flight(call, LostProbe(lost))

    # ---- what the answers make of the device

    async def _settle(self, item: Enrolment | Device | LostProbe, answer: DeviceAnswer) -> None:
        match item:
            case Enrolment() if answer.state == "forbidden":
                await self._store.forbidden(item.device, answer.message)
                await self._store.put_back(item, FORBIDDEN_S, answered=True, tried=True)
            case Enrolment():
                await self._store.enrolled(item, answer)
                if self.is_lost and await self._store.lost() is None:  # an operator had them enrolled again
                    await self._found_again()
            case Device() if answer.state == "forbidden":
                await self._store.forbidden(item, answer.message)
                self._retry_at_s[item.device_no] = self._clock.monotonic_s() + FORBIDDEN_S
            case Device():
                await self._store.beaten(item, answer)
                self._forget_tries(item)
                await self._note_unknown(item, is_unknown=answer.state == "unknown")
            case LostProbe():
                if answer.state not in {"unknown", "forbidden"}:
                    recalled = await self._store.recall()
                    log.info("the upstream knows the devices again", recalled=recalled)
                    await self._found_again()
            case _:
                assert_never(item)

    def _forget_tries(self, device: Device) -> None:
        self._retry_at_s.pop(device.device_no, None)
        self._tries.pop(device.device_no, None)

    async def _note_unknown(self, device: Device, *, is_unknown: bool) -> None:
        now_s = self._clock.monotonic_s()
        if self._breaker.note(device.device_id, now_s, is_unknown=is_unknown) and not self.is_lost:
            await self._store.note(FORGOTTEN_BY_ALL, 1)
            self.is_lost = True
            log.error("the upstream does not know device after device; none is enrolled again until a probe finds one")
            self._lost_probes = 0
            self._probe_at_s = now_s + probe_delay_s(0)

    async def _found_again(self) -> None:
        await self._store.note(FORGOTTEN_BY_ALL, 0)
        self._breaker.clear()
        self.is_lost = False
        self.look_now()


def _batch_id(item: Enrolment | Device | LostProbe) -> str:
    match item:
        case Enrolment():
            return item.enrollment_id
        case Device():
            return f"heartbeat {item.device_no}"
        case LostProbe():
            return "probe"
        case _:
            assert_never(item)


@contextmanager
def _as_spool_error() -> Iterator[None]:
    try:
        yield
    except DatabaseUnavailable as error:
        raise SpoolError(str(error)) from error
