"""When a device's heartbeat goes out, and what the gateway sends for a device that sends nothing
itself. Pure; times in ms.

Heartbeats are state: the latest one stands for those before it. Each device has a slot in each
interval, at a phase that hangs on its id, give or take a tenth, so that a fleet that starts at once
does not beat at once. A device that did not speak has nothing due.
"""

from typing import Any, Final, Literal

from gateway.common.contract.device_identity import fraction
from spool.clock import rfc3339_ms

SHORTEST_MS: Final = 1_000
LONGEST_MS: Final = 3_600_000
SPREAD: Final = 0.1
"""Of an interval, either way."""
OFFLINE_LEAST_MS: Final = 5 * 60_000
OFFLINE_INTERVALS: Final = 3

Silence = Literal["fell_silent", "long_silent"]


def next_slot_ms(device_id: str, interval_ms: int, after_ms: int) -> int:
    """The first of the device's slots later than *after_ms*; at most 1.2 intervals away."""
    phase = fraction("phase", device_id)
    turn = int(after_ms / interval_ms - phase) - 1
    while True:
        shift = SPREAD * (2 * fraction("jitter", device_id, turn) - 1)
        slot_ms = int((turn + phase + shift) * interval_ms)
        if slot_ms > after_ms:
            return slot_ms
        turn += 1


def due_ms(device_id: str, interval_ms: int, now_ms: int, sent_ms: int | None) -> int:
    """When a beat that came now goes out: the first one of a device
    at once, the others in its slots.
    """
    if sent_ms is None:
        return now_ms
    return next_slot_ms(device_id, interval_ms, max(now_ms, sent_ms + interval_ms // 2))


def is_stale(beat_due_ms: int, interval_ms: int, now_ms: int) -> bool:
    """Whether a beat is late by more than an interval: then the next one states more."""
    return now_ms - beat_due_ms > interval_ms


def offline_after_ms(interval_ms: int) -> int:
    """Without contact for so long a device is called offline."""
    return max(OFFLINE_LEAST_MS, OFFLINE_INTERVALS * interval_ms)


def spoken_for(gateway_id: str, last_contact_ms: int, now_ms: int) -> dict[str, Any]:
    """The beat of a device that sends telemetry only.

    The sequence grows with the clock, over restarts too.
    """
    return {
        "instance_id": gateway_id,
        "sequence": now_ms // 1000,
        "observed_at": rfc3339_ms(now_ms),
        "last_activity_at": rfc3339_ms(last_contact_ms),
        "status": "healthy",
        "gateway_id": gateway_id,
    }
