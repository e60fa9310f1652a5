"""A cell under everything at once (`tests.fault.cell_torture`); CELL_TORTURE_MINUTES chooses how
long.
"""

import json
import os
import subprocess
import sys
from random import Random

import pytest

from benchmarks.processes import PROJECT_ROOT
from tests.support.postgres import needs_postgres

MINUTES = float(os.environ.get("CELL_TORTURE_MINUTES", "0.15"))

pytestmark = [needs_postgres, pytest.mark.slow, pytest.mark.timeout(MINUTES * 60 + 1200)]


def test_what_a_cell_acknowledged_arrives_once_whatever_breaks_meanwhile(chance: Random) -> None:
    command = [sys.executable, "-m", "tests.fault.cell_torture"]
    chosen = ["--minutes", str(MINUTES), "--seed", str(chance.getrandbits(32))]
    run = subprocess.run([*command, *chosen], capture_output=True, text=True, cwd=PROJECT_ROOT, check=False)
    sys.stderr.write(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr[-10_000:]
    summary = json.loads(run.stdout)
    assert summary["acknowledged"] > 100 * MINUTES
    assert summary["misfortunes"]
