"""What several fault tests share."""

import os
import random
import secrets
import sys

import pytest


@pytest.fixture
def chance() -> random.Random:
    """The moments of the kills; KILL_TEST_SEED repeats those of an earlier run."""
    seed = int(os.environ.get("KILL_TEST_SEED") or secrets.randbits(32))
    sys.stderr.write(f"KILL_TEST_SEED={seed}\n")
    return random.Random(seed)
