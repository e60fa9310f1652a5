"""A fresh clone on a machine with Python only, and with Rust: the README's first command, and
`pip install`. What is cloned is the last commit.
"""

import sys
from pathlib import Path
from time import monotonic

from tests.install.steps import ROOT, clean_environment, has_cargo, run_and_send, say, step, without_cargo
from tests.install.wheel import pins


def try_source(folder: Path) -> None:
    """`make demo` with all of PATH, `pip install` without Rust."""
    step("git", "clone", "--quiet", ROOT, folder / "checkout")
    began = monotonic()
    shown = step("make", "demo", cwd=folder / "checkout")
    assert "sent = delivered" in shown, shown
    assert f"reader: {'native' if has_cargo() else 'python'}" in shown, shown
    say(f"make demo: {monotonic() - began:.0f} s from nothing; " + shown.partition("reader: ")[2].splitlines()[0])
    step("git", "clean", "--quiet", "-dfx", cwd=folder / "checkout")
    install_without_rust(folder, folder / "checkout")


def install_without_rust(folder: Path, checkout: Path) -> None:
    step(sys.executable, "-m", "venv", folder / "env")
    pip = [folder / "env/bin/python", "-m", "pip", "install", "--quiet"]
    step(*pip, checkout, "-c", pins(folder), env=clean_environment(PATH=without_cargo()))
    run_and_send(
        [folder / "env/bin/telemetry-gateway", "run"],
        folder,
        {"TELEMETRY_GATEWAY_DATA": str(folder / "data")},
        reader="python",
    )
