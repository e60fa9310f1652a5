"""A virtual environment for each real client, since their instrumentations need
versions that exclude each other.

Made from `tests/e2e/clients/requirements-<name>.txt`, which pins every package, under
`.venv-clients/` of the checkout, and used again as long as that file and the
interpreter stay the same.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.processes import PROJECT_ROOT

CLIENTS = PROJECT_ROOT / "tests" / "e2e" / "clients"
ENVIRONMENTS = PROJECT_ROOT / ".venv-clients"
INSTALL_TIMEOUT_S = 240.0
_PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


class InstallFailed(Exception):
    """The packages of a client could not be installed; the text is the end of what pip said."""


def client_python(name: str, pins: Path | None = None) -> Path:
    """The interpreter of *name*'s environment, which is made first when it is not there.

    *pins*: another file than `requirements` has. Raises InstallFailed.
    """
    pins = pins or requirements(name)
    folder = ENVIRONMENTS / f"{name}-{_fingerprint(pins)}"
    ENVIRONMENTS.mkdir(exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test run may be making the same one
        complete = folder / "complete"
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            _make(folder, pins)
            complete.touch()
    return _python(folder)


def requirements(name: str) -> Path:
    """The file that pins what *name*'s environment holds."""
    return CLIENTS / f"requirements-{name}.txt"


def _fingerprint(pins: Path) -> str:
    return hashlib.sha256(pins.read_bytes() + sys.version.encode()).hexdigest()[:12]


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


def _make(folder: Path, pins: Path) -> None:
    """By uv, at a tenth of pip's time, with the certificates of the system as pip has them; by pip
    where uv cannot reach the index that pip is set up for.
    """
    _run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    install = ["install", "--quiet", "--no-deps", "--only-binary=:all:", "-r", str(pins)]
    try:
        _run([sys.executable, "-m", "uv", "pip", *install, "--system-certs", "--python", str(_python(folder))])
    except InstallFailed:
        _run([*_PIP, "--python", str(_python(folder)), *install, "--no-compile"])


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise InstallFailed(f"{command[2:4]} took more than {INSTALL_TIMEOUT_S} s") from error
    if done.returncode:
        raise InstallFailed(f"{command[2:4]} ended with {done.returncode}:\n{done.stderr[-3000:]}")
