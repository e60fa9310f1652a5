"""Devices as the admin API and the commands have them: what may be asked, and what is answered.

`operate` answers one request on an `Operations`: the one of the running gateway, or the one on the files of a stopped one.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import unquote

import orjson

from gateway.contract.device_identity import Origin
from gateway.contract.errors import BadPayload, NotFound
from gateway.devices import rows
from gateway.devices.clocks import Now
from gateway.devices.rows import Device
from gateway.devices.states import ENROLS, STATES
from gateway.lists.conventions import Filterable, ListRequest, ListShape, Page, Sort, envelope, read_request
from gateway.lists.table import ListTable, fetch_page
from spool.clock import rfc3339_ms

T = TypeVar("T")

LIST_PATH: Final = "/v2/devices"
KINDS: Final = ("workstation", "server", "gateway")
ORIGINS: Final[tuple[Origin, ...]] = ("telemetry", "heartbeat", "ping", "enrolment", "gateway")
DEVICE_LIST: Final = ListShape(
    root="devices",
    sort_keys=("device_id", "state", "kind", "first_seen_at", "last_contact_at", "enrolled_at"),
    default_sort=Sort("device_id", "asc"),
    filters=(Filterable("state", STATES), Filterable("kind", KINDS), Filterable("first_contact", ORIGINS)),
)
BY_OPERATOR: Final = "an operator blocked it"


class Operations(Protocol):
    """Where the devices are: `DeviceStore`, or `AtRest`."""

    async def read(self, question: Callable[[sqlite3.Connection], T]) -> T: ...

    async def change(self, change: Callable[[sqlite3.Connection], T]) -> T: ...

    def now(self) -> Now: ...

    async def ask_service(self, device: Device) -> dict[str, Any]: ...


async def operate(
    where: Operations,
    method: str,
    path: str,
    *,
    query: Sequence[tuple[str, str]] = (),
    body: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The answer to one request. Raises NotFound, BadListRequest, BadPayload, NoAnswer, DatabaseUnavailable."""
    now_ms, ahead = where.now()
    parts = [unquote(part) for part in path.removeprefix(LIST_PATH).split("/") if part]
    match method, parts:
        case "GET", []:
            request = read_request(DEVICE_LIST, query)
            return envelope(DEVICE_LIST, request, await where.read(partial(_page, request, ahead)))
        case "GET", [device_id]:
            return await where.read(partial(_shown, device_id, ahead))
        case "POST", ["enroll"]:
            if (body or {}).get("all") is not True:
                raise BadPayload(
                    "all: to enrol every device anew, say true; one alone: POST /v2/devices/{device_id}/enroll"
                )
            return {"enrolling": await where.change(partial(_enroll_all, now_ms))}
        case "POST", [device_id, "block" | "unblock" | "enroll" as what]:
            change = {"block": _block, "unblock": _unblock, "enroll": _enroll}[what]
            return item(await where.change(partial(change, device_id, now_ms)), ahead)
        case ("DELETE", [device_id]) | ("POST", [device_id, "forget"]):
            return item(await where.change(partial(_forget, device_id)), ahead)
        case "POST", [device_id, "ping"]:
            return await where.ask_service(await where.read(partial(_found, device_id)))
        case _:
            raise NotFound("there is nothing at this path")


def item(device: Device, ahead: int) -> dict[str, Any]:
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
    }


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


def _shown(device_id: str, ahead: int, connection: sqlite3.Connection) -> dict[str, Any]:
    """One device, with what it said of itself and the enrolment that is under way."""
    device = _found(device_id, connection)
    waiting = connection.execute(
        "SELECT enrollment_id, attempts, due_ms FROM enrolments WHERE device_no = ?", (device.device_no,)
    ).fetchone()
    enrolment = None
    if waiting is not None:
        enrolment = {"enrollment_id": waiting[0], "attempts": waiting[1], "due_at": rfc3339_ms(waiting[2] + ahead)}
    said: dict[str, Any] = orjson.loads(device.details)
    return {
        **item(device, ahead),
        "instance_id": device.instance_id,
        **{name: said.get(name, {}) for name in ("host", "client", "labels")},
        "heartbeat_due_at": _time(device.beat_due_ms, ahead),
        "enrolment": enrolment,
    }


def _block(device_id: str, now_ms: int, connection: sqlite3.Connection) -> Device:
    return rows.blocked(connection, _found(device_id, connection), BY_OPERATOR)


def _unblock(device_id: str, now_ms: int, connection: sqlite3.Connection) -> Device:
    device = _found(device_id, connection)
    if device.state not in {"blocked", "quarantined"}:
        raise BadPayload(f"the device is {device.state}: only one that is blocked or quarantined can be let in again")
    return _anew(connection, device, now_ms)


def _enroll(device_id: str, now_ms: int, connection: sqlite3.Connection) -> Device:
    device = _found(device_id, connection)
    if device.state == "blocked":
        raise BadPayload("the device is blocked: unblock it first")
    return _anew(connection, device, now_ms)


def _enroll_all(now_ms: int, connection: sqlite3.Connection) -> int:
    """Every device that is not blocked, quarantined or about to be enrolled for the first time."""
    devices = rows.chosen(connection, "state NOT IN ('blocked', 'quarantined', 'pending', 'enrolling')", ())
    for device in devices:
        _anew(connection, device, now_ms)
    return len(devices)


def _anew(connection: sqlite3.Connection, device: Device, now_ms: int) -> Device:
    """A new epoch, so that neither side takes the enrolment for a repeat."""
    if device.state in ENROLS and device.state != "reenrolling":
        return device
    device = rows.move(connection, device, "let_in", epoch=device.epoch + 1, reason=None, cycles=b"[]", forbidden=0)
    rows.add_enrolment(connection, device, now_ms)
    return device


def _forget(device_id: str, connection: sqlite3.Connection) -> Device:
    """As if it had never been; if it speaks again, it is new."""
    device = _found(device_id, connection)
    rows.delete(connection, device)
    return device
