"""A device, its enrolment and its figures, as a home keeps them."""

from collections.abc import Iterable
from typing import NamedTuple

from gateway.common.contract.device_identity import Origin
from gateway.fleet.devices.states import State


class Device(NamedTuple):
    """Times are in ms, by the clock of the devices. `0001_devices.sql` in
    `gateway/stores/sqlite/migrations/devices` says of each field what it is.
    """

    device_no: int
    device_id: str
    upstream_id: str | None
    state: State
    reason: str | None
    epoch: int
    kind: str
    origin: Origin
    instance_id: str | None
    details: bytes
    clone_of: str | None
    first_seen_ms: int
    last_contact_ms: int
    enrolled_ms: int | None
    interval_ms: int | None
    cycles: bytes
    forbidden: int
    beat: bytes | None
    beat_no: int
    beat_ms: int | None
    beat_due_ms: int | None
    beat_sent_ms: int | None
    beat_waits: int
    enrolment_waits: int

    @property
    def sent_id(self) -> str:
        """Its id as the service wants it."""
        return self.upstream_id or self.device_id


class New(NamedTuple):
    """A device that is not there yet."""

    device_id: str
    kind: str
    origin: str
    details: bytes = b"{}"
    instance_id: str | None = None
    clone_of: str | None = None


class KeptEnrolment(NamedTuple):
    """The one enrolment of a device that the service has not answered for good."""

    device_no: int
    epoch: int
    enrollment_id: str
    again: bool
    """The service had forgotten the device."""
    attempts: int
    generation: int
    """Errors that the service answered."""
    due_ms: int
    lease_ms: int
    """Taken to be sent until then; 0: free."""
    body: bytes | None
    """As it was sent first; None: it was not sent yet."""


class Instance(NamedTuple):
    """A process that sends heartbeats under a device's id."""

    sequence: int
    """The highest seen."""
    seen_ms: int
    number: int
    """The machine, where there are several: 1 keeps the id."""


class Figures(NamedTuple):
    """What is counted, as of one commit."""

    edge: dict[str, int]
    lane: dict[str, int]
    reasons: dict[str, int]
    """`<outcome>.<reason>` -> items"""
    oldest_pending_ms: int | None
    enrolments: int
    """Those that the service has not answered for good."""


def figures_of(counts: Iterable[tuple[str, int]], oldest_pending_ms: int | None, enrolments: int) -> Figures:
    """*counts*: as `changes` names them."""
    edge = dict.fromkeys(("received", "kept", "duplicate", "suppressed", "rejected", "ignored"), 0)
    lane = dict.fromkeys(("kept", "delivered", "dead_lettered", "expired"), 0)
    reasons: dict[str, int] = {}
    for name, n in counts:
        group, _, rest = name.partition(".")
        {"edge": edge, "lane": lane, "reason": reasons}[group][rest] = n
    lane["pending"] = lane["kept"] - lane["delivered"] - lane["dead_lettered"] - lane["expired"]
    return Figures(edge, lane, reasons, oldest_pending_ms, enrolments)
