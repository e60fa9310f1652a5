"""What senders bring, in one transaction each: a first contact inserts the device and its
enrolment; heartbeats, pings and enrolments get their outcome.

- heartbeat or ping: `kept`, it waits for the device's slot; `suppressed.superseded`, one waits
  already and this one takes its place, or a later one came before; `duplicate.heartbeat`, the same
  instance and sequence again; `suppressed.device_quarantined`
- enrolment: `kept`, the device is new; `duplicate.enrolment`, it is known
- anything of a blocked device: `rejected.device_blocked`
- a new device beyond the budget: `rejected.too_many_new_devices`
- a heartbeat or ping of a new device that it may not insert: no item, the request is refused

A contact by telemetry alone is no item of its own.
"""

import sqlite3
from types import MappingProxyType
from typing import Final, NamedTuple

import orjson

from gateway.common.contract.device_identity import MAX_CLONES, POSTED, clone_id
from gateway.fleet.devices import rows
from gateway.fleet.devices.attribution import Labels, labels_in
from gateway.fleet.devices.heartbeat_body import Heartbeat
from gateway.fleet.devices.heartbeats import due_ms
from gateway.fleet.devices.rows import Device, New
from gateway.fleet.devices.states import State, may
from gateway.fleet.devices.throttling import Budget
from spool.clock import rfc3339_ms

MAX_INSTANCES: Final = 64
"""Of one device that are remembered; those silent for longest are dropped, so that invented ones
neither grow the file nor slow it down."""
TAKES_TURNS_MS: Final = 10 * 60_000
"""An instance that comes back within this time, after another one spoke, is a machine of its own.
"""
CLONED: Final = "several machines send heartbeats under this id; each gets one of its own"


class Taken(NamedTuple):
    """What became of what a sender brought."""

    state: State | None
    """Of the device; None when it is not there: one new device too many."""
    outcome: str
    device_no: int = 0
    interval_ms: int | None = None
    """As the service stated it."""
    is_clone: bool = False
    """The device is not the one of that id, but a machine that shares it."""
    labels: Labels = MappingProxyType({})
    """What the device states of who uses it."""


UNKNOWN: Final = Taken(None, "unknown")
"""Of a new device that is not to be inserted."""


class Inserts(NamedTuple):
    """What a heartbeat may insert."""

    strangers: bool
    """A device that is new."""
    clones: bool
    """One more machine under the id of a known device. Without, all of them are that device."""


INSERTS_ALL: Final = Inserts(strangers=True, clones=True)


class Moment(NamedTuple):
    """When, and what holds for all devices."""

    now_ms: int
    interval_ms: int
    """Between heartbeats, unless the service asks for another interval."""
    gateway_id: str
    budget: Budget
    ahead_ms: int = 0
    """What to add to a time here for what the wall clock would state."""


def contact(connection: sqlite3.Connection, new: New, moment: Moment, *, insert: bool = True) -> Taken:
    """A device spoke by telemetry. With *insert*, it is enrolled where it is new."""
    device = rows.find(connection, new.device_id)
    if device is not None:
        return _taken(_spoke(connection, device, moment.now_ms), "kept")
    made = _insert(connection, new, moment) if insert else None
    return Taken(None, "rejected") if made is None else _taken(made, "kept")


def enrolment(connection: sqlite3.Connection, new: New, moment: Moment, *, states_kind: bool = True) -> Taken:
    """An enrolment was posted. *states_kind*: the kind is its own word."""
    device = rows.find(connection, new.device_id)
    if device is None:
        made = _insert(connection, new, moment)
        if made is None:
            return _too_many(connection)
        rows.count(connection, "kept")
        return _taken(rows.save(connection, made, enrolment_waits=1), "kept")
    if device.state in {"blocked", "quarantined"}:
        rows.count(connection, "rejected", f"device_{device.state}")
        return _taken(device, "rejected")
    rows.count(connection, "duplicate", "enrolment")
    return _taken(
        _spoke(connection, _introduced(connection, device, new, states_kind=states_kind), moment.now_ms), "duplicate"
    )


def heartbeat(
    connection: sqlite3.Connection, device_id: str, beat: Heartbeat, moment: Moment, inserts: Inserts = INSERTS_ALL
) -> Taken:
    """One heartbeat: noted, or an outcome that states why not. What is new is inserted where
    *inserts* allows it.
    """
    new = New(device_id, beat.kind or POSTED, "heartbeat", _details(beat), beat.instance_id)
    named = _known_or_new(connection, new, moment, inserts=inserts.strangers)
    if isinstance(named, Taken):
        return named
    if named.state == "blocked":  # whichever machine speaks under that id
        return _blocked(connection, named)
    device = _speaking(connection, named, beat, moment, inserts=inserts.clones)
    if isinstance(device, Taken):
        return device
    if device.device_no == named.device_no:
        device = _introduced(connection, device, new, states_kind=beat.kind is not None)
    return _beat(connection, device, beat, moment)._replace(is_clone=device.device_no != named.device_no)


def _beat(connection: sqlite3.Connection, device: Device, beat: Heartbeat, moment: Moment) -> Taken:
    if refused := _refused(connection, device, moment.now_ms):
        return refused
    device = _spoke(connection, device, moment.now_ms)
    known = connection.execute(
        "SELECT sequence FROM device_instances WHERE device_no = ? AND instance_id = ?",
        (device.device_no, beat.instance_id),
    ).fetchone()
    _note_instance(connection, device, beat, moment.now_ms)
    if known is not None and beat.sequence <= known[0]:
        outcome, reason = ("duplicate", "heartbeat") if beat.sequence == known[0] else ("suppressed", "superseded")
        rows.count(connection, outcome, reason)
        return _taken(device, outcome)
    if beat.host or beat.client or beat.labels:
        device = rows.save(connection, device, details=_details(beat))
    elif beat.counters:
        details = orjson.dumps({**orjson.loads(device.details), "counters": beat.counters})
        device = rows.save(connection, device, details=details)
    device = rows.save(connection, device, instance_id=beat.instance_id)
    return _wait(connection, device, _beat_body(beat, moment), moment)


def ping(connection: sqlite3.Connection, device_id: str, moment: Moment, *, inserts: bool = True) -> Taken:
    """A sign of life without content; a heartbeat that waits has more."""
    device = _known_or_new(connection, New(device_id, POSTED, "ping"), moment, inserts=inserts)
    if isinstance(device, Taken):
        return device
    if refused := _refused(connection, device, moment.now_ms):
        return refused
    device = _spoke(connection, device, moment.now_ms)
    return _wait(connection, device, device.beat or b"", moment)


def _wait(connection: sqlite3.Connection, device: Device, beat: bytes, moment: Moment) -> Taken:
    """Put *beat* in the place of the one that waits."""
    now_ms = moment.now_ms
    outcome = "suppressed" if device.beat_waits else "kept"
    rows.count(connection, outcome, "superseded" if device.beat_waits else None)
    slot_ms = device.beat_due_ms
    if slot_ms is None:
        slot_ms = due_ms(device.device_id, device.interval_ms or moment.interval_ms, now_ms, device.beat_sent_ms)
    waiting = {"beat": beat, "beat_no": device.beat_no + 1, "beat_ms": now_ms, "beat_due_ms": slot_ms, "beat_waits": 1}
    return _taken(rows.save(connection, device, **waiting), outcome)


def _introduced(connection: sqlite3.Connection, device: Device, new: New, *, states_kind: bool) -> Device:
    """A device that only telemetry reported states itself what it is: its first enrolment states it
    too, unless it may have arrived already.
    """
    is_new = device.origin == "telemetry" and device.state == "pending" and device.enrolled_ms is None
    if not is_new or rows.was_tried(connection, device):
        return device
    return rows.save(
        connection,
        device,
        kind=new.kind if states_kind else device.kind,
        details=new.details if new.details != b"{}" else device.details,
        instance_id=new.instance_id or device.instance_id,
    )


def _taken(device: Device, outcome: str) -> Taken:
    return Taken(device.state, outcome, device.device_no, device.interval_ms, labels=labels_in(device.details))


def _known_or_new(connection: sqlite3.Connection, new: New, moment: Moment, *, inserts: bool) -> Device | Taken:
    """The device, inserted where it is new; the outcome where it may not be."""
    known = rows.find(connection, new.device_id)
    if known is not None:
        return known
    if not inserts:
        return UNKNOWN
    return _insert(connection, new, moment) or _too_many(connection)


def _insert(connection: sqlite3.Connection, new: New, moment: Moment) -> Device | None:
    """None when there were too many new devices already."""
    if new.origin != "gateway" and not moment.budget.take(moment.now_ms / 1000):
        return None
    return rows.insert(connection, new, moment.now_ms)


def _too_many(connection: sqlite3.Connection) -> Taken:
    rows.count(connection, "rejected", "too_many_new_devices")
    return Taken(None, "rejected")


def _refused(connection: sqlite3.Connection, device: Device, now_ms: int) -> Taken | None:
    if device.state == "blocked":
        return _blocked(connection, device)
    if device.state == "quarantined":
        rows.count(connection, "suppressed", "device_quarantined")
        return _taken(_spoke(connection, device, now_ms), "suppressed")
    return None


def _blocked(connection: sqlite3.Connection, device: Device) -> Taken:
    rows.count(connection, "rejected", "device_blocked")
    return _taken(device, "rejected")


def _spoke(connection: sqlite3.Connection, device: Device, now_ms: int) -> Device:
    return rows.move(connection, device, "contacted", last_contact_ms=max(now_ms, device.last_contact_ms))


def _details(beat: Heartbeat) -> bytes:
    said = (("host", beat.host), ("client", beat.client), ("labels", beat.labels), ("counters", beat.counters))
    return orjson.dumps({name: value for name, value in said if value})


def _beat_body(beat: Heartbeat, moment: Moment) -> bytes:
    body: dict[str, object] = {
        "instance_id": beat.instance_id,
        "sequence": beat.sequence,
        "observed_at": beat.observed_at or rfc3339_ms(moment.now_ms + moment.ahead_ms),
        "status": beat.status,
        "gateway_id": moment.gateway_id,
    }
    if beat.last_activity_at is not None:
        body["last_activity_at"] = beat.last_activity_at
    if beat.counters:
        body["counters"] = beat.counters
    return orjson.dumps(body)


# ---- several machines under one id


def _speaking(
    connection: sqlite3.Connection, device: Device, beat: Heartbeat, moment: Moment, *, inserts: bool
) -> Device | Taken:
    """The machine that speaks: the device itself, or the one of its clones that this instance is.
    The outcome where that one is new and may not be inserted.
    """
    number = _number_of(connection, device, beat.instance_id, moment.now_ms, splits=inserts)
    if number == 1:
        device_now = rows.by_number(connection, device.device_no)
        return device_now or device
    connection.execute(
        "UPDATE device_instances SET seen_ms = ? WHERE device_no = ? AND instance_id = ?",
        (moment.now_ms, device.device_no, beat.instance_id),
    )
    name = clone_id(device.device_id, number)
    new = New(name, beat.kind or POSTED, "heartbeat", _details(beat), beat.instance_id, clone_of=device.device_id)
    return _known_or_new(connection, new, moment, inserts=inserts)


def _number_of(connection: sqlite3.Connection, device: Device, instance_id: str, now_ms: int, *, splits: bool) -> int:
    """Which machine the instance is: 1 keeps the id. With *splits*, two that take turns become two
    machines.

    One that was never seen may be a restart, and takes the id till the other comes back.
    """
    found = connection.execute(
        "SELECT instance_id, seen_ms, number FROM device_instances WHERE device_no = ?", (device.device_no,)
    )
    instances: dict[str | None, tuple[int, int]] = {name: (seen_ms, number) for name, seen_ms, number in found}
    seen_ms, number = instances.get(instance_id, (0, 1))
    is_other = device.instance_id not in {None, instance_id} and device.instance_id in instances
    takes_turns = is_other and now_ms - seen_ms < TAKES_TURNS_MS
    if splits and number == 1 and takes_turns and may(device.state, "cloned"):
        connection.execute(
            "UPDATE device_instances SET number = ? WHERE device_no = ? AND instance_id = ?",
            (_free_number(instances), device.device_no, device.instance_id),
        )
        rows.move(connection, device, "cloned", reason=CLONED)
    return number


def _free_number(instances: dict[str | None, tuple[int, int]]) -> int:
    """For a machine that is to have an id of its own; when there are too many, that of
    the one silent for longest.
    """
    seen: dict[int, int] = {}
    for seen_ms, number in instances.values():
        seen[number] = max(seen_ms, seen.get(number, 0))
    others = {number: seen_ms for number, seen_ms in seen.items() if number > 1}
    if len(others) >= MAX_CLONES - 1:
        return min(others, key=lambda number: others[number])
    return next(number for number in range(2, MAX_CLONES + 1) if number not in others)


def _note_instance(connection: sqlite3.Connection, device: Device, beat: Heartbeat, now_ms: int) -> None:
    connection.execute(
        "INSERT INTO device_instances (device_no, instance_id, sequence, seen_ms, number) VALUES (?, ?, ?, ?, 1)"
        " ON CONFLICT DO UPDATE SET sequence = max(sequence, excluded.sequence), seen_ms = excluded.seen_ms",
        (device.device_no, beat.instance_id, beat.sequence, now_ms),
    )
    connection.execute(
        "DELETE FROM device_instances WHERE device_no = ?1 AND instance_id <> ?2 AND instance_id IN"
        " (SELECT instance_id FROM device_instances WHERE device_no = ?1 ORDER BY seen_ms DESC LIMIT -1 OFFSET ?3)",
        (device.device_no, beat.instance_id, MAX_INSTANCES),
    )
