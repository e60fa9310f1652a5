"""The devices as an operator asks for them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeVar

from gateway.common.contract.device_identity import KINDS, Origin
from gateway.common.contract.errors import BadPayload, NotFound
from gateway.common.lists.conventions import Filterable, ListRequest, ListShape, Page, Sort
from gateway.fleet.devices import changes
from gateway.fleet.devices.clocks import Now
from gateway.fleet.devices.home import DeviceRows
from gateway.fleet.devices.rows import Device
from gateway.fleet.devices.states import ENROLS, STATES

T = TypeVar("T")

ORIGINS: Final[tuple[Origin, ...]] = ("telemetry", "heartbeat", "ping", "enrolment", "gateway")
DEVICE_LIST: Final = ListShape(
    root="devices",
    sort_keys=("device_id", "state", "kind", "first_seen_at", "last_contact_at", "enrolled_at"),
    default_sort=Sort("device_id", "asc"),
    filters=(Filterable("state", STATES), Filterable("kind", KINDS), Filterable("first_contact", ORIGINS)),
)
BY_OPERATOR: Final = "an operator blocked it"


class Waiting(NamedTuple):
    """An enrolment that waits for its turn or its next try."""

    enrollment_id: str
    attempts: int
    due_ms: int
    """By the clock of the devices."""


class OperatedDevices(ABC):
    """What an operator may ask and do; a subclass states how the home is read and changed."""

    @abstractmethod
    def now(self) -> Now: ...

    @abstractmethod
    async def read(self, question: Callable[[DeviceRows], T]) -> T: ...

    @abstractmethod
    async def change(self, change: Callable[[DeviceRows], T]) -> T: ...

    async def page(self, request: ListRequest) -> Page:
        return await self.read(lambda kept: kept.page(request))

    async def find(self, device_id: str) -> Device:
        return await self.read(partial(_found, device_id))

    async def with_enrolment(self, device_id: str) -> tuple[Device, Waiting | None]:
        return await self.read(partial(_with_enrolment, device_id))

    async def block(self, device_id: str) -> Device:
        return await self.change(partial(block, device_id))

    async def unblock(self, device_id: str) -> Device:
        return await self.change(partial(unblock, device_id, self.now().ms))

    async def enroll_again(self, device_id: str) -> Device:
        return await self.change(partial(enroll_again, device_id, self.now().ms))

    async def enroll_all_again(self) -> int:
        return await self.change(partial(_enroll_all, self.now().ms))

    async def forget(self, device_id: str) -> Device:
        return await self.change(partial(forget, device_id))


def _found(device_id: str, kept: DeviceRows) -> Device:
    device = kept.find(device_id)
    if device is None:
        raise NotFound("no device has this id")
    return device


def _with_enrolment(device_id: str, kept: DeviceRows) -> tuple[Device, Waiting | None]:
    device = _found(device_id, kept)
    found = kept.enrolment(device.device_no)
    return device, None if found is None else Waiting(found.enrollment_id, found.attempts, found.due_ms)


def block(device_id: str, kept: DeviceRows) -> Device:
    return changes.blocked(kept, _found(device_id, kept), BY_OPERATOR)


def unblock(device_id: str, now_ms: int, kept: DeviceRows) -> Device:
    device = _found(device_id, kept)
    if device.state not in {"blocked", "quarantined"}:
        raise BadPayload(f"the device is {device.state}: only a blocked or quarantined one can be unblocked")
    return _enrol_again(kept, device, now_ms)


def enroll_again(device_id: str, now_ms: int, kept: DeviceRows) -> Device:
    device = _found(device_id, kept)
    if device.state == "blocked":
        raise BadPayload("the device is blocked: unblock it first")
    return _enrol_again(kept, device, now_ms)


def _enroll_all(now_ms: int, kept: DeviceRows) -> int:
    """Enrol again every device but those blocked, quarantined or about to
    enrol for the first time.
    """
    devices = kept.not_in({"blocked", "quarantined", "pending", "enrolling"})
    for device in devices:
        _enrol_again(kept, device, now_ms)
    return len(devices)


def _enrol_again(kept: DeviceRows, device: Device, now_ms: int) -> Device:
    """Enrol under a new epoch, so that neither side takes the enrolment for a repeat."""
    if device.state in ENROLS and device.state != "reenrolling":
        return device
    device = changes.move(kept, device, "let_in", epoch=device.epoch + 1, reason=None, cycles=b"[]", forbidden=0)
    changes.add_enrolment(kept, device, now_ms)
    return device


def forget(device_id: str, kept: DeviceRows) -> Device:
    """Delete the device; at its next contact it is new."""
    device = _found(device_id, kept)
    changes.delete(kept, device)
    return device
