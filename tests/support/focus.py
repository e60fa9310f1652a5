"""Whether rows are FOCUS, by the specification's own validator in an environment of its own: its
libraries exclude those of the tests.
"""

import io
import json
import os
import subprocess
from collections.abc import Iterable

from benchmarks.processes import PROJECT_ROOT
from gateway.usage.export.files import write_csv
from gateway.usage.export.focus import COLUMNS
from gateway.usage.export.rows import Row
from tests.support.client_environments import client_python


def focus_faults(rows: Iterable[Row]) -> list[str]:
    """The checks that *rows* fail as a user exports them."""
    out = io.BytesIO()
    write_csv(out, COLUMNS, rows)
    return faults_of_csv(out.getvalue())


def faults_of_csv(csv: bytes) -> list[str]:
    done = subprocess.run(
        [str(client_python("focus-validator")), "-m", "tests.e2e.clients.focus_validation"],
        input=csv,
        cwd=PROJECT_ROOT,
        env={**os.environ, "PYTHONPATH": str(PROJECT_ROOT)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    found: list[str] = json.loads(done.stdout)
    return found
