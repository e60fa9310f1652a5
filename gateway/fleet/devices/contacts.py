"""What senders bring, in one change each: a first contact inserts the device and its
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

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import orjson

from gateway.common.contract.device_identity import MAX_CLONES, POSTED, clone_id
from gateway.fleet.devices import changes
from gateway.fleet.devices.attribution import Labels, labels_in
from gateway.fleet.devices.heartbeat_body import Heartbeat
from gateway.fleet.devices.heartbeats import due_ms
from gateway.fleet.devices.home import DeviceRows
from gateway.fleet.devices.rows import Device, Instance, New
from gateway.fleet.devices.states import State, may
from gateway.fleet.devices.throttling import Budget
from spool.clock import rfc3339_ms

MAX_INSTANCES: Final = 64
"""Of one device that are remembered; those silent for longest are dropped, so that invented ones
neither grow the file nor slow it down."""
TAKES_TURNS_MS: Final = 10 * 60_000
"""An instance that comes back within this time, after another one spoke, is a machine of its own.
"""
NEVER_SEEN: Final = Instance(sequence=0, seen_ms=0, number=1)
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


def contact(kept: DeviceRows, new: New, moment: Moment, *, insert: bool = True) -> Taken:
    """A device spoke by telemetry. With *insert*, it is enrolled where it is new."""
    device = kept.find(new.device_id)
    if device is not None:
        return _taken(_spoke(kept, device, moment.now_ms), "kept")
    made = _insert(kept, new, moment) if insert else None
    return Taken(None, "rejected") if made is None else _taken(made, "kept")


def enrolment(kept: DeviceRows, new: New, moment: Moment, *, states_kind: bool = True) -> Taken:
    """An enrolment was posted. *states_kind*: the kind is its own word."""
    device = kept.find(new.device_id)
    if device is None:
        made = _insert(kept, new, moment)
        if made is None:
            return _too_many(kept)
        changes.count(kept, "kept")
        return _taken(kept.save(made, enrolment_waits=1), "kept")
    if device.state in {"blocked", "quarantined"}:
        changes.count(kept, "rejected", f"device_{device.state}")
        return _taken(device, "rejected")
    changes.count(kept, "duplicate", "enrolment")
    return _taken(_spoke(kept, _introduced(kept, device, new, states_kind=states_kind), moment.now_ms), "duplicate")


def heartbeat(
    kept: DeviceRows, device_id: str, beat: Heartbeat, moment: Moment, inserts: Inserts = INSERTS_ALL
) -> Taken:
    """One heartbeat: noted, or an outcome that states why not. What is new is inserted where
    *inserts* allows it.
    """
    new = New(device_id, beat.kind or POSTED, "heartbeat", _details(beat), beat.instance_id)
    named = _known_or_new(kept, new, moment, inserts=inserts.strangers)
    if isinstance(named, Taken):
        return named
    if named.state == "blocked":  # whichever machine speaks under that id
        return _blocked(kept, named)
    device = _speaking(kept, named, beat, moment, inserts=inserts.clones)
    if isinstance(device, Taken):
        return device
    if device.device_no == named.device_no:
        device = _introduced(kept, device, new, states_kind=beat.kind is not None)
    return _beat(kept, device, beat, moment)._replace(is_clone=device.device_no != named.device_no)


def _beat(kept: DeviceRows, device: Device, beat: Heartbeat, moment: Moment) -> Taken:
    if refused := _refused(kept, device, moment.now_ms):
        return refused
    device = _spoke(kept, device, moment.now_ms)
    number, instance_id = device.device_no, beat.instance_id
    before = kept.note_instance(number, instance_id, beat.sequence, moment.now_ms, most=MAX_INSTANCES)
    if before is not None and beat.sequence <= before:
        outcome, reason = ("duplicate", "heartbeat") if beat.sequence == before else ("suppressed", "superseded")
        changes.count(kept, outcome, reason)
        return _taken(device, outcome)
    if beat.host or beat.client or beat.labels:
        device = kept.save(device, details=_details(beat))
    elif beat.counters:
        details = orjson.dumps({**orjson.loads(device.details), "counters": beat.counters})
        device = kept.save(device, details=details)
    device = kept.save(device, instance_id=beat.instance_id)
    return _wait(kept, device, _beat_body(beat, moment), moment)


def ping(kept: DeviceRows, device_id: str, moment: Moment, *, inserts: bool = True) -> Taken:
    """A sign of life without content; a heartbeat that waits has more."""
    device = _known_or_new(kept, New(device_id, POSTED, "ping"), moment, inserts=inserts)
    if isinstance(device, Taken):
        return device
    if refused := _refused(kept, device, moment.now_ms):
        return refused
    device = _spoke(kept, device, moment.now_ms)
    return _wait(kept, device, device.beat or b"", moment)


def _wait(kept: DeviceRows, device: Device, beat: bytes, moment: Moment) -> Taken:
    """Put *beat* in the place of the one that waits."""
    now_ms = moment.now_ms
    outcome = "suppressed" if device.beat_waits else "kept"
    changes.count(kept, outcome, "superseded" if device.beat_waits else None)
    slot_ms = device.beat_due_ms
    if slot_ms is None:
        slot_ms = due_ms(device.device_id, device.interval_ms or moment.interval_ms, now_ms, device.beat_sent_ms)
    waiting = {"beat": beat, "beat_no": device.beat_no + 1, "beat_ms": now_ms, "beat_due_ms": slot_ms, "beat_waits": 1}
    return _taken(kept.save(device, **waiting), outcome)


def _introduced(kept: DeviceRows, device: Device, new: New, *, states_kind: bool) -> Device:
    """A device that only telemetry reported states itself what it is: its first enrolment states it
    too, unless it may have arrived already.
    """
    is_new = device.origin == "telemetry" and device.state == "pending" and device.enrolled_ms is None
    if not is_new or changes.was_tried(kept, device):
        return device
    return kept.save(
        device,
        kind=new.kind if states_kind else device.kind,
        details=new.details if new.details != b"{}" else device.details,
        instance_id=new.instance_id or device.instance_id,
    )


def _taken(device: Device, outcome: str) -> Taken:
    return Taken(device.state, outcome, device.device_no, device.interval_ms, labels=labels_in(device.details))


def _known_or_new(kept: DeviceRows, new: New, moment: Moment, *, inserts: bool) -> Device | Taken:
    """The device, inserted where it is new; the outcome where it may not be."""
    known = kept.find(new.device_id)
    if known is not None:
        return known
    if not inserts:
        return UNKNOWN
    return _insert(kept, new, moment) or _too_many(kept)


def _insert(kept: DeviceRows, new: New, moment: Moment) -> Device | None:
    """None when there were too many new devices already."""
    if new.origin != "gateway" and not moment.budget.take(moment.now_ms / 1000):
        return None
    return changes.insert(kept, new, moment.now_ms)


def _too_many(kept: DeviceRows) -> Taken:
    changes.count(kept, "rejected", "too_many_new_devices")
    return Taken(None, "rejected")


def _refused(kept: DeviceRows, device: Device, now_ms: int) -> Taken | None:
    if device.state == "blocked":
        return _blocked(kept, device)
    if device.state == "quarantined":
        changes.count(kept, "suppressed", "device_quarantined")
        return _taken(_spoke(kept, device, now_ms), "suppressed")
    return None


def _blocked(kept: DeviceRows, device: Device) -> Taken:
    changes.count(kept, "rejected", "device_blocked")
    return _taken(device, "rejected")


def _spoke(kept: DeviceRows, device: Device, now_ms: int) -> Device:
    return changes.move(kept, device, "contacted", last_contact_ms=max(now_ms, device.last_contact_ms))


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


def _speaking(kept: DeviceRows, device: Device, beat: Heartbeat, moment: Moment, *, inserts: bool) -> Device | Taken:
    """The machine that speaks: the device itself, or the one of its clones that this instance is.
    The outcome where that one is new and may not be inserted.
    """
    number = _number_of(kept, device, beat.instance_id, moment.now_ms, splits=inserts)
    if number == 1:
        device_now = kept.by_number(device.device_no)
        return device_now or device
    kept.see_instance(device.device_no, beat.instance_id, moment.now_ms)
    name = clone_id(device.device_id, number)
    new = New(name, beat.kind or POSTED, "heartbeat", _details(beat), beat.instance_id, clone_of=device.device_id)
    return _known_or_new(kept, new, moment, inserts=inserts)


def _number_of(kept: DeviceRows, device: Device, instance_id: str, now_ms: int, *, splits: bool) -> int:
    """Which machine the instance is: 1 keeps the id. With *splits*, two that take turns become two
    machines.

    One that was never seen may be a restart, and takes the id till the other comes back.
    """
    instances = kept.instances(device.device_no)
    _, seen_ms, number = instances.get(instance_id, NEVER_SEEN)
    other = device.instance_id if device.instance_id != instance_id and device.instance_id in instances else None
    takes_turns = other is not None and now_ms - seen_ms < TAKES_TURNS_MS
    if splits and number == 1 and other is not None and takes_turns and may(device.state, "cloned"):
        kept.number_instance(device.device_no, other, _free_number(instances))
        changes.move(kept, device, "cloned", reason=CLONED)
    return number


def _free_number(instances: Mapping[str, Instance]) -> int:
    """For a machine that is to have an id of its own; when there are too many, that of
    the one silent for longest.
    """
    seen: dict[int, int] = {}
    for _, seen_ms, number in instances.values():
        seen[number] = max(seen_ms, seen.get(number, 0))
    others = {number: seen_ms for number, seen_ms in seen.items() if number > 1}
    if len(others) >= MAX_CLONES - 1:
        return min(others, key=lambda number: others[number])
    return next(number for number in range(2, MAX_CLONES + 1) if number not in others)
