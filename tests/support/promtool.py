"""Prometheus' own checker, which `.ci/run` installs; where it is missing its tests are skipped."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None and os.environ.get("PROMTOOL_TESTS") != "required",
    reason="promtool (Debian: prometheus) is not installed",
)


def promtool(*arguments: str, given: str = "", folder: Path | None = None) -> str:
    """What it prints. Raises AssertionError with that where it finds fault."""
    assert PROMTOOL is not None, "promtool (Debian: prometheus) is not installed"
    ended = subprocess.run(
        [PROMTOOL, *arguments], input=given, capture_output=True, text=True, check=False, cwd=folder, timeout=60
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr
