"""The lane of devices: a pump over what control.db has to send, its state, and the upkeep of
devices beside it.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, assert_never

import structlog

from exporters.attempts import Attempts
from exporters.base import Hold, NotUnderstood, Refused, Retry
from exporters.clock import Clock
from exporters.cost_service.devices import SCOPES, DeviceAnswer, DeviceCall, DeviceCalls
from exporters.keyring import NOT_WANTED, no_key_grants
from exporters.pacing import BackoffRules, LaneState
from exporters.pump import BatchLimits, Pump
from gateway.common.contract.errors import NoAnswer
from gateway.common.lane_work import LaneWork
from gateway.common.storage.errors import DatabaseUnavailable
from gateway.common.traceback_summary import places
from gateway.fleet.devices.lane_store import LONGEST_S, DeviceLaneStore, EnrolmentRate
from gateway.fleet.devices.rows import Device, New
from gateway.fleet.devices.sender import DeviceSender
from gateway.fleet.devices.store import DeviceStore
from spool.record import DEVICES

log = structlog.get_logger()

LIMITS: Final = BatchLimits(
    max_records=1,
    in_flight=4,
    backoff=BackoffRules(tolerated=4, longest_s=LONGEST_S, retrying_slots=1),
    parks_suspects=False,
)
UPKEEP_S: Final = 2.0
LOST: Final = (
    "the upstream does not know device after device: none is enrolled again until a ping finds one,"
    " or an operator asks for it (devices enroll --all)"
)


class DeviceLane:
    """Make inside a running loop; `start`, then `stop`."""

    def __init__(
        self,
        store: DeviceStore,
        calls: DeviceCalls,
        *,
        rate: EnrolmentRate,
        clock: Clock,
        now_ms: Callable[[], int],
        chance: Callable[[], float],
        itself: New | None = None,
        own_beat: Callable[[], Mapping[str, Any]] = dict,
        is_wanted: bool = True,
        attempts: Attempts | None = None,
    ) -> None:
        """*now_ms* is the store's clock; *chance* draws from [0, 1). *itself*: the gateway as a
        device, if it enrols; *own_beat*: what its heartbeats state too. *is_wanted*: False where
        the configuration turned the lane off. *attempts* counts what became of its calls.
        """
        self._store = store
        self._calls = calls
        self._clock = clock
        self._chance = chance
        self._itself = itself
        self._is_wanted = is_wanted
        self._attempts = attempts or Attempts()
        self._own_beat = own_beat
        self._lane_store = DeviceLaneStore(
            store, calls, rate=rate, clock=clock, now_ms=now_ms, chance=chance, said_by=self._said_by
        )
        self._never = asyncio.Event()
        self._work = LaneWork(_note_fault)
        self.pump = self._make_pump()
        store.pinging = self.ping

    def _make_pump(self) -> Pump:
        return Pump(
            DEVICES,
            self._lane_store,
            DeviceSender(self._lane_store, self._calls, lambda: self._ok_epoch),
            limits=LIMITS,
            clock=self._clock,
            chance=self._chance,
            destination=self._calls.client.destination,
            attempts=self._attempts,
        )

    def _said_by(self, device_id: str) -> Mapping[str, Any]:
        itself = self._itself
        return {} if itself is None or itself.device_id != device_id else self._own_beat()

    # ---- what the status shows

    @property
    def is_on(self) -> bool:
        return self._is_wanted and any(self._calls.grants(call) for call in SCOPES)

    @property
    def state(self) -> LaneState:
        if not self.is_on:
            return "off"
        return "held" if self._lane_store.is_lost or self._lacking else self.pump.state

    @property
    def reason(self) -> str | None:
        """Why the lane is not `ok`; safe to show."""
        if not self._is_wanted:
            return NOT_WANTED
        if not self.is_on:
            return no_key_grants(SCOPES.values())
        if self._lane_store.is_lost:
            return LOST
        if self._lacking and self.pump.state == "ok":
            return no_key_grants(self._lacking)
        return self.pump.reason

    @property
    def _lacking(self) -> list[str]:
        """Scopes without which a part of the lane stands still."""
        return [SCOPES[call] for call in ("enroll", "heartbeat") if not self._calls.grants(call)]

    @property
    def _ok_epoch(self) -> int | None:
        return self.pump.epoch if self.pump.state == "ok" else None

    # ---- running

    async def start(self) -> None:
        """Begin to send, and the upkeep. Raises DatabaseUnavailable."""
        await self._lane_store.open()
        pump = {"devices pump": self._run_pump} if self.is_on else {}
        self._work.start({"devices upkeep": self._run_maintenance, **pump})

    async def stop(self) -> None:
        """Let calls that are under way land; what is left goes out after the next start."""
        await self._work.stop(self.pump)
        with suppress(DatabaseUnavailable):  # the next start frees the leases
            await self._lane_store.close()

    def wake(self) -> None:
        """A key changed: try at once."""
        self.pump.wake()

    async def _run_pump(self) -> None:
        try:
            await self.pump.run()
        finally:
            if not self._work.is_stopping:  # it ended by a fault
                self._lane_store.flights.clear()
                self.pump = self._make_pump()

    async def _run_maintenance(self) -> None:
        if self._itself is not None and self._store.strangers([self._itself.device_id]):
            await self._store.meet([self._itself])  # the gateway is a device too, and is seen as long as it runs
        await self._store.look_after(self._lane_store.beats_under_way())
        await self._clock.wait(self._never, UPKEEP_S)

    async def ping(self, device: Device) -> dict[str, Any]:
        """Ask the upstream for one device, for an operator; beside the pump. Raises NoAnswer."""
        destination = self._calls.client.destination
        probe = destination.launch()
        try:
            reply = await self._calls.send(DeviceCall("ping", device.sent_id))
        finally:
            destination.landed(probe=probe)
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
            case Retry() | Hold() | NotUnderstood():
                raise NoAnswer(reply.reason)
            case Refused():
                raise NoAnswer(f"{reply.code}: {reply.message}")
            case _:
                assert_never(reply)


def _note_fault(error: Exception) -> None:
    log.error("the lane of devices met a fault", error=type(error).__name__, at=places(error))
