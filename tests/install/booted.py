"""The .deb and the systemd unit under a real systemd: systemd-nspawn boots a Debian, which installs
and runs the gateway (`tests.install.inside`), with a network of its own and nothing kept. As root.

INSTALL_CHROOT names a Debian 12 that is there already, with systemd, dbus, python3 and adduser.
"""

import os
import re
import shutil
from pathlib import Path

from tests.install.steps import ROOT, say, step
from tests.support.spans import call_span

SYSTEM = ("systemd", "systemd-sysv", "dbus", "python3", "adduser", "ca-certificates")
PROGRAM = "PIPX_BIN_DIR=/usr/bin pipx install"
"""In the docs' command that brings the program; it is unpacked from the .deb in its place."""
BOOT = (
    "timeout", "--kill-after=5", "600", "systemd-nspawn", "--quiet", "--boot", "--volatile=overlay", "--private-network",
    "--register=no", "--keep-unit", "--console=pipe",
)  # fmt: skip
RUN = ("systemd.run_success_action=exit", "systemd.run_failure_action=exit")


def try_booted(folder: Path) -> None:
    """The whole life of the .deb; then the docs' commands for the unit alone."""
    step("deploy/deb/build.sh", folder, env={**os.environ, "PYTHON": "/usr/bin/python3"})
    (package,) = folder.glob("*.deb")
    given = os.environ.get("INSTALL_CHROOT")
    root = Path(given) if given else folder / "debian"
    if not given:
        step("debootstrap", "--variant=minbase", f"--include={','.join(SYSTEM)}", "bookworm", root)
    for scenario in ("deb", "docs"):
        boot(root, inputs(folder / scenario, package), scenario)


def inputs(work: Path, package: Path) -> Path:
    """A folder with what `tests.install.inside` wants."""
    work.mkdir()
    shutil.copy(Path(__file__).parent / "inside.py", work)
    shutil.copy(package, work / "telemetry-gateway.deb")
    for number in range(1, 5):
        (work / f"call-{number}").write_bytes(call_span(f"call {number}", (1200, 120)))
    commands = unit_commands((ROOT / "docs/install.md").read_text())
    unpacked = "dpkg-deb --fsys-tarfile /call/telemetry-gateway.deb | tar -x -C / ./usr/bin ./usr/lib/telemetry-gateway"
    (work / "commands").write_text("\n".join(unpacked if PROGRAM in one else one for one in commands))
    return work


def unit_commands(page: str) -> list[str]:
    """The commands of the section on systemd, as root gives them."""
    section = page.partition("\n## systemd\n")[2].partition("\n## ")[0]
    lines = section.partition("```sh\n")[2].partition("```")[0].splitlines()
    assert sum(PROGRAM in line for line in lines) == 1, lines
    return [re.sub(r"\bsudo ", "", line) for line in lines]


def boot(root: Path, work: Path, scenario: str) -> None:
    """Raises AssertionError with what was printed where a step fails."""
    script = work / "run"
    script.write_text(f"#!/bin/sh\nexec python3 /call/inside.py {scenario} > /call/printed 2>&1\n")
    script.chmod(0o755)
    say(f"booted, {scenario}:")
    binds = (f"--bind={work}:/call", f"--bind-ro={ROOT}:/source")
    try:
        step(*BOOT, *binds, "-D", root, "systemd.run=/call/run", *RUN)
    finally:
        printed = work / "printed"
        say(printed.read_text().strip() if printed.exists() else "it did not boot")
