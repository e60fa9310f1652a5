"""Programs that are no dependency of the project. A test that needs one is skipped where it is
missing; where REQUIRED_PROGRAMS names it, as `.ci/run` does, the test runs and fails.
"""

import os
import shutil

import pytest


def needs_program(name: str, *, get: str) -> pytest.MarkDecorator:
    """The mark of a test that runs *name*; *get* states where it comes from."""
    is_required = name in os.environ.get("REQUIRED_PROGRAMS", "").split()
    return pytest.mark.skipif(shutil.which(name) is None and not is_required, reason=f"{name} is not installed: {get}")
