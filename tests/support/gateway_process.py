"""The real gateway as a process on free loopback ports: start, ask, kill, start again
on the same data directory.
"""

import json
import sys
import urllib.error
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from benchmarks.processes import Process, ProcessFailed, read_json_file
from benchmarks.scenario import fetch
from tests.support.forked_process import ForkedProcess

EDGE_OUTCOMES = ("kept", "duplicate", "suppressed", "rejected", "ignored")
LANE_OUTCOMES = ("delivered", "pending", "dead_lettered", "expired")
OWN_LANES = ("ai_telemetry", "usage_events", "unit_cost", "devices")

Status = dict[str, dict[str, Any]]
"""`/v2/status`: `edge` (counts by outcome) and `lanes` (by name)."""


class Upstream(NamedTuple):
    """An upstream that is not the embedded service."""

    base_url: str
    key: str


class GatewayProcess:
    """One data directory and, while started, the gateway that runs on it."""

    def __init__(
        self,
        folder: Path,
        *,
        upstream: Upstream | None = None,
        settle: str = "200ms",
        config: Mapping[str, object] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """*config* is laid over the settings made here (top-level keys)."""
        self.dies_at: tuple[str, int] | None = None
        """(point, passing) of `tests.support.dying`: the processes started from
        now on end themselves there."""
        self.program = "gateway.cli.main"
        """The module that is run."""
        self.data_dir = folder / "data"
        self.log = folder / "gateway.log"
        self._config_file = folder / "config.yaml"
        self.ports_file = folder / "ports.json"
        self.env = {**(environ or {}), **({"TEST_UPSTREAM_KEY": upstream.key} if upstream else {})}
        self._ports: dict[str, int | None] = {}
        self._process: Process | None = None
        settings = _settings(self.data_dir, upstream, settle) | dict(config or {})
        self._config_file.write_text(json.dumps(settings))  # JSON is YAML

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process is not None:
            self._process.kill()

    @property
    def process(self) -> Process:
        """The running process. Raises AssertionError when it was never started."""
        assert self._process is not None
        return self._process

    @property
    def was_started(self) -> bool:
        return self._process is not None

    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode() is None

    def command(self) -> list[str]:
        """How it is started."""
        return [sys.executable, "-m", *self._module()]

    def _module(self) -> list[str]:
        run = ["run", "--config", str(self._config_file), "--ports-file", str(self.ports_file)]
        module = [self.program] if self.dies_at is None else ["tests.support.dying", *map(str, self.dies_at)]
        return [*module, *run]

    def spawn(self) -> Process:
        """Start a process on this data directory without waiting for it; the caller ends it."""
        if "LD_PRELOAD" in self.env:
            return Process(self.command(), log=self.log, env=self.env)
        module, *arguments = self._module()
        return ForkedProcess(module, arguments, log=self.log, env=self.env)

    def start(self) -> None:
        """Start and wait until it is ready.

        Raises ProcessFailed with the end of its log when it does not get there.
        """
        self.ports_file.unlink(missing_ok=True)
        self._process = self.spawn()
        try:
            self._ports = self._process.wait_until(lambda: read_json_file(self.ports_file), what="ready")
        except BaseException:
            self._process.kill()
            raise

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        return self.process.terminate()

    def restart(self) -> None:
        """Start again after a kill or a stop, on the same data."""
        self.start()

    @property
    def intake_url(self) -> str:
        """Base URL of the senders' listener."""
        return f"http://127.0.0.1:{self._ports['http']}"

    @property
    def grpc_target(self) -> str:
        """Address of the senders' gRPC listener. Raises AssertionError when it is off."""
        assert self._ports["grpc"] is not None
        return f"127.0.0.1:{self._ports['grpc']}"

    @property
    def admin_url(self) -> str:
        """Base URL of the admin listener."""
        return f"http://127.0.0.1:{self._ports['admin']}"

    @property
    def service_url(self) -> str:
        """Base URL of the embedded service. Raises AssertionError when it has none."""
        assert self._ports["service"] is not None
        return f"http://127.0.0.1:{self._ports['service']}"

    def status(self) -> Status:
        """`GET /v2/status` of the admin listener."""
        status: Status = json.loads(fetch(self.admin_url + "/v2/status"))
        return status

    def service_key(self) -> str:
        """The embedded service's key with read scopes."""
        return (self.data_dir / "service-key").read_text().strip()

    def summary(self, group_by: str = "provider,model") -> dict[str, Any]:
        """The embedded service's summary: `summary` (groups) and `totals`."""
        url = f"{self.service_url}/v2/ai-telemetry/summary?group_by={group_by}"
        answer: dict[str, Any] = json.loads(fetch(url, headers={"Authorization": self.service_key()}))
        return answer

    def wait_until_delivered(self, lane: str = "ai_telemetry", *, at_least: int = 1) -> Status:
        """Wait until *lane* holds nothing pending and kept *at_least* records; the status then."""

        def settled() -> Status | None:
            try:
                status = self.status()
            except urllib.error.URLError:
                return None  # it may just be gone: the caller's wait reports it
            counts = status["lanes"][lane]
            return status if counts["pending"] == 0 and counts["kept"] >= at_least else None

        try:
            return self.process.wait_until(settled, what=f"{lane} delivered")
        except ProcessFailed as failed:
            state = f"; status {self.status()}" if self.process.returncode() is None else ""
            raise ProcessFailed(f"{failed}{state}") from failed

    def wait_for_all_there_is(self, lane: str = "ai_telemetry", *, expected: int) -> None:
        """Wait until *lane* delivered *expected* records, or what it has where no more come."""
        try:
            self.wait_until_delivered(lane, at_least=expected)
        except ProcessFailed:
            self.wait_until_delivered(lane, at_least=0)


def broken_identities(status: Status) -> list[str]:
    """What of the two identities of `/v2/status` does not hold; empty when all is well."""
    edge, lanes = status["edge"], status["lanes"]
    broken = []
    if edge["received"] != sum(edge[outcome] for outcome in EDGE_OUTCOMES):
        broken.append(f"edge: {edge}")
    broken += [
        f"lane {name}: {lane}"
        for name, lane in lanes.items()
        if lane["kept"] != sum(lane[outcome] for outcome in LANE_OUTCOMES)
    ]
    own = sum(lanes[name]["kept"] for name in OWN_LANES if name in lanes)
    if edge["kept"] != own:
        broken.append(f"edge.kept {edge['kept']} but the own lanes kept {own}")
    return broken


def _settings(data_dir: Path, upstream: Upstream | None, settle: str) -> dict[str, object]:
    service = "off" if upstream else "127.0.0.1:0"
    settings: dict[str, object] = {
        "data_dir": str(data_dir),
        "listen": {"http": "127.0.0.1:0", "grpc": "off", "admin": "127.0.0.1:0", "service": service},
        "counting": {"settle": settle, "metrics_settle": "1s"},
    }
    if upstream:
        key = {"name": "telemetry", "secret": "${env:TEST_UPSTREAM_KEY}", "managed": ["send-ai-telemetry"]}
        settings["upstream"] = {"base_url": upstream.base_url, "keys": [key]}
    return settings
