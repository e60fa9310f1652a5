"""What `tests.install.booted` runs within a Debian that systemd booted: as root, by the system's
own Python, without a library. Prints each step; an AssertionError ends it.

In its folder are `call-1` to `call-4` (one span of a call each), `telemetry-gateway.deb`, and
`commands` (those of the docs).
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
UNIT = "telemetry-gateway.service"
ETC, STATE = Path("/etc/telemetry-gateway"), Path("/var/lib/telemetry-gateway")
SENDERS, ADMIN = "http://127.0.0.1:4318", "http://127.0.0.1:4319"
HANGS_S = 120


def by_deb() -> None:
    """Install, use, end it in three ways, upgrade, remove."""
    run("dpkg", "--install", f"{HERE}/telemetry-gateway.deb")
    (ETC / "environment").write_text("TELEMETRY_GATEWAY_COUNTING_SETTLE=200ms\n")
    run("systemctl", "restart", UNIT)
    use_it()
    pid = main_pid()
    os.kill(pid, signal.SIGKILL)
    wait_until("a new process after kill -9", lambda: main_pid() not in {0, pid} and is_active())
    send(calls=2)
    keep_it_from_its_watchdog()
    run("dpkg", "--install", f"{HERE}/telemetry-gateway.deb")
    send(calls=4)
    run("systemctl", "stop", UNIT)
    assert shown("Result") == "success", shown("Result")
    assert shown("ExecMainStatus") == "0", shown("ExecMainStatus")
    run("systemctl", "start", UNIT)
    run("dpkg", "--purge", "telemetry-gateway")
    assert not is_active()
    assert (STATE / "spool.db").exists(), "records stay"
    assert not ETC.exists()


def by_docs() -> None:
    """The commands of docs/install.md, but the one that brings the program: it is there already."""
    settle = Path("/etc/systemd/system/telemetry-gateway.service.d/settle.conf")
    settle.parent.mkdir(parents=True)
    settle.write_text("[Service]\nEnvironment=TELEMETRY_GATEWAY_COUNTING_SETTLE=200ms\n")
    for command in (HERE / "commands").read_text().splitlines():
        run("sh", "-c", command, folder="/source")
    use_it()


def use_it() -> None:
    """One call is delivered, by a process that has the rights of the unit and no others."""
    send(calls=1)
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{main_pid()}/status").read_text().splitlines())
    assert set(status["Uid"].split()) == {str(STATE.stat().st_uid)} != {"0"}, status["Uid"]
    rights = {name: status[name].strip() for name in ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp")}
    assert rights == {"CapEff": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1", "Seccomp": "2"}, rights
    limits = Path(f"/proc/{main_pid()}/limits").read_text()
    files = next(line for line in limits.splitlines() if line.startswith("Max open files"))
    assert files.split()[3:5] == ["20000", "20000"], files
    assert STATE.stat().st_mode & 0o777 == 0o700
    run("systemctl", "reload", UNIT)
    assert is_active()
    print(f"   user {status['Uid'].split()[0]}, no capability, seccomp, 20000 files, reloaded", flush=True)


def keep_it_from_its_watchdog() -> None:
    """A process that stands still is ended and started again."""
    drop_in = Path("/run/systemd/system/telemetry-gateway.service.d/watchdog.conf")
    drop_in.parent.mkdir(parents=True, exist_ok=True)
    drop_in.write_text("[Service]\nWatchdogSec=2\n")
    run("systemctl", "daemon-reload")
    run("systemctl", "restart", UNIT)
    pid = main_pid()
    os.kill(pid, signal.SIGSTOP)
    wait_until("a new process after a standstill", lambda: main_pid() not in {0, pid} and is_active())
    assert "watchdog" in run("journalctl", "--unit", UNIT, "--no-pager", "--grep", "atchdog").lower()
    send(calls=3)


def send(calls: int) -> None:
    """Post one more call; until *calls* are delivered."""
    headers = {"Content-Type": "application/x-protobuf"}
    body = (HERE / f"call-{calls}").read_bytes()
    with urllib.request.urlopen(urllib.request.Request(f"{SENDERS}/v1/traces", body, headers), timeout=10) as answer:
        assert answer.status == 200
    wait_until(f"{calls} delivered", lambda: delivered() == calls)


def delivered() -> int:
    with urllib.request.urlopen(f"{ADMIN}/v2/status", timeout=10) as answer:
        count: int = json.load(answer)["lanes"]["ai_telemetry"]["delivered"]
        return count


def main_pid() -> int:
    return int(shown("MainPID"))


def is_active() -> bool:
    return shown("ActiveState") == "active"


def shown(name: str) -> str:
    return subprocess.check_output(["systemctl", "show", "--value", "--property", name, UNIT], text=True).strip()


def wait_until(what: str, is_so: Callable[[], bool]) -> None:
    """Ask again and again: systemd gives no sign."""
    ends_s = time.monotonic() + HANGS_S
    while not is_so():
        assert time.monotonic() < ends_s, f"not within {HANGS_S} s: {what}"
        time.sleep(0.1)
    print(f"   {what}", flush=True)


def run(*command: str, folder: str = "/") -> str:
    """What it printed. Raises AssertionError with that where it fails."""
    print(f"   $ {' '.join(command)}", flush=True)
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout + journal()
    return done.stdout


def journal() -> str:
    return subprocess.run(
        ["journalctl", "--unit", UNIT, "--no-pager", "--lines", "30"], capture_output=True, text=True, check=False
    ).stdout


if __name__ == "__main__":
    {"deb": by_deb, "docs": by_docs}[sys.argv[1]]()
