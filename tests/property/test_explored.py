"""What `make explore` found, with the seeds under which it did: each is mended."""

import pytest

from tests.explore import STORED, run_again, stored


@pytest.mark.parametrize(("seed", "test"), stored(STORED.read_text()))
def test_what_was_found_is_mended(seed: str, test: str) -> None:
    """A test that was renamed or is gone fails here: change or delete its line."""
    done = run_again(test, seed)
    assert done.returncode == 0, f"TEST_SEED={seed} pytest {test}\n{done.stdout[-10_000:]}{done.stderr[-10_000:]}"
