"""Prometheus' own checker."""

import subprocess
from pathlib import Path

from tests.support.programs import needs_program

needs_promtool = needs_program("promtool", get="Debian's package prometheus")


def promtool(*arguments: str, given: str = "", folder: Path | None = None) -> str:
    """What it prints. Raises AssertionError with that where it finds fault."""
    ended = subprocess.run(
        ["promtool", *arguments], input=given, capture_output=True, text=True, check=False, cwd=folder, timeout=60
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr
