"""The gateway without the calls that Linux alone has, as macOS and Windows run it: what it
acknowledged outlives kill -9, its locks hold, its commands find it.

Neither system is here: `tests.support.other_system` takes the calls away.
"""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from benchmarks.processes import Process
from tests.support.gateway_process import GatewayProcess, broken_identities
from tests.support.spans import call_span

CALLS = 5
SYSTEMS = ("darwin", "win32")

pytestmark = pytest.mark.slow


class GatewayElsewhere(GatewayProcess):
    """The gateway as another system would run it."""

    def __init__(self, folder: Path, system: str, **config: object) -> None:
        super().__init__(folder, config=config)
        self.full_syncs = folder / "full-syncs"
        self._system = system
        self.env["FULL_SYNCS"] = str(self.full_syncs)

    def command(self) -> list[str]:
        python, _, *arguments = super().command()
        return [python, "-m", "tests.support.other_system", self._system, *arguments]

    def spawn(self) -> Process:
        """Not forked off a process that has imported this system's calls."""
        return Process(self.command(), log=self.log, env=self.env)

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command, on the same system and data directory."""
        return elsewhere(self._system, *arguments, data=self.data_dir, env=self.env)

    def interrupt(self) -> int:
        """Ctrl-C; the exit code."""
        os.kill(self.process.pid, signal.SIGINT)
        return self.process.wait(30)


def elsewhere(system: str, *arguments: str, data: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.support.other_system", system, "gateway.cli.main", *arguments],
        env={**os.environ, **env, "TELEMETRY_GATEWAY_DATA": str(data)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def send(gateway: GatewayProcess, name: str) -> None:
    headers = {"Content-Type": "application/x-protobuf"}
    request = urllib.request.Request(f"{gateway.intake_url}/v1/traces", call_span(name, (10, 2)), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_was_acknowledged_outlives_a_kill_on(system: str, tmp_path: Path) -> None:
    archive = {"archive": {"type": "file", "path": str(tmp_path / "records.ndjson")}}
    gateway = GatewayElsewhere(tmp_path, system, exporters=archive, workers="auto")
    with gateway:
        for number in range(CALLS):
            send(gateway, f"before {number}")
        second = Process(gateway.command(), log=tmp_path / "second.log", env=gateway.env)
        assert second.wait(30) == 1
        assert f"another gateway runs on this data directory (process {gateway.process.pid})" in second.log_tail()
        gateway.kill()
        gateway.restart()
        send(gateway, "after")
        status = gateway.wait_until_delivered(at_least=CALLS + 1)
        gateway.wait_until_delivered("archive", at_least=CALLS + 1)
        assert broken_identities(status) == []
        assert gateway.summary()["totals"]["calls"] == CALLS + 1
        asked = gateway.ask("spool", "status", "--json")
        assert json.loads(asked.stdout)["version"], "of the running gateway: the files state none"
        backup = gateway.ask("spool", "backup", str(tmp_path / "copy.db"))
        assert backup.returncode == 0, backup.stderr
        assert gateway.interrupt() == 0, gateway.process.log_tail()
    assert len((tmp_path / "records.ndjson").read_text().splitlines()) == CALLS + 1
    assert not (gateway.data_dir / "admin-address").exists()
    assert gateway.ask("spool", "verify").returncode == 0
    if system == "darwin":
        assert gateway.full_syncs.stat().st_size > CALLS, "files of its own are forced to the platter"


def test_windows_refuses_a_unix_socket_and_names_the_option(tmp_path: Path) -> None:
    listen = {"http": f"unix:{tmp_path}/http", "grpc": "off", "admin": "off", "service": "127.0.0.1:0"}
    gateway = GatewayElsewhere(tmp_path, "win32", listen=listen)
    with pytest.raises(Exception, match=r"listen\.http: names a Unix socket.*: set host:port"):
        gateway.start()


def test_the_demo_runs_on_another_loop(tmp_path: Path) -> None:
    ended = elsewhere("win32", "demo", data=tmp_path, env={})
    assert ended.returncode == 0, ended.stderr
    assert "sent = delivered" in ended.stdout
