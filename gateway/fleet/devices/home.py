"""Where devices are kept, as this room uses it."""

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from gateway.common.lists.conventions import ListRequest, Page
from gateway.common.storage.home import Home
from gateway.fleet.devices.rows import Device, Figures, Instance, KeptEnrolment, New
from gateway.fleet.devices.states import State


class DeviceRows(Protocol):
    """What is kept of devices, inside one commit or snapshot."""

    def find(self, device_id: str) -> Device | None:
        """By its id, or by one that the service gave it."""

    def by_number(self, device_no: int) -> Device | None: ...

    def insert(self, new: New, now_ms: int) -> Device:
        """A device in its first epoch, pending, without enrolment."""

    def save(self, device: Device, **changes: Any) -> Device:
        """*device* with *changes*, by the names of its fields."""

    def delete(self, device_no: int) -> None:
        """With its enrolment, its instances and its other names."""

    def add_alias(self, alias: str, device_no: int) -> None:
        """A name that the service gave the device; it is no other device's any more."""

    def page(self, request: ListRequest) -> Page:
        """Its items are `Device`."""

    # ---- enrolments

    def enrolment(self, device_no: int) -> KeptEnrolment | None: ...

    def enrolling(self, enrollment_id: str) -> Device | None:
        """The device whose enrolment has this id now."""

    def put_enrolment(self, enrolment: KeptEnrolment) -> None:
        """In place of the one that the device had."""

    def drop_enrolment(self, device_no: int) -> None: ...

    def any_due(self, now_ms: int, *, again: bool) -> bool:
        """Whether an enrolment may be taken; without *again*, none of a forgotten device."""

    def take_enrolments(self, now_ms: int, most: int, *, again: bool, lease_ms: int) -> list[KeptEnrolment]:
        """Up to *most* of those, the longest due first: one attempt more, and taken until
        *lease_ms*.
        """

    def keep_body(self, device_no: int, body: bytes) -> None: ...

    def return_enrolment(self, device_no: int, due_ms: int, *, answered: bool, tried: bool) -> None:
        """It is free again. *answered*: the next generation. Without *tried*, the attempt does not
        count.
        """

    def free_leases(self) -> None: ...

    # ---- instances

    def instances(self, device_no: int) -> Mapping[str, Instance]: ...

    def note_instance(self, device_no: int, instance_id: str, sequence: int, now_ms: int, *, most: int) -> int | None:
        """It spoke; its highest sequence stays. Of more than *most*, those silent for longest are
        dropped. Gives the highest sequence before; None for a new one.
        """

    def see_instance(self, device_no: int, instance_id: str, now_ms: int) -> None: ...

    def number_instance(self, device_no: int, instance_id: str, number: int) -> None: ...

    # ---- devices by what they wait for

    def lost(self, after_no: int) -> Device | None:
        """Of those with an enrolment `again`, the next after *after_no*, and round again."""

    def to_recall(self) -> list[Device]:
        """Those with an enrolment `again` that was never sent."""

    def due_beats(self, now_ms: int, most: int) -> list[Device]:
        """Of those that the service knows, the longest due first."""

    def late_beats(self, now_ms: int, interval_ms: int, most: int) -> list[Device]:
        """Their heartbeat is late by more than their interval, or *interval_ms* without one."""

    def call_silent(self, now_ms: int, interval_ms: int) -> None:
        """An enrolled device becomes offline after `heartbeats.offline_after_ms`, and inactive
        after `outbox.INACTIVE_MS`; instances are dropped after `outbox.DAY_MS`.
        """

    def forgettable(self, before_ms: int, most: int) -> list[Device]:
        """Silent since before then; no gateway's own, and none that is blocked."""

    def blocked(self, most: int) -> list[str]:
        """Ids of blocked devices, and their other names; *most* at most."""

    def not_in(self, states: Collection[State]) -> list[Device]: ...

    def silent_for(self, silent_ms: int, at_most_ms: int, now_ms: int) -> list[tuple[str, int, int]]:
        """Of those that the service knows: (device id, first contact, last contact), where that is
        *silent_ms* ago or more, and less than *at_most_ms*.
        """

    def first_contact_of_unknown(self, since_ms: int) -> int | None:
        """Of the devices whose first enrolment is under way, the earliest after *since_ms*; a
        gateway's own is not one of them.
        """

    # ---- figures and notes

    def states(self) -> dict[str, int]:
        """How many devices are in which."""

    def new_since(self, since_ms: int) -> int:
        """Devices whose first contact was later."""

    def add(self, name: str, n: int) -> None:
        """*n* more are counted under *name*; fewer where it is negative."""

    def figures(self) -> Figures: ...

    def note(self, name: str, value: int) -> None: ...

    def noted(self, name: str) -> int | None: ...


class DeviceHome(Home[DeviceRows], Protocol):
    """Changes that wait at the same time may share one commit."""

    figures: Figures
    """As of the last commit."""

    async def close(self) -> None:
        """Return when every change is committed."""
