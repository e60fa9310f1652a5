"""How long each file of tests takes. `tests/data/durations.txt` has a line a file, in whole
seconds: `tests/conftest.py` orders a run by them, `tests/quick.py` leaves out the long ones.

`make test TESTS=--store-durations` measures them again; with a folder or files after the flag, only
those.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
STORED: Final = ROOT / "tests" / "data" / "durations.txt"
PROCESSES: Final = ("tests/fault", "tests/e2e", "tests/browser")
"""Folders of tests that start processes."""
UNKNOWN_PROCESSES_S: Final = 15
"""What a file of such a folder is taken to last before it was measured."""


def durations(stored: Path = STORED) -> dict[str, int]:
    """File, from the project's root -> seconds. A file of less than half a second is missing."""
    lines = (line.split() for line in (stored.read_text() if stored.exists() else "").splitlines())
    return {name: int(seconds) for seconds, name in lines}


def expected_s(file: str, measured: Mapping[str, int]) -> int:
    """What *file* is taken to last; a new one begins neither last nor before all others."""
    return measured.get(file, UNKNOWN_PROCESSES_S if file.startswith(PROCESSES) else 0)


class Recorder:
    """The plug-in of `--store-durations`: sums what the tests of each file took, and stores it."""

    def __init__(self, stored: Path = STORED, root: Path = ROOT) -> None:
        self._stored = stored
        self._root = root
        self._took_s: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took_s[report.nodeid.partition("::")[0]] += report.duration  # type: ignore[assignment]  # a Counter sums floats as well

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Files that this run did not have keep their line, files that are gone lose it."""
        if exitstatus not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
            return
        new = {file: int(took_s + 0.5) for file, took_s in self._took_s.items()}
        found = durations(self._stored) | new
        kept = {
            file: seconds
            for file, seconds in found.items()
            if (seconds or file.startswith(PROCESSES)) and (self._root / file).is_file()
        }
        lines = (f"{seconds:4} {file}\n" for file, seconds in sorted(kept.items()))
        self._stored.write_text("".join(lines))
