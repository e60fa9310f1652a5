"""The operations on devices and their enrolment at the upstream."""

import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final, Literal, NotRequired, Protocol, TypedDict, TypeVar

import orjson
from pydantic import ConfigDict, Field

from gateway.access.requests import KeyBody, Person
from gateway.common.body import Body
from gateway.common.contract.device_identity import KINDS, Origin
from gateway.common.contract.errors import BadPayload, NotFound
from gateway.common.contract.json_types import Count, Schema, Time
from gateway.common.lists.conventions import Filterable, ListRequest, ListShape, Page, Sort, envelope, read_request
from gateway.common.lists.table import ListTable, fetch_page
from gateway.fleet.devices import rows
from gateway.fleet.devices.clocks import Now
from gateway.fleet.devices.rows import Device
from gateway.fleet.devices.states import ENROLS, STATES, State
from gateway.operate.operation import Listed, Note, Operation, OperationAnswer, OperationCall
from spool.clock import rfc3339_ms

T = TypeVar("T")

ORIGINS: Final[tuple[Origin, ...]] = ("telemetry", "heartbeat", "ping", "enrolment", "gateway")
DEVICE_LIST: Final = ListShape(
    root="devices",
    sort_keys=("device_id", "state", "kind", "first_seen_at", "last_contact_at", "enrolled_at"),
    default_sort=Sort("device_id", "asc"),
    filters=(Filterable("state", STATES), Filterable("kind", KINDS), Filterable("first_contact", ORIGINS)),
)
BY_OPERATOR: Final = "an operator blocked it"


class Devices(Protocol):
    """Where the devices are: `DeviceStore`, or `OfflineDevices` while no gateway runs."""

    async def read(self, question: Callable[[sqlite3.Connection], T]) -> T: ...

    async def change(self, change: Callable[[sqlite3.Connection], T]) -> T: ...

    def now(self) -> Now: ...

    async def ask_service(self, device: Device) -> dict[str, Any]: ...


# ---- bodies


class DeviceChange(KeyBody):
    """Who asks, for the log; other fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    by: Person = None


class AnyFields(Body):
    """A body whose fields are ignored."""

    model_config = ConfigDict(extra="ignore")


class EnrollAll(Body):
    """States that every device is meant."""

    all: Annotated[
        Literal[True],
        Field(description="true, to enrol every device again (for one: POST /v2/devices/{device_id}/enroll),"),
    ]


# ---- answers


class Reported(TypedDict):
    host: Mapping[str, str]
    """As the device reported it."""
    client: Mapping[str, str]
    """As the device reported it."""
    labels: Mapping[str, str]
    """As the device reported it."""


class DeviceJson(Reported):
    device_id: str
    state: State
    reason: str | None
    """Why it is blocked, quarantined or in conflict."""
    kind: str
    first_contact: Origin
    upstream_id: str | None
    """The upstream's id of it; null where it is the same."""
    clone_of: str | None
    """The id that it shares with another machine."""
    epoch: Annotated[int, Schema(minimum=1)]
    first_seen_at: Time
    last_contact_at: Time
    enrolled_at: Time | None
    last_heartbeat_at: Time | None
    heartbeat_interval_s: float | None
    """As the upstream asks; null where it did not."""


class DeviceEnrolment(TypedDict):
    enrollment_id: str
    attempts: Count
    due_at: Time


class ShownDevice(DeviceJson):
    instance_id: str | None
    heartbeat_due_at: Time | None
    enrolment: DeviceEnrolment | None


class Enrolling(TypedDict):
    enrolling: Count


class Pinged(TypedDict):
    device_id: str
    answer: Literal["known", "unknown", "blocked", "forbidden"]
    message: NotRequired[str]


# ---- handlers


async def listed(devices: Devices, call: OperationCall[None]) -> dict[str, Any]:
    """Raises BadListRequest."""
    request = read_request(DEVICE_LIST, call.query)
    return envelope(DEVICE_LIST, request, await devices.read(partial(_page, request, devices.now().ahead_ms)))


async def show(devices: Devices, call: OperationCall[None]) -> ShownDevice:
    return await devices.read(partial(_shown, call.path["id"], devices.now().ahead_ms))


async def enroll_all(devices: Devices, call: OperationCall[EnrollAll]) -> Enrolling:
    return {"enrolling": await devices.change(partial(_enroll_all, devices.now().ms))}


async def forget(devices: Devices, call: OperationCall[Any]) -> DeviceJson:
    return item(await devices.change(partial(_forget, call.path["id"])), devices.now().ahead_ms)


async def ping(devices: Devices, call: OperationCall[AnyFields]) -> dict[str, Any]:
    """Raises NoAnswer."""
    return await devices.ask_service(await devices.read(partial(_found, call.path["id"])))


def changed_by(
    change: Callable[[str, int, sqlite3.Connection], Device],
) -> Callable[[Devices, OperationCall[Any]], Awaitable[DeviceJson]]:
    """A handler that makes *change* of the device in the path and answers the device."""

    async def handle(devices: Devices, call: OperationCall[Any]) -> DeviceJson:
        now_ms, ahead_ms = devices.now()
        return item(await devices.change(partial(change, call.path["id"], now_ms)), ahead_ms)

    return handle


# ---- items and changes


def item(device: Device, ahead: int) -> DeviceJson:
    """An item of the list; *ahead* (ms) makes its times those of the wall clock."""
    return {
        "device_id": device.device_id,
        "state": device.state,
        "reason": device.reason,
        "kind": device.kind,
        "first_contact": device.origin,
        "upstream_id": device.upstream_id,
        "clone_of": device.clone_of,
        "epoch": device.epoch,
        "first_seen_at": rfc3339_ms(device.first_seen_ms + ahead),
        "last_contact_at": rfc3339_ms(device.last_contact_ms + ahead),
        "enrolled_at": _time(device.enrolled_ms, ahead),
        "last_heartbeat_at": _time(device.beat_sent_ms, ahead),
        "heartbeat_interval_s": None if device.interval_ms is None else device.interval_ms / 1000,
        **reported(device),
    }


def reported(device: Device) -> Reported:
    """What the device reported of itself."""
    said: dict[str, dict[str, str]] = orjson.loads(device.details)
    return {"host": said.get("host", {}), "client": said.get("client", {}), "labels": said.get("labels", {})}


def _time(ms: int | None, ahead: int) -> str | None:
    return None if ms is None else rfc3339_ms(ms + ahead)


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


def _page(request: ListRequest, ahead: int, connection: sqlite3.Connection) -> Page:
    page = fetch_page(connection, DEVICES, request)
    return page._replace(items=[item(device, ahead) for device in page.items if isinstance(device, Device)])


def _found(device_id: str, connection: sqlite3.Connection) -> Device:
    device = rows.find(connection, device_id)
    if device is None:
        raise NotFound("no device has this id")
    return device


def _shown(device_id: str, ahead: int, connection: sqlite3.Connection) -> ShownDevice:
    """One device, with its pending enrolment."""
    device = _found(device_id, connection)
    waiting = connection.execute(
        "SELECT enrollment_id, attempts, due_ms FROM enrolments WHERE device_no = ?", (device.device_no,)
    ).fetchone()
    enrolment: DeviceEnrolment | None = None
    if waiting is not None:
        enrolment = {"enrollment_id": waiting[0], "attempts": waiting[1], "due_at": rfc3339_ms(waiting[2] + ahead)}
    return {
        **item(device, ahead),
        "instance_id": device.instance_id,
        "heartbeat_due_at": _time(device.beat_due_ms, ahead),
        "enrolment": enrolment,
    }


def _block(device_id: str, now_ms: int, connection: sqlite3.Connection) -> Device:
    return rows.blocked(connection, _found(device_id, connection), BY_OPERATOR)


def _unblock(device_id: str, now_ms: int, connection: sqlite3.Connection) -> Device:
    device = _found(device_id, connection)
    if device.state not in {"blocked", "quarantined"}:
        raise BadPayload(f"the device is {device.state}: only a blocked or quarantined one can be unblocked")
    return _enrol_again(connection, device, now_ms)


def _enroll(device_id: str, now_ms: int, connection: sqlite3.Connection) -> Device:
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


def _forget(device_id: str, connection: sqlite3.Connection) -> Device:
    """Delete the device; at its next contact it is new."""
    device = _found(device_id, connection)
    rows.delete(connection, device)
    return device


# ---- the table

DEVICES_PATH: Final = "/v2/devices"

_TAG: Final = "Known devices"
_ONE: Final = DEVICES_PATH + "/{id}"
_AS_IT_IS_NOW: Final = OperationAnswer("The device as it is now.", DeviceJson)


def _noted(what: str) -> Note:
    return Note("device changed", what, "device_id")


LIST: Final = Operation(
    method="GET", path=DEVICES_PATH, id="listDevices", summary="Devices", tag=_TAG,
    handler=listed, answer=Listed(DEVICE_LIST, DeviceJson),
)  # fmt: skip
ENROLL_ALL: Final = Operation(
    method="POST", path=DEVICES_PATH + "/enroll", id="enrollAllDevices", tag=_TAG,
    summary="Enrol every device again, for an upstream that lost them all",
    handler=enroll_all, body=EnrollAll, answer=OperationAnswer("They are enrolled one after the other.", Enrolling),
)  # fmt: skip
SHOW: Final = Operation(
    method="GET", path=_ONE, id="readDevice", tag=_TAG,
    summary="One device, with what it reported of itself and its pending enrolment",
    handler=show, answer=OperationAnswer("The device as it is now.", ShownDevice),
)  # fmt: skip
DELETE: Final = Operation(
    method="DELETE", path=_ONE, id="deleteDevice", summary="Forget it; at its next contact it is new", tag=_TAG,
    handler=forget, note=_noted("forget"), answer=OperationAnswer("The device as it was.", DeviceJson),
)  # fmt: skip
FORGET: Final = Operation(
    method="POST", path=_ONE + "/forget", id="forgetDevice", summary="The same as to delete it", tag=_TAG,
    handler=forget, body=DeviceChange, is_body_needed=False, note=_noted("forget"),
    answer=OperationAnswer("The device as it was.", DeviceJson),
)  # fmt: skip
BLOCK: Final = Operation(
    method="POST", path=_ONE + "/block", id="blockDevice", tag=_TAG,
    summary="Refuse all that it sends, and send nothing for it",
    handler=changed_by(_block), body=DeviceChange, is_body_needed=False, note=_noted("block"), answer=_AS_IT_IS_NOW,
)  # fmt: skip
UNBLOCK: Final = Operation(
    method="POST", path=_ONE + "/unblock", id="unblockDevice", tag=_TAG,
    summary="End a block or a quarantine, and enrol the device again",
    handler=changed_by(_unblock), body=DeviceChange, is_body_needed=False, note=_noted("unblock"), answer=_AS_IT_IS_NOW,
)  # fmt: skip
ENROLL: Final = Operation(
    method="POST", path=_ONE + "/enroll", id="enrollDeviceAnew", summary="Enrol it under a new epoch", tag=_TAG,
    handler=changed_by(_enroll), body=AnyFields, is_body_needed=False, answer=_AS_IT_IS_NOW,
)  # fmt: skip
PING: Final = Operation(
    method="POST", path=_ONE + "/ping", id="pingDeviceUpstream", tag=_TAG,
    summary="Ask the upstream whether it knows the device",
    handler=ping, body=AnyFields, is_body_needed=False, answer=OperationAnswer("The upstream's answer.", Pinged),
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[Devices, Any], ...]] = (
    LIST, ENROLL_ALL, SHOW, DELETE, FORGET, BLOCK, UNBLOCK, ENROLL, PING,
)  # fmt: skip
