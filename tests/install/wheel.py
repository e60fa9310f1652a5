"""The wheel in an empty environment, as `pipx install` and `uvx` make one."""

import sys
import zipfile
from pathlib import Path

from tests.install.steps import ROOT, clean_environment, run_and_send, say, step


def try_wheel(folder: Path) -> None:
    """Build, install, `check`, `run`, `demo` without and with its extra, and by uvx."""
    wheel = build(folder)
    files = zipfile.ZipFile(wheel).namelist()
    missing = [name for name in package_files() if name not in files]
    assert not missing, f"not in the wheel: {missing}"
    say(f"{wheel.name}: {wheel.stat().st_size >> 10} KiB, {len(files)} files, all data of the packages")
    python = new_environment(folder / "env", wheel)
    command = python.parent / "telemetry-gateway"
    env = clean_environment(TELEMETRY_GATEWAY_DATA=str(folder / "data"))
    step(command, "check", cwd=folder, env=env)
    refused = step(command, "demo", cwd=folder, env=env, code=1)
    assert "pip install 'ai-telemetry-gateway[demo]'" in refused, refused
    run_and_send([command, "run"], folder, {"TELEMETRY_GATEWAY_DATA": str(folder / "data")})
    step(python, "-m", "pip", "install", "--quiet", f"{wheel}[demo]", cwd=folder)
    assert "sent = delivered" in step(command, "demo", cwd=folder, env=env)
    uvx = Path(sys.executable).parent / "uvx"
    assert "Usage:" in step(uvx, "--from", wheel, "ai-telemetry-gateway", "--help", cwd=folder)


def build(folder: Path) -> Path:
    """The wheel, as `make dist` makes it, and the sdist beside it."""
    uv = Path(sys.executable).parent / "uv"
    step(uv, "build", "--quiet", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder / "dist", ROOT)
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
