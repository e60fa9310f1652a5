"""Everything at once (`tests.fault.torture`); TORTURE_MINUTES chooses how long."""

import json
import os
import subprocess
import sys
from random import Random

import pytest

from benchmarks.processes import PROJECT_ROOT

MINUTES = float(os.environ.get("TORTURE_MINUTES", "0.5"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(MINUTES * 60 + 1200)]


def test_what_was_acknowledged_arrives_once_whatever_breaks_meanwhile(chance: Random) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.fault.torture",
        "--minutes",
        str(MINUTES),
        "--seed",
        str(chance.getrandbits(32)),
    ]
    run = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT_ROOT, check=False)
    sys.stderr.write(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr[-10_000:]
    summary = json.loads(run.stdout)
    assert summary["acknowledged"] > 100 * MINUTES
    assert summary["misfortunes"]
