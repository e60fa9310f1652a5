"""Current figures for the detectors: lanes, dead letters, silent devices, gaps, AI without calls.

Read off the parts in each round.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gateway.common.contract.budgets import Crossing
from gateway.counting.coverage import AiWithoutCalls
from gateway.counting.metrics.gaps import Gap
from gateway.counting.readings import InputReading
from gateway.fleet.devices.store import DeviceStore
from gateway.usage.insights.detect import Figures
from gateway.usage.insights.operations import DeadLetters, Device, LaneWaits
from gateway.usage.insights.thresholds import SILENT_DEVICE_HOURS, SILENT_DEVICE_REPORTED_HOURS
from gateway.usage.sums.tally import HOUR_MS
from spool.store import StatusStore


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Call it in each round."""

    spool: StatusStore
    devices: DeviceStore
    stuck_lanes: Callable[[], Mapping[str, tuple[str, str]]]
    """Lane -> state and reason, of those that hold records and are not `ok`."""
    gaps: Callable[[], Sequence[Gap]]
    uncovered: Callable[[], Sequence[AiWithoutCalls]]
    input_readings: Callable[[], Sequence[InputReading]]
    key_names: Callable[[], Mapping[str, str]]
    crossings: Callable[[], Sequence[Crossing]]
    prefer_metrics: frozenset[str]
    now_ms: Callable[[], int]
    monotonic_s: Callable[[], float]
    _lane_waits: LaneWaits = field(default_factory=LaneWaits)

    async def __call__(self) -> Figures:
        """Raises DatabaseUnavailable."""
        return Figures(
            self.now_ms(),
            gaps=self.gaps(),
            uncovered=self.uncovered(),
            input_readings=self.input_readings(),
            prefer_metrics=self.prefer_metrics,
            key_names=self.key_names(),
            crossings=self.crossings(),
            stuck_lanes=self._lane_waits.seen(self.stuck_lanes(), self.monotonic_s()),
            dead_letters=[DeadLetters(x.lane, x.reason, x.records) for x in self.spool.dead_letter_summary().reasons],
            devices=await self._silent_devices(),
        )

    async def _silent_devices(self) -> list[Device]:
        """The store's times are of the suspend-aware clock; these are converted to the wall
        clock.
        """
        age_ms = self.spool.age_ms()
        ahead_ms = self.now_ms() - age_ms
        silent_ms = SILENT_DEVICE_HOURS * HOUR_MS
        at_most_ms = SILENT_DEVICE_REPORTED_HOURS * HOUR_MS
        found = await self.devices.read(lambda kept: kept.silent_for(silent_ms, at_most_ms, age_ms))
        return [Device(name, first_ms + ahead_ms, last_ms + ahead_ms) for name, first_ms, last_ms in found]
