"""What goes out, in one change each: enrolments and heartbeats that are due, and what the
service's answers make of the device.

An answer counts only for the enrolment or heartbeat that it was given to: what was
replaced since stays as it is.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

import orjson

from exporters.cost_service.devices import DeviceAnswer
from gateway.common.contract.device_identity import is_device_id
from gateway.fleet.devices import changes
from gateway.fleet.devices.heartbeats import due_ms
from gateway.fleet.devices.home import DeviceRows
from gateway.fleet.devices.rows import Device
from gateway.fleet.devices.states import KNOWN, may

LEASE_MS: Final = 120_000
VERDICT_MS: Final = 20_000
"""A device that the service forgot waits so long before it is enrolled again: by then a fleet
of twenty shows whether it was the only one."""
COOLDOWN_MS: Final = 60_000
"""Between two enrolments of one device."""
MAX_CYCLES: Final = 3
"""Of being forgotten and enrolled again within an hour."""
MAX_FORBIDDEN: Final = 3
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
INACTIVE_MS: Final = 14 * DAY_MS
FORGET_MS: Final = 90 * DAY_MS
MAX_AT_ONCE: Final = 1000
"""Devices that one change lets expire or forgets."""

LAST_CLAIM: Final = "last_claim_ms"
FORGOTTEN_BY_ALL: Final = "breaker_open"


class Enrolment(NamedTuple):
    """One that was taken to be sent."""

    device: Device
    enrollment_id: str
    attempts: int
    """This one included."""
    generation: int
    body: bytes
    """The same at each try."""


class Spoke(NamedTuple):
    device_no: int
    last_contact_ms: int


# ---- enrolments


def claim(
    kept: DeviceRows, now_ms: int, most: int, *, again: bool, body_of: Callable[[Device, str], bytes]
) -> list[Enrolment]:
    """Take up to *most* that are due, the longest due first; with *again*, also of devices
    that the service had forgotten.

    *body_of*: what is sent of a device under an enrollment id; asked at the first try.
    """
    taken = kept.take_enrolments(now_ms, most, again=again, lease_ms=now_ms + LEASE_MS)
    if taken:
        kept.note(LAST_CLAIM, now_ms)
    claimed = []
    for each in taken:
        device = kept.by_number(each.device_no)
        if device is not None:
            body = each.body if each.attempts > 1 else None
            if body is None:
                body = body_of(device, each.enrollment_id)
                kept.keep_body(each.device_no, body)
            device = changes.move(kept, device, "claimed")
            claimed.append(Enrolment(device, each.enrollment_id, each.attempts, each.generation, body))
    return claimed


def put_back(kept: DeviceRows, sent: Enrolment, due_ms: int, *, answered: bool, tried: bool) -> None:
    """It is to be sent again. *answered*: an error came. *tried*: it left this machine."""
    device = kept.enrolling(sent.enrollment_id)
    if device is None:
        return
    kept.return_enrolment(device.device_no, due_ms, answered=answered, tried=tried)
    changes.move(kept, device, "put_back")


def enrolled(kept: DeviceRows, sent: Enrolment, answer: DeviceAnswer, now_ms: int) -> None:
    """Apply the upstream's *answer* to an enrolment; nothing where it was replaced meanwhile."""
    device = kept.enrolling(sent.enrollment_id)
    if device is None:
        return
    match answer.state:
        case "blocked":
            changes.blocked(kept, device, "the service blocked it")
        case "quarantined":
            reason = (
                f"the service refused its enrolment: {answer.message}"
                if answer.message
                else "the service refused its enrolment"
            )
            changes.move(kept, changes.give_up_waiting(kept, device), "refused", reason=reason)
        case _:
            _accept(kept, device, answer, now_ms)


def _accept(kept: DeviceRows, device: Device, answer: DeviceAnswer, now_ms: int) -> None:
    adopted = answer.adopted_id if answer.adopted_id is not None and is_device_id(answer.adopted_id) else None
    if device.enrolment_waits:
        changes.count_lane(kept, "delivered")
    device = changes.move(
        kept,
        device,
        "accepted",
        enrolled_ms=now_ms,
        reason=None,
        forbidden=0,
        enrolment_waits=0,
        beat_due_ms=now_ms if device.beat_waits else None,
        beat_sent_ms=None,
        interval_ms=_interval_ms(answer, device),
        upstream_id=adopted or device.upstream_id,
    )
    if adopted is not None:
        kept.add_alias(adopted, device.device_no)


def forbidden(kept: DeviceRows, device_no: int, message: str) -> bool:
    """An answer that may be about the device or about the key; True when it is held to
    be about the device by now.
    """
    device = kept.by_number(device_no)
    if device is None:
        return True
    device = kept.save(device, forbidden=device.forbidden + 1)
    if device.forbidden < MAX_FORBIDDEN or not may(device.state, "refused"):
        return False
    reason = f"the service refuses it, and takes others: {message}"
    changes.move(kept, changes.give_up_waiting(kept, device), "refused", reason=reason)
    return True


def recall(kept: DeviceRows) -> int:
    """The service knows them after all: drop the enrolments that
    were to come, and were not sent.

    They count as no cycle.
    """
    devices = kept.to_recall()
    for device in devices:
        cycles = orjson.loads(device.cycles)[:-1]
        changes.move(kept, device, "recalled", cycles=orjson.dumps(cycles))
    return len(devices)


# ---- heartbeats


def due_beats(kept: DeviceRows, now_ms: int, most: int, but_for: Collection[int]) -> list[Device]:
    """Devices whose turn it is, the longest due first; never those in *but_for*."""
    found = kept.due_beats(now_ms, most + len(but_for))
    return [device for device in found if device.device_no not in but_for][:most]


def beaten(kept: DeviceRows, sent: Device, answer: DeviceAnswer, now_ms: int) -> None:
    """The service answered the heartbeat or ping that *sent* was read with."""
    device = kept.by_number(sent.device_no)
    if device is None:
        return
    match answer.state:
        case "blocked":
            changes.blocked(kept, device, "the service blocked it")
        case "unknown":
            _forgotten(kept, device, now_ms)
        case _:
            _sent(kept, device, sent, answer, now_ms)


def _sent(kept: DeviceRows, device: Device, sent: Device, answer: DeviceAnswer, now_ms: int) -> None:
    interval_ms = _interval_ms(answer, device)
    done = {"beat_sent_ms": now_ms, "interval_ms": interval_ms, "forbidden": 0}
    if device.beat_no == sent.beat_no:
        if device.beat_waits:
            changes.count_lane(kept, "delivered")
        kept.save(device, **done, beat=None, beat_due_ms=None, beat_waits=0)
        return
    # A later one came meanwhile. It was counted as standing in for this one; now each has its
    # own
    # outcome.
    slot_ms = due_ms(device.device_id, interval_ms or 60_000, now_ms, now_ms)
    if sent.beat_waits and device.beat_waits:
        changes.change_outcome(kept, "suppressed", "superseded", -1)
        changes.change_outcome(kept, "kept")
        changes.count_lane(kept, "delivered")
    kept.save(device, **done, beat_due_ms=slot_ms)


def given_up(kept: DeviceRows, sent: Device) -> None:
    """The service will not take this heartbeat."""
    device = kept.by_number(sent.device_no)
    if device is not None and device.beat_no == sent.beat_no:
        _expire(kept, device)


def expire_beats(kept: DeviceRows, now_ms: int, interval_ms: int, but_for: Collection[int]) -> int:
    """Drop what is late by more than an interval: the next heartbeat states more."""
    late = kept.late_beats(now_ms, interval_ms, MAX_AT_ONCE)
    late = [device for device in late if device.device_no not in but_for]
    for device in late:
        _expire(kept, device)
    return len(late)


def _expire(kept: DeviceRows, device: Device) -> None:
    if device.beat_waits:
        changes.count_lane(kept, "expired")
    kept.save(device, beat=None, beat_due_ms=None, beat_waits=0)


def _forgotten(kept: DeviceRows, device: Device, now_ms: int) -> None:
    if device.state not in KNOWN:
        return
    cycles = [at_ms for at_ms in orjson.loads(device.cycles) if at_ms > now_ms - HOUR_MS]
    if len(cycles) >= MAX_CYCLES:
        reason = f"the service forgot it {len(cycles) + 1} times within an hour"
        changes.move(kept, changes.give_up_waiting(kept, device), "forgotten_again", reason=reason)
        return
    cycles.append(now_ms)
    device = changes.move(kept, device, "forgotten", epoch=device.epoch + 1, cycles=orjson.dumps(cycles))
    enrol_ms = max(now_ms + VERDICT_MS, (device.enrolled_ms or 0) + COOLDOWN_MS)
    changes.add_enrolment(kept, device, enrol_ms, again=True)


def _interval_ms(answer: DeviceAnswer, device: Device) -> int | None:
    return device.interval_ms if answer.heartbeat_interval_s is None else int(answer.heartbeat_interval_s * 1000)


# ---- as time goes by


def note_spoken(kept: DeviceRows, spoke: Sequence[Spoke], interval_ms: int) -> None:
    """Devices that sent telemetry since the last time; who sends no
    heartbeats has one sent for it.
    """
    for device_no, contact_ms in spoke:
        device = kept.by_number(device_no)
        if device is None or contact_ms <= device.last_contact_ms:
            continue
        device = changes.move(kept, device, "contacted", last_contact_ms=contact_ms)
        if device.instance_id is None and device.state in KNOWN and device.beat_due_ms is None:
            every_ms = device.interval_ms or interval_ms
            last_ms = device.beat_sent_ms or device.enrolled_ms
            kept.save(device, beat_due_ms=due_ms(device.device_id, every_ms, contact_ms, last_ms))


def forget_silent(kept: DeviceRows, now_ms: int) -> int:
    """Those that did not speak for a season; who is blocked stays so."""
    gone = kept.forgettable(now_ms - FORGET_MS, MAX_AT_ONCE)
    for device in gone:
        changes.delete(kept, device)
    return len(gone)
