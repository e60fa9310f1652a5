"""The assembly of `GET /v2/status` from what each part reports."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from exporters.pacing import LaneState
from gateway.common.contract.reader_status import ReaderStatus
from gateway.common.release import commit, release
from gateway.counting.coverage import AiWithoutCalls
from gateway.counting.metrics.gaps import Gap, sender_shown
from gateway.counting.readings import InputReading
from gateway.fleet.devices.store import DeviceStore
from gateway.observability.dead_letters import reason_figures, resend_figures
from gateway.observability.devices import device_status, edge_with, lane_with
from gateway.observability.metrics import (
    CellStatus,
    LaneShown,
    LaneStatus,
    SpoolStatus,
    Status,
    UpstreamStatus,
)
from gateway.observability.quarantine import quarantine_status
from gateway.observability.refusals import RefusedStatus
from gateway.usage.billing.lane import BillingStatus
from gateway.usage.billing.lane_store import LANE
from gateway.usage.billing.relay import BillingRelayStatus
from gateway.usage.billing.relay_store import LANE as RELAY
from spool.errors import SpoolError
from spool.record import AI_TELEMETRY, DEVICES
from spool.store import FileSpool, Spool


@dataclass(frozen=True, slots=True)
class StatusReport:
    """Call it for the status as of now."""

    spool: Spool
    file: FileSpool | None
    """The spool, where it is a file of this machine."""
    devices: DeviceStore
    spool_lanes: Callable[[int], Mapping[str, LaneStatus]]
    """The lanes of the spool, at a time of its clock."""
    device_lane: Callable[[], tuple[LaneState, str | None]]
    """State of the devices' own lane, and why it is not `ok`."""
    held_s: Callable[[], float | None]
    """As `DeviceStatus.telemetry_held_s`."""
    behind_s: Callable[[], float | None]
    """As `Settler.behind_s`."""
    waiting_metrics: Callable[[], int]
    """As `Status.waiting_metrics`."""
    unpriced: Mapping[str, int]
    gaps: Callable[[], Sequence[Gap]]
    uncovered: Callable[[], Sequence[AiWithoutCalls]]
    input_readings: Callable[[], Sequence[InputReading]]
    key_names: Callable[[], Mapping[str, str]]
    refused: Callable[[], Sequence[RefusedStatus]]
    """As `RefusedRequests.status`."""
    reader: Callable[[], ReaderStatus]
    upstream: Callable[[], UpstreamStatus]
    billing: Callable[[], BillingStatus | None]
    """None where no billing connection is configured."""
    billing_relay: Callable[[], Sequence[BillingRelayStatus]]
    cell: Callable[[], CellStatus] | None = None
    """None for a gateway that counts alone."""

    def __call__(self) -> Status:
        devices, dead_letters = self.devices.figures, self.spool.dead_letter_summary()
        key_names = self.key_names()
        status: Status = {
            "edge": edge_with(self.spool.edge(), devices.edge),
            "lanes": self.lanes(),
            "waiting_metrics": self.waiting_metrics(),
            "reasons": edge_with(self.spool.reasons(), devices.reasons),
            "devices": device_status(self.devices, self.held_s()),
            "unpriced": dict(self.unpriced),
            "gaps": [{**gap, "sender": sender_shown(gap["sender"], key_names)} for gap in self.gaps()],
            "ai_without_calls": self.uncovered(),
            "input_readings": self.input_readings(),
            "spool": spool_status(self.spool, self.file),
            "dead_letters": reason_figures(dead_letters),
            "resends": resend_figures(dead_letters),
            "refused": self.refused(),
            "reader": self.reader(),
            "upstream": self.upstream(),
            "billing": self.billing(),
            "billing_relay": self.billing_relay(),
            "version": release(),
            "commit": commit(),
        }
        if self.file is not None:
            status["quarantine"] = quarantine_status(self.file)
        if self.cell is not None:
            status["cell"] = self.cell()
        return status

    def lanes(self) -> dict[str, LaneStatus]:
        """The spool's lanes; that of devices has its own counts beside what an earlier
        release left in the spool.
        """
        now_ms = self.spool.age_ms()
        lanes = dict(self.spool_lanes(now_ms))
        behind = settling_behind(self.behind_s())
        if behind is not None and lanes[AI_TELEMETRY]["state"] == "ok":
            lanes[AI_TELEMETRY] = {**lanes[AI_TELEMETRY], "state": "behind", "reason": behind}
        lanes[DEVICES] = lane_with(lanes[DEVICES], self.devices.figures, now_ms, *self.device_lane())
        return lanes

    def logged_lanes(self) -> dict[str, LaneShown]:
        """The lanes; that of billing drops, whose days are what is pending; and one for each
        connection that drops of senders wait for.
        """
        lanes: dict[str, LaneShown] = {**self.lanes()}
        if (billing := self.billing()) is not None:
            lanes[LANE] = {"pending": billing["days_due"], "state": billing["state"], "reason": billing["reason"]}
        for each in self.billing_relay():
            name = f"{RELAY} {each['connection']}"
            lanes[name] = {"pending": each["waiting"], "state": each["state"], "reason": each["reason"]}
        return lanes

    def stuck_lanes(self) -> dict[str, tuple[str, str]]:
        """Lane -> state and reason, of those that hold records and are not `ok`."""
        return {
            name: (lane["state"], lane["reason"] or "no reason is known")
            for name, lane in self.lanes().items()
            if lane["state"] != "ok" and lane["pending"]
        }

    async def not_ready(self) -> str | None:
        """Why the gateway cannot keep data now; None when it can."""
        try:
            self.spool.admit(0)
        except SpoolError as error:
            return str(error)
        return None


def settling_behind(behind_s: float | None) -> str | None:
    """Why the lane of calls is `behind`; None when it is not."""
    if behind_s is None:
        return None
    return f"calls settle late: the oldest has waited {behind_s:.0f} s beyond counting.settle"


def spool_status(spool: Spool, file: FileSpool | None) -> SpoolStatus:
    status: SpoolStatus = {"used_bytes": spool.used_bytes, "max_bytes": spool.settings.max_bytes}
    if file is not None:
        status |= {"file_bytes": file.room.file_bytes, "disk_free_bytes": file.room.free_bytes}
    return status
