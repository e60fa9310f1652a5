"""The demo command: what a newcomer runs first."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.processes import PROJECT_ROOT


@pytest.mark.slow
def test_demo_delivers_what_it_sent_and_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gateway.cli.main", "demo"],
        cwd=PROJECT_ROOT,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if "sent = delivered" in line], done.stdout
    assert "gpt" in done.stdout, "the table names the models"
    assert not list(tmp_path.rglob("*.db*")), "it leaves no data behind"
