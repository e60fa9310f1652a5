"""The operations on devices and their enrolment at the upstream."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NotRequired, Protocol, TypedDict

import orjson
from pydantic import ConfigDict, Field

from gateway.access.requests import KeyBody, Person
from gateway.common.body import Body
from gateway.common.contract.device_identity import Origin
from gateway.common.contract.json_types import Count, Schema, Time
from gateway.common.lists.conventions import ListRequest, Page, envelope, read_request
from gateway.fleet.devices.clocks import Now
from gateway.fleet.devices.operated import DEVICE_LIST, Waiting
from gateway.fleet.devices.rows import Device
from gateway.fleet.devices.states import State
from gateway.operate.operation import Listed, Note, Operation, OperationAnswer, OperationCall
from spool.clock import rfc3339_ms


class Devices(Protocol):
    """The devices as an operator asks for them: `DeviceStore`, or `OfflineDevices` while no gateway
    runs. An unknown id raises NotFound.
    """

    def now(self) -> Now: ...

    async def page(self, request: ListRequest) -> Page:
        """The page of *request*, which is of `DEVICE_LIST`; its items are `Device`s."""

    async def find(self, device_id: str) -> Device: ...

    async def with_enrolment(self, device_id: str) -> tuple[Device, Waiting | None]:
        """The device, and its enrolment that waits."""

    async def block(self, device_id: str) -> Device: ...

    async def unblock(self, device_id: str) -> Device:
        """Raises BadPayload where it is neither blocked nor quarantined."""

    async def enroll_again(self, device_id: str) -> Device:
        """Raises BadPayload where it is blocked."""

    async def enroll_all_again(self) -> int:
        """Enrol again every device but those blocked, quarantined or about to enrol for the first
        time; how many.
        """

    async def forget(self, device_id: str) -> Device:
        """Delete the device; at its next contact it is new."""

    async def ask_service(self, device: Device) -> dict[str, Any]:
        """Raises NoAnswer."""


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
    counters: Mapping[str, Count]
    """Of its latest heartbeat that had some. A gateway that forwards reports `pending_records` and
    `oldest_pending_s`: what waits there, and for how long."""


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
    request, ahead_ms = read_request(DEVICE_LIST, call.query), devices.now().ahead_ms
    page = await devices.page(request)
    items = [item(device, ahead_ms) for device in page.items if isinstance(device, Device)]
    return envelope(DEVICE_LIST, request, page._replace(items=items))


async def show(devices: Devices, call: OperationCall[None]) -> ShownDevice:
    (device, waiting), ahead_ms = await devices.with_enrolment(call.path["id"]), devices.now().ahead_ms
    enrolment: DeviceEnrolment | None = None
    if waiting is not None:
        due_at = rfc3339_ms(waiting.due_ms + ahead_ms)
        enrolment = {"enrollment_id": waiting.enrollment_id, "attempts": waiting.attempts, "due_at": due_at}
    return {
        **item(device, ahead_ms),
        "instance_id": device.instance_id,
        "heartbeat_due_at": _time(device.beat_due_ms, ahead_ms),
        "enrolment": enrolment,
    }


async def enroll_all(devices: Devices, call: OperationCall[EnrollAll]) -> Enrolling:
    return {"enrolling": await devices.enroll_all_again()}


async def forget(devices: Devices, call: OperationCall[Any]) -> DeviceJson:
    return item(await devices.forget(call.path["id"]), devices.now().ahead_ms)


async def ping(devices: Devices, call: OperationCall[AnyFields]) -> dict[str, Any]:
    """Raises NoAnswer."""
    return await devices.ask_service(await devices.find(call.path["id"]))


async def block(devices: Devices, call: OperationCall[Any]) -> DeviceJson:
    return item(await devices.block(call.path["id"]), devices.now().ahead_ms)


async def unblock(devices: Devices, call: OperationCall[Any]) -> DeviceJson:
    return item(await devices.unblock(call.path["id"]), devices.now().ahead_ms)


async def enroll(devices: Devices, call: OperationCall[Any]) -> DeviceJson:
    return item(await devices.enroll_again(call.path["id"]), devices.now().ahead_ms)


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
    said: dict[str, dict[str, Any]] = orjson.loads(device.details)
    host, client, labels, counters = (said.get(name, {}) for name in ("host", "client", "labels", "counters"))
    return {"host": host, "client": client, "labels": labels, "counters": counters}


def _time(ms: int | None, ahead: int) -> str | None:
    return None if ms is None else rfc3339_ms(ms + ahead)


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
    handler=block, body=DeviceChange, is_body_needed=False, note=_noted("block"), answer=_AS_IT_IS_NOW,
)  # fmt: skip
UNBLOCK: Final = Operation(
    method="POST", path=_ONE + "/unblock", id="unblockDevice", tag=_TAG,
    summary="End a block or a quarantine, and enrol the device again",
    handler=unblock, body=DeviceChange, is_body_needed=False, note=_noted("unblock"), answer=_AS_IT_IS_NOW,
)  # fmt: skip
ENROLL: Final = Operation(
    method="POST", path=_ONE + "/enroll", id="enrollDeviceAnew", summary="Enrol it under a new epoch", tag=_TAG,
    handler=enroll, body=AnyFields, is_body_needed=False, answer=_AS_IT_IS_NOW,
)  # fmt: skip
PING: Final = Operation(
    method="POST", path=_ONE + "/ping", id="pingDeviceUpstream", tag=_TAG,
    summary="Ask the upstream whether it knows the device",
    handler=ping, body=AnyFields, is_body_needed=False, answer=OperationAnswer("The upstream's answer.", Pinged),
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[Devices, Any], ...]] = (
    LIST, ENROLL_ALL, SHOW, DELETE, FORGET, BLOCK, UNBLOCK, ENROLL, PING,
)  # fmt: skip
