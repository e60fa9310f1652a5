"""AI telemetry devices: enrolment, heartbeats, pings, and their list (wire contract 6.4).

An `enrollment_id` enrols once, however often it is sent. A higher epoch enrols a known device
again. A heartbeat updates a device only when its sequence is the highest of its instance, so a
repeat or a late one changes nothing.
"""

import sqlite3
from typing import NamedTuple

from gateway.common.contract.device_identity import KINDS
from gateway.common.lists.conventions import Filterable, ListShape, Sort
from gateway.common.lists.table import ListTable
from gateway.local_service.call import ServiceAnswer, ServiceCall, json_answer
from gateway.local_service.checks import Fields, choice, decoded_object, text, time_ms, whole
from gateway.local_service.errors import DeviceBlocked, DeviceExists, DeviceUnknown
from gateway.local_service.lists import list_answer
from spool.clock import rfc3339_ms

STATUSES = ("active", "pending", "blocked")
HEARTBEAT_INTERVAL_S = 60


class _Device(NamedTuple):
    device_no: int
    device_id: str
    epoch: int
    status: str


def _item(row: tuple[object, ...]) -> dict[str, object]:
    names = ("device_id", "status", "kind", "instance_id", "epoch", "enrollments", "heartbeats", "health")
    times = ("first_seen_at", "enrolled_at", "last_heartbeat_at", "last_ping_at")
    written = (rfc3339_ms(time) if isinstance(time, int) else None for time in row[len(names) :])
    return dict(zip(names, row, strict=False)) | dict(zip(times, written, strict=True))


DEVICES = ListTable(
    shape=ListShape(
        root="devices",
        sort_keys=("device_id", "enrolled_at", "kind", "last_heartbeat_at", "status"),
        default_sort=Sort("device_id", "asc"),
        filters=(Filterable("kind", KINDS), Filterable("status", STATUSES)),
    ),
    source="devices",
    row_id="device_no",
    expressions={
        "device_id": "device_id",
        "enrolled_at": "enrolled_at_ms",
        "kind": "kind",
        "last_heartbeat_at": "ifnull(heartbeat_at_ms, 0)",
        "status": "status",
    },
    select="device_id, status, kind, instance_id, epoch,"
    " (SELECT count(*) FROM device_enrollments AS e WHERE e.device_no = devices.device_no),"
    " (SELECT ifnull(sum(heartbeats), 0) FROM device_instances AS i WHERE i.device_no = devices.device_no),"
    " health, first_seen_ms, enrolled_at_ms, heartbeat_at_ms, pinged_at_ms",
    item_of=_item,
    numbers=("enrolled_at", "last_heartbeat_at"),
)


def enroll(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    """201 for a device that is new, 200 for one that is known under this enrolment or enrols
    again.
    """
    body = decoded_object(call.body)
    enrollment_id, device_id = text(body, "enrollment_id"), text(body, "device_id")
    epoch = whole(body, "epoch")
    columns = (text(body, "instance_id"), choice(body, "kind", KINDS), time_ms(body, "first_seen_at"))
    known = _by_enrollment(connection, enrollment_id)
    device = known or _by_id(connection, device_id)
    if device is None:
        return _device_answer(201, _insert(connection, call, device_id, enrollment_id, epoch, columns))
    _refuse_blocked(device)
    if known is None:
        if epoch <= device.epoch:
            raise DeviceExists(device.device_id)
        _enroll_again(connection, call, device, enrollment_id, epoch, columns)
    return _device_answer(200, device)


def heartbeat(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    """POST of a heartbeat: 204; 404 for an unknown device, 403 for a blocked one."""
    body = decoded_object(call.body)
    beat = (text(body, "instance_id"), whole(body, "sequence"))
    observed_at_ms, health = time_ms(body, "observed_at"), text(body, "status")
    device = _known(connection, call)
    applied = connection.execute(
        "INSERT INTO device_instances (device_no, instance_id, sequence, heartbeats) VALUES (?, ?, ?, 1)"
        " ON CONFLICT DO UPDATE SET sequence = excluded.sequence, heartbeats = heartbeats + 1"
        " WHERE excluded.sequence > sequence",
        (device.device_no, *beat),
    ).rowcount
    if applied:
        connection.execute(
            "UPDATE devices SET heartbeat_at_ms = ?2, health = ?3, instance_id = ?4"
            " WHERE device_no = ?1 AND ifnull(heartbeat_at_ms, 0) <= ?2",
            (device.device_no, observed_at_ms, health, beat[0]),
        )
    return json_answer(200, {"status": device.status, "heartbeat_interval_s": HEARTBEAT_INTERVAL_S})


def ping(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    device = _known(connection, call)
    connection.execute("UPDATE devices SET pinged_at_ms = ? WHERE device_no = ?", (call.now_ms, device.device_no))
    return ServiceAnswer(204)


def devices(connection: sqlite3.Connection, call: ServiceCall) -> ServiceAnswer:
    return list_answer(connection, DEVICES, call)


def change_status(connection: sqlite3.Connection, device_id: str, status: str) -> bool:
    """Set by an operator; False when no device has this id."""
    changed = connection.execute("UPDATE devices SET status = ? WHERE device_id = ?", (status, device_id))
    return changed.rowcount > 0


def forget(connection: sqlite3.Connection, device_id: str) -> bool:
    """Delete the device; its next heartbeat gets `device_unknown`."""
    return connection.execute("DELETE FROM devices WHERE device_id = ?", (device_id,)).rowcount > 0


def _known(connection: sqlite3.Connection, call: ServiceCall) -> _Device:
    device = _by_id(connection, call.params["device_id"])
    if device is None:
        raise DeviceUnknown
    _refuse_blocked(device)
    return device


def _refuse_blocked(device: _Device) -> None:
    if device.status == "blocked":
        raise DeviceBlocked


def _device_answer(status: int, device: _Device) -> ServiceAnswer:
    content: Fields = {
        "device_id": device.device_id,
        "status": device.status,
        "heartbeat_interval_s": HEARTBEAT_INTERVAL_S,
    }
    return json_answer(status, content)


def _by_id(connection: sqlite3.Connection, device_id: str) -> _Device | None:
    row = connection.execute(
        "SELECT device_no, device_id, epoch, status FROM devices WHERE device_id = ?", (device_id,)
    ).fetchone()
    return None if row is None else _Device(*row)


def _by_enrollment(connection: sqlite3.Connection, enrollment_id: str) -> _Device | None:
    row = connection.execute(
        "SELECT device_no, device_id, devices.epoch, status"
        " FROM device_enrollments JOIN devices USING (device_no) WHERE enrollment_id = ?",
        (enrollment_id,),
    ).fetchone()
    return None if row is None else _Device(*row)


def _insert(
    connection: sqlite3.Connection,
    call: ServiceCall,
    device_id: str,
    enrollment_id: str,
    epoch: int,
    columns: tuple[str, str, int],
) -> _Device:
    (device_no,) = connection.execute(
        "INSERT INTO devices (device_id, epoch, status, instance_id, kind, first_seen_ms, enrolled_at_ms, details)"
        " VALUES (?, ?, 'active', ?, ?, ?, ?, ?) RETURNING device_no",
        (device_id, epoch, *columns, call.now_ms, call.body),
    ).fetchone()
    _note_enrollment(connection, device_no, enrollment_id, epoch)
    return _Device(device_no, device_id, epoch, "active")


def _enroll_again(
    connection: sqlite3.Connection,
    call: ServiceCall,
    device: _Device,
    enrollment_id: str,
    epoch: int,
    columns: tuple[str, str, int],
) -> None:
    instance_id, kind, _ = columns
    connection.execute(
        "UPDATE devices SET epoch = ?, instance_id = ?, kind = ?, enrolled_at_ms = ?, details = ? WHERE device_no = ?",
        (epoch, instance_id, kind, call.now_ms, call.body, device.device_no),
    )
    _note_enrollment(connection, device.device_no, enrollment_id, epoch)


def _note_enrollment(connection: sqlite3.Connection, device_no: int, enrollment_id: str, epoch: int) -> None:
    connection.execute(
        "INSERT INTO device_enrollments (enrollment_id, device_no, epoch) VALUES (?, ?, ?)",
        (enrollment_id, device_no, epoch),
    )
