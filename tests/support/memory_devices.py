"""Devices in memory: `gateway.fleet.devices.home` with plain dictionaries."""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from gateway.common.lists.conventions import ListRequest, Page, SortValue
from gateway.common.lists.memory import page_of
from gateway.fleet.devices.heartbeats import is_stale, offline_after_ms
from gateway.fleet.devices.home import DeviceRows
from gateway.fleet.devices.outbox import DAY_MS, INACTIVE_MS
from gateway.fleet.devices.rows import Device, Figures, Instance, KeptEnrolment, New, figures_of
from gateway.fleet.devices.states import KNOWN, State

T = TypeVar("T")


@dataclass
class KeptDevices:
    """What is kept, by the numbers of devices."""

    devices: dict[int, Device] = field(default_factory=dict)
    enrolments: dict[int, KeptEnrolment] = field(default_factory=dict)
    instances: dict[tuple[int, str], Instance] = field(default_factory=dict)
    aliases: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)

    def copy(self) -> "KeptDevices":
        return KeptDevices(**{name: dict(kept) for name, kept in vars(self).items()})


class MemoryDevices:
    def __init__(self, check: Callable[[], None], kept: KeptDevices) -> None:
        """*check* raises DatabaseUnavailable once the home is closed."""
        self._check = check
        self._kept = kept
        self.figures = MemoryDeviceRows(kept).figures()

    async def commit(self, change: Callable[[DeviceRows], T]) -> T:
        self._check()
        changed = self._kept.copy()
        result = change(MemoryDeviceRows(changed))
        vars(self._kept).update(vars(changed))
        self.figures = MemoryDeviceRows(self._kept).figures()
        await asyncio.sleep(0)  # as every home does, it ends the turn of the event loop
        return result

    async def read(self, question: Callable[[DeviceRows], T]) -> T:
        self._check()
        await asyncio.sleep(0)
        return question(MemoryDeviceRows(self._kept.copy()))

    async def close(self) -> None:
        """Every change was committed as it came."""


class MemoryDeviceRows:
    def __init__(self, kept: KeptDevices) -> None:
        self._kept = kept

    def find(self, device_id: str) -> Device | None:
        named = (device for device in self._all() if device.device_id == device_id)
        return next(named, self._kept.devices.get(self._kept.aliases.get(device_id, 0)))

    def by_number(self, device_no: int) -> Device | None:
        return self._kept.devices.get(device_no)

    def _all(self) -> Collection[Device]:
        return self._kept.devices.values()

    def insert(self, new: New, now_ms: int) -> Device:
        assert all(device.device_id != new.device_id for device in self._all())
        device = Device(
            device_no=1 + max(self._kept.devices, default=0),
            device_id=new.device_id,
            upstream_id=None,
            state="pending",
            reason=None,
            epoch=1,
            kind=new.kind,
            origin=cast("Any", new.origin),
            instance_id=new.instance_id,
            details=new.details,
            clone_of=new.clone_of,
            first_seen_ms=now_ms,
            last_contact_ms=now_ms,
            enrolled_ms=None,
            interval_ms=None,
            cycles=b"[]",
            forbidden=0,
            beat=None,
            beat_no=0,
            beat_ms=None,
            beat_due_ms=None,
            beat_sent_ms=None,
            beat_waits=0,
            enrolment_waits=0,
        )
        self._kept.devices[device.device_no] = device
        return device

    def save(self, device: Device, **changes: Any) -> Device:
        kept = self._kept.devices
        if device.device_no in kept:
            kept[device.device_no] = kept[device.device_no]._replace(**changes)
        return device._replace(**changes)

    def delete(self, device_no: int) -> None:
        kept = self._kept
        kept.devices.pop(device_no, None)
        kept.enrolments.pop(device_no, None)
        kept.instances = {of: instance for of, instance in kept.instances.items() if of[0] != device_no}
        kept.aliases = {alias: number for alias, number in kept.aliases.items() if number != device_no}

    def add_alias(self, alias: str, device_no: int) -> None:
        self._kept.aliases[alias] = device_no

    def page(self, request: ListRequest) -> Page:
        return page_of(request, self._all(), field_of=_field, id_of=lambda x: x.device_no, item_of=lambda x: x)

    # ---- enrolments

    def enrolment(self, device_no: int) -> KeptEnrolment | None:
        return self._kept.enrolments.get(device_no)

    def enrolling(self, enrollment_id: str) -> Device | None:
        found = [each for each in self._kept.enrolments.values() if each.enrollment_id == enrollment_id]
        return self._kept.devices[found[0].device_no] if found else None

    def put_enrolment(self, enrolment: KeptEnrolment) -> None:
        self._kept.enrolments[enrolment.device_no] = enrolment

    def drop_enrolment(self, device_no: int) -> None:
        self._kept.enrolments.pop(device_no, None)

    def _due(self, now_ms: int, *, again: bool) -> list[KeptEnrolment]:
        due = [each for each in self._kept.enrolments.values() if each.due_ms <= now_ms and each.lease_ms <= now_ms]
        return sorted((each for each in due if again or not each.again), key=lambda x: (x.due_ms, x.device_no))

    def any_due(self, now_ms: int, *, again: bool) -> bool:
        return bool(self._due(now_ms, again=again))

    def take_enrolments(self, now_ms: int, most: int, *, again: bool, lease_ms: int) -> list[KeptEnrolment]:
        due = self._due(now_ms, again=again)[:most]
        return [self._change(x.device_no, lease_ms=lease_ms, attempts=x.attempts + 1) for x in due]

    def keep_body(self, device_no: int, body: bytes) -> None:
        self._change(device_no, body=body)

    def return_enrolment(self, device_no: int, due_ms: int, *, answered: bool, tried: bool) -> None:
        known = self._kept.enrolments[device_no]
        generation, attempts = known.generation + answered, known.attempts - (not tried)
        self._change(device_no, lease_ms=0, due_ms=due_ms, generation=generation, attempts=attempts)

    def free_leases(self) -> None:
        for device_no in self._kept.enrolments:
            self._change(device_no, lease_ms=0)

    def _change(self, device_no: int, **changes: Any) -> KeptEnrolment:
        changed = self._kept.enrolments[device_no] = self._kept.enrolments[device_no]._replace(**changes)
        return changed

    # ---- instances

    def instances(self, device_no: int) -> dict[str, Instance]:
        return {name: instance for (number, name), instance in self._kept.instances.items() if number == device_no}

    def note_instance(self, device_no: int, instance_id: str, sequence: int, now_ms: int, *, most: int) -> int | None:
        of = device_no, instance_id
        known = self._kept.instances.get(of)
        before = Instance(sequence, now_ms, 1) if known is None else known
        self._kept.instances[of] = before._replace(sequence=max(sequence, before.sequence), seen_ms=now_ms)
        newest = sorted(self.instances(device_no).items(), key=lambda x: (x[0] == instance_id, x[1].seen_ms))
        for name, _ in newest[:-most]:
            del self._kept.instances[device_no, name]
        return None if known is None else known.sequence

    def see_instance(self, device_no: int, instance_id: str, now_ms: int) -> None:
        self._change_instance(device_no, instance_id, seen_ms=now_ms)

    def number_instance(self, device_no: int, instance_id: str, number: int) -> None:
        self._change_instance(device_no, instance_id, number=number)

    def _change_instance(self, device_no: int, instance_id: str, **changes: int) -> None:
        of = device_no, instance_id
        if of in self._kept.instances:
            self._kept.instances[of] = self._kept.instances[of]._replace(**changes)

    # ---- devices by what they wait for

    def _lost(self) -> list[Device]:
        return [self._kept.devices[number] for number, each in sorted(self._kept.enrolments.items()) if each.again]

    def lost(self, after_no: int) -> Device | None:
        return min(self._lost(), key=lambda x: (x.device_no <= after_no, x.device_no), default=None)

    def to_recall(self) -> list[Device]:
        return [device for device in self._lost() if device.state == "reenrolling"]

    def due_beats(self, now_ms: int, most: int) -> list[Device]:
        due = [(device.beat_due_ms, device) for device in self._all() if device.state in KNOWN]
        return [device for due_ms, device in sorted(due, key=_due_ms) if due_ms is not None and due_ms <= now_ms][:most]

    def late_beats(self, now_ms: int, interval_ms: int, most: int) -> list[Device]:
        waiting = ((device.beat_due_ms, device) for device in self._all())
        late = [
            device
            for due_ms, device in waiting
            if due_ms is not None and is_stale(due_ms, _interval_ms(device, interval_ms), now_ms)
        ]
        return late[:most]

    def call_silent(self, now_ms: int, interval_ms: int) -> None:
        for device in list(self._all()):
            silent_ms = now_ms - device.last_contact_ms
            if device.state in {"enrolled", "offline"} and silent_ms > INACTIVE_MS:
                self.save(device, state="inactive")
            elif device.state == "enrolled" and silent_ms > offline_after_ms(_interval_ms(device, interval_ms)):
                self.save(device, state="offline")
        kept = self._kept
        kept.instances = {of: each for of, each in kept.instances.items() if each.seen_ms >= now_ms - DAY_MS}

    def forgettable(self, before_ms: int, most: int) -> list[Device]:
        silent = [device for device in self._all() if device.last_contact_ms < before_ms]
        return [device for device in silent if device.state != "blocked" and device.origin != "gateway"][:most]

    def blocked(self, most: int) -> list[str]:
        blocked = {device.device_no: device.device_id for device in self._all() if device.state == "blocked"}
        return [*blocked.values(), *(alias for alias, number in self._kept.aliases.items() if number in blocked)][:most]

    def not_in(self, states: Collection[State]) -> list[Device]:
        return [device for device in self._all() if device.state not in states]

    def silent_for(self, silent_ms: int, at_most_ms: int, now_ms: int) -> list[tuple[str, int, int]]:
        return [
            (device.device_id, device.first_seen_ms, device.last_contact_ms)
            for device in self._all()
            if device.state in KNOWN and silent_ms <= now_ms - device.last_contact_ms < at_most_ms
        ]

    def first_contact_of_unknown(self, since_ms: int) -> int | None:
        unknown = [
            device
            for device in self._all()
            if device.enrolled_ms is None and device.state in {"pending", "enrolling"}
            if (device.origin, device.kind) != ("gateway", "gateway")
        ]
        return min((device.first_seen_ms for device in unknown if device.first_seen_ms > since_ms), default=None)

    # ---- figures and notes

    def states(self) -> dict[str, int]:
        states = [device.state for device in self._all()]
        return {state: states.count(state) for state in set(states)}

    def new_since(self, since_ms: int) -> int:
        return sum(device.first_seen_ms > since_ms for device in self._all())

    def add(self, name: str, n: int) -> None:
        self._kept.counts[name] = self._kept.counts.get(name, 0) + n

    def figures(self) -> Figures:
        beats = [device.beat_ms for device in self._all() if device.beat_waits and device.beat_ms is not None]
        oldest_ms = min([*beats, *(x.first_seen_ms for x in self._all() if x.enrolment_waits)], default=None)
        return figures_of(self._kept.counts.items(), oldest_ms, len(self._kept.enrolments))

    def note(self, name: str, value: int) -> None:
        self._kept.notes[name] = value

    def noted(self, name: str) -> int | None:
        return self._kept.notes.get(name)


def _interval_ms(device: Device, interval_ms: int) -> int:
    return interval_ms if device.interval_ms is None else device.interval_ms


def _due_ms(waiting: tuple[int | None, Device]) -> int:
    return waiting[0] or 0


_FIELDS = {"first_contact": "origin", "first_seen_at": "first_seen_ms", "last_contact_at": "last_contact_ms"}


def _field(device: Device, name: str) -> SortValue:
    if name == "enrolled_at":
        return device.enrolled_ms or 0
    value: SortValue = getattr(device, _FIELDS.get(name, name))
    return value
