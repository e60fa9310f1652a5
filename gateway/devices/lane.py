"""The lane of devices: asks the store what is due, and sends it within the limits of `throttling`.

Enrolments take turns by a token bucket; heartbeats come at their slots; four calls are under way at
most. A failure that may pass puts the enrolment back with a back-off of its own; several in a row
make the whole lane wait (`CircuitBreaker`). A device that the service does not know any more is
enrolled again, one by one; when it seems to have lost the fleet (`MassNotFoundBreaker`), no one is:
heartbeats stop, and a ping now and then asks whether it was an outage.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, assert_never

import orjson
import structlog

from exporters.backoff import probe_delay_s
from exporters.base import Hold, Refused, Retry
from exporters.clock import Clock
from exporters.cost_service.devices import SCOPES, DeviceAnswer, DeviceCall, DeviceCalls, DeviceReply
from exporters.pacing import LaneState
from exporters.rate import TokenBucket
from gateway.common.traceback_summary import places
from gateway.contract.errors import NoAnswer
from gateway.devices.heartbeats import spoken_for
from gateway.devices.outbox import FORGOTTEN_BY_ALL, LAST_CLAIM, Enrolment
from gateway.devices.rows import Device, New
from gateway.devices.store import DeviceStore
from gateway.devices.throttling import LONGEST_S, CircuitBreaker, MassNotFoundBreaker, retry_delay_s

log = structlog.get_logger()

LOOK_S: Final = 1.0
"""Between two looks for what became due by itself."""
LOOK_AFTER_S: Final = 2.0
TAKE_MOST: Final = 16
"""Enrolments or heartbeats taken from the store at once."""
_UNDER_WAY: Final = float("inf")
GRACE_S: Final = 5.0
"""How long calls that are under way may take when the gateway stops."""


@dataclass(frozen=True, slots=True)
class HerdLimits:
    per_s: float = 10.0
    burst: float = 50.0


class DeviceLane:
    """Make inside a running loop; `start`, then `stop`."""

    def __init__(
        self,
        store: DeviceStore,
        calls: DeviceCalls,
        *,
        limits: HerdLimits,
        clock: Clock,
        now_ms: Callable[[], int],
        chance: Callable[[], float],
        itself: New | None = None,
    ) -> None:
        """*now_ms* is the store's clock; *chance* draws from [0, 1). *itself*: the device that the
        gateway enrols itself as.
        """
        self._store = store
        self._calls = calls
        self._limits = limits
        self._clock = clock
        self._now_ms = now_ms
        self._chance = chance
        self._itself = itself
        self._gate = CircuitBreaker()
        self._forgetting = MassNotFoundBreaker()
        self._is_lost = False
        """The service seems to have lost the fleet."""
        self._taken_since_forbidden = False
        """Whether the service took something since it last forbade something."""
        self._bucket = TokenBucket(per_s=limits.per_s, burst=limits.burst)
        self._changed = asyncio.Event()
        self._enrolments_due = asyncio.Event()
        self._beats_due = asyncio.Event()
        self._never = asyncio.Event()
        self._lost_probes = 0
        self._probed_no = 0
        """The lost device that was asked for last."""
        self._enrolling: set[str] = set()
        """Enrolments under way: one that lasts longer than its lease is not sent beside itself."""
        self._landings: set[asyncio.Task[None]] = set()
        self._under_way = 0
        self._beating: dict[int, float] = {}
        """Devices whose heartbeat is under way or waits for another try -> monotonic time of that;
        infinity while under way."""
        self._tries: dict[int, int] = {}
        self._running: list[asyncio.Task[None]] = []
        store.on_due = self._look_now
        store.pinging = self.ping

    # ---- what the status shows

    @property
    def is_on(self) -> bool:
        return any(self._calls.grants(call) for call in SCOPES)

    @property
    def state(self) -> LaneState:
        if not self.is_on:
            return "off"
        if self._is_lost or self._gate.is_held or self._lacking:
            return "held"
        return "ok" if self._gate.reason is None else "retrying"

    @property
    def reason(self) -> str | None:
        """Why the lane is not `ok`; safe to show."""
        if not self.is_on:
            return f"no configured key grants {' or '.join(SCOPES.values())}"
        if self._is_lost:
            return "the service does not know device after device: nobody is enrolled again until a ping finds one, or an operator says so (devices enroll --all)"
        if self._gate.reason is not None:
            return self._gate.reason
        return f"no configured key grants {' or '.join(self._lacking)}" if self._lacking else None

    @property
    def _lacking(self) -> list[str]:
        """Scopes without which a part of the lane stands still."""
        return [SCOPES[call] for call in ("enroll", "heartbeat") if not self._calls.grants(call)]

    # ---- running

    async def start(self) -> None:
        if not self.is_on:
            log.warning("lane off", lane="devices", reason=self.reason)
        self._is_lost = bool(await self._store.noted(FORGOTTEN_BY_ALL))
        await self._carry_bucket_over()
        works = {"upkeep": self._look_after}
        if self.is_on:
            works |= {"enrolling": self._enroll_due, "heartbeats": self._beat_due, "probes": self._probe_lost}
        self._running = [
            asyncio.create_task(self._forever(work), name=f"devices {name}") for name, work in works.items()
        ]

    async def stop(self) -> None:
        """Let calls that are under way land; what is left goes out after the next start."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        if self._landings:
            await asyncio.wait(self._landings, timeout=GRACE_S)
        for landing in self._landings:
            landing.cancel()
        await asyncio.gather(*self._landings, return_exceptions=True)

    def wake(self) -> None:
        """A key changed: try at once."""
        self._gate.wake()
        self._changed.set()

    async def _carry_bucket_over(self) -> None:
        """A restart is no second burst: the bucket is taken to have been empty at the last claim."""
        last_ms = await self._store.noted(LAST_CLAIM)
        if last_ms is None:
            return
        now_s = self._clock.monotonic_s()
        since_s = max(0.0, (self._now_ms() - last_ms) / 1000)
        spent = max(0, int(self._limits.burst - since_s * self._limits.per_s))
        for _ in range(spent):
            self._bucket.take(now_s)

    def _look_now(self) -> None:
        self._enrolments_due.set()
        self._beats_due.set()

    async def _forever(self, round_: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """What one round meets must not end the lane."""
        while True:
            try:
                await round_()
            except Exception as error:  # noqa: BLE001 as above
                log.error("the lane of devices met a fault", error=type(error).__name__, at=places(error))  # noqa: TRY400 the text may quote a payload
                await asyncio.sleep(LOOK_S)

    async def _pause(self, event: asyncio.Event, seconds: float = LOOK_S) -> None:
        await self._clock.wait(event, seconds)
        event.clear()

    async def _until_open(self) -> None:
        """Return when one more call may go out."""
        while True:
            destination = self._calls.client.destination
            closed_s = max(self._gate.opens_at_s, destination.opens_at_s) - self._clock.monotonic_s()
            if closed_s <= 0 and self._under_way < (1 if destination.is_down else self._gate.slots):
                return
            await self._pause(self._changed, min(closed_s, LOOK_S) if closed_s > 0 else LOOK_S)

    async def _slot(self) -> None:
        """Wait for a place among the calls that are under way; `_send` gives it back."""
        await self._until_open()
        self._under_way += 1

    def _launch(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._guarded(work))
        self._landings.add(task)
        task.add_done_callback(self._landings.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 what was not settled is due again when its lease ends
            log.error("an answer about a device is not settled", error=type(error).__name__, at=places(error))  # noqa: TRY400 as above

    async def _send(self, call: DeviceCall) -> tuple[DeviceReply, int]:
        """The reply, and the gate's turn that the call was made in.

        Give it a place that `_slot` got.
        """
        turn = self._gate.turn
        probe = self._calls.client.destination.launch()
        try:
            return await self._calls.send(call), turn
        finally:
            self._under_way -= 1
            self._calls.client.destination.landed(probe=probe)
            self._changed.set()

    def _judge(self, reply: Retry | Hold | Refused, turn: int) -> None:
        """What a failure means for the lane."""
        now_s = self._clock.monotonic_s()
        match reply:
            case Retry(throttled=True):
                self._gate.paused(reply.reason, max(1.0, reply.after_s or 1.0), turn=turn, now_s=now_s)
            case Retry():
                self._gate.failed(reply.reason, turn=turn, now_s=now_s, chance=self._chance())
            case Hold():
                if self._gate.turn == turn:
                    log.warning("lane held", lane="devices", reason=reply.reason)
                self._gate.held(reply.reason, turn=turn, now_s=now_s)
            case Refused():
                self._gate.succeeded(turn)
            case _:
                assert_never(reply)

    # ---- enrolments

    async def _enroll_due(self) -> None:
        if not self._calls.grants("enroll"):
            await self._pause(self._enrolments_due)
            return
        await self._until_open()
        claimed = await self._store.claim(TAKE_MOST, again=not self._is_lost)
        if not claimed:
            await self._pause(self._enrolments_due)
        for at, enrolment in enumerate(claimed):
            if enrolment.enrollment_id in self._enrolling:
                continue
            if self._clock.monotonic_s() < self._gate.opens_at_s:
                for left in claimed[at:]:
                    await self._store.put_back(left, 0.0, answered=False, tried=False)
                return
            if delay_s := self._bucket.take(self._clock.monotonic_s()):
                await self._clock.wait(self._never, delay_s)
            await self._slot()
            self._enrolling.add(enrolment.enrollment_id)
            self._launch(self._enroll_one(enrolment))

    async def _enroll_one(self, enrolment: Enrolment) -> None:
        try:
            await self._settle_enrolment(enrolment, *await self._send(self._enrolment_call(enrolment)))
        finally:
            self._enrolling.discard(enrolment.enrollment_id)

    async def _settle_enrolment(self, enrolment: Enrolment, reply: DeviceReply, turn: int) -> None:
        match reply:
            case DeviceAnswer(state="forbidden"):
                await self._forbidden(reply, enrolment.device, turn)
                await self._store.put_back(enrolment, 60.0, answered=True, tried=True)
            case DeviceAnswer():
                self._gate.succeeded(turn)
                self._taken_since_forbidden = True
                await self._store.enrolled(enrolment, reply)
                if self._is_lost:
                    await self._look_whether_any_is_lost()
            case Refused():  # too large: nothing of it will ever fit
                self._judge(reply, turn)
                said = DeviceAnswer(
                    "enroll", enrolment.device.device_id, "quarantined", message=f"{reply.code}: {reply.message}"
                )
                await self._store.enrolled(enrolment, said)
            case Retry():
                self._judge(reply, turn)
                delay_s = retry_delay_s(enrolment.attempts, self._chance())
                await self._store.put_back(
                    enrolment, max(delay_s, reply.after_s or 0.0), answered=reply.answered, tried=True
                )
            case Hold():
                self._judge(reply, turn)
                await self._store.put_back(enrolment, 0.0, answered=reply.answered, tried=reply.answered)
            case _:
                assert_never(reply)

    def _enrolment_call(self, enrolment: Enrolment) -> DeviceCall:
        sent_id = enrolment.device.sent_id
        return DeviceCall("enroll", sent_id, enrolment.body, enrolment.enrollment_id, enrolment.generation)

    async def _forbidden(self, answer: DeviceAnswer, device: Device, turn: int) -> None:
        """A 403 that does not state what it is about.

        While others are taken it is about the device, else about the key.
        """
        reason = f"devices: HTTP 403: the key is refused or lacks the scope: {answer.message}"
        if self._gate.reason is None and self._gate.turn == turn and self._taken_since_forbidden:
            self._taken_since_forbidden = False
            await self._store.forbidden(device, answer.message)
            return
        self._judge(Hold(reason), turn)

    # ---- heartbeats

    async def _beat_due(self) -> None:
        if self._stands_still():
            await self._pause(self._beats_due)
            return
        await self._until_open()
        due = await self._store.due_beats(TAKE_MOST, self._not_now())
        if not due:
            await self._pause(self._beats_due)
        for device in due:
            await self._until_open()
            if self._stands_still():
                return
            self._beating[device.device_no] = _UNDER_WAY
            await self._slot()
            self._launch(self._beat_one(device))

    def _stands_still(self) -> bool:
        return self._is_lost or not self._calls.grants("heartbeat")

    def _not_now(self) -> list[int]:
        """Devices whose heartbeat is under way, or must wait before it is tried again."""
        now_s = self._clock.monotonic_s()
        for device_no in [no for no, at_s in self._beating.items() if at_s < now_s - LONGEST_S]:
            del self._beating[device_no]
            self._tries.pop(device_no, None)
        return [device_no for device_no, at_s in self._beating.items() if at_s > now_s]

    async def _beat_one(self, device: Device) -> None:
        again_s = 0.0
        try:
            reply, turn = await self._send(self._beat_call(device))
            again_s = await self._settle_beat(device, reply, turn)
        finally:
            if again_s:
                self._beating[device.device_no] = self._clock.monotonic_s() + again_s
            else:
                self._beating.pop(device.device_no, None)
                self._tries.pop(device.device_no, None)

    async def _settle_beat(self, device: Device, reply: DeviceReply, turn: int) -> float:
        """Seconds until it may be tried again; 0 when there is nothing to try again."""
        match reply:
            case DeviceAnswer(state="forbidden"):
                await self._forbidden(reply, device, turn)
                return 60.0
            case DeviceAnswer():
                self._gate.succeeded(turn)
                self._taken_since_forbidden = True
                await self._store.beaten(device, reply)
                await self._note_unknown(device, is_unknown=reply.state == "unknown")
                return 0.0
            case Refused():
                self._judge(reply, turn)
                await self._store.given_up(device)
                return 0.0
            case Retry() | Hold():
                self._judge(reply, turn)
                tries = self._tries[device.device_no] = self._tries.get(device.device_no, 0) + 1
                return max(0.01, retry_delay_s(tries, self._chance()))
            case _:
                assert_never(reply)

    def _beat_call(self, device: Device) -> DeviceCall:
        """Without the scope to ping, a device's ping goes as a heartbeat: it states as much."""
        told_ms = self._store.told_ms
        if device.beat == b"" and self._calls.grants("ping"):
            return DeviceCall("ping", device.sent_id)
        if device.beat:
            return DeviceCall("heartbeat", device.sent_id, device.beat)
        body = spoken_for(self._store.gateway_id, told_ms(device.last_contact_ms), told_ms(self._now_ms()))
        return DeviceCall("heartbeat", device.sent_id, orjson.dumps(body))

    # ---- a service that forgot everybody

    async def _note_unknown(self, device: Device, *, is_unknown: bool) -> None:
        now_s = self._clock.monotonic_s()
        if self._forgetting.note(device.device_id, now_s, is_unknown=is_unknown) and not self._is_lost:
            self._is_lost = True
            await self._store.note(FORGOTTEN_BY_ALL, 1)
            log.error("the service does not know device after device; none is enrolled again before it is seen to work")
            self._lost_probes = 0

    async def _probe_lost(self) -> None:
        if not self._is_lost:
            await self._pause(self._changed)
            return
        await self._clock.wait(self._never, probe_delay_s(self._lost_probes))
        self._lost_probes += 1
        await self._probe_once()

    async def _probe_once(self) -> None:
        """Ask for one that was lost; when the service knows it, it was an
        outage, and all stay enrolled.
        """
        lost = await self._store.lost(after_no=self._probed_no)
        if lost is None:
            await self._found_again()
            return
        self._probed_no = lost.device_no
        self._under_way += 1
        reply, _ = await self._send(self._probe_call(lost))
        if isinstance(reply, DeviceAnswer) and reply.state not in {"unknown", "forbidden"}:
            recalled = await self._store.recall()
            log.info("the service knows the devices again", recalled=recalled)
            await self._found_again()

    def _probe_call(self, device: Device) -> DeviceCall:
        return DeviceCall("ping", device.sent_id) if self._calls.grants("ping") else self._beat_call(device)

    async def _look_whether_any_is_lost(self) -> None:
        """An operator had them enrolled again: who of them is left?"""
        if await self._store.lost() is None:
            await self._found_again()

    async def _found_again(self) -> None:
        self._forgetting.clear()
        self._is_lost = False
        await self._store.note(FORGOTTEN_BY_ALL, 0)
        self._look_now()

    # ---- beside that

    async def _look_after(self) -> None:
        if self._itself is not None:
            await self._speak_for(self._itself)
        await self._store.look_after([no for no, at_s in self._beating.items() if at_s == _UNDER_WAY])
        await self._clock.wait(self._never, LOOK_AFTER_S)

    async def _speak_for(self, itself: New) -> None:
        """The gateway is a device too, and speaks as long as it runs."""
        if self._store.strangers([itself.device_id]):
            await self._store.meet([itself])

    async def ping(self, device: Device) -> dict[str, Any]:
        """Ask the service for one device, on an operator's word. Raises NoAnswer."""
        self._under_way += 1
        reply, _ = await self._send(DeviceCall("ping", device.sent_id))
        match reply:
            case DeviceAnswer(state="unknown"):
                return {"device_id": device.device_id, "answer": "unknown"}
            case DeviceAnswer(state="forbidden"):
                return {"device_id": device.device_id, "answer": "forbidden", "message": reply.message}
            case DeviceAnswer(state="blocked"):
                await self._store.beaten(device, reply)
                return {"device_id": device.device_id, "answer": "blocked"}
            case DeviceAnswer():
                return {"device_id": device.device_id, "answer": "known"}
            case Retry() | Hold():
                raise NoAnswer(reply.reason)
            case Refused():
                raise NoAnswer(f"{reply.code}: {reply.message}")
            case _:
                assert_never(reply)
