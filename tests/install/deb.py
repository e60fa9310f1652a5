"""The .deb: built, looked at by lintian, installed by apt in a Debian of its own (debootstrap), run
there as its service user, upgraded by a second install, removed. As root.

INSTALL_CHROOT names a Debian 12 that is there already, with python3 and adduser.
"""

import os
import shutil
from pathlib import Path

from tests.install.steps import has_cargo, run_and_send, say, step

SYSTEM = ("python3", "adduser", "ca-certificates")
AS_USER = ("/usr/sbin/chroot", "--userspec=telemetry-gateway:telemetry-gateway")
COMMAND = "/usr/bin/telemetry-gateway"
CONFIG = "--config=/etc/telemetry-gateway/gateway.yaml"
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"}


def try_deb(folder: Path) -> None:
    """Build, lint, install, run, remove."""
    step("deploy/deb/build.sh", folder, env={**os.environ, "PYTHON": "/usr/bin/python3"})
    (package,) = folder.glob("*.deb")
    say(f"{package.name}: {package.stat().st_size >> 20} MiB")
    if shutil.which("lintian"):
        step("lintian", "--fail-on", "error", "--allow-root", package)
    given = os.environ.get("INSTALL_CHROOT")
    root = Path(given) if given else folder / "debian"
    if not given:
        step("debootstrap", "--variant=minbase", f"--include={','.join(SYSTEM)}", "bookworm", root)
    shutil.copy(package, root / "tmp" / package.name)
    step("chroot", root, "dpkg", "--install", f"/tmp/{package.name}", env=ENVIRONMENT)
    state = root / "var/lib/telemetry-gateway"
    assert state.stat().st_mode & 0o777 == 0o700
    assert state.stat().st_uid != 0
    assert (root / "etc/telemetry-gateway/environment").stat().st_mode & 0o777 == 0o640
    step("mount", "--rbind", "/dev", root / "dev")
    try:
        inside = [*AS_USER, str(root), COMMAND]
        step(*inside, "check", CONFIG, env=ENVIRONMENT)
        home = {**ENVIRONMENT, "HOME": "/var/lib/telemetry-gateway"}
        run_and_send([*inside, "run", CONFIG], folder, home, reader="native" if has_cargo() else "python")
        step(*inside, "spool", "verify", CONFIG, env=ENVIRONMENT)
        step("chroot", root, "dpkg", "--install", f"/tmp/{package.name}", env=ENVIRONMENT)
        step(*inside, "spool", "verify", CONFIG, env=ENVIRONMENT)
        step("chroot", root, "dpkg", "--purge", "telemetry-gateway", env=ENVIRONMENT)
    finally:
        step("umount", "--lazy", root / "dev")
    left = sorted(path.name for path in (root / "usr/lib/telemetry-gateway").rglob("*"))[:5]
    assert not left, left
    assert (state / "spool.db").exists(), "records stay, also after a purge"
    assert not (root / "etc/telemetry-gateway").exists()
    say("installed, ran as its user, upgraded and purged, with its records kept")
