"""Detectors of the gateway's own work: stuck lanes, dead letters, silent devices. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gateway.usage.insights.finding import Finding
from gateway.usage.insights.thresholds import (
    HELD_LANE_S,
    RETRYING_LANE_S,
    SILENT_DEVICE_HOURS,
    SILENT_DEVICE_LEAST_HOURS,
    SILENT_DEVICE_REPORTED_HOURS,
)
from gateway.usage.insights.words import day_text, rounded, shown
from gateway.usage.sums.tally import HOUR_MS
from spool.dead_letters import QUARANTINED


class StuckLane(NamedTuple):
    lane: str
    state: str
    """`retrying`, `held` or `off`, with records that wait."""
    reason: str
    for_s: float
    """As observed by this process."""


class DeadLetters(NamedTuple):
    """Records of one lane that the upstream refused, or the spool lost, for one reason, kept as
    dead letters."""

    lane: str
    reason: str
    records: int


class Device(NamedTuple):
    device_id: str
    first_contact_ms: int
    last_contact_ms: int


def held_lane(lanes: Sequence[StuckLane]) -> Iterator[Finding]:
    """One finding for each lane that is stuck longer than its threshold."""
    for lane, state, reason, for_s in sorted(lanes):
        if for_s >= (RETRYING_LANE_S if state == "retrying" else HELD_LANE_S):
            yield Finding(
                cause="held_lane",
                source=lane,
                model="",
                title=f"lane {shown(lane)} is {state} and sends nothing: {shown(reason)}",
                category="delivery",
                effort="low",
            )


def dead_letters(refused: Sequence[DeadLetters]) -> Iterator[Finding]:
    """One finding for each lane with dead letters."""
    for lane, reason, records in sorted(refused):
        if records:
            count = "1 record" if records == 1 else f"{rounded(records)} records"
            how = "lost by the spool" if reason == QUARANTINED else "refused"
            yield Finding(
                cause="dead_letters",
                source=f"{lane}\x00{reason}",
                model="",
                title=f"lane {shown(lane)}: {count} {how} as {shown(reason)}; kept as dead letters",
                category="delivery",
                effort="medium",
            )


def silent_device(devices: Sequence[Device], now_ms: int) -> Iterator[Finding]:
    """Devices that were in regular contact and fell silent."""
    for device_id, first_ms, last_ms in sorted(devices, key=lambda x: (-x.last_contact_ms, x)):
        silent_h = (now_ms - last_ms) / HOUR_MS
        was_habit = last_ms - first_ms >= SILENT_DEVICE_LEAST_HOURS * HOUR_MS
        if was_habit and SILENT_DEVICE_HOURS <= silent_h < SILENT_DEVICE_REPORTED_HOURS:
            yield Finding(
                cause="silent_device",
                source=device_id,
                model="",
                title=f"device {shown(device_id)}: silent since {day_text(last_ms // HOUR_MS)}",
                category="devices",
                effort="low",
            )


class LaneWaits:
    """Since when each lane is stuck. Updated every round."""

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}

    def seen(self, stuck: Mapping[str, tuple[str, str]], now_s: float) -> list[StuckLane]:
        """*stuck*: lane -> state and reason, of those that are stuck at *now_s*, a monotonic
        time.
        """
        self._since_s = {lane: self._since_s.get(lane, now_s) for lane in stuck}
        return [StuckLane(lane, *stuck[lane], now_s - since_s) for lane, since_s in self._since_s.items()]
