"""The systemd unit without a systemd: its form, its exposure, and whether the gateway makes a
system call that it forbids (by strace; `MemoryDenyWriteExecute` forbids memory to write and run).
"""

import re
import sys
from pathlib import Path

from tests.install.steps import ROOT, run_and_send, say, step

UNITS = ROOT / "deploy/systemd"
EXPOSURE = 1.5
"""Of 10, as `systemd-analyze security` rates it."""
BOTH = re.compile(r"PROT_WRITE\S*\|PROT_EXEC")
ROOT_ALONE = {"fchown"}
"""SQLite's, where it runs as root."""
PROTECTED = re.compile(r"mprotect\([^)]*PROT_EXEC")


def try_systemd(folder: Path) -> None:
    """Verify and rate the units; trace one start, call and stop."""
    system, user = unit(folder, "telemetry-gateway"), unit(folder, "telemetry-gateway-device")
    faults = step("systemd-analyze", "verify", system) + step("systemd-analyze", "verify", user)
    assert not faults.strip(), faults
    rated = step("systemd-analyze", "security", "--offline=yes", "--no-pager", system)
    found = re.search(r"exposure level for \S+: ([\d.]+)", rated)
    assert found is not None, rated
    say(f"exposure {found[1]}")
    assert float(found[1]) <= EXPOSURE
    trace = folder / "trace"
    command = [sys.executable, "-m", "gateway.cli.main", "run", "--data-dir", folder / "data"]
    run_and_send(["strace", "-D", "-f", "-qq", "-o", trace, *command], folder)
    calls = trace.read_text(errors="replace")
    used = set(re.findall(r"^\d+ +(?:<\.\.\. )?(\w+)[( ]", calls, re.MULTILINE)) - {"resumed"}
    forbidden = sorted(used - allowed(system) - ROOT_ALONE)
    say(f"{len(used)} system calls, forbidden: {forbidden or 'none'}")
    assert not forbidden
    assert not BOTH.search(calls), BOTH.search(calls)
    assert not PROTECTED.search(calls), PROTECTED.search(calls)


def unit(folder: Path, name: str) -> Path:
    """A copy whose program exists."""
    text = (UNITS / f"{name}.service").read_text()
    copy = folder / f"{name}.service"
    copy.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE))
    return copy


def allowed(path: Path) -> set[str]:
    """The system calls that the filters of a unit leave."""
    left: set[str] = set()
    for names in re.findall(r"^SystemCallFilter=(.*)$", path.read_text(), re.MULTILINE):
        is_taken = names.startswith("~")
        for name in names.removeprefix("~").split():
            calls = members(name) if name.startswith("@") else {name}
            left = left - calls if is_taken else left | calls
    return left


def members(group: str) -> set[str]:
    """The system calls of a group such as `@system-service`, those of its groups included."""
    names = [line.strip() for line in step("systemd-analyze", "syscall-filter", group).splitlines()[1:]]
    found = {name for name in names if name and not name.startswith(("#", "@"))}
    return found.union(*(members(name) for name in names if name.startswith("@")))
