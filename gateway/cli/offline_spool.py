"""The files of a stopped gateway, for `gateway.operate.spool_files` and
`gateway.operate.backup`.
"""

import sqlite3
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gateway.access.key_files import INBOUND
from gateway.common.contract.errors import LaneNotHeld
from gateway.common.storage.database import read_only
from gateway.common.wall_clock import wall_ms
from gateway.fleet.devices.rows import Figures
from gateway.observability.devices import edge_with
from gateway.operate.archive.staging import DATABASES, stage
from gateway.operate.backup import Staged
from gateway.stores.sql.devices import SqlDeviceRows
from spool.counters import LaneCounters
from spool.data_lock import DataLock
from spool.record import DEVICES, Lane
from spool.sqlite.backup import back_up
from spool.sqlite.reading import read_held
from spool.sqlite.recovery.acknowledging import acknowledge_stopped
from spool.sqlite.recovery.verify import verify_stopped
from spool.sqlite.snapshots import SqliteSnapshots
from spool.status import Verified

LANE_COLUMNS = ("kept", "delivered", "pending", "dead_lettered", "expired")


class OfflineSpool:
    """Each method holds the lock of the data directory. Raises SpoolLocked, SpoolError."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    async def verify(self) -> Verified:
        return verify_stopped(self._data_dir)

    async def back_up(self, to: Path) -> int:
        with DataLock(self._data_dir):
            return back_up(self._data_dir, to)

    async def acknowledge(self) -> int:
        with DataLock(self._data_dir):
            return acknowledge_stopped(self._data_dir)

    def status(self) -> dict[str, Any]:
        """The counts on disk: `edge`, `lanes`, `reasons`; the devices' own are in control.db."""
        held = read_held(self._data_dir)
        counters = held.counters
        lanes = {lane: lane_json(counters.lane(lane), oldest_ms) for lane, oldest_ms in held.oldest_ms.items()}
        devices = device_figures(self._data_dir / INBOUND.database)
        waiting = {"waiting_metrics": held.aggregates}
        if devices is None:
            return {"edge": counters.edge, "lanes": lanes, **waiting, "reasons": counters.reasons}
        lane = lanes[DEVICES]
        lanes[DEVICES] = {**lane, **edge_with({x: lane[x] for x in LANE_COLUMNS}, devices.lane)}
        return {
            "edge": edge_with(counters.edge, devices.edge),
            "lanes": lanes,
            **waiting,
            "reasons": edge_with(counters.reasons, devices.reasons),
        }


class OfflineLanes:
    """No lane is held while no gateway runs."""

    def set_aside(self, lane: Lane) -> int | None:
        raise LaneNotHeld("no gateway runs on this data directory: start it, and ask when the lane is held")


class OfflineBackup:
    """Holds the lock of the data directory. Raises SpoolLocked, SpoolError."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    async def stage(self, work_dir: Path | None) -> Staged:
        data_dir = self._data_dir
        with DataLock(data_dir):
            files = {name: data_dir / name for name in DATABASES if (data_dir / name).exists()}
            with closing(SqliteSnapshots(files)) as snapshots:
                folder = stage(snapshots, data_dir, work_dir or data_dir, keep_free_bytes=0)
        return Staged(folder, wall_ms())


def device_figures(control_database: Path) -> Figures | None:
    """The counts in control.db; None where it has none, or cannot be read."""
    if not control_database.exists():
        return None
    try:
        with closing(read_only(control_database)) as connection:
            return SqlDeviceRows(connection).figures()
    except sqlite3.Error:
        return None  # of a release without devices there, or damaged: the gateway reports it at its start


def lane_json(counters: LaneCounters, oldest_ms: int | None) -> dict[str, Any]:
    age_s = None if oldest_ms is None else max(0, wall_ms() - oldest_ms) / 1000
    return {**asdict(counters), "oldest_pending_age_s": age_s, "state": "off", "reason": "no gateway runs"}
