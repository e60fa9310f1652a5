"""The demo command: what a newcomer runs first."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.processes import PROJECT_ROOT


def run_demo(tmp_path: Path, *options: str) -> str:
    """What the command prints, which leaves no data behind."""
    done = subprocess.run(
        [sys.executable, "-m", "gateway.cli.main", "demo", *options],
        cwd=PROJECT_ROOT,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(tmp_path.rglob("*.db*")), "it leaves no data behind"
    return done.stdout


@pytest.mark.slow
def test_demo_delivers_what_it_sent_and_says_so(tmp_path: Path) -> None:
    shown = run_demo(tmp_path)
    assert [line for line in shown.splitlines() if "sent = delivered" in line], shown
    assert "gpt" in shown, "the table names the models"


@pytest.mark.slow
def test_the_demo_of_edges_delivers_what_it_sent_though_one_is_killed_and_the_hub_stops(tmp_path: Path) -> None:
    shown = run_demo(tmp_path, "--edges", "3", "--outage", "2")
    for line in ("edge-3 is killed (SIGKILL)", "the hub is stopped for 2 s", "sent = delivered"):
        assert line in shown, shown
