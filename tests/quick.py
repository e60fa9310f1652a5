"""`make quick`: the checks to run after each change, in under a minute on two cores.

The formatter, the linter, the types (of what changed), the import contracts, and every file of
`tests/unit` that takes less than `MAX_FILE_S`. `tests/data/slow_tests.txt` lists the others:

    .venv/bin/python -m pytest -n 3 tests/unit --junitxml build/unit.xml
    .venv/bin/python -m tests.quick --update build/unit.xml    # measures the list again

Other arguments go to pytest: `python -m tests.quick -k spool`.
"""

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

ROOT: Final = Path(__file__).parent.parent
SLOW: Final = ROOT / "tests" / "data" / "slow_tests.txt"
MAX_FILE_S: Final = 1.5
CHECKS: Final = {
    "ruff check": ["-m", "ruff", "check", "--quiet", "."],
    "ruff format --check": ["-m", "ruff", "format", "--check", "--quiet", "."],
    "mypy": ["-m", "mypy", "--no-error-summary"],
    "lint-imports": ["-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
}


def slow_files() -> list[str]:
    """From the project's root."""
    return SLOW.read_text().split()


def measured_slow(junit: Path) -> list[str]:
    """Files of `tests/unit` that took `MAX_FILE_S` or more in the run that wrote *junit*."""
    took_s: Counter[str] = Counter()
    for case in ET.parse(junit).iter("testcase"):
        name = case.attrib["classname"].replace(".", "/") + ".py"
        took_s[name] += float(case.attrib["time"])  # type: ignore[assignment]  # a Counter sums floats as well
    return sorted(name for name, s in took_s.items() if s >= MAX_FILE_S and name.startswith("tests/unit/"))


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--update"]:
        SLOW.write_text("".join(f"{name}\n" for name in measured_slow(Path(arguments[1]))))
        return 0
    began_s = time.monotonic()
    ignored = [f"--ignore={name}" for name in slow_files()]
    tests = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "tests/unit", *ignored, *arguments]
    tested = subprocess.run(tests, cwd=ROOT, check=False).returncode
    failed = ["pytest"] if tested else []
    for name, command in CHECKS.items():
        if subprocess.run([sys.executable, *command], cwd=ROOT, check=False).returncode:
            failed.append(name)
    sys.stdout.write(f"{time.monotonic() - began_s:.0f} s; failed: {', '.join(failed) or 'nothing'}\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
