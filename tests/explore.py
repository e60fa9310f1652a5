"""Tests with cases that were not tried before: `make explore MINUTES=30 SEED=7`.

Each round runs tests that draw their cases (`tests.support.drawing`) with another seed, or a
program that sends the worst bytes it can make. Tests without processes, tests with them, and
programs get a third of the time each. A test that fails is run again alone. When it fails again,
its seed is stored in `tests/data/explored.txt`, and `make test` runs it from then on. Exits 1 when
anything failed.
"""

import argparse
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from random import Random

from tests.support.durations import PROCESSES

ROOT = Path(__file__).parent.parent
STORED = ROOT / "tests" / "data" / "explored.txt"
"""A line each: the seed, and the test."""
PROGRAMS = (
    ("tests.fault.otlp_fuzz", "--payloads", "20000"),
    ("tests.fault.worst_clusters", "--minutes", "1"),
    ("tests.fault.torture", "--minutes", "1"),
)
DRAWS = re.compile(r"\bhypothesis\b|\bchance\b")
FILES = 3
"""Of tests with processes, in one round: they take longest."""
NO_TESTS = 5
"""Exit code of pytest."""
PYTEST = "as a whole"
"""In place of a test: pytest ended with an error of its own."""
SHOWN_LINES = 60
"""Of what a find printed."""


def stored(text: str) -> list[tuple[str, str]]:
    """(seed, test) of each line that is no comment."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(seed, test) for seed, _, test in (line.partition(" ") for line in lines)]


def pytest(tests: Iterable[str], seed: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run *tests* with the cases of *seed*, in a process of their own."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-q", "-m", "explored", *options, *tests]
    return subprocess.run(
        command, cwd=ROOT, env=others | {"TEST_SEED": seed}, capture_output=True, text=True, check=False
    )


def run_again(test: str, seed: str) -> subprocess.CompletedProcess[str]:
    return pytest([test], seed, "-p", "no:cacheprovider")


def failing(tests: Sequence[str], seed: str, jobs: int) -> tuple[list[str], str]:
    """Those of *tests* that fail, and what pytest prints."""
    with tempfile.TemporaryDirectory() as folder:
        options = ("-n", str(jobs), "--dist", "loadfile", "-o", f"cache_dir={folder}")
        done = pytest(tests, seed, *options)
        found = Path(folder) / "v" / "cache" / "lastfailed"
        failed = list(json.loads(found.read_text())) if found.exists() else []
    if not failed and done.returncode not in {0, NO_TESTS}:
        failed = [PYTEST]
    return failed, done.stdout + done.stderr


@dataclass
class Explorer:
    """Runs rounds, and notes what they found."""

    jobs: int
    finds: list[str] = field(default_factory=list)

    def of_tests(self, tests: Sequence[str], seed: str) -> None:
        failed, output = failing(tests, seed, self.jobs)
        for test in failed:
            again = None if test == PYTEST else run_again(test, seed)
            if again is not None and again.returncode:
                store(seed, test)
                self.note(f"TEST_SEED={seed} pytest {test}  # repeats; stored", again.stdout)
            else:
                self.note(f"TEST_SEED={seed} pytest {test}  # did not repeat", output)

    def of_program(self, program: Sequence[str], seed: str) -> None:
        command = [sys.executable, "-m", *program, "--seed", seed]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            self.note(" ".join(["python", *command[1:]]), done.stdout + done.stderr)

    def note(self, how: str, output: str) -> None:
        self.finds.append(how)
        say("found", how, *output.splitlines()[-SHOWN_LINES:])


def store(seed: str, test: str) -> None:
    if (seed, test) not in stored(STORED.read_text()):
        with STORED.open("a") as file:
            file.write(f"{seed} {test}\n")


def say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


def explored() -> list[str]:
    """Files of tests that draw their cases, by their text: to collect all tests takes a minute."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(file.relative_to(ROOT)) for file in files if DRAWS.search(file.read_text())]


def explore(minutes: float, chance: Random, jobs: int) -> list[str]:
    """What was found: how to repeat each. A round that began is not cut short."""
    explorer, files, programs = Explorer(jobs), explored(), cycle(PROGRAMS)
    with_processes = [file for file in files if file.startswith((*PROCESSES, "tests/conformance/openapi"))]
    alone = [file for file in files if file not in with_processes]
    rounds: dict[str, Callable[[str], None]] = {
        "tests": lambda seed: explorer.of_tests(alone, seed),
        "tests of processes": lambda seed: explorer.of_tests(chance.sample(with_processes, FILES), seed),
        "programs": lambda seed: explorer.of_program(next(programs), seed),
    }
    spent_s = dict.fromkeys(rounds, 0.0)
    ends_s = time.monotonic() + 60 * minutes
    while (began_s := time.monotonic()) < ends_s:
        kind, seed = min(rounds, key=spent_s.__getitem__), str(chance.getrandbits(32))
        rounds[kind](seed)
        took_s = time.monotonic() - began_s
        spent_s[kind] += took_s
        say(f"{kind}: seed {seed}, {took_s:.0f} s, {len(explorer.finds)} found so far")
    return explorer.finds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.explore", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=None, help="of the first round's; drawn without it")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    seed = secrets.randbits(32) if given.seed is None else given.seed
    say(f"seed {seed}")
    finds = explore(given.minutes, Random(seed), given.jobs)
    say(f"{len(finds)} found", *finds)
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
