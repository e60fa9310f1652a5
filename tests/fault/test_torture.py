"""Everything at once (`tests.fault.torture`); TORTURE_MINUTES and TORTURE_SEED
choose how long and which.
"""

import json
import os
import subprocess
import sys

import pytest

from benchmarks.processes import PROJECT_ROOT

MINUTES = float(os.environ.get("TORTURE_MINUTES", "0.5"))
BESIDE_OTHER_TESTS_S = "5"
"""How long `/healthz` may take where other tests use the same cores."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(MINUTES * 60 + 600)]


def test_what_was_acknowledged_arrives_once_whatever_breaks_meanwhile() -> None:
    seed = ["--seed", os.environ["TORTURE_SEED"]] if "TORTURE_SEED" in os.environ else []
    command = [
        sys.executable,
        "-m",
        "tests.fault.torture",
        "--minutes",
        str(MINUTES),
        "--stall",
        BESIDE_OTHER_TESTS_S,
        *seed,
    ]
    run = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT_ROOT, check=False)
    sys.stderr.write(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr[-10_000:]
    summary = json.loads(run.stdout)
    assert summary["acknowledged"] > 100 * MINUTES
    assert summary["misfortunes"]
