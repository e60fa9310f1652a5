"""The local service as a process of its own, that misbehaves as stated, is killed and
started again on the same data.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson

from benchmarks.processes import Process, read_json_file
from tests.support.forked_process import ForkedProcess
from tests.support.ports import free_port

UNIT_COST_SCOPES = ("unit-cost_v1:manage_telemetry_records", "unit-cost_v1:read_telemetry")


class ServiceProcess:
    """One data directory and, while started, the service that runs on it."""

    def __init__(self, folder: Path, *, is_brisk: bool = False) -> None:
        """*is_brisk*: as `tests.support.brisk_service`."""
        self._module = "tests.support.brisk_service" if is_brisk else "gateway.cli.main"
        self.data_dir = folder / "service"
        self.port: int | None = None
        """While it runs; the same after a restart."""
        self._port = free_port()
        self.dies_at: tuple[str, int] | None = None
        """As of `tests.support.gateway_process.GatewayProcess`."""
        self.mood: str | None = None
        """For whoever changes how it misbehaves."""
        self._log = folder / "service.log"
        self._ports_file = folder / "service-ports.json"
        self._process: Process | None = None

    @property
    def process(self) -> Process:
        assert self._process is not None
        return self._process

    def start(self, *misbehave: str) -> None:
        """Start and wait until it listens; *misbehave* are options such as `--fail 500:0.1`."""
        self._ports_file.unlink(missing_ok=True)
        module = [self._module] if self.dies_at is None else ["tests.support.dying", *map(str, self.dies_at)]
        run = ["service", "run", "--data-dir", str(self.data_dir), "--listen", f"127.0.0.1:{self._port}"]
        name, *arguments = [*module, *run, "--ports-file", str(self._ports_file), *misbehave]
        self._process = ForkedProcess(name, arguments, log=self._log, env={})
        ports = self._process.wait_until(lambda: read_json_file(self._ports_file), what="listening")
        self.port = ports["service"]

    def kill(self) -> None:
        """kill -9."""
        self.port = None
        if self._process is not None:
            self._process.kill()

    def upstream(self, port: int, further_scopes: Sequence[str] = ()) -> dict[str, object]:
        """The gateway's `upstream` option for it, reached on *port*; its keys
        are made at its first start.
        """
        folder = self.data_dir / "service"
        scopes = [
            "ai-control-plane:enroll-device",
            "ai-control-plane:heartbeat-device",
            "ai-control-plane:ping-device",
            "events_v1:create_event",
            *further_scopes,
        ]
        return {
            "base_url": f"http://127.0.0.1:{port}",
            "sum_retry": "at_least_once",
            "keys": [
                {"name": "t", "secret": f"${{file:{folder / 'telemetry.key'}}}", "managed": ["send-ai-telemetry"]},
                {"name": "c", "secret": f"${{file:{folder / 'control.key'}}}", "scopes": scopes},
            ],
        }

    def read_key(self) -> str:
        """The operator's key, with read scopes."""
        return (self.data_dir / "service-key").read_text().strip()

    def records(self) -> list[dict[str, Any]]:
        """Every AI record that it stored."""
        return [orjson.loads(row) for row in self._column("SELECT record FROM ai_record_bodies")]

    def event_ids(self) -> list[str]:
        return [str(row) for row in self._column("SELECT event_id FROM events")]

    def device_ids(self) -> list[str]:
        """Every device that it enrolled."""
        return [str(row) for row in self._column("SELECT device_id FROM devices")]

    def unit_cost_total(self) -> Decimal:
        """What all places of all streams come to."""
        return sum(map(Decimal, self._column("SELECT value FROM unit_cost_records WHERE NOT deleted")), Decimal(0))

    def _column(self, select: str) -> Sequence[Any]:
        with closing(sqlite3.connect(self.data_dir / "service" / "service.db")) as connection:
            return [value for (value,) in connection.execute(select)]
