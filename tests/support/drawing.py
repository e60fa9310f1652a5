"""How tests draw their cases.

A test that draws does so by hypothesis, or from `chance`, the fixture of `tests/conftest.py`. Each
run draws the same cases, whatever runs before or beside a test. With TEST_SEED set it draws others:
`make explore` sets it, and so does who repeats what that found. The cases follow from the test and
the seed alone, so that a change of the product is tried with the cases of before.
"""

import os
from random import Random
from typing import Final

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

SEED: Final = os.environ.get("TEST_SEED", "")
"""Empty for the cases that each run has."""


def drawn_for(name: str) -> Random:
    """The choices of the test *name*."""
    return Random(f"{SEED} {name}")


def set_up_hypothesis() -> None:
    settings.register_profile(
        "tests",
        deadline=None,  # a busy machine is no fault of an example; pytest's timeout ends what hangs
        suppress_health_check=[HealthCheck.too_slow],  # the same
        max_examples=60,
        derandomize=not SEED,
        database=None,
        print_blob=True,
    )
    settings.load_profile("tests")
    # Hypothesis also draws constants that it finds in the modules that happen to be imported by
    # then. It has no setting for that.
    assert not providers._local_constants
    none = providers._local_constants
    providers._get_local_constants = lambda: none
