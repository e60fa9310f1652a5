"""`make quick`: the checks to run after each change, in under a minute on two cores.

The formatter, the linter, the types (of what changed), the import contracts, and every file of
`tests/unit` that takes less than `MAX_FILE_S` (`tests/support/durations.py`).

Arguments go to pytest: `python -m tests.quick -k spool`.
"""

import subprocess
import sys
import time
from typing import Final

from tests.support.durations import ROOT, durations

MAX_FILE_S: Final = 1.5
CHECKS: Final = {
    "ruff check": ["-m", "ruff", "check", "--quiet", "."],
    "ruff format --check": ["-m", "ruff", "format", "--check", "--quiet", "."],
    "mypy": ["-m", "mypy", "--no-error-summary"],
    "lint-imports": ["-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
}


def slow_files() -> list[str]:
    """From the project's root."""
    return [name for name, seconds in durations().items() if seconds > MAX_FILE_S and name.startswith("tests/unit/")]


def quick_tests() -> list[str]:
    """Arguments of Python that run the quick files of `tests/unit`."""
    ignored = [f"--ignore={name}" for name in slow_files()]
    return ["-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "tests/unit", *ignored]


def main(arguments: list[str]) -> int:
    began_s = time.monotonic()
    tests = [sys.executable, *quick_tests(), *arguments]
    tested = subprocess.run(tests, cwd=ROOT, check=False).returncode
    failed = ["pytest"] if tested else []
    for name, command in CHECKS.items():
        if subprocess.run([sys.executable, *command], cwd=ROOT, check=False).returncode:
            failed.append(name)
    sys.stdout.write(f"{time.monotonic() - began_s:.0f} s; failed: {', '.join(failed) or 'nothing'}\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
