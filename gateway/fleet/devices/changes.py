"""What happens to a device, as its contacts, the service's answers and an operator bring it about.

Every change of a state goes through `move`, so by the table of `gateway.fleet.devices.states`. The
figures are changed in the commit of what they count: `received = kept + duplicate + suppressed +
rejected` and `kept = delivered + pending + dead_lettered + expired` hold at any moment, and
`pending` is the number of devices' items that wait.
"""

from typing import Any, Final

from gateway.common.contract.device_identity import enrollment_id
from gateway.fleet.devices.home import DeviceRows
from gateway.fleet.devices.rows import Device, KeptEnrolment, New
from gateway.fleet.devices.states import ENROLS, Event, after

_EDGE: Final = "edge."
_LANE: Final = "lane."
_REASON: Final = "reason."


def insert(kept: DeviceRows, new: New, now_ms: int) -> Device:
    """The device and its enrolment, together."""
    device = kept.insert(new, now_ms)
    add_enrolment(kept, device, now_ms)
    return device


def move(kept: DeviceRows, device: Device, event: Event, **changes: Any) -> Device:
    """What *event* makes of the device.

    A device that leaves the states that enrol has no enrolment left. Raises NoSuchTransition.
    """
    state = after(device.state, event)
    if state not in ENROLS:
        kept.drop_enrolment(device.device_no)
    return kept.save(device, state=state, **changes)


def add_enrolment(kept: DeviceRows, device: Device, due_ms: int, *, again: bool = False) -> None:
    """One for the device's epoch, in place of whatever enrolment it had."""
    number, epoch = device.device_no, device.epoch
    kept.put_enrolment(
        KeptEnrolment(number, epoch, enrollment_id(device.device_id, epoch), again, 0, 0, due_ms, 0, None)
    )


def was_tried(kept: DeviceRows, device: Device) -> bool:
    """Whether its enrolment has left this machine, as far as is known."""
    enrolment = kept.enrolment(device.device_no)
    return enrolment is None or enrolment.attempts > 0


def blocked(kept: DeviceRows, device: Device, reason: str) -> Device:
    """Nothing goes out for it any more, and nothing comes in."""
    return move(kept, give_up_waiting(kept, device), "blocked", reason=reason)


def give_up_waiting(kept: DeviceRows, device: Device, *, refused: bool = True) -> Device:
    """The outcome of what waits for a device that is not served: an enrolment that the upstream
    refused, a heartbeat that is out of date.
    """
    if device.enrolment_waits:
        count_lane(kept, "dead_lettered" if refused else "expired")
    if device.beat_waits:
        count_lane(kept, "expired")
    return kept.save(device, enrolment_waits=0, beat_waits=0, beat=None, beat_due_ms=None)


def delete(kept: DeviceRows, device: Device) -> None:
    give_up_waiting(kept, device, refused=False)
    kept.delete(device.device_no)


# ---- figures


def count(kept: DeviceRows, outcome: str, reason: str | None = None, n: int = 1) -> None:
    """*n* items came and met *outcome*."""
    kept.add(_EDGE + "received", n)
    change_outcome(kept, outcome, reason, n)


def change_outcome(kept: DeviceRows, outcome: str, reason: str | None = None, n: int = 1) -> None:
    """*n* items more have *outcome*, or fewer where it is negative."""
    kept.add(_EDGE + outcome, n)
    if outcome == "kept":
        kept.add(_LANE + "kept", n)
    if reason is not None:
        kept.add(f"{_REASON}{outcome}.{reason}", n)


def count_lane(kept: DeviceRows, outcome: str, n: int = 1) -> None:
    """*n* pending items came to their end."""
    kept.add(_LANE + outcome, n)
