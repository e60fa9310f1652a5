"""`make explore`: what it finds, stores and repeats; and that all it found so far is mended."""

from pathlib import Path
from random import Random

import pytest

from tests import explore
from tests.explore import STORED, Explorer, run_again, stored

DRAWN = "tests/support/drawn_case.py"
TEST = f"{DRAWN}::test_half_of_all_seeds_pass"


@pytest.mark.parametrize(("seed", "test"), stored(STORED.read_text()))
def test_what_was_found_is_mended(seed: str, test: str) -> None:
    """A test that was renamed or is gone fails here: change or delete its line."""
    done = run_again(test, seed)
    assert done.returncode == 0, f"TEST_SEED={seed} pytest {test}\n{done.stdout[-10_000:]}{done.stderr[-10_000:]}"


def test_a_seed_with_which_a_test_fails_is_stored_once_and_fails_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explore, "STORED", tmp_path / "explored.txt")
    explore.STORED.write_text("# nothing yet\n")
    failing = next(seed for seed in map(str, range(100)) if Random(f"{seed} {TEST}").random() >= 0.5)
    passing = next(seed for seed in map(str, range(100)) if Random(f"{seed} {TEST}").random() < 0.5)
    explorer = Explorer(jobs=1)
    for seed in (passing, failing, failing):
        explorer.of_tests([DRAWN], seed)
    assert len(explorer.finds) == 2
    assert stored(explore.STORED.read_text()) == [(failing, TEST)]
    assert run_again(TEST, failing).returncode == 1
    assert run_again(TEST, passing).returncode == 0


def test_a_program_that_fails_is_found() -> None:
    explorer = Explorer(jobs=1)
    explorer.of_program(("tests.fault.otlp_fuzz", "--no-such-option"), "7")
    assert [find.rpartition(" -m ")[2] for find in explorer.finds] == [
        "tests.fault.otlp_fuzz --no-such-option --seed 7"
    ]
