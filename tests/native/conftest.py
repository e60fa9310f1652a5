"""The tests of the native extension need it: CI, which builds it, requires it."""

import os

import pytest

from gateway.common.native import NATIVE, WHY_NOT


@pytest.fixture(autouse=True)
def extension() -> None:
    """Skips where the extension is not used; fails there with NATIVE_TESTS=required."""
    if NATIVE is None:
        assert os.environ.get("NATIVE_TESTS") != "required", WHY_NOT
        pytest.skip(f"the native extension is {WHY_NOT}: make native")
