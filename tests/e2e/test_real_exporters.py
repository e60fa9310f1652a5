"""JavaScript's exporter against the real gateway, with kill -9 and a restart; Python's are in
`test_otlp_grpc.py`. `python -m tests.clients all` runs those of every language.
"""

import re
from pathlib import Path

import pytest

from tests.clients.programs import CLIENTS
from tests.clients.runs import CASES, run

pytestmark = pytest.mark.slow


def test_javascripts_exporter_goes_on_after_a_restart(tmp_path: Path) -> None:
    """It tries five times, which a busy machine may use up: so the gateway is up again before."""
    outcome = run(CASES["js-http-json"]._replace(outlasts=False), "gzip", tmp_path)
    assert outcome.counted == outcome.expected, outcome.said
    assert outcome.broken == []


def test_the_environments_pin_every_package() -> None:
    for file in CLIENTS.glob("requirements-*.txt"):
        pins = file.read_text().splitlines()
        assert all(line.startswith("#") or re.match(r"[\w.-]+==[\w.]+( ;|$)", line) for line in pins)
