"""JavaScript's exporter against the real gateway, through kill -9 and a restart; Python's is in
`test_otlp_grpc.py`. `python -m tests.clients all` runs those of every language.
"""

import re
import shutil
from pathlib import Path

import pytest

from tests.clients.programs import CLIENTS
from tests.clients.runs import CASES, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm on this machine")
def test_totals_are_exact_through_a_restart(tmp_path: Path) -> None:
    outcome = run(CASES["js-http-json"], "gzip", tmp_path)
    assert outcome.counted == outcome.expected, outcome.said
    assert outcome.broken == []


def test_the_environments_pin_every_package() -> None:
    for file in CLIENTS.glob("requirements-*.txt"):
        pins = file.read_text().splitlines()
        assert all(line.startswith("#") or re.match(r"[\w.-]+==[\w.]+( ;|$)", line) for line in pins)
    assert '"resolved"' not in (CLIENTS / "js" / "package-lock.json").read_text()
