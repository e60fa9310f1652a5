"""The devices as an operator asks for them, in control.db."""

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeVar

from gateway.common.contract.device_identity import KINDS, Origin
from gateway.common.contract.errors import BadPayload, NotFound
from gateway.common.lists.conventions import Filterable, ListRequest, ListShape, Page, Sort
from gateway.common.lists.table import ListTable, fetch_page
from gateway.fleet.devices import rows
from gateway.fleet.devices.clocks import Now
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
    """What an operator may ask and do; a subclass states how the file is read and written."""

    @abstractmethod
    def now(self) -> Now: ...

    @abstractmethod
    async def read(self, question: Callable[[sqlite3.Connection], T]) -> T: ...

    @abstractmethod
    async def change(self, change: Callable[[sqlite3.Connection], T]) -> T: ...

    async def page(self, request: ListRequest) -> Page:
        return await self.read(partial(fetch_page, table=DEVICES, request=request))

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


DEVICES: Final = ListTable(
    shape=DEVICE_LIST,
    source="devices",
    row_id="device_no",
    expressions={
        "device_id": "device_id",
        "state": "state",
        "kind": "kind",
        "first_contact": "origin",
        "first_seen_at": "first_seen_ms",
        "last_contact_at": "last_contact_ms",
        "enrolled_at": "ifnull(enrolled_ms, 0)",
    },
    select=rows.COLUMNS,
    item_of=lambda row: Device(*row),  # type: ignore[arg-type]  # the columns of COLUMNS
)


def _found(device_id: str, connection: sqlite3.Connection) -> Device:
    device = rows.find(connection, device_id)
    if device is None:
        raise NotFound("no device has this id")
    return device


def _with_enrolment(device_id: str, connection: sqlite3.Connection) -> tuple[Device, Waiting | None]:
    device = _found(device_id, connection)
    row = connection.execute(
        "SELECT enrollment_id, attempts, due_ms FROM enrolments WHERE device_no = ?", (device.device_no,)
    ).fetchone()
    return device, None if row is None else Waiting(*row)


def block(device_id: str, connection: sqlite3.Connection) -> Device:
    return rows.blocked(connection, _found(device_id, connection), BY_OPERATOR)


def unblock(device_id: str, now_ms: int, connection: sqlite3.Connection) -> Device:
    device = _found(device_id, connection)
    if device.state not in {"blocked", "quarantined"}:
        raise BadPayload(f"the device is {device.state}: only a blocked or quarantined one can be unblocked")
    return _enrol_again(connection, device, now_ms)


def enroll_again(device_id: str, now_ms: int, connection: sqlite3.Connection) -> Device:
    device = _found(device_id, connection)
    if device.state == "blocked":
        raise BadPayload("the device is blocked: unblock it first")
    return _enrol_again(connection, device, now_ms)


def _enroll_all(now_ms: int, connection: sqlite3.Connection) -> int:
    """Enrol again every device but those blocked, quarantined or about to
    enrol for the first time.
    """
    devices = rows.chosen(connection, "state NOT IN ('blocked', 'quarantined', 'pending', 'enrolling')", ())
    for device in devices:
        _enrol_again(connection, device, now_ms)
    return len(devices)


def _enrol_again(connection: sqlite3.Connection, device: Device, now_ms: int) -> Device:
    """Enrol under a new epoch, so that neither side takes the enrolment for a repeat."""
    if device.state in ENROLS and device.state != "reenrolling":
        return device
    device = rows.move(connection, device, "let_in", epoch=device.epoch + 1, reason=None, cycles=b"[]", forbidden=0)
    rows.add_enrolment(connection, device, now_ms)
    return device


def forget(device_id: str, connection: sqlite3.Connection) -> Device:
    """Delete the device; at its next contact it is new."""
    device = _found(device_id, connection)
    rows.delete(connection, device)
    return device
