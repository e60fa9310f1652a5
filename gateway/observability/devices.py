"""The devices' part of `/v2/status`.

Their counters are kept in control.db, with what they count; the spool's hold what
earlier releases counted there.
"""

from collections.abc import Mapping

from exporters.pacing import LaneState
from gateway.fleet.devices.rows import Figures
from gateway.fleet.devices.store import DeviceStore
from gateway.observability.metrics import DeviceStatus, LaneStatus


def device_status(store: DeviceStore, telemetry_held_s: float | None) -> DeviceStatus:
    return {
        "states": dict(store.states),
        "enrolments_waiting": store.figures.enrolments,
        "telemetry_held_s": telemetry_held_s,
    }


def edge_with(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Both, added by name."""
    return {name: counts.get(name, 0) + more.get(name, 0) for name in (*counts, *(more.keys() - counts.keys()))}


def lane_with(spool: LaneStatus, figures: Figures, now_ms: int, state: LaneState, reason: str | None) -> LaneStatus:
    """*spool* is the lane as the spool has it."""
    lane = figures.lane
    ages = [
        age for age in (spool["oldest_pending_age_s"], _age_s(figures.oldest_pending_ms, now_ms)) if age is not None
    ]
    whole: LaneStatus = {
        **spool,
        "kept": spool["kept"] + lane["kept"],
        "delivered": spool["delivered"] + lane["delivered"],
        "pending": spool["pending"] + lane["pending"],
        "dead_lettered": spool["dead_lettered"] + lane["dead_lettered"],
        "expired": spool["expired"] + lane["expired"],
        "oldest_pending_age_s": max(ages, default=None),
        "state": state,
        "reason": reason,
    }
    whole.pop("pending_bytes", None)  # of what an earlier release left in the spool alone
    return whole


def _age_s(since_ms: int | None, now_ms: int) -> float | None:
    return None if since_ms is None else round(max(0, now_ms - since_ms) / 1000, 3)
