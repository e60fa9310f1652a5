"""The device that a gateway is itself, and what its heartbeats state beyond those of others."""

import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Final

import orjson

from gateway.fleet.devices.rows import New
from spool.record import DEVICES, OWN_LANES
from spool.store import Spool

DISTRIBUTION: Final = "ai-telemetry-gateway"


def own_device(instance_id: str, own_id: str | None, *, is_workstation: bool) -> New:
    """Under *own_id*, else *instance_id*, the id of the process.

    It has no name of the machine.
    """
    details = {
        "host": {"os": platform.system().lower() or "unknown", "arch": platform.machine() or "unknown"},
        "client": {"name": DISTRIBUTION, "version": version(DISTRIBUTION)},
    }
    kind = "workstation" if is_workstation else "gateway"
    return New(own_id or instance_id, kind, "gateway", orjson.dumps(details))


PENDING: Final = "pending_records"
OLDEST_S: Final = "oldest_pending_s"


def own_beat(itself: New, spool: Spool) -> dict[str, Any]:
    """What a heartbeat of *itself* states too: its release, and what waits for the upstream. So the
    gateway that it forwards to can show whether it falls behind.
    """
    depths = [spool.depth(lane) for lane in spool.lanes() if lane in OWN_LANES and lane != DEVICES]
    oldest = [depth.oldest_pending_ms for depth in depths if depth.oldest_pending_ms is not None]
    age_s = max(0, spool.age_ms() - min(oldest)) // 1000 if oldest else 0
    details: Mapping[str, Any] = orjson.loads(itself.details)
    return {**details, "counters": {PENDING: sum(depth.pending for depth in depths), OLDEST_S: age_s}}
