"""Exporters of other languages and of Python against the real gateway, through kill -9 and a
restart: those that are quickly made. `python -m tests.clients all` runs every one.
"""

import re
import shutil
from pathlib import Path

import pytest

from tests.clients.programs import CLIENTS
from tests.clients.runs import CASES, Compression, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize(("name", "compression"), [("python-http", "gzip"), ("js-http-json", "none")])
def test_totals_are_exact_through_a_restart(tmp_path: Path, name: str, compression: Compression) -> None:
    if name.startswith("js") and shutil.which("npm") is None:
        pytest.skip("no npm on this machine")
    outcome = run(CASES[name], compression, tmp_path)
    assert outcome.counted == outcome.expected, outcome.said
    assert outcome.broken == []


def test_the_environments_pin_every_package() -> None:
    for file in CLIENTS.glob("requirements-*.txt"):
        pins = file.read_text().splitlines()
        assert all(line.startswith("#") or re.match(r"[\w.-]+==[\w.]+( ;|$)", line) for line in pins)
    assert '"resolved"' not in (CLIENTS / "js" / "package-lock.json").read_text()
