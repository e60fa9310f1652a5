"""The wheels, each in an empty environment, as `pipx install` and `uvx` make one: that for any
platform, and where Rust is that of this one.

INSTALL_WHEEL names a wheel of this platform that is there already, as `make dist` writes it.
"""

import os
import sys
import zipfile
from pathlib import Path

from tests.install.steps import ROOT, clean_environment, has_cargo, run_and_send, say, step, without_cargo

PURE = "py3-none-any.whl"
EXTENSION = "gateway/_native.abi3.so"


def try_wheel(folder: Path) -> None:
    """Each, and whether the reader in it runs."""
    pure = build(folder / "pure", PATH=without_cargo())
    assert pure.name.endswith(PURE), pure
    try_one(pure, folder / "pure", "python")
    given = os.environ.get("INSTALL_WHEEL")
    if given or has_cargo():
        wheel = Path(given).absolute() if given else build(folder / "native", TELEMETRY_GATEWAY_BUILD="native")
        assert "-cp311-abi3-" in wheel.name, wheel
        (folder / "native").mkdir(exist_ok=True)
        try_one(wheel, folder / "native", "native")


def try_one(wheel: Path, folder: Path, reader: str) -> None:
    """Install, `check`, `run`, `demo` without and with its extra, and by uvx."""
    files = zipfile.ZipFile(wheel).namelist()
    missing = [name for name in package_files() if name not in files]
    assert not missing, f"not in the wheel: {missing}"
    assert (EXTENSION in files) == (reader == "native"), files
    say(f"{wheel.name}: {wheel.stat().st_size >> 10} KiB, {len(files)} files, all data of the packages")
    python = new_environment(folder / "env", wheel)
    command = python.parent / "telemetry-gateway"
    env = clean_environment(TELEMETRY_GATEWAY_DATA=str(folder / "data"))
    step(command, "check", cwd=folder, env=env)
    refused = step(command, "demo", cwd=folder, env=env, code=1)
    assert "pip install 'ai-telemetry-gateway[demo]'" in refused, refused
    run_and_send([command, "run"], folder, {"TELEMETRY_GATEWAY_DATA": str(folder / "data")}, reader=reader)
    step(python, "-m", "pip", "install", "--quiet", f"{wheel}[demo]", cwd=folder)
    shown = step(command, "demo", cwd=folder, env=env)
    assert "sent = delivered" in shown, shown
    assert f"reader: {reader}" in shown, shown
    uvx = Path(sys.executable).parent / "uvx"
    assert "Usage:" in step(uvx, "--from", wheel, "ai-telemetry-gateway", "--help", cwd=folder)


def build(folder: Path, **env: str) -> Path:
    """A wheel of the checkout, built as *env* has it."""
    uv, out = Path(sys.executable).parent / "uv", folder / "dist"
    command = [uv, "build", "--wheel", "--quiet", "--no-build-isolation", "--python", sys.executable, "--out-dir", out]
    step(*command, ROOT, env=clean_environment() | env)
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def new_environment(folder: Path, wheel: Path) -> Path:
    """An environment with the wheel and what the lock pins; its Python."""
    step(sys.executable, "-m", "venv", folder)
    step(folder / "bin/python", "-m", "pip", "install", "--quiet", wheel, "-c", pins(folder.parent))
    return folder / "bin/python"


def pins(folder: Path) -> Path:
    """The lock's versions without its hashes, which the wheel itself has none among."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    constraints = folder / "constraints.txt"
    pinned = [line.removesuffix(" \\") for line in lines if "==" in line and line[0].isalpha()]
    constraints.write_text("\n".join(pinned))
    return constraints


def package_files() -> list[str]:
    """Every file of the packages that is committed."""
    return step("git", "ls-files", "gateway", "exporters", "spool").split()
